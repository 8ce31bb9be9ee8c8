"""What a large catalogue costs: per call nothing, per round the showing.

Promised: a call costs the same with 10 and with 1,000 tools registered: at most
1.2 times as much, at the median and on average. What may be shown is asked of
the gate for each tool, once per round of a turn, so that cost grows with the
catalogue; it is reported without a budget.

Measured: `ToolHost.fan_out` of one call, whose tool works for 0 to 2 ms, so that
its measurements move as they do in life and new estimates are published; the
average has the calibrator's share in it. `ToolHost.explain` as a round asks it:
for an NPC that is granted ten tools, and for the operator who is granted all.
Against: the bare handler for a call, the smallest catalogue for the ratios.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Any

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Tier, Tool, open_host, tool
from glyphoxa_trio.host import Caller, ToolHost
from glyphoxa_trio.tools.gate import EVERYTHING, Grant
from glyphoxa_trio.tools.outcome import ToolCall

SIZES = (10, 100, 1000)
TEN = Grant(npc="Greymantle", tools=(*(f"lore.page_{at}" for at in range(9)), "recall"))


@tool(group="lore", estimated_duration_ms=1, max_duration_ms=400, read_only=True)
async def recall(term: str) -> dict[str, object]:
    """Recall what was said of a term."""
    return {"term": term, "page": 112}
