"""How many turns run now: for whoever must wait until none does, and for whoever says
that no more of them can be served."""

from __future__ import annotations

from typing import Protocol

import attrs

from glyphoxa_trio.actors import Signal


class Admission(Protocol):
    """Says whether one more turn may begin. Asked once for each that would."""

    @property
    def busy(self) -> bool:
        """What nobody waits for (probes, speculation) had better wait itself."""
        ...

    def refusal(self, running: int) -> str:
        """Why no turn may begin beside so many; empty if it may."""
        ...


@attrs.define(eq=False)
class Activity:
    """Counted by every session of a runtime. `quiet` waits for zero, `begun` for more.

    Args:
      door: without one every turn may begin.
    """

    door: Admission | None = None
    running: int = attrs.field(default=0, init=False)
    # Of those that run, the ones that are this process's work: not the answers that a
    # model gives without being asked, which are audio that plays.
    working: int = attrs.field(default=0, init=False)
    _ended: Signal = attrs.field(factory=Signal, init=False)
    _began: Signal = attrs.field(factory=Signal, init=False)

    @property
    def busy(self) -> bool:
        return self.door is not None and self.door.busy

    def refusal(self) -> str:
        """Why a turn may not begin now; whoever is told so does not `begin`."""
        return "" if self.door is None else self.door.refusal(self.working)

    def begin(self, *, works: bool = True) -> None:
        self.running += 1
        self.working += works
        self._began.set()

    def end(self, *, works: bool = True) -> None:
        """``works`` as when it began."""
        self.running -= 1
        self.working -= works
        if not self.running:
            self._ended.set()

    async def quiet(self) -> None:
        """Return as soon as no turn runs.

        One that begins in the moment in which the last one ends counts: whoever
        waits puts an end to it.
        """
        await self._ended.until(lambda: not self.running)

    async def begun(self) -> None:
        """Return as soon as a turn runs."""
        await self._began.until(lambda: self.running > 0)
