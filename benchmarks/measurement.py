"""The cost of measuring: to record a call, and to ask for percentiles.

Promised: recording one call of a tool and asking for its p50, p95 and p99 takes at
most 5 µs together (p50), also when three calls of ten are cut by the turn's clock
and count as "longer than this". It happens on every call of every tool.

Measured: a full `LatencyWindow` of 100 samples, each call timed by itself, from its
sample's making to the third percentile. The latencies are a mixture: seven of ten
take about 200 ms, three about 3 s. Against: a bare deque of 100, to which a number
is added, and which is sorted for the same three ranks: what needs no thought, and
knows of no cut call, no expiry and no kind.

    nothing cut             every call measured to its end
    cut at the ceiling      the slow ones cut at 500 ms, as turns of the tier FAST do
    cut anywhere            half of all calls cut, at any time: the worst that is
    estimate                tier, health and hysteresis too: `estimate`, as the
                            calibrator asks on every call
    estimate, adaptive      as before with `tier_by: adaptive`, which looks for modes
    restored, 100 samples   a window filled again, as at the start of a process
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from time import perf_counter

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import TierBy, estimate
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS
from glyphoxa_trio.tools.window import LatencyWindow, Sample, SampleKind

SIZE = 100
RANKS = (50, 95, 99)
CEILING = 0.5  # seconds, of the tier FAST
EVERY = 0.3  # seconds between two calls

Draw = Callable[[random.Random], tuple[SampleKind, float]]


def measure(quick: bool) -> list[Figure]:
    n = 2_000 if quick else 50_000
    return [
        _windows("nothing cut", _mixture, n),
        _windows("cut at the ceiling", _cut_at_the_ceiling, n),
        _windows("cut anywhere", _cut_anywhere, n),
        _estimates("estimate", TierBy.P50, n),
        _estimates("estimate, adaptive", TierBy.ADAPTIVE, n),
        _restored(n // 100),
    ]


def _windows(name: str, draw: Draw, n: int) -> Figure:
    """``n`` calls of a tool, and as many numbers in a bare deque, alternating."""
    window, ring = LatencyWindow(SIZE), deque[float](maxlen=SIZE)
    took: list[float] = []
    bare: list[float] = []
    for at, (kind, seconds) in enumerate(_calls(draw, n + SIZE)):
        now = at * EVERY
        begun = perf_counter()
        window.record(Sample(kind, seconds, now))
        for p in RANKS:
            window.percentile(p, now)
        took.append(perf_counter() - begun)
        begun = perf_counter()
        ring.append(seconds)
        ordered = sorted(ring)
        for p in RANKS:
            ordered[-(-p * len(ordered) // 100) - 1]
        bare.append(perf_counter() - begun)
    return figure(name, took[SIZE:], unit="µs", bare=bare[SIZE:])


def _estimates(name: str, tier_by: TierBy, n: int) -> Figure:
    window, tool = LatencyWindow(SIZE), ToolDefinition(name="look_up")
    took: list[float] = []
    previous = None
    for at, (kind, seconds) in enumerate(_calls(_mixture, n + SIZE)):
        now = at * EVERY
        begun = perf_counter()
        window.record(Sample(kind, seconds, now))
        found = estimate(
            tool,
            window,
            now=now,
            limits=DEFAULT_LIMITS,
            tier_by=tier_by,
            previous=previous,
        )
        took.append(perf_counter() - begun)
        previous = found
    return figure(name, took[SIZE:], unit="µs")


def _restored(n: int) -> Figure:
    samples = [
        Sample(kind, seconds, at * EVERY)
        for at, (kind, seconds) in enumerate(_calls(_mixture, SIZE))
    ]
    took: list[float] = []
    for _ in range(n):
        window = LatencyWindow(SIZE)
        begun = perf_counter()
        for sample in samples:
            window.record(sample)
        took.append(perf_counter() - begun)
    return figure("restored, 100 samples", took, unit="µs")


def _calls(draw: Draw, n: int) -> list[tuple[SampleKind, float]]:
    rng = random.Random(7)
    return [draw(rng) for _ in range(n)]


def _mixture(rng: random.Random) -> tuple[SampleKind, float]:
    centre = 0.2 if rng.random() < 0.7 else 3.0
    return SampleKind.OK, centre * rng.lognormvariate(0, 0.1)


def _cut_at_the_ceiling(rng: random.Random) -> tuple[SampleKind, float]:
    kind, seconds = _mixture(rng)
    if seconds > CEILING:
        return SampleKind.CENSORED, CEILING + 0.002 * rng.random()
    return kind, seconds


def _cut_anywhere(rng: random.Random) -> tuple[SampleKind, float]:
    return rng.choice((SampleKind.OK, SampleKind.CENSORED)), rng.uniform(0, 3)


BENCHMARK = Benchmark(
    name="measurement",
    promise="a call is recorded and asked for three percentiles within 5 µs (p50)",
    measure=measure,
    budgets=(
        Budget(figure="nothing cut", statistic="p50", at_most=5),
        Budget(figure="cut at the ceiling", statistic="p50", at_most=5),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
