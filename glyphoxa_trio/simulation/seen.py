"""The observations of a simulation, and figures made from them. Pure; seconds."""

from __future__ import annotations

from collections import Counter

import attrs

from glyphoxa_trio.tools.estimate import Estimate, TierBy
from glyphoxa_trio.tools.tier import Tier

from .latency import LatencyOrigin


@attrs.frozen(kw_only=True)
class TurnSeen:
    """The times of one turn. Seconds from its beginning; None if it never came.

    ``at_ceiling``: a call of it was cut by the turn's own clock.
    """

    npc: str
    tier: Tier
    first_sentence: float | None
    total: float
    tools: float
    at_ceiling: bool
    fell_back: bool
    calls: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Spread:
    """Percentiles by nearest rank, seconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, seconds: list[float]) -> Spread | None:
        """None if there is nothing to say."""
        if not seconds:
            return None
        ordered = sorted(seconds)
        ranks = [-(-p * len(ordered) // 100) - 1 for p in (50, 95, 99)]
        return cls(p50=ordered[ranks[0]], p95=ordered[ranks[1]], p99=ordered[ranks[2]])


@attrs.frozen(kw_only=True)
class ToolSeen:
    """One tool: how its latency is known, and where it ended up."""

    key: str
    known: LatencyOrigin
    p50: float
    p95: float
    calls: int
    estimate: Estimate


@attrs.frozen(kw_only=True)
class Simulated:
    """The results of one simulation with one ``tier_by``."""

    tier_by: TierBy
    turns: tuple[TurnSeen, ...]
    tools: tuple[ToolSeen, ...]
    warnings: tuple[str, ...] = ()

    @property
    def first_sentence(self) -> Spread | None:
        found = [x.first_sentence for x in self.turns]
        return Spread.of([x for x in found if x is not None])

    @property
    def total(self) -> Spread | None:
        return Spread.of([x.total for x in self.turns])

    @property
    def tool_time(self) -> Spread | None:
        """Of the turns that called any."""
        return Spread.of([x.tools for x in self.turns if x.calls])

    def mix(self) -> dict[Tier, float]:
        """The share of the turns that had each tier."""
        had = Counter(x.tier for x in self.turns)
        return {tier: had[tier] / len(self.turns) for tier in Tier}

    def at_ceiling(self, tier: Tier | None = None) -> float | None:
        """The share of turns that were cut by their own clock; None without any."""
        found = [x.at_ceiling for x in self.turns if tier in (None, x.tier)]
        return sum(found) / len(found) if found else None

    def fell_back(self) -> float:
        """The share of turns in which a line of the configuration was said."""
        return sum(x.fell_back for x in self.turns) / len(self.turns)

    def calls(self) -> Counter[str]:
        """Return the number of calls by status."""
        return Counter(status for x in self.turns for status in x.calls)
