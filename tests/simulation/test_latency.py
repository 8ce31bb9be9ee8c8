"""Latencies, stated and measured, as distributions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.simulation.latency import Latency, LatencyOrigin, Part, Stated


def test_a_long_tail_has_the_percentiles_it_states() -> None:
    latency = Stated(p50=0.4, p95=0.9).latency()
    assert latency.percentile(50) == pytest.approx(0.4, rel=0.01)
    assert latency.percentile(95) == pytest.approx(0.9, rel=0.01)


def test_a_mixture_has_its_shares() -> None:
    mixture = (Part(share=0.7, taking=0.2), Part(share=0.3, taking=3.0))
    latency = Stated(mixture=mixture).latency()
    assert (latency.percentile(70), latency.percentile(71)) == (0.2, 3.0)


@given(st.floats(0.001, 10), st.floats(1, 20))
def test_percentiles_never_shrink(p50: float, tail: float) -> None:
    latency = Stated(p50=p50, p95=p50 * tail).latency()
    found = [latency.percentile(p) for p in range(1, 101)]
    assert found == sorted(found)


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=50), st.integers())
def test_what_is_drawn_was_stated(seconds: list[float], seed: int) -> None:
    latency = Stated(samples_ms=tuple(seconds)).latency()
    assert latency.draw(random.Random(seed)) in seconds


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "give one of"),
        ({"exactly": 1.0, "samples_ms": (1.0,)}, "give one of"),
        ({"p50": 1.0}, "belong together"),
        ({"p50": 1.0, "p95": 0.5}, "below"),
        ({"mixture": (Part(share=0.5, taking=1.0),)}, "add up"),
        ({"mixture": (Part(share=0.0004, taking=1.0),) * 2500}, "at least 0.001"),
        ({"p50": 1e-10, "p95": 1e297}, "more than 10000 times"),
    ],
)
def test_nonsense_is_named(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Stated(**wrong)  # type: ignore[arg-type]


def test_measurements_are_what_they_were() -> None:
    latency = Latency.measured([x / 10 for x in range(10, 0, -1)])
    assert latency is not None
    assert latency.known is LatencyOrigin.MEASURED
    assert (latency.percentile(50), latency.percentile(100)) == (0.5, 1.0)


def test_cut_calls_are_longer_than_their_cut() -> None:
    # Half were cut at 0.5 s: the upper half is at least that, not 0.2.
    latency = Latency.measured([0.2] * 10, [0.5] * 10)
    assert latency is not None
    assert latency.percentile(50) == 0.2
    assert latency.percentile(60) > 0.5


def test_nothing_measured_is_no_latency() -> None:
    assert Latency.measured([]) is None
