"""Count the turns that run, so that other work can wait and overload can be refused."""

from __future__ import annotations

from typing import Protocol

import attrs

from glyphoxa_trio.actors import Signal


class Admission(Protocol):
    """Decides whether one more turn may begin. Asked once for each turn that would."""

    @property
    def busy(self) -> bool:
        """True if work that has no waiter (probes, speculation) should wait."""
        ...

    def refusal(self, running: int) -> str:
        """Return why no turn may begin beside this many; empty if it may."""
        ...


@attrs.define(eq=False)
class Activity:
    """The running turns, counted by every session of a runtime.

    `quiet` waits until there is none, `begun` until there is one.

    Args:
      door: decides whether a turn may begin; without one every turn may.
    """

    door: Admission | None = None
    running: int = attrs.field(default=0, init=False)
    # The running turns that are work of this process. The answers that a model gives
    # without being asked are not: they are audio that is passed on.
    working: int = attrs.field(default=0, init=False)
    _ended: Signal = attrs.field(factory=Signal, init=False)
    _began: Signal = attrs.field(factory=Signal, init=False)

    @property
    def busy(self) -> bool:
        """True if work that has no waiter should wait."""
        return self.door is not None and self.door.busy

    def refusal(self) -> str:
        """Return why a turn may not begin now; a refused turn does not call `begin`."""
        return "" if self.door is None else self.door.refusal(self.working)

    def begin(self, *, works: bool = True) -> None:
        """Record that a turn begins. ``works``: it is work of this process."""
        self.running += 1
        self.working += works
        self._began.set()

    def end(self, *, works: bool = True) -> None:
        """Record that a turn has ended. ``works`` is as when it began."""
        self.running -= 1
        self.working -= works
        if not self.running:
            self._ended.set()

    async def quiet(self) -> None:
        """Wait until no turn runs.

        Returns even if another turn begins at the moment when the last one ends: the
        caller must stop its work when a turn begins.
        """
        await self._ended.until(lambda: not self.running)

    async def begun(self) -> None:
        """Wait until a turn runs."""
        await self._began.until(lambda: self.running > 0)
