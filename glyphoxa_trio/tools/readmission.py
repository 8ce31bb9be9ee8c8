"""The readmission of a tool that is hidden because of its measurements. Pure.

A tool that was slow once is hidden from the tiers that it was too slow for. No model
calls a hidden tool, so its recovery would not be noticed. Therefore it is shown again
in its old tier, after 1, 2 and then every 4 minutes, until one call of it was made; the
turn's clock limits the cost. One call that ends in time outweighs all slow ones before.
The minutes are those in which its NPCs have turns, since there is nothing to learn
while no player talks. A trial without a sample, because it was interrupted, say, does
not count: the next call is the trial instead.

A tool of two speeds would return after every lucky call. So each time that it is hidden
again within `RELAPSE` of its return, it needs twice as many good calls in a row to
return, and waits twice as long for its trials. The calls in a row may follow each other
at once.
"""

from __future__ import annotations

from typing import Final

import attrs

from .estimate import Estimate, EstimateSource
from .tier import Tier, TierLimits

# Seconds of turns until the first trial, until the second, and between all later ones.
WAITS: Final = (60.0, 120.0, 240.0)
# At most this much of the time between two showings to NPCs counts as turns. Seconds.
TURN: Final = 30.0
RELAPSE: Final = 3600.0
_MOST_NEEDED: Final = 32


def reach(estimate: Estimate, limits: TierLimits) -> int:
    """Return the fastest tier whose turns have room for the tool; one more than DEEP if
    none has."""
    fits = estimate.seconds <= limits.ceiling(estimate.tier)
    return estimate.tier if fits else max(Tier) + 1


@attrs.define
class Readmission:
    """The wait of one hidden tool for its trials.

    Args:
      tier: the tier in which it is to be tried.
      needed: the number of good calls in a row that readmit it.
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
        """Count seconds of its NPCs' turns; return True if it is due to be shown."""
        self.waited += seconds
        if self.open or self.left > 0:
            return False
        self.open = True
        return True

    def hide(self) -> None:
        """Hide it again, until its next trial."""
        self.open = False

    def called(self) -> None:
        """Note that its trial call was made: hide it until the next trial, or until it
        is readmitted."""
        if self.open:
            self.open, self.trying = False, True
            self.waited = 0.0
            self.trials += 1

    def said_nothing(self) -> None:
        """Note that its trial has ended without a sample: interrupted, or dropped. The
        trial is still due."""
        if self.trying:
            self.open, self.trying = True, False
            self.trials -= 1

    def judge(self, *, good: bool) -> bool:
        """Record the end of a call; return True if that readmits the tool."""
        self.good = self.good + 1 if good else 0
        if self.good >= self.needed:
            return True
        if not good:
            # This call has measured that it is slow: a trial now would tell no more.
            self.waited = 0.0
        elif self.trying:
            self.open = True  # the next one may follow at once
        self.trying = False
        return False

    def again(self) -> int:
        """Return the number of good calls it needs if it is hidden again."""
        return min(2 * self.needed, _MOST_NEEDED)


def on_trial(estimate: Estimate, tier: Tier, round_trip: float) -> Estimate:
    """Return the estimate to publish while a hidden tool is shown in ``tier``."""
    return attrs.evolve(
        estimate,
        seconds=round_trip,
        tier=tier,
        source=EstimateSource.TRIAL,
        next_trial=0.0,
    )
