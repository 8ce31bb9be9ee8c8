"""The figures of simulations side by side, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import milliseconds

from .seen import Simulated, Spread


def as_json(runs: Sequence[Simulated], *, configured: TierBy) -> dict[str, Any]:
    """All that was found out. Durations are whole milliseconds, and say so."""
    return {
        "configured_tier_by": str(configured),
        "runs": [_run(run) for run in runs],
    }


def _run(run: Simulated) -> dict[str, Any]:
    return {
        "tier_by": str(run.tier_by),
        "turns": len(run.turns),
        "first_sentence": _spread(run.first_sentence),
        "turn": _spread(run.total),
        "tool_time": _spread(run.tool_time),
        "tier_mix": {str(tier): share for tier, share in run.mix().items()},
        "at_ceiling": run.at_ceiling(),
        "at_ceiling_by_tier": {str(tier): run.at_ceiling(tier) for tier in Tier},
        "fell_back": run.fell_back(),
        "calls": dict(sorted(run.calls().items())),
        "tools": [
            {
                "key": tool.key,
                "latency": str(tool.known),
                "p50_ms": milliseconds(tool.p50),
                "p95_ms": milliseconds(tool.p95),
                "calls": tool.calls,
                "tier": str(tool.estimate.tier),
                "estimate_ms": milliseconds(tool.estimate.seconds),
            }
            for tool in run.tools
        ],
        "warnings": list(run.warnings),
    }


def _spread(spread: Spread | None) -> dict[str, int] | None:
    if spread is None:
        return None
    return {
        "p50_ms": milliseconds(spread.p50),
        "p95_ms": milliseconds(spread.p95),
        "p99_ms": milliseconds(spread.p99),
    }
