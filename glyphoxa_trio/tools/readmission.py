"""The way back for a tool that measurement has put out of reach. Pure.

A tool that was slow once is hidden from the tiers that it was too slow for. No model
calls a hidden tool, so nobody would notice that it is well again. Therefore it is
shown once more where it used to be, after 1, 2 and then every 4 minutes, until one call
of it was made; the turn's clock bounds what that costs. One call that ends in time
beats all that was slow before. The minutes are those in which its NPCs have turns,
since nothing can be learnt while nobody talks. A trial that says nothing of the tool,
because it was interrupted, say, is none: the next call is it instead.

A tool of two speeds would be back after every lucky call. So each time that it is
hidden again within `RELAPSE` of its return, it needs twice as many good calls in a row
to come back, and waits twice as long for its trials. The calls in a row may follow
each other at once.
"""

from __future__ import annotations

from typing import Final

import attrs

from .estimate import Estimate, EstimateSource
from .tier import Tier, TierLimits

# Seconds of turns until the first trial, until the second, and between all later ones.
WAITS: Final = (60.0, 120.0, 240.0)
# Of the time between two showings to NPCs, at most so many seconds count as turns.
TURN: Final = 30.0
RELAPSE: Final = 3600.0
_MOST_NEEDED: Final = 32


def reach(estimate: Estimate, limits: TierLimits) -> int:
    """The fastest tier in whose turns there is room for the tool; one more than DEEP
    if there is room in none."""
    fits = estimate.seconds <= limits.ceiling(estimate.tier)
    return estimate.tier if fits else max(Tier) + 1


@attrs.define
class Readmission:
    """The wait of one hidden tool.

    Args:
      tier: where it used to be.
      needed: so many good calls in a row bring it back.
    """

    tier: Tier
    needed: int = 1
    good: int = attrs.field(default=0, init=False)
    waited: float = attrs.field(default=0.0, init=False)
    trials: int = attrs.field(default=0, init=False)
    open: bool = attrs.field(default=False, init=False)
    trying: bool = attrs.field(default=False, init=False)  # a trial has begun

    @property
    def left(self) -> float:
        """Seconds of its NPCs' turns until the next trial."""
        if self.open:
            return 0.0
        wait = WAITS[min(self.trials, len(WAITS) - 1)] * self.needed
        return max(0.0, wait - self.waited)

    def wait(self, seconds: float) -> bool:
        """Count so many seconds of its NPCs' turns; True if it is to be shown now."""
        self.waited += seconds
        if self.open or self.left > 0:
            return False
        self.open = True
        return True

    def hide(self) -> None:
        """It is not to be shown after all, before its next trial."""
        self.open = False

    def called(self) -> None:
        """Its trial call was made: hide it until the next trial, or until it is
        back."""
        if self.open:
            self.open, self.trying = False, True
            self.waited = 0.0
            self.trials += 1

    def said_nothing(self) -> None:
        """Its trial has ended without a sample: interrupted, or not wanted after all.
        It is still to be tried."""
        if self.trying:
            self.open, self.trying = True, False
            self.trials -= 1

    def judge(self, *, good: bool) -> bool:
        """A call has ended; True if that brings the tool back."""
        self.good = self.good + 1 if good else 0
        if self.good >= self.needed:
            return True
        if not good:
            # This call has measured it, and it is slow: a trial now would tell no more.
            self.waited = 0.0
        elif self.trying:
            self.open = True  # the next one may follow at once
        self.trying = False
        return False

    def again(self) -> int:
        """How many good calls it will need if it is hidden once more."""
        return min(2 * self.needed, _MOST_NEEDED)


def on_trial(estimate: Estimate, tier: Tier, round_trip: float) -> Estimate:
    """The estimate to publish while a hidden tool is shown once more in ``tier``."""
    return attrs.evolve(
        estimate,
        seconds=round_trip,
        tier=tier,
        source=EstimateSource.TRIAL,
        next_trial=0.0,
    )
