"""A bounded stream of events from an actor to one consumer.

A slow consumer slows the producer down: `send` waits while the stream is full. `post`
never waits, for events that must not be delayed; its caller has a limit of its own (a
turn posts at most a few per tool call).

A consumer that passes the events on, and learns later what has arrived, says so with
`acknowledge`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Generic, TypeVar

import attrs

import trio

E = TypeVar("E")


@attrs.frozen(kw_only=True)
class StreamStatistics:
    """Counts of a stream's events; ``waiting`` is now, ``peak`` the most."""

    waiting: int
    capacity: int
    peak: int
    sent: int


# A validator makes all attributes slow to set, unless it is for new objects only.
@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class Stream(Generic[E]):
    """Events in order, each handed out once.

    Args:
      capacity: the number of events that may wait before `send` does.
      on_consumed: called with an event once its consumer asks for the next one, or
        acknowledges it; *delivered* means that.
    """

    capacity: int = attrs.field(default=64, validator=attrs.validators.ge(1))
    on_consumed: Callable[[E], None] | None = None
    _events: deque[E] = attrs.field(factory=deque, init=False)
    _handed: deque[E] = attrs.field(factory=deque, init=False)
    _readers: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )
    _writers: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )
    _modest: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )
    _acknowledges: bool = attrs.field(default=False, init=False)
    _promised: int = attrs.field(default=0, init=False)
    _ended: bool = attrs.field(default=False, init=False)
    _left: bool = attrs.field(default=False, init=False)
    _peak: int = attrs.field(default=0, init=False)
    _sent: int = attrs.field(default=0, init=False)
    _cancelled: str | None = attrs.field(default=None, init=False)
    _on_cancel: Callable[[str], None] | None = attrs.field(default=None, init=False)
    _on_heard_out: Callable[[], None] | None = attrs.field(default=None, init=False)

    async def send(self, event: E, *, spare: int = 0, within: float = inf) -> bool:
        """Append ``event``, waiting while the stream is full; return True if appended.

        When the consumer has left, the event is dropped. If cancelled, it was not
        appended.

        Args:
          spare: the number of places to leave to senders with a spare of 0; one place
            may be used in any case. Senders with a spare have no order among them.
          within: seconds to wait for a place.

        Raises:
          ValueError: if the stream has ended, or ends while this waits.
        """
        # A full checkpoint: a producer that never waits must let others run.
        await trio.lowlevel.checkpoint()
        room = max(1, self.capacity - spare)
        if self._is_full(room):
            with trio.move_on_after(within) as patience:
                if spare:
                    while self._is_full(room):
                        await self._modest.park()
                else:
                    await self._writers.park()
                    self._promised -= 1
            if patience.cancelled_caught:
                return False
        self.post(event)
        return True

    def _is_full(self, room: int) -> bool:
        taken = len(self._events) + self._promised
        return taken >= room and not (self._left or self._ended)

    def post(self, event: E) -> None:
        """Append ``event`` at once, even beyond the capacity."""
        if self._ended:
            raise ValueError("this stream has ended")
        if self._left:
            return
        self._events.append(event)
        self._sent += 1
        self._peak = max(self._peak, len(self._events))
        self._readers.unpark()

    def take_back(self, unwanted: Callable[[E], bool]) -> None:
        """Drop the ``unwanted`` ones of the events that are not handed out yet."""
        self._events = deque(x for x in self._events if not unwanted(x))
        self._make_room()

    def end(self) -> None:
        """End the stream; waiting events can still be read."""
        self._ended = True
        self._readers.unpark_all()
        self._unpark_writers()

    def produced_by(
        self, consumed: Callable[[E], None], cancelled: Callable[[str], None]
    ) -> None:
        """Set the producer's callbacks: for consumed events, and for a cancellation by
        the consumer, which is called at once if it has already happened."""
        self.on_consumed, self._on_cancel = consumed, cancelled
        if self._cancelled is not None:
            cancelled(self._cancelled)

    @property
    def heard_out(self) -> bool:
        """True if everything was consumed, or the consumer has left."""
        return self._left or not (self._events or self._handed)

    def when_heard_out(self, heard_out: Callable[[], None]) -> None:
        """Call this once everything was consumed, or the consumer has left; at once if
        that is so already. To be set after the last event."""
        self._on_heard_out = heard_out
        self._tell_heard_out()

    def _tell_heard_out(self) -> None:
        if self._on_heard_out is not None and self.heard_out:
            told, self._on_heard_out = self._on_heard_out, None
            told()

    @property
    def cancelled(self) -> str | None:
        """The consumer's reason to cancel it; None if it was not cancelled."""
        return self._cancelled

    def cancel(self, reason: str) -> None:
        """Have the producer stop for this reason. The first reason counts."""
        if self._cancelled is None:
            self._cancelled = reason
            if self._on_cancel is not None:
                self._on_cancel(reason)

    def leave(self) -> None:
        """Cancel the stream and `discard` its events, since the consumer leaves."""
        self.cancel("the listener left")
        self.discard()

    def discard(self) -> None:
        """Drop waiting and future events, so that no sender has to wait."""
        self._left = True
        self._events.clear()
        self._unpark_writers()
        self._readers.unpark_all()
        self._tell_heard_out()

    def acknowledge(self, *events: E) -> None:
        """Count these events as consumed; they are in the order they were handed out.

        From the first call on, asking for the next event consumes nothing. An event
        that was not handed out, or was acknowledged before, is ignored.
        """
        self._acknowledges = True
        for event in events:
            if not self._left and self._handed and self._handed[0] is event:
                self._consume()

    def _consume(self) -> None:
        consumed = self._handed.popleft()
        if self.on_consumed is not None:
            self.on_consumed(consumed)
        self._tell_heard_out()

    def __aiter__(self) -> Stream[E]:
        return self

    async def __anext__(self) -> E:
        if self._handed and not self._acknowledges:
            self._consume()
        if self._events or self._ended or self._left:
            await trio.lowlevel.checkpoint()
        while not self._events:
            if self._ended or self._left:
                raise StopAsyncIteration
            await self._readers.park()
        return self._hand_out()

    def _hand_out(self) -> E:
        event = self._events.popleft()
        self._handed.append(event)
        self._make_room()
        return event

    def _make_room(self) -> None:
        """Promise each free place to the sender that has waited longest: no sender that
        comes in between gets it."""
        # Usually nobody waits, and asking is cheaper than waking nobody.
        if self._writers:
            free = self.capacity - len(self._events) - self._promised
            if free > 0:
                self._promised += len(self._writers.unpark(count=free))
        if self._modest:
            self._modest.unpark_all()  # each checks for itself if there is room

    def _unpark_writers(self) -> None:
        self._promised += len(self._writers.unpark_all())
        self._modest.unpark_all()

    def statistics(self) -> StreamStatistics:
        return StreamStatistics(
            waiting=len(self._events),
            capacity=self.capacity,
            peak=self._peak,
            sent=self._sent,
        )
