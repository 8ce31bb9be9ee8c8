"""The signal: waiting for a change of state, without missing one.

A `trio.Event` happens once. State that changes again and again needs a new one each
time, and if it is created a step too early or too late, a change is missed. A `Signal`
is kept for as long as the state::

    work: deque[str] = deque()
    came = Signal()

    def put(item: str) -> None:
        work.append(item)
        came.set()

    async def take() -> str:
        await came.until(lambda: bool(work))
        return work.popleft()

`until` checks the state itself, so the time at which the signal was set does not
matter. Where there is no state to check, one reader may `take` the signal: it stays set
until then.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

import trio


@attrs.define(eq=False)
class Signal:
    """A signal that wakes all waiting tasks each time that it is set."""

    is_set: bool = attrs.field(default=False, init=False)
    _waiting: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def set(self) -> None:
        """Set the signal, and wake all waiting tasks. Never blocks."""
        self.is_set = True
        self._waiting.unpark_all()

    async def changed(self) -> None:
        """Wait until it is set the next time."""
        await self._waiting.park()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()`` is true; it is called at once and after each `set`.

        It is still true when this returns, since nothing else runs in between. There is
        no checkpoint if it is true at once.
        """
        while not holds():
            await self._waiting.park()

    async def take(self) -> None:
        """Wait until it was set since the last `take`. For one reader.

        If cancelled, it takes nothing. Always a checkpoint.
        """
        if self.is_set:
            await trio.lowlevel.checkpoint()
        while not self.is_set:
            await self._waiting.park()
        self.is_set = False
