"""How many turns run now, for whoever must wait until none does (D16)."""

from __future__ import annotations

import attrs

import trio


@attrs.define(eq=False)
class Activity:
    """Counted by every session of a runtime. `quiet` waits for zero."""

    running: int = attrs.field(default=0, init=False)
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    def begin(self) -> None:
        self.running += 1

    def end(self) -> None:
        self.running -= 1
        if not self.running:
            self._ended.set()
            self._ended = trio.Event()

    async def quiet(self) -> None:
        """Return as soon as no turn runs.

        One that begins in the moment in which the last one ends counts: whoever
        waits puts an end to it.
        """
        while self.running:
            await self._ended.wait()
