"""`estimate`: one number for tier and admission.

Rows G16, G20, G22, G23, G24, G40; decisions D1, D7, D8.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, Source, TierBy, estimate
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier, TierLimits
from glyphoxa_trio.tools.window import LatencyWindow, Sample, SampleKind

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind
FAST, STANDARD, DEEP = Tier

tiers = st.sampled_from(Tier)
statistics = st.sampled_from(TierBy)
durations = st.floats(min_value=0, max_value=6)
declarations = st.floats(min_value=0.001, max_value=6)
histories = st.lists(st.tuples(st.sampled_from(SampleKind), durations), max_size=100)
limits = st.lists(st.floats(0.05, 5), min_size=2, max_size=2).map(
    lambda pair: TierLimits(fast_threshold=min(pair), standard_threshold=max(pair))
)


def window_of(*samples: tuple[SampleKind, float]) -> LatencyWindow:
    window = LatencyWindow()
    for kind, seconds in samples:
        window.record(Sample(kind, seconds, at=0.0))
    return window


def reckon(
    *samples: tuple[SampleKind, float],
    declared: float | None = None,
    floor: Tier = FAST,
    tier_by: TierBy = TierBy.P50,
    previous: Tier | None = None,
    limits: TierLimits = DEFAULT_LIMITS,
) -> Estimate:
    return estimate(
        ToolDefinition(name="look", estimated_duration=declared, min_tier=floor),
        window_of(*samples),
        now=1.0,
        limits=limits,
        tier_by=tier_by,
        previous=previous,
    )


@pytest.mark.parametrize(
    ("seconds", "tier"),
    [(0.5, FAST), (0.5001, STANDARD), (1.5, STANDARD), (1.5001, DEEP), (3.9, DEEP)],
)
def test_the_number_decides_the_tier(seconds: float, tier: Tier) -> None:  # G16, G23
    declared = reckon(declared=seconds)
    assert (declared.seconds, declared.tier) == (seconds, tier)
    assert declared.source is Source.DECLARED
    measured = reckon(*[(OK, seconds)] * 5)
    assert (measured.seconds, measured.tier) == (seconds, tier)
    assert measured.source is Source.MEASURED


def test_measured_overrides_declared_from_five_samples_on() -> None:  # G22, D1
    four = reckon(*[(OK, 0.1)] * 4, (FAILED, 0.1), (TOOL_ERROR, 0.1), declared=2.0)
    assert (four.source, four.seconds, four.tier) == (Source.DECLARED, 2.0, DEEP)
    assert (four.p50, four.p99, four.samples) == (
        0.1,
        0.1,
        4,
    )  # G20: shown all the same
    five = reckon(*[(OK, 0.1)] * 5, declared=2.0)
    assert (five.source, five.seconds, five.tier) == (Source.MEASURED, 0.1, FAST)


def test_nothing_unproven_is_fast() -> None:  # D1
    unknown = reckon()
    assert (unknown.source, unknown.tier) == (Source.UNKNOWN, DEEP)
    assert unknown.seconds == 1.5
    assert (unknown.p50, unknown.p99, unknown.samples) == (None, None, 0)


def test_a_tool_always_cut_by_fast_turns_leaves_fast() -> None:  # D7
    cut = reckon(*[(CENSORED, 0.5)] * 5, declared=0.1)
    assert (cut.source, cut.tier) == (Source.MEASURED, STANDARD)
    assert cut.seconds == math.nextafter(0.5, 1)


def test_a_floor_holds_however_fast_it_measures() -> None:  # D1
    fast = reckon(*[(OK, 0.01)] * 9, floor=STANDARD)
    assert (fast.seconds, fast.tier, fast.tier_by_number) == (0.01, STANDARD, FAST)


def test_a_degraded_tool_is_one_tier_slower_and_its_number_stays() -> None:  # G24
    sick = reckon(*[(OK, 0.1)] * 6, *[(FAILED, 0.1)] * 4)
    assert (sick.seconds, sick.tier, sick.tier_by_number) == (0.1, STANDARD, FAST)
    assert sick.degraded == "4 of the last 10 calls failed"
    # Also from its floor up, or a floor would hide every degradation.
    assert reckon(*[(FAILED, 0.1)] * 10, declared=0.1, floor=STANDARD).tier is DEEP
    assert reckon(*[(FAILED, 0.1)] * 10).tier is DEEP


def test_a_faster_tier_needs_ten_percent_and_a_slower_one_nothing() -> None:  # D7
    def tier(seconds: float, previous: Tier | None) -> Tier:
        return reckon(*[(OK, seconds)] * 5, previous=previous).tier

    assert tier(0.46, None) is FAST
    assert tier(0.46, FAST) is FAST
    assert tier(0.46, STANDARD) is STANDARD
    assert tier(0.45, STANDARD) is FAST
    assert tier(0.501, FAST) is STANDARD
    assert tier(1.4, DEEP) is DEEP
    assert tier(1.35, DEEP) is STANDARD
    assert tier(0.46, DEEP) is STANDARD  # clears one threshold, not the other
    assert tier(0.45, DEEP) is FAST
    assert tier(1.6, FAST) is DEEP


def test_what_was_never_measured_leaves_no_hysteresis() -> None:
    assert reckon(declared=2.0).tier_by_number is None
    assert reckon().tier_by_number is None
    assert reckon(declared=0.49, previous=DEEP).tier is FAST


def test_degradation_is_not_carried_into_the_hysteresis() -> None:
    sick = reckon(*[(OK, 0.48)] * 6, *[(FAILED, 0.1)] * 4)
    assert sick.tier is STANDARD
    healed = reckon(*[(OK, 0.48)] * 10, previous=sick.tier_by_number)
    assert healed.tier is FAST


@pytest.mark.parametrize(
    ("tier_by", "slow", "seconds"),
    [
        (TierBy.P50, 20, 0.1),
        (TierBy.P95, 20, 1.0),
        (TierBy.ADAPTIVE, 20, 1.0),  # two modes
        (TierBy.P95, 6, 1.0),
        (TierBy.ADAPTIVE, 6, 0.1),  # some outliers
    ],
)
def test_which_statistic_is_the_number(  # G40, D8
    tier_by: TierBy, slow: int, seconds: float
) -> None:
    samples = [*[(OK, 0.1)] * (100 - slow), *[(OK, 1.0)] * slow]
    assert reckon(*samples, tier_by=tier_by).seconds == seconds


# Properties.


@given(
    st.lists(st.tuples(durations, st.floats(0, 3)), min_size=5, max_size=100),
    st.sampled_from([TierBy.P50, TierBy.P95]),
    limits,
    st.none() | tiers,
)
def test_slower_calls_never_give_a_faster_tier(
    calls: list[tuple[float, float]],
    tier_by: TierBy,
    limits: TierLimits,
    previous: Tier | None,
) -> None:
    before, after = (
        reckon(
            *((OK, seconds + late * more) for seconds, more in calls),
            tier_by=tier_by,
            limits=limits,
            previous=previous,
        )
        for late in (0, 1)
    )
    assert after.seconds >= before.seconds
    assert after.tier >= before.tier


@given(histories, st.floats(1, 4), limits, st.sampled_from([TierBy.P50, TierBy.P95]))
def test_a_tool_slower_by_a_factor_is_never_in_a_faster_tier(
    history: list[tuple[SampleKind, float]],
    factor: float,
    limits: TierLimits,
    tier_by: TierBy,
) -> None:
    # With cut calls: slowing single ones can change whom the estimator still
    # watches, so only slowing them all is a law.
    slower = [(kind, seconds * factor) for kind, seconds in history]
    before = reckon(*history, limits=limits, tier_by=tier_by)
    after = reckon(*slower, limits=limits, tier_by=tier_by)
    assert after.seconds >= before.seconds
    assert after.tier >= before.tier


@given(
    histories, statistics, limits, tiers, st.none() | tiers, st.none() | declarations
)
def test_floor_health_and_hysteresis_only_ever_slow_down(
    history: list[tuple[SampleKind, float]],
    tier_by: TierBy,
    limits: TierLimits,
    floor: Tier,
    previous: Tier | None,
    declared: float | None,
) -> None:
    window = window_of(*history)

    def now(floor: Tier = floor, previous: Tier | None = previous) -> Estimate:
        definition = ToolDefinition(
            name="look", estimated_duration=declared, min_tier=floor
        )
        return estimate(
            definition,
            window,
            now=1.0,
            limits=limits,
            tier_by=tier_by,
            previous=previous,
        )

    found = now()
    assert found.tier >= floor
    assert found.tier >= now(floor=FAST).tier
    assert found.tier >= now(previous=None).tier >= limits.tier_of(found.seconds)
    window.start_health_anew()
    well = now()
    assert well.seconds == found.seconds
    assert found.tier is (well.tier.slower() if found.degraded else well.tier)


@given(
    limits,
    st.sampled_from([FAST, STANDARD]),
    st.lists(st.floats(0.901, 1.099), min_size=1, max_size=30),
    st.none() | tiers,
)
def test_a_number_that_wavers_around_a_threshold_changes_its_tier_once(
    limits: TierLimits, around: Tier, wavering: list[float], previous: Tier | None
) -> None:
    # The other threshold is kept out of the way.
    limits = TierLimits(
        fast_threshold=limits.fast_threshold,
        standard_threshold=limits.standard_threshold + limits.fast_threshold,
    )
    seen: list[Tier] = []
    for factor in wavering:
        seconds = limits.threshold(around) * factor
        if around is FAST and seconds > 0.9 * limits.standard_threshold:
            continue
        if around is STANDARD and seconds <= limits.fast_threshold:
            continue
        found = reckon(*[(OK, seconds)] * 5, limits=limits, previous=previous)
        previous = found.tier_by_number
        seen.append(found.tier)
    assert sum(a is not b for a, b in pairwise(seen)) <= 1
