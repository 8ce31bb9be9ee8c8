"""How long a tool takes: one number, for its tier and for admission (D1, G23)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from .definition import ToolDefinition
from .health import degraded
from .tier import Tier, TierLimits
from .window import LatencyWindow

ENOUGH_SAMPLES: Final = 5  # D1: then what was measured overrides what was declared
_FASTER: Final = (Tier.FAST, Tier.STANDARD)  # and all else is DEEP
HYSTERESIS: Final = 0.9  # D7: a faster tier is entered 10 % below its threshold


class TierBy(StrEnum):
    """Which statistic of the measurements is the estimate (D8, G40)."""

    P50 = "p50"
    P95 = "p95"
    ADAPTIVE = "adaptive"  # p95 when the window is bimodal, else p50


class Source(StrEnum):
    """Where an estimate comes from."""

    MEASURED = "measured"
    DECLARED = "declared"
    UNKNOWN = "unknown"


@attrs.frozen(kw_only=True)
class Estimate:
    """What a tool is reckoned to take, and where that places it. Times in seconds.

    Args:
      seconds: the one number; for an unknown tool the least that a DEEP one takes.
      tier: where it belongs, floor and degradation included.
      source: where ``seconds`` comes from.
      p50: measured median, also where too few samples make it the estimate.
      p99: likewise.
      samples: how many latency samples there are, cut calls included.
      degraded: why the tier is one slower than it was, in words; None if healthy.
      tier_by_number: the tier by the measured ``seconds`` alone, before floor and
        degradation, for the next estimate's ``previous``; None unless measured.
    """

    seconds: float
    tier: Tier
    source: Source
    p50: float | None
    p99: float | None
    samples: int
    degraded: str | None
    tier_by_number: Tier | None


def estimate(
    definition: ToolDefinition,
    window: LatencyWindow,
    *,
    now: float,
    limits: TierLimits,
    tier_by: TierBy = TierBy.P50,
    previous: Tier | None = None,
) -> Estimate:
    """What the tool is reckoned to take as of ``now``.

    A tool of which nothing is known is DEEP: nothing unproven is FAST. Hysteresis
    holds between measurements only: the step from declared or unknown to measured
    is new evidence, not noise, and takes the tier that the number says.

    Args:
      now: on the clock of the window's samples.
      previous: `Estimate.tier_by_number` of the estimate before this one.
    """
    samples = window.latency_count(now)
    measured = window.percentile(_rank(tier_by, window, now), now)
    by_number: Tier | None = None
    if measured is not None and samples >= ENOUGH_SAMPLES:
        source, seconds = Source.MEASURED, measured
        tier = by_number = _with_hysteresis(seconds, limits, previous)
    elif definition.estimated_duration is not None:
        source, seconds = Source.DECLARED, definition.estimated_duration
        tier = limits.tier_of(seconds)
    else:
        source, seconds, tier = Source.UNKNOWN, limits.standard_threshold, Tier.DEEP
    tier = max(tier, definition.min_tier)
    reason = degraded(window, now)
    return Estimate(
        seconds=seconds,
        tier=tier if reason is None else tier.slower(),
        source=source,
        p50=window.percentile(50, now),
        p99=window.percentile(99, now),
        samples=samples,
        degraded=reason,
        tier_by_number=by_number,
    )


def _rank(tier_by: TierBy, window: LatencyWindow, now: float) -> int:
    """The percentile that is the estimate."""
    match tier_by:
        case TierBy.P50:
            return 50
        case TierBy.P95:
            return 95
        case TierBy.ADAPTIVE:
            return 95 if window.bimodal(now) else 50


def _with_hysteresis(seconds: float, limits: TierLimits, previous: Tier | None) -> Tier:
    """The tier of ``seconds``; one faster than ``previous`` needs a clear margin."""
    for tier in _FASTER:
        margin = HYSTERESIS if previous is not None and tier < previous else 1.0
        if seconds <= limits.threshold(tier) * margin:
            return tier
    return Tier.DEEP
