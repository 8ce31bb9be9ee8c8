"""A verdict as plain data. Times in milliseconds, as everywhere at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glyphoxa_trio.simulation.verify.verdict import Called, Finding, NpcReach, Verdict
from glyphoxa_trio.units import milliseconds


def as_json(verdict: Verdict, examples: Mapping[int, str]) -> dict[str, Any]:
    """For ``--json``.

    Args:
      examples: where the example of a finding was written, by its number.
    """
    return {
        "passed": not verdict.errors,
        "explored": {
            "evenings": verdict.evenings,
            "turns": verdict.turns,
            "complete": verdict.complete,
        },
        "npcs": [_reach(reach) for reach in verdict.reaches],
        "findings": [
            _finding(finding, examples.get(number))
            for number, finding in enumerate(verdict.findings)
        ],
    }


def _reach(reach: NpcReach) -> dict[str, Any]:
    return {
        "npc": reach.npc,
        "tier": str(reach.tier),
        "tools": [_called(one) for one in reach.called],
        "hidden": [
            {"tool": key, "reason": str(no.reason), "why": no.text, "remedy": no.remedy}
            for key, no in reach.hidden.items()
        ],
        "worst_turn": {
            "tools_ms": milliseconds(reach.worst_tools),
            "ceiling_ms": milliseconds(reach.ceiling),
            "model_ms": milliseconds(reach.worst_model),
            "model_limit_ms": milliseconds(reach.model_limit),
            "total_ms": milliseconds(reach.worst_total),
        },
    }


def _called(one: Called) -> dict[str, Any]:
    return {
        "tool": one.key,
        "usual_ms": milliseconds(one.usual.percentile(50)),
        "known": str(one.usual.known),
        "status": str(one.status),
        "limit": None if one.limit is None else str(one.limit),
        "took_ms": milliseconds(one.took),
        "by_search": one.searched,
    }


def _finding(finding: Finding, example: str | None) -> dict[str, Any]:
    return {
        "severity": str(finding.severity),
        "what": finding.what,
        "npc": finding.npc,
        "tool": finding.tool,
        "text": finding.text,
        "remedy": finding.remedy,
        "example": example,
    }
