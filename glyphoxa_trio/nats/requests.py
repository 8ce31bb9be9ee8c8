"""Requests and their replies, over one subscription for all of them.

    with open_requests(nats) as requests:
        reply = await requests.ask("w.worker-7", b"...", within=0.5)
        async with requests.stream("w.worker-7", b"...", within=2.0) as replies:
            async for reply in replies: ...

Each request has a token, the last word of the subject to reply to. A reply to a token
that was forgotten, because its asker left, is ignored. When the connection breaks, each
open request ends at once: its reply may have been on the way.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import attrs

import trio

from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.units import in_ms

from .errors import NatsDisconnected, NatsError, NoResponders, RepliesLost
from .link import NatsLink
from .protocol import NO_RESPONDERS, NatsMessage, check_subject


@contextmanager
def open_requests(nats: NatsLink, *, inbox: str = "_INBOX") -> Iterator[NatsRequests]:
    """Subscribe to replies for the length of the block.

    Args:
      inbox: the beginning of the subjects to reply to; the server must allow it.

    Raises:
      ValueError: for an inbox that is no subject.
    """
    check_subject(inbox)
    requests = NatsRequests(nats, f"{inbox}.{secrets.token_hex(11)}")
    sid = nats.hold(f"{requests.inbox}.*", requests)
    try:
        yield requests
    finally:
        nats.release(sid)
        requests.ended(NatsDisconnected("the requests were left"))


@attrs.define(eq=False, repr=False)
class Replies:
    """The replies to one request, in order."""

    subject: str
    capacity: int
    within: float
    _waiting: deque[NatsMessage] = attrs.field(factory=deque, init=False)
    _error: NatsError | None = attrs.field(default=None, init=False)
    _reader: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def __aiter__(self) -> Replies:
        return self

    async def __anext__(self) -> NatsMessage:
        """Wait for the next reply and return it. If cancelled, none is lost.

        Raises:
          NoResponders: there is no subscription for the request's subject.
          NatsDisconnected: the connection broke.
          NatsRefused: the server does not allow the request.
          RepliesLost: too many came before they were read.
          DeadlineExceeded: no reply came in time.
        """
        if self._waiting or self._error is not None:
            await trio.lowlevel.checkpoint()
        else:
            with trio.move_on_after(self.within):
                await self._reader.park()
        if self._waiting:
            return self._waiting.popleft()
        if self._error is not None:
            raise self._error.with_traceback(None)
        limit = in_ms(self.within)
        raise DeadlineExceeded(f"no reply to {self.subject} within {limit}")

    def put(self, message: NatsMessage) -> None:
        if message.status == NO_RESPONDERS and not message.payload:
            self.end(NoResponders(f"nothing subscribes to {self.subject}"))
        elif len(self._waiting) >= self.capacity:
            self.end(RepliesLost(f"{self.capacity} replies wait to be read"))
        elif self._error is None:
            self._waiting.append(message)
            self._reader.unpark()

    def end(self, error: NatsError) -> None:
        """End them with this error, unless they have ended already."""
        if self._error is None:
            self._error = error
            self._reader.unpark_all()


@attrs.define(eq=False, repr=False)
class NatsRequests:
    """The open requests of one connection. ``late`` counts replies to others."""

    _nats: NatsLink
    inbox: str
    late: int = attrs.field(default=0, init=False)
    _open: dict[str, Replies] = attrs.field(factory=dict, init=False)
    _last: int = attrs.field(default=0, init=False)
    _left: bool = attrs.field(default=False, init=False)

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        within: float,
        headers: Mapping[str, str] | None = None,
    ) -> NatsMessage:
        """Send a request and return its first reply. Cancelling it forgets it.

        Args:
          within: seconds for the reply.

        Raises:
          NatsDisconnected, OutgoingFull, PayloadTooLarge: it was not sent; or the
            connection broke before the reply came.
          NoResponders, NatsRefused, DeadlineExceeded: see `Replies`.
        """
        async with self.stream(
            subject, payload, within=within, headers=headers, capacity=1
        ) as replies:
            return await anext(replies)

    @asynccontextmanager
    async def stream(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        within: float,
        headers: Mapping[str, str] | None = None,
        capacity: int = 256,
    ) -> AsyncIterator[Replies]:
        """Send a request that many replies may come to, until the block is left.

        Args:
          within: seconds for the first reply, and from each reply to the next while one
            is waited for. The whole has the deadline that the caller sets.
          capacity: replies that may wait to be read; with one more they end.

        Raises:
          NatsDisconnected, OutgoingFull, PayloadTooLarge: it was not sent.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._left:
            raise NatsDisconnected("the requests were left")
        self._last += 1
        token = f"{self._last:x}"
        replies = Replies(subject, capacity, within)
        self._open[token] = replies
        try:
            self._nats.publish_nowait(
                subject, payload, reply=f"{self.inbox}.{token}", headers=headers
            )
            yield replies
        finally:
            self._open.pop(token, None)

    def __repr__(self) -> str:
        return f"<NatsRequests: {len(self._open)} open, {self.late} late replies>"

    # ------------------------------------------------------------- the connection

    def offer(self, message: NatsMessage) -> bool:
        replies = self._open.get(message.subject.rpartition(".")[2])
        if replies is None:
            self.late += 1
            return True
        replies.put(message)
        return True

    def disconnected(self, why: str) -> None:
        self._end_all(NatsDisconnected(f"the connection broke: {why}"))

    def ended(self, error: NatsError) -> None:
        self._left = True
        self._end_all(error)

    def unpublished(self, subject: str, error: NatsError) -> None:
        for replies in self._open.values():
            if replies.subject == subject:
                replies.end(error)

    def _end_all(self, error: NatsError) -> None:
        for replies in self._open.values():
            replies.end(error)
