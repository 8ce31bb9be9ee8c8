"""What measurements say about `tier_by`: G40, D8. Against shares counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import TierBy, estimate
from glyphoxa_trio.tools.recommendation import (
    ENOUGH,
    TOLERATED,
    Evidence,
    evidence,
    recommend,
    share_beyond,
)
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier
from glyphoxa_trio.tools.window import LatencyWindow, Sample, SampleKind

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind
P50, P95, ADAPTIVE = TierBy.P50, TierBy.P95, TierBy.ADAPTIVE

Call = tuple[SampleKind, float]


def window_of(*calls: Call) -> LatencyWindow:
    window = LatencyWindow()
    for kind, seconds in calls:
        window.record(Sample(kind, seconds, at=0.0))
    return window


def judged(*calls: Call, min_tier: Tier = Tier.FAST) -> Evidence:
    definition = ToolDefinition(name="look", min_tier=min_tier)
    found = evidence(definition, window_of(*calls), 1.0, DEFAULT_LIMITS)
    assert found is not None
    return found


def tiers(found: Evidence) -> dict[str, tuple[str, float]]:
    return {
        str(tier_by): (str(choice.tier), choice.beyond)
        for tier_by, choice in found.choices.items()
    }


TWO_SPEEDS = [*[(OK, 0.2)] * 70, *[(OK, 3.0)] * 30]


def test_a_tool_that_no_statistic_has_room_for_is_told_of_once() -> None:
    # Found: its line ended "best is p50", and the sentence below that it needs more.
    found = judged(*[(OK, 0.805)] * 20, *[(CENSORED, 4.0)] * 3)
    assert not found.kept
    assert found.text.endswith("; none has room for it")
    said = recommend([found], ADAPTIVE)[1]
    assert ": adaptive stays; 1 would under any: what helps is a longer" in said


def test_a_tool_of_two_speeds_is_for_adaptive() -> None:  # G40
    found = judged(*TWO_SPEEDS)
    assert found.bimodal
    assert tiers(found) == {
        "p50": ("fast", pytest.approx(0.3)),
        "adaptive": ("deep", 0.0),
        "p95": ("deep", 0.0),
    }
    assert found.recommended is ADAPTIVE
    assert found.text == (
        "two speeds: p50 (200 ms) makes it fast, where 30 % of its calls take longer"
        " than 500 ms; adaptive (3000 ms) and p95 (3000 ms) make it deep, where 0 % of"
        " its calls take longer than 4000 ms; best is adaptive"
    )


def test_the_same_tool_is_told_by_calls_that_were_cut() -> None:  # D7
    found = judged(*[(OK, 0.2)] * 70, *[(CENSORED, 0.5)] * 30)
    assert found.bimodal
    assert found.choices[P50].beyond == pytest.approx(0.3)
    assert found.choices[ADAPTIVE].tier is Tier.STANDARD
    # How long they take after that nobody has seen.
    assert found.choices[ADAPTIVE].beyond == pytest.approx(0.3)


def test_a_quick_tool_is_for_what_asks_for_the_least() -> None:
    found = judged(*[(OK, 0.1)] * 30)
    assert (found.recommended, found.bimodal, found.kept) == (P50, False, True)
    assert found.text == (
        "one speed: p50 (100 ms) and adaptive (100 ms) and p95 (100 ms) make it fast,"
        " where 0 % of its calls take longer than 500 ms; best is p50"
    )


def test_a_wide_tool_around_a_ceiling_is_for_p95() -> None:
    found = judged(*((OK, 0.2 + n * 0.005) for n in range(100)))
    assert not found.bimodal
    assert found.choices[P50].tier is found.choices[ADAPTIVE].tier is Tier.FAST
    assert found.choices[P50].beyond == pytest.approx(0.39)
    assert (found.recommended, found.choices[P95].beyond) == (P95, 0.0)


def test_what_no_statistic_helps_is_said() -> None:
    found = judged(*[(OK, 3.0)] * 15, *[(TIMEOUT, 10.0)] * 15)
    assert (found.recommended, found.kept) == (P50, False)
    best, said = recommend([found], P50)
    assert best is P50
    assert "1 would under any: what helps is a longer ceiling" in said


def test_a_floor_counts() -> None:
    found = judged(*TWO_SPEEDS, min_tier=Tier.DEEP)
    assert found.recommended is P50
    assert found.choices[P50].tier is Tier.DEEP


def test_one_percent_is_tolerated_and_more_is_not() -> None:
    assert judged(*[(OK, 0.1)] * 99, (OK, 3.0)).recommended is P50
    assert judged(*[(OK, 0.1)] * 98, *[(OK, 3.0)] * 2).kept is False


@pytest.mark.parametrize(("calls", "known"), [(ENOUGH - 1, False), (ENOUGH, True)])
def test_a_few_calls_are_no_evidence(calls: int, known: bool) -> None:
    window = window_of(*[(OK, 0.1)] * calls, *[(FAILED, 0.1)] * 50)
    found = evidence(ToolDefinition(name="x"), window, 1.0, DEFAULT_LIMITS)
    assert (found is not None) is known


def test_what_is_expired_is_no_evidence() -> None:
    window = window_of(*TWO_SPEEDS)
    definition = ToolDefinition(name="x")
    assert evidence(definition, window, 86399.0, DEFAULT_LIMITS) is not None
    assert evidence(definition, window, 86400.0, DEFAULT_LIMITS) is None


def test_one_statistic_is_recommended_for_all_tools() -> None:  # G40
    quick, two = judged(*[(OK, 0.1)] * 30), judged(*TWO_SPEEDS)
    best, said = recommend([quick, two], P50)
    assert best is ADAPTIVE
    assert said == (
        "of 2 tools with 20 measured calls or more, 1 overrun the ceiling of their"
        " tier under p50 (the worst in 30 % of its calls), 0 under adaptive: set"
        " calibration.tier_by to adaptive"
    )
    assert recommend([quick, two], ADAPTIVE)[1].endswith(": adaptive is right")
    for configured in TierBy:  # which is as good as any
        assert recommend([quick], configured)[0] is configured


def test_without_evidence_everything_stays() -> None:
    best, said = recommend([], P95)
    assert best is P95
    assert said.startswith("tier_by stays p95: no tool has the 20 measured calls")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(SampleKind), st.sampled_from([0.1, 0.3, 0.5, 0.6, 2.0, 5.0])
        ),
        max_size=100,
    ),
    st.sampled_from([0.2, 0.5, 1.5]),
)
def test_the_share_beyond_is_that_of_the_window(calls: list[Call], at: float) -> None:
    """The percentile of the window and the share are two views of one estimator."""
    window = window_of(*calls)
    share = share_beyond(window, at, 1.0)
    assert 0.0 <= share <= 1.0
    ended = [s for kind, s in calls if kind in (OK, TIMEOUT)]
    if not any(kind is CENSORED for kind, _ in calls):
        late = sum(s > at for s in ended)
        assert share == pytest.approx(late / len(ended) if ended else 1.0)
    for p in range(1, 101):
        reached = window.percentile(p, 1.0)
        if reached in ended:  # else it only says that it is longer than any cut
            # By then p % have ended: so beyond it there are no more than the rest.
            assert (reached <= at) == (share <= 1 - p / 100 + 1e-9)


@given(st.lists(st.sampled_from([0.05, 0.2, 0.45, 0.7, 1.2, 3.0]), min_size=20))
def test_the_recommended_one_is_never_worse_than_another(seconds: list[float]) -> None:
    calls = [(OK, x) for x in seconds[-100:]]
    found = judged(*calls)
    window, definition = window_of(*calls), ToolDefinition(name="look")
    best = found.choices[found.recommended].beyond
    for tier_by, choice in found.choices.items():
        assert best <= max(TOLERATED, choice.beyond)
        made = estimate(
            definition, window, now=1.0, limits=DEFAULT_LIMITS, tier_by=tier_by
        )
        assert (choice.tier, choice.seconds) == (made.tier, made.seconds)
