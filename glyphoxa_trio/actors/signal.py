"""Waiting for a change of state, without a change that is missed.

A `trio.Event` happens once. State that changes again and again needs a new one each
time, and whoever makes it a step too early or too late misses a change. A `Signal` is
kept for as long as the state::

    work: deque[str] = deque()
    came = Signal()

    def put(item: str) -> None:
        work.append(item)
        came.set()

    async def take() -> str:
        await came.until(lambda: bool(work))
        return work.popleft()

`until` looks at the state itself, so it does not matter when the signal was set. Where
there is no state to look at, one reader may `take` the signal: it is remembered until
then.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

import trio


@attrs.define(eq=False)
class Signal:
    """Wakes who waits each time that it is set."""

    is_set: bool = attrs.field(default=False, init=False)
    _waiting: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def set(self) -> None:
        """Something changed: wake everybody. Never blocks."""
        self.is_set = True
        self._waiting.unpark_all()

    async def changed(self) -> None:
        """Wait until it is set the next time."""
        await self._waiting.park()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()``, which is asked at once and after each `set`.

        It holds when this returns, since nothing else runs in between. No checkpoint
        if it holds at once.
        """
        while not holds():
            await self._waiting.park()

    async def take(self) -> None:
        """Wait until it was set since the last `take`. For one reader.

        Cancelled, it takes nothing. Always a checkpoint.
        """
        if self.is_set:
            await trio.lowlevel.checkpoint()
        while not self.is_set:
            await self._waiting.park()
        self.is_set = False
