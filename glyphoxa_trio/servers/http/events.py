"""The Server-Sent Events that were sent to clients, kept for clients that lost some.

They are bounded for each session and in total; the oldest are dropped first. A client
that comes back with ``Last-Event-ID`` is sent the later events of that stream, and then
new ones as they come. Both are sent from here, so that no event is lost between the
two.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import attrs
from mcp.server.streamable_http import (
    GET_STREAM_KEY,
    EventCallback,
    EventMessage,
    EventStore,
)
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

import trio

MOST_EVENTS: Final = 256  # of one session
MOST_BYTES: Final = 1024 * 1024  # of one session
MOST_BYTES_IN_ALL: Final = 32 * 1024 * 1024


@attrs.frozen(eq=False)
class _Event:
    """One event, with its message as text.

    As objects, all kept messages would be traversed by every garbage collection.
    """

    log: SessionEvents
    stream: str
    text: str
    is_answer: bool

    @property
    def size(self) -> int:
        return 64 + len(self.text)


@attrs.define(eq=False)
class StreamedEvents:
    """The events of all sessions, each under a number that is unique on this server."""

    most_bytes: int = MOST_BYTES_IN_ALL
    bytes: int = 0
    _events: OrderedDict[int, _Event] = attrs.field(factory=OrderedDict, init=False)
    _last: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: _Event) -> int:
        self._last += 1
        self._events[self._last] = event
        self.bytes += event.size
        while self.bytes > self.most_bytes and len(self._events) > 1:
            oldest = next(iter(self._events))
            self._events[oldest].log.forget(oldest)
        return self._last

    def get(self, number: int) -> _Event | None:
        return self._events.get(number)

    def remove(self, number: int) -> _Event:
        event = self._events.pop(number)
        self.bytes -= event.size
        return event


@attrs.define(eq=False, init=False)
class SessionEvents(EventStore):
    """The events of one session, as the SDK stores and replays them.

    Since every answer passes through here, it also knows the requests that have not
    been answered yet: ``owed`` holds their ids, as text.
    """

    owed: set[str]
    tails: dict[str, object]  # by stream: the request that follows it
    _plain: bool
    _log: StreamedEvents
    _numbers: OrderedDict[int, int]  # size by number
    _bytes: int
    _closed: bool
    _more: trio.lowlevel.ParkingLot

    def __init__(self, log: StreamedEvents, *, plain: bool = False) -> None:
        """Create the store; ``plain``: answers are JSON, so they are not kept."""
        self._plain = plain
        self.owed = set()
        self.tails = {}
        self._log = log
        self._numbers = OrderedDict()
        self._bytes = 0
        self._closed = False
        self._more = trio.lowlevel.ParkingLot()

    @property
    def count(self) -> int:  # no `__len__`: the SDK tests the store for truth
        return len(self._numbers)

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event, and return its id. Never waits."""
        answers = isinstance(message, JSONRPCResponse | JSONRPCError)
        if answers:
            self.owed.discard(stream_id)
        if self._plain and stream_id != GET_STREAM_KEY:
            return ""
        text = ""
        if message is not None:
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
        event = _Event(self, stream_id, text, answers)
        size = event.size
        number = self._log.add(event)
        self._numbers[number] = size
        self._bytes += size
        while len(self._numbers) > MOST_EVENTS or (
            self._bytes > MOST_BYTES and len(self._numbers) > 1
        ):
            self.forget(next(iter(self._numbers)))
        self._more.unpark_all()
        return str(number)

    def stream_of(self, event_id: str) -> str | None:
        """Return the stream of an event of this session, None if it is not kept."""
        number = self._own(event_id)
        event = None if number is None else self._log.get(number)
        return None if event is None else event.stream

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send the later events of that stream, and new ones as they come, to its end.

        Always returns None, at the end. If the SDK were given the name of the stream,
        it would go on from its own buffer, and events that arrive in between would be
        lost.
        """
        at = self._own(last_event_id)
        stream = self.stream_of(last_event_id)
        if at is None or stream is None:
            return None
        self.end_tail(stream)  # the later request has the living connection
        self.tails[stream] = follower = object()
        try:
            while not self._closed and self.tails.get(stream) is follower:
                for number in [number for number in self._numbers if number > at]:
                    event = self._log.get(number)
                    at = number
                    if event is None or event.stream != stream or not event.text:
                        continue
                    if self.tails.get(stream) is not follower:
                        return None
                    message = jsonrpc_message_adapter.validate_json(event.text)
                    await send_callback(EventMessage(message, str(number)))
                    if event.is_answer:
                        return None
                if self._numbers and next(reversed(self._numbers)) > at:
                    continue
                if stream != GET_STREAM_KEY and stream not in self.owed:
                    return None
                await self._more.park()
        finally:
            if self.tails.get(stream) is follower:
                del self.tails[stream]
        return None

    def end_tail(self, stream: str) -> None:
        """Stop the request that follows the stream, if there is one."""
        self.tails.pop(stream, None)
        self._more.unpark_all()

    def close(self) -> None:
        """Forget all events, and stop every request that follows a stream."""
        self._closed = True
        for number in list(self._numbers):
            self.forget(number)
        self._more.unpark_all()

    def forget(self, number: int) -> None:
        self._bytes -= self._numbers.pop(number)
        self._log.remove(number)

    def _own(self, event_id: str) -> int | None:
        if not (event_id.isascii() and event_id.isdigit()) or len(event_id) > 18:
            return None
        number = int(event_id)
        return number if number in self._numbers else None
