"""Counts of what a worker does, for its beats and for Prometheus. Pure, no clock.

What players say is in none of them, and the values of their labels are few: reasons,
ends and results.
"""

from __future__ import annotations

from collections import Counter, deque
from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.npc.events import TurnEnd
from glyphoxa_trio.observability.figures import Histogram

from .messages import RefusalReason

# The goal is 10 ms; a worker that is late by 200 ms takes itself to have stood still.
LATE: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""The bounds of the histogram of the loop's lateness, in seconds."""

WAKES: Final = 300
"""The last steps of the loop of which a beat has the 99th percentile: half a minute."""

SHED_OVER: Final = 120
"""The last beats over which the share of turns that were shed is taken: a minute."""


class ClaimResult(StrEnum):
    """The ways in which a claim ends. ``TAKEN``: with the leave to take the session
    from a worker that a client had found silent. ``ELSEWHERE``: another worker has it.
    """

    FREE = "free"
    TAKEN = "taken"
    ELSEWHERE = "elsewhere"
    FAILED = "failed"


@attrs.define(eq=False)
class WorkerSignals:
    """The counts of one worker, since it began.

    Args:
      claims: by how they ended.
      restores: claims of sessions that a worker has had before.
      fenced: sessions that were lost because another worker has claimed them: the next
        write was refused.
      turns: that are over, by how they ended; ``lost`` are those of lost sessions.
      refusals: utterances and other requests that were refused, by reason.
      stood_still: how often the worker found that it had stood still.
      late: how late each step of its loop was, ten times a second, in seconds.
    """

    claims: Counter[ClaimResult] = attrs.field(factory=Counter, init=False)
    restores: int = attrs.field(default=0, init=False)
    fenced: int = attrs.field(default=0, init=False)
    turns: Counter[TurnEnd] = attrs.field(factory=Counter, init=False)
    refusals: Counter[str] = attrs.field(factory=Counter, init=False)
    stood_still: int = attrs.field(default=0, init=False)
    late: Histogram = attrs.field(factory=lambda: Histogram(LATE), init=False)
    _wakes: deque[float] = attrs.field(factory=lambda: deque(maxlen=WAKES), init=False)
    # Of the last beats: how many turns there had been, and how many were shed.
    _beats: deque[tuple[int, int]] = attrs.field(
        factory=lambda: deque([(0, 0)], maxlen=SHED_OVER + 1), init=False
    )
    _still: bool = attrs.field(default=False, init=False)

    @property
    def claimed(self) -> int:
        """The number of sessions that were claimed."""
        return self.claims[ClaimResult.FREE] + self.claims[ClaimResult.TAKEN]

    @property
    def late_p99(self) -> float:
        """The seconds that 99 of the last 100 steps were not later than."""
        wakes = sorted(self._wakes)
        return wakes[-(-len(wakes) * 99 // 100) - 1] if wakes else 0.0

    @property
    def shed(self) -> float:
        """The share of the turns of the last minute that were shed."""
        (turns_then, shed_then), (turns, shed) = self._beats[0], self._totals()
        return (shed - shed_then) / (turns - turns_then) if turns > turns_then else 0.0

    def _totals(self) -> tuple[int, int]:
        refused = self.refusals[RefusalReason.SHED]
        return self.turns.total() + refused, self.turns[TurnEnd.SHED] + refused

    def claim_ended(self, result: ClaimResult, epoch: int = 0) -> None:
        """Count a claim; ``epoch``: the one that it has got."""
        self.claims[result] += 1
        self.restores += epoch > 1

    def lost(self) -> None:
        """Count a session that another worker has claimed."""
        self.fenced += 1

    def turn_ended(self, end: TurnEnd) -> None:
        """Count a turn."""
        self.turns[end] += 1

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self.refusals[reason] += 1

    def woke(self, late: float, *, still: bool) -> None:
        """Count a step of the loop, so many seconds late. ``still``: the worker takes
        itself to have stood still."""
        self.late.add(late)
        self._wakes.append(late)
        self.stood_still += still and not self._still
        self._still = still

    def beat(self) -> None:
        """Begin the next part of the minute over which shares are taken."""
        self._beats.append(self._totals())
