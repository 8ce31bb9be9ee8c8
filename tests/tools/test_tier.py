"""The figures of the tiers, and what may be configured about them (G16, G23, G39)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.tier import (
    DEFAULT_LIMITS,
    Tier,
    TierLimits,
    badge,
)


def test_tiers_are_ordered_and_named_in_small_letters() -> None:
    assert Tier.FAST < Tier.STANDARD < Tier.DEEP
    assert [str(tier) for tier in Tier] == ["fast", "standard", "deep"]


@pytest.mark.parametrize("tier", Tier)
def test_a_tier_reads_its_own_name_in_any_case(tier: Tier) -> None:
    assert Tier.parse(str(tier)) is tier
    assert Tier.parse(f" {tier.name} \n") is tier


@pytest.mark.parametrize("text", ["", "quick", "0", "fast,deep", "FASTER"])
def test_an_unknown_tier_is_refused_with_the_three_that_exist(text: str) -> None:
    with pytest.raises(ValueError, match="one of fast, standard, deep") as caught:
        Tier.parse(text)
    assert repr(text) in str(caught.value)


def test_slower_goes_one_step_and_stops_at_deep() -> None:
    assert [tier.slower() for tier in Tier] == [Tier.STANDARD, Tier.DEEP, Tier.DEEP]


@pytest.mark.parametrize(
    ("seconds", "tier"),
    [
        (0.0, Tier.FAST),
        (0.5, Tier.FAST),
        (0.500001, Tier.STANDARD),
        (1.5, Tier.STANDARD),
        (1.500001, Tier.DEEP),
        (float("inf"), Tier.DEEP),
    ],
)
def test_a_threshold_belongs_to_the_faster_tier(seconds: float, tier: Tier) -> None:
    assert DEFAULT_LIMITS.tier_of(seconds) is tier  # G23, D1


def test_ceilings_and_thresholds_are_those_of_the_seeds() -> None:  # G16
    assert [DEFAULT_LIMITS.ceiling(tier) for tier in Tier] == [0.5, 1.5, 4.0]
    assert [DEFAULT_LIMITS.threshold(tier) for tier in Tier] == [0.5, 1.5, float("inf")]


@given(st.floats(0, 10), st.floats(0.1, 5), st.floats(0, 5))
def test_a_tool_is_within_the_threshold_of_its_tier_and_of_none_before(
    seconds: float, fast: float, more: float
) -> None:
    limits = TierLimits(fast_threshold=fast, standard_threshold=fast + more)
    tier = limits.tier_of(seconds)
    assert seconds <= limits.threshold(tier)
    assert all(seconds > limits.threshold(other) for other in Tier if other < tier)


@pytest.mark.parametrize(
    "limits",
    [
        {"fast_threshold": 0.0},
        {"deep_ceiling": -1.0},
        {"standard_ceiling": float("nan")},
        {"fast_threshold": 2.0},
        {"fast_ceiling": 2.0},
        {"deep_ceiling": 1.0},
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"threshold|ceiling"):
        TierLimits(**limits)


def test_tiers_may_have_equal_limits() -> None:
    limits = TierLimits(fast_threshold=1.5, fast_ceiling=1.5)
    assert limits.tier_of(1.5) is Tier.FAST


@pytest.mark.parametrize(
    ("p50", "name"),
    [
        (0.0, "Lightning"),
        (0.049, "Lightning"),
        (0.05, "Fast"),
        (0.199, "Fast"),
        (0.2, "Standard"),
        (0.999, "Standard"),
        (1.0, "Slow"),
        (60.0, "Slow"),
    ],
)
def test_badges_begin_at_their_figures(p50: float, name: str) -> None:  # G39
    assert badge(p50) == name
