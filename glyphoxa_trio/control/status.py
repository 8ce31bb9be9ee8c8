"""The state of a runtime as plain data for JSON: durations in ``_ms``, no secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.units import milliseconds

_WARNINGS_SHOWN: Final = 10
_SESSIONS_SHOWN: Final = 20
_TIMES: Final = ("since", "ready_at")  # on a clock that only the runtime can read


def status_of(runtime: Runtime) -> dict[str, Any]:
    """Return the servers, the NPCs, the running calls, and the newest warnings."""
    now, figures = trio.current_time(), runtime.host.statistics()
    hedging = figures.executor.hedging
    held = [key.partition(".") for key in sorted(runtime.host.approvals.held)]
    return {
        "pid": os.getpid(),
        "servers": [
            {
                **{k: v for k, v in plain(row).items() if k not in _TIMES},
                "state_ms": milliseconds(now - row.since),
                "ready_in_ms": None
                if row.ready_at is None
                else milliseconds(max(0.0, row.ready_at - now)),
                "held_back": [tool for server, _, tool in held if server == row.name],
            }
            for row in runtime.servers()
        ],
        "npcs": [
            {"name": npc.name, "tier": str(npc.budget_tier), "tools": list(npc.tools)}
            for npc in runtime.npcs
        ],
        "sessions": {
            "open": len(runtime.sessions),
            "set_aside": runtime.set_aside,
            "latest": [str(key) for key in runtime.sessions[-_SESSIONS_SHOWN:]][::-1],
        },
        "turns_running": runtime.turns_running,
        "calls": {
            "running": figures.shared_tasks.running,
            "lingering": sum(figures.shared_tasks.lingering.values()),
            "outcomes": plain(figures.executor.outcomes),
            "refusals": plain(figures.executor.refusals),
        },
        "hedging": {
            "started": hedging.started,
            "won": hedging.won,
            "lost": hedging.lost,
            "over_budget": hedging.over_budget,
            "wasted_ms": milliseconds(hedging.wasted),
        },
        "models": plain(runtime.models),
        "cost": plain(runtime.cost),
        "tools": figures.tools,
        "warnings": [plain(x) for x in list(runtime.warnings)[-_WARNINGS_SHOWN:]],
    }


def plain(value: Any) -> Any:
    """A value of ours as JSON has it; a class becomes its fields."""
    if attrs.has(type(value)):
        return {
            field.name.lstrip("_"): plain(getattr(value, field.name))
            for field in attrs.fields(type(value))
            if field.repr  # a secret's value has none
        }
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return str(value)
        case str():
            return str(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _:
            return str(value)
