"""What speculation came to, counted."""

from __future__ import annotations

from collections import Counter

import attrs

from glyphoxa_trio.npc.events import SpeculationDone, SpeculationEnd


@attrs.frozen(kw_only=True)
class SpeculationStatistics:
    """What was begun on partial transcripts, and how much of it for nothing.

    Args:
      ends: how many ended in which way; only the adopted ones were of use.
      calls: tool calls that were begun; each is used or wasted in the end.
      head_start: seconds that adopted ones had begun before their turns, together.
      wasted: seconds of models and tools that nobody needed, together.
    """

    ends: dict[SpeculationEnd, int]
    calls: int
    calls_used: int
    calls_wasted: int
    head_start: float
    wasted: float

    @property
    def begun(self) -> int:
        """How many there were, that is, requests to models; those that run are not
        counted yet."""
        return sum(self.ends.values())

    @property
    def adopted(self) -> int:
        return self.ends.get(SpeculationEnd.ADOPTED, 0)

    @property
    def rounds_wasted(self) -> int:
        """Requests to models that nobody needed."""
        return self.begun - self.adopted

    @property
    def hit_rate(self) -> float:
        """The share of them that a turn adopted; 0 without any."""
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
        self._ends[done.end] += 1
        self._calls += done.calls
        self._calls_used += done.calls_used
        self._head_start += done.head_start
        self._wasted += done.wasted

    def statistics(self) -> SpeculationStatistics:
        return SpeculationStatistics(
            ends=dict(self._ends),
            calls=self._calls,
            calls_used=self._calls_used,
            calls_wasted=self._calls - self._calls_used,
            head_start=self._head_start,
            wasted=self._wasted,
        )
