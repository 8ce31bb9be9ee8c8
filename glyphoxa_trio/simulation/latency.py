"""Latencies of tools, as distributions that can be drawn from. Pure; seconds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from enum import StrEnum
from statistics import NormalDist
from typing import Final

import attrs

from glyphoxa_trio.config.fields import InMs, above_zero, if_given, not_empty
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.window import LatencyWindow, Sample, SampleKind

# So many quantiles stand for a distribution: enough for a p99.
_RESOLUTION: Final = 1000
_P95: Final = NormalDist().inv_cdf(0.95)
# No tool's tail is as long, and beyond it numbers end.
_LONGEST_TAIL: Final = 10_000


class LatencyOrigin(StrEnum):
    """The source of a latency."""

    STATED = "stated"  # in the file of the simulation
    MEASURED = "measured"  # by this installation
    DECLARED = "declared"  # by the tool's author or the configuration: one number
    UNKNOWN = "unknown"  # not at all: the tool is on trial, and taken for quick


def _share(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError("must be a share between 0 and 1")


@attrs.frozen(kw_only=True)
class Part:
    """One of several speeds of a tool: ``share`` of its calls take so long."""

    share: float = attrs.field(validator=_share)
    taking: InMs


@attrs.frozen(kw_only=True)
class Stated:
    """A latency as a file states it, in one of four ways.

    Args:
      exactly: every call takes this long.
      p50, p95: a long-tailed (log-normal) latency with these percentiles.
      mixture: several speeds, such as a cache's hits and misses.
      samples_ms: as measured elsewhere; each is as likely as the others.
      fails: the share of calls that break down in the end.

    Raises:
      ValueError: unless it is one of the four, and makes sense.
    """

    exactly: InMs | None = None
    p50: InMs | None = attrs.field(default=None, validator=if_given(above_zero))
    p95: InMs | None = attrs.field(default=None, validator=if_given(above_zero))
    mixture: tuple[Part, ...] = ()
    samples_ms: tuple[InMs, ...] = ()
    fails: float = attrs.field(default=0.0, validator=_share)

    def __attrs_post_init__(self) -> None:
        ways = (
            self.exactly is not None,
            self.p50 is not None or self.p95 is not None,
            bool(self.mixture),
            bool(self.samples_ms),
        )
        if sum(ways) != 1:
            raise ValueError(
                "give one of exactly_ms, p50_ms with p95_ms, mixture, samples_ms"
            )
        if (self.p50 is None) is not (self.p95 is None):
            raise ValueError("p50_ms and p95_ms belong together")
        if self.p50 is not None and self.p95 is not None and self.p95 < self.p50:
            raise ValueError("p95_ms is below p50_ms")
        if self.mixture and not math.isclose(sum(x.share for x in self.mixture), 1.0):
            raise ValueError("the shares of a mixture must add up to 1")
        if self.mixture and min(x.share for x in self.mixture) * _RESOLUTION < 1:
            raise ValueError(f"a share of a mixture must be at least {1 / _RESOLUTION}")
        if self.p50 and self.p95 and self.p95 > _LONGEST_TAIL * self.p50:
            raise ValueError(f"p95_ms is more than {_LONGEST_TAIL} times p50_ms")

    def latency(self) -> Latency:
        """The distribution it states."""
        return Latency(
            tuple(sorted(self._quantiles())), LatencyOrigin.STATED, self.fails
        )

    def _quantiles(self) -> Iterable[float]:
        if self.exactly is not None:
            return (self.exactly,)
        if self.samples_ms:
            return self.samples_ms
        if self.p50 is not None and self.p95 is not None:
            middle, spread = math.log(self.p50), math.log(self.p95 / self.p50) / _P95
            if not spread:
                return (self.p50,)
            normal = NormalDist(middle, spread)
            ranks = ((at + 0.5) / _RESOLUTION for at in range(_RESOLUTION))
            return [math.exp(normal.inv_cdf(rank)) for rank in ranks]
        return [
            part.taking
            for part in self.mixture
            for _ in range(round(part.share * _RESOLUTION))
        ]


@attrs.frozen
class Latency:
    """Latencies, sorted, each as likely as the others; ``fails`` of the calls do."""

    seconds: tuple[float, ...] = attrs.field(validator=not_empty)
    known: LatencyOrigin
    fails: float = 0.0

    def draw(self, rng: random.Random) -> float:
        return rng.choice(self.seconds)

    def percentile(self, p: int) -> float:
        """Nearest rank, as `LatencyWindow` has it."""
        return self.seconds[max(0, -(-p * len(self.seconds) // 100) - 1)]

    @classmethod
    def measured(
        cls, ended: Sequence[float], cut: Sequence[float] = ()
    ) -> Latency | None:
        """Return the distribution of these measurements; None if there are none.

        Calls that were cut count as the window counts them: longer than that. How
        much longer is not known, so a tool that is always cut looks faster than it
        is.
        """
        window = LatencyWindow(size=max(1, len(ended) + len(cut)))
        kinds = ((SampleKind.OK, ended), (SampleKind.CENSORED, cut))
        for kind, every in kinds:
            for seconds in every:
                window.record(Sample(kind, seconds, at=0.0))
        quantiles = [window.percentile(p, 0.0) for p in range(1, 101)]
        found = tuple(x for x in quantiles if x is not None)
        return cls(found, LatencyOrigin.MEASURED) if found else None


def usual(
    definition: ToolDefinition | None, stated: Latency | None, measured: Latency | None
) -> Latency:
    """Return a tool's latency from the best source: stated, measured or declared.

    A tool of which nothing is known takes as long as its server takes to answer at all:
    that is its estimate until it has been tried.
    """
    found = stated or measured
    if found is not None:
        return found
    if definition is None:
        return Latency((0.0,), LatencyOrigin.UNKNOWN)
    if definition.estimated_duration is None:
        return Latency((definition.round_trip,), LatencyOrigin.UNKNOWN)
    return Latency((definition.estimated_duration,), LatencyOrigin.DECLARED)
