"""The sessions of clients that do the handshake.

A session begins with ``initialize``, or with a ``GET`` that waits for one. It ends when
the client deletes it, after a time without use, or when the server stops. Each has the
SDK's transport and loop, but not its manager, whose sessions share one store of events,
and which does not report the end of a session.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from uuid import uuid4

import anyio
import attrs
from mcp.server.runner import serve_loop
from mcp.server.session import ServerSession
from mcp.server.streamable_http import (
    GET_STREAM_KEY,
    StreamableHTTPServerTransport,
)

import trio

from glyphoxa_trio.servers.definition import Changed
from glyphoxa_trio.servers.pending_notifications import PendingNotifications
from glyphoxa_trio.servers.request import Client

from .bridge import DispatchServer, notify
from .bucket import Bucket
from .events import SessionEvents, StreamedEvents
from .limits import Limits

logger = logging.getLogger(__name__)

# Milliseconds that a client waits before it asks again for a stream that broke.
_RETRY_MS: Final = 1000
_CLOSED: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError)


def _is_fault(record: logging.LogRecord) -> bool:
    """Return False for the refusal by an ended session, alone or in a group of errors.

    The SDK logs it as a crash.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        return error.split(_CLOSED)[1] is not None
    return not isinstance(error, _CLOSED)


logging.getLogger("mcp.server.streamable_http").addFilter(_is_fault)


@attrs.define(eq=False)
class Running:
    """The number of requests that are not answered yet."""

    count: int = 0
    _ended: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    @contextmanager
    def counted(self, counts: bool = True) -> Generator[None]:
        self.count += counts
        try:
            yield
        finally:
            self.count -= counts
            self._ended.unpark_all()

    async def wait_none(self, seconds: float) -> bool:
        """Wait until no request runs, at most ``seconds``; return whether none does."""
        with trio.move_on_after(seconds):
            while self.count:
                await self._ended.park()
        return not self.count


@attrs.define(eq=False, kw_only=True)
class HttpSession:
    """One session of a client that did the handshake, or is about to.

    Args:
      owner: the name of the token that opened it; opener: that name and the address.
      back: the channel for notifications outside requests; None until the handshake.
    """

    id: str
    owner: str
    opener: str
    client: Client
    events: SessionEvents
    transport: StreamableHTTPServerTransport
    bucket: Bucket | None
    back: ServerSession | None = None
    ended: bool = False
    used_at: float = attrs.field(factory=trio.current_time, init=False)
    _uses: int = attrs.field(default=0, init=False)
    _untold: PendingNotifications = attrs.field(init=False)
    _told: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def __attrs_post_init__(self) -> None:
        self._untold = PendingNotifications(self.client.subscriptions, lists=True)

    @property
    def is_plain(self) -> bool:
        """True if none of its requests is answered by an event stream."""
        return self.transport.is_json_response_enabled

    @property
    def is_greeted(self) -> bool:
        return self.back is not None

    @property
    def in_use(self) -> bool:
        """True while one of its requests or streams is open."""
        return self._uses > 0

    @contextmanager
    def used(self) -> Generator[None]:
        """Mark the session as in use while the block runs."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self.used_at = trio.current_time()

    def greet(self, back: ServerSession) -> None:
        self.back = back
        self._told.unpark_all()

    def note(self, changed: Changed) -> None:
        """Remember a changed resource. Neither waits nor raises."""
        self._untold.note(changed)
        if self._untold:
            self._told.unpark_all()

    async def tell(self) -> None:
        """Send the client's notifications as fast as it reads, until cancelled."""
        while True:
            while not self._untold or self.back is None:
                await self._told.park()
            for method, params in self._untold.take():
                await notify(self.back, method, params)

    def end(self) -> None:
        """Cancel its running requests; each is still answered, with an error."""
        if self.transport.idle_scope is not None:
            self.transport.idle_scope.cancel()

    def end_streams(self) -> None:
        """End the streams that wait for notifications, so that the client notices."""
        self.transport.close_standalone_sse_stream()
        self.events.end_tail(GET_STREAM_KEY)


