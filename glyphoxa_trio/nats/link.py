"""A connection to a NATS server, or to the next one of its cluster when it breaks.

    async with open_nats("nats://10.0.0.1", "nats://10.0.0.2") as nats:
        async with nats.subscribe("table.>") as messages:
            await nats.publish("table.42", b"hello")
            async for message in messages: ...

It reconnects by itself and subscribes again. What is published without a connection
fails at once, or after the time that the publisher allows: nothing is kept to be sent
on the next connection, since a late message does more harm here than a lost one.
"""

from __future__ import annotations

import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal, lone_errors
from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.units import in_ms

from .errors import (
    NatsDisconnected,
    NatsError,
    NatsRefused,
    NatsUnreachable,
    ProtocolViolation,
)
from .handshake import (
    NatsConnection,
    NatsDial,
    dial,
    open_connection,
    receive,
)
from .options import OPTIONS, NatsOptions, NatsStatistics
from .outgoing import OutgoingBytes
from .protocol import (
    PING,
    PONG,
    NatsEvent,
    NatsInfo,
    NatsMessage,
    ServerPing,
    ServerPong,
    ServerTrouble,
    publish,
    subscribe,
    unsubscribe,
)
from .servers import NatsAddress, NatsCredentials, ServerList
from .subscription import NatsMessages, Receiver

CLOSE_GRACE: Final = 0.5  # seconds, to have the server read what was published
_FAREWELL: Final = 0.1  # seconds, to read why the server has closed the connection
_NOT_ALLOWED: Final = re.compile(
    r'permissions violation for (?P<deed>publish|subscription) to "(?P<subject>[^"]*)"',
    re.IGNORECASE,
)


@asynccontextmanager
async def open_nats(
    *urls: str,
    user: str | None = None,
    password: Secret | None = None,
    token: Secret | None = None,
    tls: ssl.SSLContext | None = None,
    options: NatsOptions = OPTIONS,
    dial: NatsDial = dial,
) -> AsyncIterator[NatsLink]:
    """Connect to one of these servers, and stay connected for the length of the block.

    Leaving has the server read what was published, for at most `CLOSE_GRACE` seconds,
    also when cancelled.

    Args:
      urls: ``nats://host:port``, or ``tls://`` for connections that must have TLS, with
        credentials or without. One is enough: a server names the others of its cluster.
      user, password, token: for the addresses without credentials.
      tls: whom to trust, and the client's certificate; by default the machine's
        authorities and none.
      dial: opens the streams.

    Raises:
      NatsRefused: every server refuses the credentials.
      NatsUnreachable: there is no connection within ``open_within``; or for longer than
        ``give_up`` later.
      ValueError: for an address that is none.
    """
    credentials = NatsCredentials(user=user, password=password, token=token)
    link = NatsLink(ServerList.of(urls, credentials), options, tls, dial)
    with lone_errors():
        async with trio.open_nursery() as nursery:
            await nursery.start(link._live)
            try:
                yield link
            finally:
                await link._leave()


@attrs.frozen
class _Held:
    """A subscription, as the server is told of it."""

    pattern: str
    command: bytes
    receiver: Receiver


@attrs.define(eq=False)
class _Awaited:
    """A PONG that a task waits for."""

    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    has_come: bool = attrs.field(default=False, init=False)

    def end(self, *, has_come: bool) -> None:
        self.has_come = has_come
        self.over.set()


