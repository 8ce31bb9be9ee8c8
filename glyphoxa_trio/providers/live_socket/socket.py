"""An open socket to a model that hears or speaks, with any vendor's wire.

    async with open_live_socket(wire, url=url, headers=headers) as link:
        link.send(SendText(Line("user", "Who is there?")))
        event = await link.receive()

One task reads, one writes, one pings, and one watches the wire's clock. They outlive
the block a little: leaving it performs the closing handshake, in less than a second,
also when cancelled. `receive` raises the end of the socket, after all events before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Final, Generic, TypeVar

import attrs
import h11
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection
from wsproto.utilities import LocalProtocolError

import trio

from glyphoxa_trio.actors import Signal, lone_errors
from glyphoxa_trio.providers.live_wire import VendorWire
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed, LinkStatistics
from glyphoxa_trio.secret import Secret

from .dialling import Address, Dial, Headers, dial, dialled, rejected, upgrade
from .failures import on_close, on_closed
from .outbox import FrameOutbox, TooMuchControl

OPEN_TIMEOUT: Final = 15.0  # seconds
SETUP_TIMEOUT: Final = 15.0  # seconds from there to `Ready`
PING_EVERY: Final = 20.0  # seconds
PING_PATIENCE: Final = 10.0  # seconds for the answer
CLOSE_GRACE: Final = 0.8  # seconds for the closing handshake
# Bytes of messages whose events were not received.
MAX_WAITING: Final = 32 * 1024 * 1024

C = TypeVar("C")
E = TypeVar("E")


@asynccontextmanager
async def open_live_socket(
    wire: VendorWire[C, E],
    *,
    url: str,
    headers: Headers = (),
    secret: Secret | None = None,
    dial: Dial = dial,
    opening: float = OPEN_TIMEOUT,
    grace: float = CLOSE_GRACE,
) -> AsyncIterator[LiveSocket[C, E]]:
    """Open a socket at ``url`` (ws or wss) and run ``wire`` over it.

    Leaving closes the socket, within ``grace`` whatever the server does. Frames that
    wait are not sent any more.

    Args:
      headers: of the upgrade; they are never shown.
      secret: removed from the server's words that are quoted.
      dial: opens the connection.
      opening: seconds for connection, TLS and upgrade together.
      grace: seconds for the closing handshake.

    Raises:
      LinkClosed: if it cannot be opened within ``opening``.
      ValueError: for an address that is not one of a WebSocket.
    """
    link = LiveSocket(wire, secret, opening, grace)
    address = Address.of(url)
    with lone_errors():
        async with trio.open_nursery() as nursery:
            await nursery.start(link._live, address, headers, dial)
            try:
                yield link
            finally:
                await link._leave()


@attrs.define(eq=False, repr=False)
class LiveSocket(Generic[C, E]):
    """A `Link` over trio-websocket. See the module's docstring."""

    _wire: VendorWire[C, E]
    _secret: Secret | None = attrs.field(default=None)
    _opening: float = attrs.field(default=OPEN_TIMEOUT)
    _grace: float = attrs.field(default=CLOSE_GRACE)
    _socket: WebSocketConnection | None = attrs.field(default=None, init=False)
    _outbox: FrameOutbox = attrs.field(factory=FrameOutbox, init=False)
    # Each with the size of its message, if it is the first event of it.
    _events: deque[tuple[E, int]] = attrs.field(factory=deque, init=False)
    _waiting: int = attrs.field(default=0, init=False)
    _reader: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )
    _end: LinkClosed | None = attrs.field(default=None, init=False)
    _leaving: bool = attrs.field(default=False, init=False)
    _written: trio.Event = attrs.field(factory=trio.Event, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _setup_until: float = attrs.field(default=inf, init=False)
    _due: float = attrs.field(default=inf, init=False)
    _due_moved: Signal = attrs.field(factory=Signal, init=False)
    _sent: int = attrs.field(default=0, init=False)
    _received: int = attrs.field(default=0, init=False)

    def send(self, command: C) -> None:
        """Send a command without waiting; see `Link.send`.

        Raises:
          ValueError: if the wire never allows it.
        """
        if self._end is None and not self._leaving:
            self._wire.send(command, trio.current_time())
            self._after(setup=False)

    async def receive(self) -> E:
        """Return the next event, in order. If cancelled, none is lost.

        Raises:
          LinkClosed: when the socket is closed and every event was received.
        """
        # One checkpoint: a flood of events must let other tasks run.
        if self._events or self._end is not None:
            await trio.lowlevel.checkpoint()
        while not self._events:
            if self._end is not None:
                raise self._end.with_traceback(None)
            await self._reader.park()
        event, size = self._events.popleft()
        self._waiting -= size
        return event

    def __repr__(self) -> str:
        state = "open" if self._wire.ready else "setting up"
        if self._end is not None:
            state = f"ended ({self._end.detail})"
        return f"<LiveSocket {state}, {len(self._events)} events wait>"

    def statistics(self) -> LinkStatistics:
        return LinkStatistics(
            sent=self._sent,
            received=self._received,
            audio_dropped=self._outbox.dropped,
            unknown=dict(self._wire.unknown),
        )

    async def _live(
        self,
        address: Address,
        headers: Headers,
        dial: Dial,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Open the socket, and run it until its end. Shielded once it is open."""
        stream: trio.abc.Stream | None = None
        try:
            with lone_errors(), self._scope:
                async with trio.open_nursery() as carrier:
                    until = trio.current_time() + self._opening
                    stream = await dialled(dial, address, until)
                    self._socket = await upgrade(
                        carrier, stream, address, headers, self._secret, until
                    )
                    self._scope.shield = True
                    now = trio.current_time()
                    self._setup_until = now + SETUP_TIMEOUT
                    self._wire.opening(now)
                    self._after(setup=True)
                    task_status.started()
                    async with trio.open_nursery() as parts:
                        for part in (self._read, self._write, self._ping):
                            parts.start_soon(part, self._socket)
                        parts.start_soon(self._watch_the_clock)
                    carrier.cancel_scope.cancel()
        except HandshakeError as error:  # raised by trio-websocket's reader
            raise rejected(error, self._secret) from None
        except (LocalProtocolError, h11.LocalProtocolError):
            # trio-websocket's reader answers where the protocol allows no answer: to an
            # upgrade that is none, and to a ping during the closing handshake.
            end = on_close(None, None)
            if self._socket is None:
                raise end from None
            self._fail(end)
        finally:
            if stream is not None:
                await trio.aclose_forcefully(stream)

    async def _leave(self) -> None:
        """Perform the closing handshake within its time, and stop everything."""
        with trio.move_on_after(self._grace, shield=True):
            if self._end is None and self._socket is not None:
                self._leaving = True
                self._outbox.close()
                # The closing handshake must not cut a frame in two.
                await self._written.wait()
                await self._socket.aclose()
        self._fail(LinkClosed(ErrorKind.INTERRUPTED, "left", retryable=True))

    def _fail(self, end: LinkClosed) -> None:
        """End the socket with this error, unless it has ended already."""
        if self._end is None:
            self._end = end
            self._outbox.close()
            self._reader.unpark_all()
        self._scope.cancel()

    async def _read(self, socket: WebSocketConnection) -> None:
        while True:
            try:
                message = await socket.get_message()
            except ConnectionClosed as closed:
                if not self._leaving:
                    self._fail(on_closed(closed, self._secret))
                return
            self._received += 1
            now = trio.current_time()
            self._step(partial(self._wire.receive, message, now), len(message))

    async def _write(self, socket: WebSocketConnection) -> None:
        try:
            while (frame := await self._outbox.get()) is not None:
                await socket.send_message(frame.data)
                self._sent += 1
        except ConnectionClosed as closed:
            await self._see_the_end(closed)
        finally:
            self._written.set()

    async def _ping(self, socket: WebSocketConnection) -> None:
        while True:
            await trio.sleep(PING_EVERY)
            with trio.move_on_after(PING_PATIENCE) as patience:
                try:
                    await socket.ping()
                except ConnectionClosed as closed:
                    await self._see_the_end(closed)
                    return
            if patience.cancelled_caught:
                detail = f"no answer to a ping within {PING_PATIENCE:.0f} s"
                self._fail(LinkClosed(ErrorKind.SILENCE, detail, retryable=True))
                return

    async def _see_the_end(self, closed: ConnectionClosed) -> None:
        """Report the end after a while, if the reader does not.

        The reader may have messages to read first, or wait for a server that does not
        read.
        """
        await trio.sleep(CLOSE_GRACE)
        if not self._leaving:
            self._fail(on_closed(closed, self._secret))

    async def _watch_the_clock(self) -> None:
        while True:
            with trio.move_on_at(self._due):
                await self._due_moved.take()
            now = trio.current_time()
            if now < self._due:
                continue
            if not self._wire.ready and now >= self._setup_until:
                limit = f"{SETUP_TIMEOUT:.0f} s"
                detail = f"the server did not set up the session within {limit}"
                self._fail(LinkClosed(ErrorKind.SILENCE, detail, retryable=True))
                return
            self._step(partial(self._wire.wake, now), 0)

    def _step(self, step: Callable[[], list[E]], size: int) -> None:
        """Run one step of the wire, and queue its events for `receive`."""
        try:
            events = step()
        except LinkClosed as end:
            self._fail(end)
            return
        for event in events:
            self._events.append((event, size))
            self._waiting += size
            size = 0
        if events:
            self._reader.unpark()
        if self._waiting > MAX_WAITING:
            detail = "the events of this socket are not received"
            self._fail(LinkClosed(ErrorKind.OVERLOADED, detail, retryable=False))
        else:
            self._after(setup=True)

    def _after(self, *, setup: bool) -> None:
        """Send the frames of the last step, and set the clock."""
        try:
            for frame in self._wire.outgoing():
                self._outbox.put(frame, setup=setup and not self._outbox.is_open)
        except TooMuchControl:
            detail = "the server does not read; too much waits to be sent"
            self._fail(LinkClosed(ErrorKind.OVERLOADED, detail, retryable=True))
            return
        if self._wire.ready:
            self._outbox.open()
        due = inf if self._wire.alarm is None else self._wire.alarm
        if not self._wire.ready:
            due = min(due, self._setup_until)
        if due != self._due:
            self._due = due
            self._due_moved.set()
