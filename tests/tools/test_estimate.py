"""`estimate`: one number for tier and admission.

Rows G16, G20, G22, G23, G24, G40; decisions D1, D7, D8.
"""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import (
    Estimate,
    EstimateSource,
    TierBy,
    Unknown,
    estimate,
)
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


def placed(tier: Tier | None) -> Estimate | None:
    """An estimate before this one, which its number had placed in ``tier``."""
    return None if tier is None else before_it(tier)


def before_it(tier: Tier) -> Estimate:
    return Estimate(
        seconds=1.0,
        tier=tier,
        source=EstimateSource.MEASURED,
        p50=1.0,
        p99=1.0,
        samples=5,
        degraded=None,
        tier_by_number=tier,
    )


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
        previous=placed(previous),
    )


@pytest.mark.parametrize(
    ("seconds", "tier"),
    [(0.5, FAST), (0.5001, STANDARD), (1.5, STANDARD), (1.5001, DEEP), (3.9, DEEP)],
)
def test_the_number_decides_the_tier(seconds: float, tier: Tier) -> None:  # G16, G23
    declared = reckon(declared=seconds)
    assert (declared.seconds, declared.tier) == (seconds, tier)
    assert declared.source is EstimateSource.DECLARED
    measured = reckon(*[(OK, seconds)] * 5)
    assert (measured.seconds, measured.tier) == (seconds, tier)
    assert measured.source is EstimateSource.MEASURED


def test_measured_overrides_declared_from_five_samples_on() -> None:  # G22, D1
    four = reckon(*[(OK, 0.1)] * 4, (FAILED, 0.1), (TOOL_ERROR, 0.1), declared=2.0)
    assert (four.source, four.seconds, four.tier) == (
        EstimateSource.DECLARED,
        2.0,
        DEEP,
    )
    assert (four.p50, four.p99, four.samples) == (
        0.1,
        0.1,
        4,
    )  # G20: shown all the same
    five = reckon(*[(OK, 0.1)] * 5, declared=2.0)
    assert (five.source, five.seconds, five.tier) == (
        EstimateSource.MEASURED,
        0.1,
        FAST,
    )


def on_trial(*samples: tuple[SampleKind, float], round_trip: float = 0.02) -> Estimate:
    definition = ToolDefinition(name="look", round_trip=round_trip)
    window = window_of(*samples)
    return estimate(definition, window, now=1.0, limits=DEFAULT_LIMITS)


def test_an_unknown_tool_is_tried_in_every_tier() -> None:  # D1a
    unknown = on_trial()
    assert (unknown.source, unknown.tier, unknown.seconds) == (
        EstimateSource.TRIAL,
        FAST,
        0.02,
    )
    assert (unknown.p50, unknown.p99, unknown.samples) == (None, None, 0)
    # Until five samples are there, whatever they say.
    assert on_trial(*[(OK, 0.7)] * 4).tier is FAST
    assert on_trial(*[(OK, 0.7)] * 5).tier is STANDARD


def test_an_unknown_tool_may_be_kept_for_deep_turns() -> None:  # D1a
    unknown = estimate(
        ToolDefinition(name="look"),
        window_of(),
        now=1.0,
        limits=DEFAULT_LIMITS,
        unknown=Unknown.DEEP,
    )
    assert (unknown.source, unknown.tier) == (EstimateSource.UNKNOWN, DEEP)
    assert unknown.seconds == 1.5


@pytest.mark.parametrize(
    ("samples", "tier", "fits"),
    [
        ([(CENSORED, 0.5)], STANDARD, True),
        ([(CENSORED, 0.47)], STANDARD, True),  # the rest went by before it was sent
        ([(CENSORED, 0.2)], FAST, True),  # it was cut in a turn that had no more left
        ([(CENSORED, 1.5)], DEEP, True),
        ([(CENSORED, 4.0)], DEEP, False),
        ([(CENSORED, 4.0), (CENSORED, 0.5)], DEEP, False),
        ([(TIMEOUT, 10.0)], DEEP, False),
        ([(CENSORED, 4.0), (OK, 0.03)], FAST, True),  # one good call beats it
        ([(CENSORED, 0.5), (OK, 3.0)], STANDARD, True),  # which that one does not
        ([(OK, 0.03), (CENSORED, 0.5)], STANDARD, True),
    ],
)
def test_a_trial_that_was_cut_leaves_the_tier_that_cut_it(
    samples: list[tuple[SampleKind, float]], tier: Tier, fits: bool
) -> None:  # D1a
    found = on_trial(*samples)
    assert (found.source, found.tier) == (EstimateSource.TRIAL, tier)
    assert (found.seconds <= DEFAULT_LIMITS.ceiling(tier)) is fits


def test_a_cut_just_before_the_ceiling_is_no_tool_that_fits() -> None:
    # Measured from its sending, 20 ms after the turn's clock had started.
    found = reckon(*[(CENSORED, 0.48)] * 9)
    assert (found.source, found.tier) == (EstimateSource.MEASURED, STANDARD)


