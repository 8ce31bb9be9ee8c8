"""The sessions of clients that shake hands: the SDK's transport and loop for each.

A session begins with ``initialize``, or with a ``GET`` that waits for one; it ends
when it is deleted, when nobody has used it for a while, or when the server stops.
The manager of the SDK would do, if all its sessions did not share one store of
events, and if it told anybody when one has ended.
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

# How long a client waits before it asks for a stream again that has broken off.
_RETRY_MS: Final = 1000
_CLOSED: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError)


def _is_fault(record: logging.LogRecord) -> bool:
    """An ended session refuses what still comes in; the SDK takes that for a crash,
    whether it comes alone or out of a group of tasks."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        return error.split(_CLOSED)[1] is not None
    return not isinstance(error, _CLOSED)


logging.getLogger("mcp.server.streamable_http").addFilter(_is_fault)


@attrs.define(eq=False)
class Running:
    """How many requests have an answer still to come."""

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
        """Wait for the last one, or so long; returns whether there is none."""
        with trio.move_on_after(seconds):
            while self.count:
                await self._ended.park()
        return not self.count


@attrs.define(eq=False, kw_only=True)
class HttpSession:
    """One client that shook hands, or is about to.

    Args:
      owner: whose token opened it; opener: that, and from which address.
      back: the way to tell it something without being asked, once it is greeted.
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
        """Whether no request of it is answered by a stream."""
        return self.transport.is_json_response_enabled

    @property
    def is_greeted(self) -> bool:
        return self.back is not None

    @property
    def in_use(self) -> bool:
        """Whether a request of it, or a stream, is open."""
        return self._uses > 0

    @contextmanager
    def used(self) -> Generator[None]:
        """Somebody uses it, for as long as this is open."""
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
        """Something changed. Neither waits nor raises."""
        self._untold.note(changed)
        if self._untold:
            self._told.unpark_all()

    async def tell(self) -> None:
        """Tell the client what it wants to know, for ever, as fast as it reads."""
        while True:
            while not self._untold or self.back is None:
                await self._told.park()
            for method, params in self._untold.take():
                await notify(self.back, method, params)

    def end(self) -> None:
        """Cut what runs; each of its requests is still answered, by an error."""
        if self.transport.idle_scope is not None:
            self.transport.idle_scope.cancel()

    def end_streams(self) -> None:
        """End what only waits for something to say, so that the client knows."""
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
        """Whether there is room for another session of ``opener``.

        If there is none, the one that was left alone longest ends: one of the opener's
        own if it has three quarters of all, else one of whoever has most. What is in
        use never ends so.
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
        """A session, for who opened it: to others it does not exist."""
        session = self._sessions.get(id)
        return session if session is not None and session.owner == owner else None

    def note(self, changed: Changed) -> None:
        for session in self._sessions.values():
            session.note(changed)

    async def open(
        self, owner: str, *, opener: str = "", plain: bool = False
    ) -> HttpSession:
        """A session that serves; `discard` it if its first request gets nowhere.

        Args:
          opener: who opens it, for `make_room`.
          plain: it answers as JSON only, which costs less.
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
        """End a session; its requests in flight are answered, or cut."""
        self._forget(session)
        if not session.transport.is_terminated:
            with trio.CancelScope(shield=True):  # a few closings, nobody waited for
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
        except Exception:  # border: the SDK's loop; one session costs no other
            logger.exception("a session ended with an error")
        finally:
            await self.discard(session)


@asynccontextmanager
async def open_sessions(
    bridge: DispatchServer, limits: Limits
) -> AsyncIterator[Sessions]:
    """Sessions to find and to open; left, all have ended."""
    async with trio.open_nursery() as nursery:
        sessions = Sessions(bridge, limits, StreamedEvents(), nursery)
        try:
            yield sessions
        finally:
            nursery.cancel_scope.cancel()