@attrs.define(eq=False)
class Sessions:
    """All sessions of a server, while `open_sessions` is open."""

    bridge: DispatchServer
    limits: Limits
    log: StreamedEvents
    _nursery: trio.Nursery
    _sessions: dict[str, HttpSession] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(tuple(self._sessions.values()))

    async def make_room(self, opener: str) -> bool:
        """Make room for another session of ``opener``; return whether there is room.

        If there is none, the session that was idle longest ends: one of the opener's
        own if it has three quarters of all, else one of the client that has the most.
        A session in use is never ended for that.
        """
        most = self.limits.sessions
        share = most - most // 4
        owners = Counter(session.opener for session in self._sessions.values())
        if owners[opener] >= share:
            greedy = opener
        elif len(self._sessions) < most:
            return True
        else:
            idle = [x.opener for x in self if not x.in_use]
            greedy = max(idle, key=lambda one: owners[one], default=opener)
        left = [x for x in self if x.opener == greedy and not x.in_use]
        if not left:
            return False
        await self.discard(min(left, key=lambda session: session.used_at))
        return True

    def find(self, id: str, owner: str) -> HttpSession | None:  # noqa: A002
        """Return the session if ``owner`` opened it; for others it does not exist."""
        session = self._sessions.get(id)
        return session if session is not None and session.owner == owner else None

    def note(self, changed: Changed) -> None:
        for session in self._sessions.values():
            session.note(changed)

    async def open(
        self, owner: str, *, opener: str = "", plain: bool = False
    ) -> HttpSession:
        """Open and serve a session; `discard` it if its first request fails.

        Args:
          opener: the client that opens it, for `make_room`.
          plain: answer with JSON only, not with event streams, which costs less.
        """
        number = uuid4().hex
        events = SessionEvents(self.log, plain=plain)
        rate = self.limits.rate
        session = HttpSession(
            id=number,
            owner=owner,
            opener=opener,
            client=Client(session=number),
            events=events,
            transport=StreamableHTTPServerTransport(
                number,
                event_store=events,
                retry_interval=_RETRY_MS,
                idle_timeout=self.limits.session_idle,
            ),
            bucket=None if rate is None else Bucket(rate),
        )
        self._sessions[number] = session
        try:
            await self._nursery.start(self._serve, session)
        except BaseException:
            self._forget(session)
            raise
        return session

    async def discard(self, session: HttpSession) -> None:
        """End a session; its running requests are answered or cancelled."""
        self._forget(session)
        if not session.transport.is_terminated:
            # only closes streams: waits for no client
            with trio.CancelScope(shield=True):
                await session.transport.terminate()

    def _forget(self, session: HttpSession) -> None:
        self._sessions.pop(session.id, None)
        session.events.close()
        if not session.ended:
            session.ended = True
            self.bridge.offer.ended(session.id)

    async def _serve(
        self,
        session: HttpSession,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        transport = session.transport
        try:
            async with transport.connect() as (incoming, outgoing):
                task_status.started()
                idle = transport.idle_scope
                assert idle is not None
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(session.tell)
                    with idle:
                        await serve_loop(
                            self.bridge,
                            incoming,
                            outgoing,
                            lifespan_state={},
                            session_id=session.id,
                            init_options=self.bridge.initialization,
                        )
                    nursery.cancel_scope.cancel()
        except Exception:  # border: the SDK's loop; an error ends its session only
            logger.exception("a session ended with an error")
        finally:
            await self.discard(session)


@asynccontextmanager
async def open_sessions(
    bridge: DispatchServer, limits: Limits
) -> AsyncIterator[Sessions]:
    """Yield the sessions of a server; all have ended when the block is left."""
    async with trio.open_nursery() as nursery:
        sessions = Sessions(bridge, limits, StreamedEvents(), nursery)
        try:
            yield sessions
        finally:
            nursery.cancel_scope.cancel()