def test_two_speeds_near_a_tenth_do_not_change_the_statistic_with_every_call() -> None:
    """G40, D8: `adaptive` has a hysteresis between its two statistics."""
    window, rng = LatencyWindow(), Random(7)
    previous: Estimate | None = None
    changes = 0
    for call in range(2000):
        seconds = 0.7 if rng.random() < 0.1 else 0.05
        window.record(Sample(OK, seconds, at=float(call)))
        found = estimate(
            ToolDefinition(name="look"),
            window,
            now=float(call),
            limits=DEFAULT_LIMITS,
            tier_by=TierBy.ADAPTIVE,
            previous=previous,
        )
        changes += previous is not None and previous.tier is not found.tier
        previous = found
    assert changes <= 12  # without it, about fifty


def test_a_tool_always_cut_by_fast_turns_leaves_fast() -> None:  # D7
    cut = reckon(*[(CENSORED, 0.5)] * 5, declared=0.1)
    assert (cut.source, cut.tier) == (EstimateSource.MEASURED, STANDARD)
    assert cut.seconds == math.nextafter(0.5, 1)


def test_a_quick_tool_that_five_turns_had_to_cut_leaves_their_tier() -> None:  # D7
    quick = [(OK, 0.7)] * 95
    for cuts, tier in ((4, STANDARD), (5, DEEP)):
        assert reckon(*quick, *[(CENSORED, 1.45)] * cuts).tier is tier
    # A call that ends in time readmits it; one that ends late does not.
    cut = [*quick, *[(CENSORED, 1.45)] * 5]
    assert reckon(*cut, (OK, 3.9)).tier is DEEP
    assert reckon(*cut, (OK, 0.7)).tier is STANDARD
    # In turns with little time left calls are cut, too; that says nothing of the tier.
    assert reckon(*quick, *[(CENSORED, 0.3)] * 5).seconds == 0.7


def test_a_floor_holds_however_fast_it_measures() -> None:  # D1
    fast = reckon(*[(OK, 0.01)] * 9, floor=STANDARD)
    assert (fast.seconds, fast.tier, fast.tier_by_number) == (0.01, STANDARD, FAST)


def test_a_degraded_tool_is_one_tier_slower_and_its_number_stays() -> None:  # G24
    sick = reckon(*[(OK, 0.1)] * 6, *[(FAILED, 0.1)] * 4)
    assert (sick.seconds, sick.tier, sick.tier_by_number) == (0.1, STANDARD, FAST)
    assert sick.degraded == "4 of the last 10 calls failed"
    # Also from its floor up, or a floor would hide every degradation.
    assert reckon(*[(FAILED, 0.1)] * 10, declared=0.1, floor=STANDARD).tier is DEEP
    assert reckon(*[(FAILED, 0.1)] * 10).tier is STANDARD


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
            previous=placed(previous),
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


def beside(own: int, others: int, *, cut: bool = False) -> Estimate:
    """The estimate of a tool with quick calls here and slow ones elsewhere."""
    return estimate(
        ToolDefinition(name="look", estimated_duration=3.0),
        window_of(*[(OK, 0.1)] * own),
        now=1.0,
        limits=DEFAULT_LIMITS,
        others=window_of(*[(CENSORED if cut else OK, 1.0)] * others),
    )


@pytest.mark.parametrize(
    ("own", "others", "source"),
    [
        (0, 4, EstimateSource.DECLARED),
        (0, 5, EstimateSource.ELSEWHERE),
        (4, 5, EstimateSource.ELSEWHERE),
        (5, 5, EstimateSource.MEASURED),
        (19, 20, EstimateSource.ELSEWHERE),
        (20, 100, EstimateSource.MEASURED),
    ],
)
def test_calls_elsewhere_count_while_there_are_few_here(
    own: int, others: int, source: EstimateSource
) -> None:
    known = beside(own, others)
    assert known.source is source
    seconds = {EstimateSource.ELSEWHERE: 1.0, EstimateSource.DECLARED: 3.0}
    assert known.seconds == seconds.get(source, 0.1)
    # They are never shown as its own.
    assert (known.samples, known.p50) == (own, 0.1 if own else None)


def test_calls_that_were_cut_elsewhere_are_longer_than_this() -> None:
    known = beside(0, 5, cut=True)
    assert (known.source, known.tier) == (EstimateSource.ELSEWHERE, STANDARD)
    assert known.seconds > 1.0


def test_failures_elsewhere_say_nothing_of_health() -> None:
    failing = window_of(*[(TIMEOUT, 0.1)] * 20)
    known = estimate(
        ToolDefinition(name="look"),
        window_of(),
        now=1.0,
        limits=DEFAULT_LIMITS,
        others=failing,
    )
    assert (known.tier, known.degraded) == (FAST, None)
