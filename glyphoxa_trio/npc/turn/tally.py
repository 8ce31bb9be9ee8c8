"""Counters of how speculations ended."""

from __future__ import annotations

from collections import Counter

import attrs

from glyphoxa_trio.npc.events import SpeculationDone, SpeculationEnd


@attrs.frozen(kw_only=True)
class SpeculationStatistics:
    """The number of speculations, and how much of their work was wasted.

    Args:
      ends: the number of speculations by the way they ended; only adopted ones were
        useful.
      calls: the tool calls that were started; each is used or wasted in the end.
      calls_used, calls_wasted: how many of them were used, and wasted.
      head_start: the time by which adopted speculations began before their turns, in
        seconds, in all.
      wasted: the time of models and tools that was of no use, in seconds, in all.
    """

    ends: dict[SpeculationEnd, int]
    calls: int
    calls_used: int
    calls_wasted: int
    head_start: float
    wasted: float

    @property
    def begun(self) -> int:
        """The number of speculations, which is the number of requests to models.

        Running ones are not counted yet.
        """
        return sum(self.ends.values())

    @property
    def adopted(self) -> int:
        """The number of speculations that a turn adopted."""
        return self.ends.get(SpeculationEnd.ADOPTED, 0)

    @property
    def rounds_wasted(self) -> int:
        """The number of requests to models that were of no use."""
        return self.begun - self.adopted

    @property
    def hit_rate(self) -> float:
        """The share of speculations that a turn adopted; 0 if there were none."""
        return self.adopted / self.begun if self.begun else 0.0


@attrs.define(eq=False)
class Tally:
    """Counts how speculations ended."""

    _ends: Counter[SpeculationEnd] = attrs.field(factory=Counter, init=False)
    _calls: int = attrs.field(default=0, init=False)
    _calls_used: int = attrs.field(default=0, init=False)
    _head_start: float = attrs.field(default=0.0, init=False)
    _wasted: float = attrs.field(default=0.0, init=False)

    def add(self, done: SpeculationDone) -> None:
        """Count a speculation that has ended."""
        self._ends[done.end] += 1
        self._calls += done.calls
        self._calls_used += done.calls_used
        self._head_start += done.head_start
        self._wasted += done.wasted

    def statistics(self) -> SpeculationStatistics:
        """Return the counters."""
        return SpeculationStatistics(
            ends=dict(self._ends),
            calls=self._calls,
            calls_used=self._calls_used,
            calls_wasted=self._calls - self._calls_used,
            head_start=self._head_start,
            wasted=self._wasted,
        )
