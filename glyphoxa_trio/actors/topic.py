"""Publish and subscribe, with a policy for subscribers that cannot keep up.

Publishing never waits: observers must not slow down the code that they observe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import Generic, TypeVar

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.units import many

from .told import tell

E = TypeVar("E")
Kinds = type[object] | tuple[type[object], ...]


class Lagged(GlyphoxaError):
    """This subscriber fell too far behind and was cut off."""


class Lag(StrEnum):
    """The policy of a full subscription for one more event."""

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    CUT_OFF = "cut_off"  # iteration raises Lagged after what still waits


@attrs.define(eq=False)
class Subscription(Generic[E]):
    """One subscriber's events, in order; ``missed`` counts those it lost."""

    capacity: int = attrs.field(validator=attrs.validators.ge(1))
    lag: Lag
    only: Kinds = object
    missed: int = 0
    _events: deque[E] = attrs.field(factory=deque, init=False)
    _arrived: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )
    _closed: bool = attrs.field(default=False, init=False)
    _cut_off: bool = attrs.field(default=False, init=False)

    def __aiter__(self) -> Subscription[E]:
        return self

    async def __anext__(self) -> E:
        """Wait for the next event and return it.

        Raises:
          Lagged: after the last event before the cut, under `Lag.CUT_OFF`.
        """
        await trio.lowlevel.checkpoint()
        while not self._events:
            if self._cut_off:
                raise Lagged(f"{many(self.missed, 'event')} missed")
            if self._closed:
                raise StopAsyncIteration
            await self._arrived.park()
        return self._events.popleft()

    def _offer(self, event: E) -> None:
        if not isinstance(event, self.only):
            return
        if self._cut_off:
            self.missed += 1
            return
        if len(self._events) >= self.capacity:
            self.missed += 1
            if self.lag is Lag.CUT_OFF:
                self._cut_off = True
            if self.lag is not Lag.DROP_OLDEST:
                return
            self._events.popleft()
        self._events.append(event)
        self._arrived.unpark()

    def _close(self) -> None:
        self._closed = True
        self._arrived.unpark_all()


@attrs.define(eq=False)
class Topic(Generic[E]):
    """Events for any number of subscribers; without any, publishing costs nothing."""

    _subscriptions: list[Subscription[E]] = attrs.field(factory=list, init=False)
    _taps: list[Callable[[E], None]] = attrs.field(factory=list, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    def publish(self, event: E) -> None:
        """Hand ``event`` to every subscriber, at once, without waiting.

        After `close` it is dropped.
        """
        if self._closed:
            return
        for tap in tuple(self._taps):
            tell(tap, event)
        for subscription in self._subscriptions:
            subscription._offer(event)

    @contextmanager
    def subscribe(
        self,
        *,
        capacity: int = 256,
        lag: Lag = Lag.DROP_OLDEST,
        only: Kinds = object,
    ) -> Generator[Subscription[E]]:
        """Receive the events published inside the block, at most ``capacity`` behind.

        Args:
          only: events of these types; others neither wake the reader nor take the
            place of one that waits for it.
        """
        subscription: Subscription[E] = Subscription(capacity, lag, only)
        if self._closed:
            subscription._close()
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)
            subscription._close()

    @contextmanager
    def tap(self, told: Callable[[E], None]) -> Generator[None]:
        """Have ``told`` called with each event in the moment it is published.

        For code that compares an event with the state of that moment: it runs in the
        publisher's task, so it must not block. An exception of it goes to the log.
        """
        self._taps.append(told)
        try:
            yield
        finally:
            self._taps.remove(told)

    def close(self) -> None:
        """Publish no more: subscribers read the waiting events, and end."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription._close()
