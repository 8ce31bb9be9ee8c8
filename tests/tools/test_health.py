"""`degraded` against a restatement over a plain list. G24; D7, D9."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from glyphoxa_trio.tools.health import degraded
from glyphoxa_trio.tools.window import LatencyWindow, Sample, SampleKind

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind


def window_of(*kinds: SampleKind, probe: bool = False) -> LatencyWindow:
    window = LatencyWindow()
    for kind in kinds:
        window.record(Sample(kind, 1.0, 0.0, probe))
    return window


class HealthMachine(RuleBasedStateMachine):
    """Letters in a list: s(uccess), f(ailed), t(imeout), - (nothing of health)."""

    @initialize(size=st.sampled_from([4, 12, 25]))
    def open_window(self, size: int) -> None:
        self.window = LatencyWindow(size, expiry=60.0)
        self.ring: list[tuple[str, float]] = []
        self.now = 0.0

    @rule(
        kinds=st.lists(st.sampled_from(SampleKind), min_size=1, max_size=8),
        probe=st.sampled_from([False, False, False, True]),
    )
    def record(self, kinds: list[SampleKind], probe: bool) -> None:
        letters = {OK: "s", TOOL_ERROR: "s", FAILED: "f", TIMEOUT: "t", CENSORED: "-"}
        for kind in kinds:
            self.window.record(Sample(kind, 1.0, self.now, probe))
            self.ring.append(("-" if probe else letters[kind], self.now))
            del self.ring[: -self.window.size]

    @rule(seconds=st.sampled_from([1.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def start_anew(self) -> None:
        self.window.start_health_anew()
        self.ring = [("-", at) for _, at in self.ring]

    @invariant()
    def degraded_says_why_exactly_when_it_is(self) -> None:
        calls = "".join(c for c, at in self.ring if self.now < at + 60 and c != "-")
        slow = calls[-10:].count("t")
        bad = len(calls) - calls.count("s")
        expected = None
        if slow >= 5:
            expected = f"{slow} of the last {min(10, len(calls))} calls ran into"
        elif len(calls) >= 10 and bad / len(calls) > 0.3:
            expected = f"{bad} of the last {len(calls)} calls failed"
        reason = degraded(self.window, self.now)
        assert (reason is None) == (expected is None)
        assert expected is None or (reason or "").startswith(expected)


TestHealth = HealthMachine.TestCase


@pytest.mark.parametrize(
    ("failed", "well", "expected"),
    [
        (9, 0, None),  # too few to speak of a rate
        (10, 0, "10 of the last 10 calls failed"),
        (3, 7, None),  # 30 % is not more than 30 %
        (4, 6, "4 of the last 10 calls failed"),
        (30, 70, None),
        (31, 69, "31 of the last 100 calls failed"),
    ],
)
def test_more_than_thirty_percent_failures_degrade(  # G24
    failed: int, well: int, expected: str | None
) -> None:
    window = window_of(*[FAILED] * failed, *[OK] * well)
    assert degraded(window, 1) == expected


def test_five_of_the_last_ten_at_their_limit_degrade() -> None:  # G24
    window = window_of(*[OK] * 50, *[OK, TIMEOUT] * 5)
    assert degraded(window, 1) == "5 of the last 10 calls ran into their limit"
    window.record(Sample(OK, 1.0, 0))
    assert degraded(window, 1) == "5 of the last 10 calls ran into their limit"
    window.record(Sample(OK, 1.0, 0))
    assert degraded(window, 1) is None


def test_five_timeouts_need_not_wait_for_ten_calls() -> None:
    assert degraded(window_of(*[TIMEOUT] * 4), 1) is None
    five = degraded(window_of(*[TIMEOUT] * 5), 1)
    assert five == "5 of the last 5 calls ran into their limit"


def test_a_tool_that_says_no_is_well() -> None:  # D6, D7
    assert degraded(window_of(*[TOOL_ERROR] * 100), 1) is None


@given(
    st.lists(
        st.tuples(st.sampled_from([OK, TOOL_ERROR, CENSORED]), st.integers(0, 11)),
        max_size=60,
    )
)
def test_a_tool_that_never_succeeds_is_degraded_unless_its_arguments_may_be_to_blame(
    calls: list[tuple[SampleKind, int]],
) -> None:
    # G24: each call is blamed on the tool, or on what it was asked
    window = LatencyWindow()
    for n, (kind, asked) in enumerate(calls):
        window.record(Sample(kind, 1.0, 0.0, arguments=asked))
        whole = calls[: n + 1]
        oks = [i for i, (kind, _) in enumerate(whole) if kind is OK]
        since = whole[max(oks, default=-1) + 1 :]
        errors = [asked for kind, asked in since if kind is TOOL_ERROR]
        good = {whole[i][1] for i in oks}
        again = sum(asked in good for asked in errors)
        others = len({asked for asked in errors if asked not in good})
        # A call cut by its turn says nothing, and changes nothing.
        if kind is TOOL_ERROR:
            assert bool(degraded(window, 1)) == (again + others >= 10)


def test_calls_cut_by_the_turn_are_neither_failures_nor_calls() -> None:  # D7
    assert degraded(window_of(*[CENSORED] * 100), 1) is None
    assert degraded(window_of(*[FAILED] * 9, *[CENSORED] * 20), 1) is None
    cut = window_of(*[FAILED] * 4, *[OK] * 6, *[CENSORED] * 80)
    assert degraded(cut, 1) == "4 of the last 10 calls failed"


def test_probes_never_count_towards_health() -> None:  # D9
    assert degraded(window_of(*[TIMEOUT] * 20, probe=True), 1) is None


def test_a_tool_recovers_as_its_window_rolls() -> None:  # G24: until it recovers
    window = window_of(*[FAILED] * 40)
    for _ in range(89):
        window.record(Sample(OK, 1.0, 0))
    assert degraded(window, 1) is None
    window = window_of(*[OK] * 60, *[FAILED] * 40)
    for _ in range(69):
        window.record(Sample(OK, 1.0, 0))
    assert degraded(window, 1) == "31 of the last 100 calls failed"
    window.record(Sample(OK, 1.0, 0))
    assert degraded(window, 1) is None


def test_old_failures_expire() -> None:
    window = window_of(*[FAILED] * 10)
    assert degraded(window, 86399) is not None
    assert degraded(window, 86400) is None


def test_starting_anew_forgives_and_keeps_latencies() -> None:  # D7
    window = window_of(*[OK] * 10, *[TIMEOUT] * 10)
    window.start_health_anew()
    assert degraded(window, 1) is None
    assert window.latency_count(1) == 20
