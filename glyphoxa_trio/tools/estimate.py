"""The estimate of a tool's duration: one number, for its tier and for admission."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

import attrs

from .definition import ToolDefinition
from .health import degraded
from .tier import Tier, TierLimits
from .window import LatencyWindow

ENOUGH_SAMPLES: Final = 5  # from here measurements override the declared duration
OWN_ALONE: Final = 20  # from here the samples of other processes count for nothing
_FASTER: Final = (Tier.FAST, Tier.STANDARD)  # all slower is DEEP
HYSTERESIS: Final = 0.9  # a faster tier is entered 10 % below its threshold
# A call that was cut after this part of a tier's ceiling had no time left in that tier:
# the rest of the time had passed before the call was sent.
_USED_UP: Final = 0.9


class TierBy(StrEnum):
    """The statistic of the measurements that is the estimate."""

    P50 = "p50"
    P95 = "p95"
    ADAPTIVE = "adaptive"  # p95 when the window is bimodal, else p50


class EstimateSource(StrEnum):
    """The source of an estimate."""

    MEASURED = "measured"
    ELSEWHERE = "elsewhere"  # measured, by other processes
    DECLARED = "declared"
    TRIAL = "trial"  # it is being tried, under the turn's clock
    UNKNOWN = "unknown"  # not known, and the configuration forbids trials


class Unknown(StrEnum):
    """The treatment of a tool with neither a declared nor a measured latency."""

    TRIAL = "trial"  # it is shown in every tier until it is measured
    DEEP = "deep"  # it is shown in DEEP turns alone


@attrs.frozen(kw_only=True)
class Estimate:
    """The expected duration of a tool, and its tier. Times in seconds.

    Args:
      seconds: the one number; for a tool on trial the time its server takes to answer
        anything, or the time after which its last call was cut.
      tier: its tier, minimum tier and degradation included.
      source: the source of ``seconds``.
      p50: median measured by this process, even if its samples are too few to be the
        estimate, or those of other processes are.
      p99: likewise.
      samples: the number of its latency samples, cut calls included.
      degraded: why the tier is one slower than it was, in words; None if healthy.
      tier_by_number: the tier by the measured ``seconds`` alone, before minimum and
        degradation, for the next estimate's ``previous``; None unless measured, here
        or elsewhere.
      bimodal: it has two speeds, and ``seconds`` is about the slower one.
      next_trial: seconds of its NPCs' turns until a tool that is hidden because of its
        measurements is tried again; None for every other tool.
    """

    seconds: float
    tier: Tier
    source: EstimateSource
    p50: float | None
    p99: float | None
    samples: int
    degraded: str | None
    tier_by_number: Tier | None
    bimodal: bool = False
    next_trial: float | None = None


def estimate(
    definition: ToolDefinition,
    window: LatencyWindow,
    *,
    now: float,
    limits: TierLimits,
    tier_by: TierBy = TierBy.P50,
    unknown: Unknown = Unknown.TRIAL,
    previous: Estimate | None = None,
    others: LatencyWindow | None = None,
) -> Estimate:
    """Return the estimate of the tool's duration as of ``now``.

    A tool of unknown duration is on trial: the turn's clock ends its calls anyway, so
    it is shown in every tier as if it took no longer than its server takes to answer
    anything. A call that was cut by the clock moves it out of that tier, until a later
    one ends sooner. Hysteresis applies between measurements only: the step from
    declared or unknown to measured is new evidence, not noise, and takes the tier by
    the number.

    Args:
      now: on the clock of the window's samples.
      previous: the estimate before this one.
      others: the samples of other processes. They are used while there are more of
        them than of this process's own, and these are few. They say nothing of health.
    """
    samples = window.latency_count(now)
    chosen, count, known = window, samples, EstimateSource.MEASURED
    if others is not None and samples < OWN_ALONE:
        there = others.latency_count(now)
        if there >= max(ENOUGH_SAMPLES, samples + 1):
            chosen, count, known = others, there, EstimateSource.ELSEWHERE
    bimodal = tier_by is TierBy.ADAPTIVE and chosen.bimodal(
        now, before=previous is not None and previous.bimodal
    )
    measured = None
    if count >= ENOUGH_SAMPLES:
        late = bimodal or tier_by is TierBy.P95
        measured = chosen.percentile(95 if late else 50, now)
    by_number: Tier | None = None
    if measured is not None:
        source, seconds = known, measured
        if chosen.only_cut_after(measured):
            seconds = _beyond(measured, limits)
        # The many quick calls of a tool that has become slow would hide that for long.
        least = window.least_lately(ENOUGH_SAMPLES, now)
        if least is not None:
            seconds = max(seconds, _beyond(least, limits))
        before = None if previous is None else previous.tier_by_number
        tier = by_number = _with_hysteresis(seconds, limits, before)
    elif definition.estimated_duration is not None:
        source, seconds = EstimateSource.DECLARED, definition.estimated_duration
        tier = limits.tier_of(seconds)
    elif unknown is Unknown.DEEP:
        source, seconds, tier = (
            EstimateSource.UNKNOWN,
            limits.standard_threshold,
            Tier.DEEP,
        )
    else:
        source, seconds = EstimateSource.TRIAL, definition.round_trip
        if (cut := window.longest_cut(now)) is not None:
            seconds = _beyond(math.nextafter(max(cut, seconds), math.inf), limits)
        tier = limits.tier_of(seconds)
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
        bimodal=bimodal,
    )


def _beyond(cut: float, limits: TierLimits) -> float:
    """Return ``cut``, or just above a tier's ceiling if ``cut`` almost fills it.

    A call that the clock of a FAST turn cut 480 ms after it was sent would be cut
    again, so it is not taken for one of 480 ms.
    """
    for tier in Tier:
        ceiling = limits.ceiling(tier)
        if _USED_UP * ceiling <= cut <= ceiling:
            return math.nextafter(ceiling, math.inf)
    return cut


def _with_hysteresis(seconds: float, limits: TierLimits, previous: Tier | None) -> Tier:
    """Return the tier; one faster than ``previous`` needs a clear margin."""
    for tier in _FASTER:
        margin = HYSTERESIS if previous is not None and tier < previous else 1.0
        if seconds <= limits.threshold(tier) * margin:
            return tier
    return Tier.DEEP
