"""`LatencyWindow` against a plain list and the textbook. G22, G40; D7, D8, D9."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from glyphoxa_trio.tools.window import LatencyWindow, Sample, SampleKind

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind
PERCENTS = (1, 7, 50, 95, 99, 100)

# Few different values, so that ties are common, and some with awkward fractions.
durations = st.one_of(
    st.integers(0, 6).map(lambda n: n / 4), st.floats(min_value=0, max_value=60)
)


def window_of(*samples: tuple[SampleKind, float], size: int = 100) -> LatencyWindow:
    window = LatencyWindow(size)
    for kind, seconds in samples:
        window.record(Sample(kind, seconds, at=0.0))
    return window


def kaplan_meier(samples: list[Sample], p: int) -> float | None:
    """By definition: S(t) is the product over event times u <= t of 1 - d(u)/n(u)."""
    ended = [s.seconds for s in samples if s.kind in (OK, TIMEOUT)]
    cut = [s.seconds for s in samples if s.kind is CENSORED]
    if not ended + cut:
        return None
    survival = Fraction(1)
    for time in sorted(set(ended)):
        watched = sum(seconds >= time for seconds in ended + cut)
        survival *= 1 - Fraction(ended.count(time), watched)
        if 1 - survival >= Fraction(p, 100):
            return time
    return math.nextafter(max(cut), math.inf)


def nearest_rank(ended: list[float], p: int) -> float:
    """By definition: the least sample with at least p % of all samples <= it."""
    return min(x for x in ended if 100 * sum(y <= x for y in ended) >= p * len(ended))


def two_modes(samples: list[Sample]) -> bool | None:
    """By definition, every split tried; None if rounding would decide."""
    middle = kaplan_meier(samples, 50) or 0
    ended = [s.seconds for s in samples if s.kind in (OK, TIMEOUT)]
    cut = [s.seconds for s in samples if s.kind is CENSORED and s.seconds > middle]
    known = sorted([*ended, *(max(seconds, 2.001 * middle) for seconds in cut)])
    n = len(known)
    if n < 20:
        return False
    logs = [math.log(max(x, 0.001)) for x in known]

    def spread(values: list[float]) -> float:
        mean = math.fsum(values) / len(values)
        return math.fsum((x - mean) ** 2 for x in values)

    left = {at: spread(logs[:at]) + spread(logs[at:]) for at in range(1, n)}
    split = min(left, key=left.__getitem__)
    line = 0.2 * spread(logs)
    close = 1e-9 * (1 + line)
    if abs(left[split] - line) < close or any(
        at != split and left[at] - left[split] < close for at in left
    ):
        return None
    fast, slow = logs[:split], logs[split:]
    return (
        left[split] < line
        and min(len(fast), len(slow)) * 10 >= n
        and median(slow) - median(fast) >= math.log(2)
    )


class LatencyWindowMachine(RuleBasedStateMachine):
    """A list of all that was ever recorded, and every answer worked out afresh."""

    @initialize(size=st.integers(1, 30), expiry=st.sampled_from([3.0, 50.0, math.inf]))
    def open_window(self, size: int, expiry: float) -> None:
        self.window = LatencyWindow(size, expiry)
        self.everything: list[Sample] = []
        self.healthy_from = 0
        self.now = 1000.0

    def live(self, since: int = 0) -> list[Sample]:
        first = max(since, len(self.everything) - self.window.size)
        return [
            s
            for s in self.everything[max(0, first) :]
            if self.now - s.at < self.window.expiry
        ]

    @rule(
        kind=st.sampled_from(SampleKind),
        seconds=durations,
        probe=st.booleans(),
        ago=st.sampled_from([0.0, 0.0, 0.0, 2.0]),
    )
    def record(self, kind: SampleKind, seconds: float, probe: bool, ago: float) -> None:
        sample = Sample(kind, seconds, self.now - ago, probe)
        self.window.record(sample)
        self.everything.append(sample)

    @rule(
        calls=st.lists(
            st.tuples(
                st.sampled_from([OK, OK, OK, *SampleKind]),
                durations,
                st.sampled_from([-4.0, 0.0, 0.0, 0.5, 30.0]),
            ),
            max_size=40,
        )
    )
    def record_many_before_anybody_asks(
        self, calls: list[tuple[SampleKind, float, float]]
    ) -> None:
        for kind, seconds, later in calls:
            self.now += later
            self.record(kind, seconds, probe=False, ago=0.0)

    @rule(seconds=st.sampled_from([0.5, 1.0, 40.0, -1.0, -60.0]))
    def time_passes_or_the_clock_is_set_back(self, seconds: float) -> None:
        self.now += seconds

    @rule(expiry=st.sampled_from([3.0, 50.0, math.inf]))
    def other_settings(self, expiry: float) -> None:
        self.window.expiry = expiry

    @rule()
    def start_health_anew(self) -> None:
        self.window.start_health_anew()
        self.healthy_from = len(self.everything)

    @rule(ago=st.sampled_from([-1.0, 0.0, 0.5, 2.0, 40.0]))
    def withdraw(self, ago: float) -> None:
        since = self.now - ago
        first = max(0, len(self.everything) - self.window.size)
        held = list(enumerate(self.everything))[first:]
        kept = [(at, s) for at, s in held if s.at < since or s.probe]
        assert self.window.withdraw(since) is (len(kept) < len(held))
        if len(kept) < len(held):
            self.healthy_from = sum(at < self.healthy_from for at, _ in kept)
            self.everything = [s for _, s in kept]

    @rule()
    def forget(self) -> None:
        self.window.forget()
        self.everything, self.healthy_from = [], 0

    @invariant()
    def holds_the_latest_and_none_expired(self) -> None:
        assert self.window.samples(self.now) == self.live()

    @invariant()
    def health_looks_at_calls_since_it_started_anew(self) -> None:
        assert self.window.health_samples(self.now) == [
            s
            for s in self.live(self.healthy_from)
            if s.kind is not CENSORED and not s.probe
        ]

    @invariant()
    def percentiles_are_the_product_limit(self) -> None:
        live = self.live()
        counted = [s for s in live if s.kind in (OK, TIMEOUT, CENSORED)]
        assert self.window.latency_count(self.now) == len(counted)
        found = [self.window.percentile(p, self.now) for p in PERCENTS]
        assert found == [kaplan_meier(live, p) for p in PERCENTS]

    @invariant()
    def failures_are_counted(self) -> None:
        ring = self.everything[-self.window.size :]
        assert self.window.failures == sum(s.kind.is_failure for s in ring)

    @invariant()
    def modes_are_those_of_all_that_is_known(self) -> None:
        expected = two_modes(self.live())
        assert expected is None or self.window.bimodal(self.now) is expected

    @invariant()
    def percentiles_grow(self) -> None:  # p99 >= p50, always
        found = [self.window.percentile(p, self.now) for p in PERCENTS]
        if None not in found:
            assert found == sorted(x for x in found if x is not None)


TestLatencyWindow = LatencyWindowMachine.TestCase


@given(
    st.lists(st.tuples(st.sampled_from([OK, TIMEOUT]), durations), min_size=1),
    st.integers(1, 100),
)
def test_without_cut_calls_a_percentile_is_the_nearest_rank(
    samples: list[tuple[SampleKind, float]], p: int
) -> None:
    window = window_of(*samples)
    assert window.percentile(p, 1) == nearest_rank([s for _, s in samples], p)


def test_the_rank_is_exact_where_floats_would_round_up() -> None:
    window = window_of(*((OK, float(n)) for n in range(1, 101)))
    assert [window.percentile(p, 1) for p in (1, 7, 29, 57, 58, 99, 100)] == [
        1, 7, 29, 57, 58, 99, 100,
    ]  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from([OK, CENSORED]), durations), min_size=1),
    st.integers(1, 100),
)
def test_with_cut_calls_every_percentile_is_the_product_limit(
    samples: list[tuple[SampleKind, float]], p: int
) -> None:
    window = window_of(*samples)
    assert window.percentile(p, 1) == kaplan_meier(window.samples(1), p)


def test_the_product_limit_is_exact_where_floats_would_round_up() -> None:
    # A cut call before all others halves nothing: the ranks are those of the rest.
    for p in range(1, 101):
        window = window_of((CENSORED, 0.5), *((OK, float(n)) for n in range(1, 100)))
        assert window.percentile(p, 1) == -(-p * 99 // 100)


@pytest.mark.parametrize("p", [0, 101, -1])
def test_a_percentile_outside_1_to_100_is_refused(p: int) -> None:
    with pytest.raises(ValueError, match="1 to 100"):
        LatencyWindow().percentile(p, 0)


def test_an_empty_window_has_no_percentile_and_no_modes() -> None:
    window = LatencyWindow()
    assert window.percentile(50, 0) is None
    assert window.latency_count(0) == 0
    assert not window.bimodal(0)


def test_a_full_window_forgets_the_past() -> None:  # G22: the last 100
    window = window_of((OK, 9.0), *[(OK, 0.25)] * 99)
    assert window.percentile(100, 1) == 9.0
    window.record(Sample(OK, 0.25, at=0))
    assert window.percentile(100, 1) == 0.25


def test_every_kind_of_call_takes_a_place_in_the_one_ring() -> None:  # D7
    window = window_of((OK, 9.0), (TOOL_ERROR, 1.0), (FAILED, 1.0), size=2)
    assert window.latency_count(1) == 0


def test_only_what_ran_or_hit_its_own_limit_is_a_latency() -> None:  # D7
    window = window_of((OK, 1.0), (TIMEOUT, 2.0), (TOOL_ERROR, 7.0), (FAILED, 9.0))
    assert window.latency_count(1) == 2
    assert window.percentile(100, 1) == 2.0


def test_a_measurement_expires_at_its_age_and_not_before() -> None:  # D7: 24 h
    window = LatencyWindow()
    window.record(Sample(OK, 3.0, at=100.0))
    assert window.percentile(50, 100.0 + 86399) == 3.0
    assert window.percentile(50, 100.0 + 86400) is None


def test_a_tool_always_cut_at_half_a_second_takes_longer_than_that() -> None:  # D7
    window = window_of(*[(CENSORED, 0.5)] * 5)
    assert window.percentile(50, 1) == math.nextafter(0.5, 1)
    assert window.latency_count(1) == 5


def test_a_cut_call_counts_among_the_slower_ones() -> None:
    # Four calls; the cut one outlives 0.4 s, so S falls 3/4, 3/8, 0.
    window = window_of((OK, 0.1), (CENSORED, 0.4), (OK, 0.5), (OK, 0.6))
    assert [window.percentile(p, 1) for p in (25, 26, 62, 63)] == [0.1, 0.5, 0.5, 0.6]


def test_at_a_tie_the_call_that_ended_comes_before_the_one_that_was_cut() -> None:
    window = window_of((CENSORED, 0.5), (OK, 0.5))
    assert window.percentile(50, 1) == 0.5
    assert window.percentile(51, 1) == math.nextafter(0.5, 1)


@given(
    st.lists(st.tuples(st.just(OK) | st.just(CENSORED), durations), min_size=1),
    st.data(),
)
def test_cutting_a_call_never_makes_its_tool_look_faster(
    samples: list[tuple[SampleKind, float]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(samples) - 1))
    cut = [*samples[:at], (CENSORED, samples[at][1]), *samples[at + 1 :]]
    for p in PERCENTS:
        before = window_of(*samples).percentile(p, 1)
        after = window_of(*cut).percentile(p, 1)
        assert before is not None
        assert after is not None
        assert after >= before


@pytest.mark.parametrize("seconds", [-0.001, math.inf, math.nan])
def test_a_sample_that_is_no_duration_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        Sample(OK, seconds, at=0)


# G40, D8: what counts as two modes.


@given(
    st.lists(
        st.tuples(
            st.sampled_from([(OK, 0.1), (OK, 0.15), (OK, 0.4), (OK, 3.0)])
            | st.sampled_from([(CENSORED, 0.12), (CENSORED, 0.5), (CENSORED, 1.5)]),
            st.sampled_from([3, 5, 10, 12, 30]),
        ),
        min_size=2,
        max_size=3,
        unique_by=lambda group: group[0],
    )
)
def test_modes_are_those_of_the_best_split(
    groups: list[tuple[tuple[SampleKind, float], int]],
) -> None:
    alike = [[sample] * count for sample, count in groups]
    window = window_of(*chain.from_iterable(alike))
    expected = two_modes(window.samples(1))
    assert expected is None or window.bimodal(1) is expected


@given(
    fast=st.floats(0.002, 1),
    ratio=st.floats(3, 1000),
    jitters=st.lists(st.floats(0.95, 1.05), min_size=20, max_size=100),
    share=st.floats(0, 1),
)
def test_two_speeds_far_apart_are_two_modes(
    fast: float, ratio: float, jitters: list[float], share: float
) -> None:
    tenth = math.ceil(len(jitters) / 10)
    slow_ones = min(max(round(share * len(jitters)), tenth), len(jitters) - tenth)
    window = window_of(
        *(
            (OK, fast * x * (ratio if i < slow_ones else 1))
            for i, x in enumerate(jitters)
        )
    )
    assert window.bimodal(1)


@given(st.lists(st.floats(0.5, 0.99), max_size=100))
def test_speeds_within_a_factor_of_two_are_one_mode(seconds: list[float]) -> None:
    assert not window_of(*((OK, x) for x in seconds)).bimodal(1)


def test_two_speeds_that_are_close_are_one_mode_however_sharp() -> None:
    assert not window_of(*[(OK, 0.3)] * 30, *[(OK, 0.59)] * 30).bimodal(1)
    assert window_of(*[(OK, 0.3)] * 30, *[(OK, 0.61)] * 30).bimodal(1)


def test_an_even_spread_is_one_mode_however_wide() -> None:
    assert not window_of(*((OK, 0.01 * 1.05**n) for n in range(100))).bimodal(1)


@pytest.mark.parametrize(("slow", "expected"), [(9, False), (10, True), (90, True)])
def test_a_mode_holds_at_least_a_tenth_of_the_calls(slow: int, expected: bool) -> None:
    window = window_of(*[(OK, 0.1)] * (100 - slow), *[(OK, 2.0)] * slow)
    assert window.bimodal(1) is expected


@pytest.mark.parametrize(("calls", "expected"), [(19, False), (20, True)])
def test_fewer_than_twenty_calls_have_no_modes(calls: int, expected: bool) -> None:
    window = window_of(*[(OK, 0.1)] * 10, *[(OK, 2.0)] * (calls - 10))
    assert window.bimodal(1) is expected


def test_times_below_a_millisecond_are_all_the_same() -> None:
    assert not window_of(*[(OK, 0.0)] * 30, *[(OK, 0.0009)] * 30).bimodal(1)


def test_calls_cut_beyond_the_median_belong_to_the_slow_mode() -> None:
    assert window_of(*[(OK, 0.1)] * 30, *[(CENSORED, 0.5)] * 20).bimodal(1)


def test_calls_cut_early_make_no_fast_mode() -> None:
    assert not window_of(*[(OK, 0.5)] * 30, *[(CENSORED, 0.05)] * 20).bimodal(1)