@attrs.define(eq=False, repr=False)
class NatsLink:
    """A connection that comes back by itself. See the module's docstring.

    ``changed`` is set whenever `statistics` may have changed.
    """

    _servers: ServerList
    _options: NatsOptions
    _tls: ssl.SSLContext | None
    _dial: NatsDial
    changed: Signal = attrs.field(factory=Signal, init=False)
    _current: NatsConnection | None = attrs.field(default=None, init=False)
    _info: NatsInfo = attrs.field(factory=NatsInfo, init=False)
    _outgoing: OutgoingBytes = attrs.field(init=False)
    _held: dict[int, _Held] = attrs.field(factory=dict, init=False)
    _last_sid: int = attrs.field(default=0, init=False)
    _pongs: deque[_Awaited] = attrs.field(factory=deque, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _parts: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _why: str = attrs.field(default="it was not opened yet", init=False)
    _connections: int = attrs.field(default=0, init=False)
    _failed: int = attrs.field(default=0, init=False)
    _dropped: int = attrs.field(default=0, init=False)
    _heard_at: float = attrs.field(default=-inf, init=False)
    _trouble: str | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._outgoing = OutgoingBytes(self._options.outgoing)

    # ------------------------------------------------------------- for the user

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
        within: float = 0.0,
    ) -> None:
        """Give a message out. The server may never read it: see `flush`.

        If cancelled, it was not given out.

        Args:
          within: seconds to wait for a connection, and for room.

        Raises:
          NatsDisconnected, OutgoingFull, PayloadTooLarge: it was not given out.
          ValueError: for a subject or header that NATS does not allow.
        """
        await trio.lowlevel.checkpoint()
        if within > 0:
            size = len(subject) + len(payload)
            with trio.move_on_after(within):
                await self.changed.until(
                    lambda: self.is_connected and self._outgoing.has_room(size)
                )
        self.publish_nowait(subject, payload, reply=reply, headers=headers)

    def publish_nowait(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Give a message out as `publish` does, without waiting at all."""
        data = publish(
            subject,
            payload,
            reply=reply,
            headers=headers,
            most=self._info.max_payload,
        )
        self._check_connected()
        if headers is not None and not self._info.headers:
            raise NatsError("this server takes no headers")
        self._outgoing.put(data)

    @asynccontextmanager
    async def subscribe(
        self,
        pattern: str,
        *,
        queue: str = "",
        capacity: int = 1024,
        most_bytes: int = 16 * 1024 * 1024,
    ) -> AsyncIterator[NatsMessages]:
        """Receive the messages to a subject, or a pattern with ``*`` and ``>``.

        Others see the subscription after a round trip: see `flush`. Without a
        connection it begins with the next one.

        Args:
          queue: the name of a group of subscribers, of whom one gets each message.
          capacity, most_bytes: messages and bytes that may wait to be read; further
            ones are dropped and counted.

        Raises:
          ValueError: for a pattern or queue that NATS does not allow.
        """
        await trio.lowlevel.checkpoint()
        messages = NatsMessages(pattern, capacity, most_bytes)
        sid = self.hold(pattern, messages, queue=queue)
        try:
            yield messages
        finally:
            messages.close()
            self.release(sid)

    def hold(self, pattern: str, receiver: Receiver, *, queue: str = "") -> int:
        """Subscribe a receiver, until the number that this returns is released.

        Raises:
          ValueError: for a pattern or queue that NATS does not allow.
        """
        sid = self._last_sid + 1
        command = subscribe(pattern, sid, queue=queue)
        self._last_sid = sid
        self._held[sid] = _Held(pattern, command, receiver)
        if self.is_connected:
            self._outgoing.put_control(command)
        return sid

    def release(self, sid: int) -> None:
        """End a subscription."""
        del self._held[sid]
        if self.is_connected:
            self._outgoing.put_control(unsubscribe(sid))

    async def flush(self, *, within: float) -> None:
        """Wait until the server has read everything that was given out before.

        Raises:
          NatsDisconnected: there is no connection, or it breaks.
          DeadlineExceeded: not within so many seconds.
        """
        self._check_connected()
        awaited = self._ping()
        with trio.move_on_after(within) as patience:
            await awaited.over.wait()
        if patience.cancelled_caught:
            raise DeadlineExceeded(f"the server did not answer within {in_ms(within)}")
        if not awaited.has_come:
            self._raise_disconnected()

    async def wait_connected(self, *, within: float) -> None:
        """Wait for a connection.

        Raises:
          NatsDisconnected: not within so many seconds.
        """
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(within):
            await self.changed.until(lambda: self.is_connected)
        self._check_connected()

    @property
    def is_connected(self) -> bool:
        return self._current is not None

    def statistics(self) -> NatsStatistics:
        current = self._current
        return NatsStatistics(
            server=None if current is None else str(current.address),
            server_name=self._info.server_name,
            lame_duck=self._info.lame_duck and current is not None,
            reconnections=max(0, self._connections - 1),
            failed=self._failed,
            dropped=self._dropped,
            unsent=self._outgoing.unsent,
            waiting=self._outgoing.waiting,
            trouble=self._trouble,
        )

    def __repr__(self) -> str:
        at = "no server" if self._current is None else f"{self._current.address}"
        return f"<NatsLink to {at}, {len(self._held)} subscriptions>"

    def _check_connected(self) -> None:
        if not self.is_connected:
            self._raise_disconnected()

    def _raise_disconnected(self) -> None:
        raise NatsDisconnected(f"there is no connection to a NATS server: {self._why}")

    # ----------------------------------------------------- one connection by another

    async def _live(self, task_status: trio.TaskStatus[None]) -> None:
        """Keep a connection until `_leave`. Shielded once there is a first one."""
        try:
            with self._scope:
                connection = await self._first()
                self._scope.shield = True
                failures = 0
                while True:
                    began = trio.current_time()
                    self._establish(connection)
                    task_status.started()
                    task_status = trio.TASK_STATUS_IGNORED
                    await self._serve(connection)
                    # A server that hangs up at once must not be asked all the time.
                    lasted = trio.current_time() - began
                    short = lasted < self._options.backoff.ceiling
                    failures = failures + 1 if short else 0
                    connection = await self._next(connection.address, failures)
        finally:
            self._break("it was left")
            for held in self._held.values():
                held.receiver.ended(NatsDisconnected("the connection was left"))

    async def _first(self) -> NatsConnection:
        with trio.move_on_after(self._options.open_within):
            return await self._tried(None, 0, is_first=True)
        limit = in_ms(self._options.open_within)
        raise NatsUnreachable(f"no NATS server within {limit}: {self._trouble}")

    async def _next(self, last: NatsAddress, failures: int) -> NatsConnection:
        with trio.move_on_after(self._options.give_up):
            return await self._tried(last, failures, is_first=False)
        limit = in_ms(self._options.give_up)
        raise NatsUnreachable(f"no NATS server for {limit}: {self._trouble}")

    async def _tried(
        self, last: NatsAddress | None, failures: int, *, is_first: bool
    ) -> NatsConnection:
        """Try all servers in turn, until one accepts."""
        while True:
            if failures:
                await trio.sleep(self._options.backoff.delay(failures))
            errors: list[NatsError] = []
            for address in self._servers.round(last):
                try:
                    return await self._attempt(address)
                except NatsError as error:
                    errors.append(error)
                    self._failed += 1
                    self._trouble = str(error)
                    self.changed.set()
            if is_first and all(isinstance(x, NatsRefused) for x in errors):
                raise errors[-1]
            failures += 1

    async def _attempt(self, address: NatsAddress) -> NatsConnection:
        limit = self._options.connect_within
        with trio.move_on_after(limit):
            return await open_connection(
                address, name=self._options.name, tls=self._tls, dial=self._dial
            )
        raise NatsUnreachable(f"{address}: no answer within {in_ms(limit)}")

    def _establish(self, connection: NatsConnection) -> None:
        self._current = connection
        self._parts = trio.CancelScope()
        self._connections += 1
        self._heard_at = trio.current_time()
        self._know(connection, connection.info)
        for held in self._held.values():
            self._outgoing.put_control(held.command)
        self._take(connection, connection.early)

    async def _serve(self, connection: NatsConnection) -> None:
        """Read, write and watch a connection until it breaks."""
        try:
            with self._parts:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read, connection)
                    nursery.start_soon(self._write, connection)
                    nursery.start_soon(self._watch)
        finally:
            await trio.aclose_forcefully(connection.stream)

    def _break(self, why: str) -> None:
        """Give the connection up, and tell those who wait for something at once."""
        if self._current is None:
            return
        self._current, self._why = None, why
        self._outgoing.clear()
        for held in self._held.values():
            held.receiver.disconnected(why)
        for awaited in self._pongs:
            awaited.end(has_come=False)
        self._pongs.clear()
        self._parts.cancel()
        self.changed.set()

    async def _leave(self) -> None:
        """Have the server read what was published, and end."""
        with trio.CancelScope(shield=True):
            with suppress(NatsDisconnected, DeadlineExceeded):
                await self.flush(within=CLOSE_GRACE)
        self._break("it was left")
        self._scope.cancel()

    # -------------------------------------------------------------- one connection

    async def _read(self, connection: NatsConnection) -> None:
        try:
            while True:
                events = await receive(connection.stream, connection.reader)
                self._heard_at = trio.current_time()
                self._take(connection, events)
        except ProtocolViolation as error:
            self._break(str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._break(connection.end())

    async def _write(self, connection: NatsConnection) -> None:
        try:
            while True:
                await connection.stream.send_all(await self._outgoing.take())
                self._outgoing.sent()
                self.changed.set()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The reader may find the server's reason in what it has yet to read.
            await trio.sleep(_FAREWELL)
            self._break(connection.end())

    async def _watch(self) -> None:
        """Ask a silent server for a sign of life."""
        every, patience = self._options.ping_every, self._options.ping_patience
        while True:
            await trio.sleep_until(self._heard_at + every)
            asked = trio.current_time()
            if asked < self._heard_at + every:
                continue
            self._ping()
            await trio.sleep(patience)
            # What came while this process stood still is read first. If it stood still
            # for long, the question itself may not have been sent.
            await trio.lowlevel.checkpoint()
            late = trio.current_time() - (asked + patience)
            if self._heard_at < asked and late < patience:
                silence = in_ms(trio.current_time() - self._heard_at)
                self._break(f"the server was silent for {silence}")

    def _ping(self) -> _Awaited:
        awaited = _Awaited()
        self._pongs.append(awaited)
        self._outgoing.put_control(PING)
        return awaited

    def _take(self, connection: NatsConnection, events: list[NatsEvent]) -> None:
        for event in events:
            match event:
                case NatsMessage(sid=sid):
                    held = self._held.get(sid)  # None: it was released just now
                    if held is not None and not held.receiver.offer(event):
                        self._dropped += 1
                case ServerPing():
                    self._outgoing.put_control(PONG)
                case ServerPong():
                    if self._pongs:
                        self._pongs.popleft().end(has_come=True)
                case NatsInfo():
                    self._know(connection, event)
                case ServerTrouble(text):
                    self._complain(connection, text)

    def _know(self, connection: NatsConnection, info: NatsInfo) -> None:
        self._info = info
        self._servers.learn(connection.address, info.connect_urls)
        self.changed.set()

    def _complain(self, connection: NatsConnection, text: str) -> None:
        """Note an error of the server, and tell the one whom it is about."""
        self._trouble = connection.complaint(text)
        self.changed.set()
        found = _NOT_ALLOWED.match(text)
        if found is None:
            return
        error = NatsRefused(self._trouble)
        for held in self._held.values():
            if found["deed"].lower() == "publish":
                held.receiver.unpublished(found["subject"], error)
            elif held.pattern == found["subject"]:
                held.receiver.ended(error)
