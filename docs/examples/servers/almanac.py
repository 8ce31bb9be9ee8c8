"""An almanac: an MCP server made of plain functions, with nothing but this package.

    python docs/examples/servers/almanac.py
    python docs/examples/servers/almanac.py --transport http --http-addr localhost:8090

The same functions serve an NPC in process: ``open_runtime(config, tools=TOOLS)``.
Over MCP they are told with their latencies, so that a runtime that connects knows
their tiers before it has called them.
"""

from typing import Annotated, Any

import trio

from glyphoxa_trio import CallContext, ToolError, tool
from glyphoxa_trio.servers import serve

PHASES = ("new", "waxing", "full", "waning")
SKIES = ("clear", "low cloud", "rain from the west", "fog until noon", "frost")
PACE = 0.1  # seconds for one day: reading the sky takes its time


@tool(
    group="almanac",
    title="Phase of the moon",
    estimated_duration_ms=5,
    max_duration_ms=100,
    read_only=True,
    idempotent=True,
    cacheable_seconds=3600,
)
async def moon(day: Annotated[int, "Of the year, from 1."]) -> dict[str, Any]:
    """Look up the phase of the moon on a day of the year."""
    if day < 1:
        raise ToolError("the first day of the year is 1")
    return {"day": day, "phase": PHASES[(day - 1) // 7 % len(PHASES)]}


@tool(
    group="almanac",
    title="Weather of the coming days",
    estimated_duration_ms=750,  # for a week: a STANDARD tool
    max_duration_ms=2000,
    read_only=True,
)
async def forecast(
    place: str, context: CallContext, days: int = 7
) -> dict[str, str | list[str] | bool]:
    """Foretell the weather at a place, day by day."""
    found: list[str] = []
    # Whoever waits for so long and no longer gets the days that are ready by then; in
    # time also where the machine is busy.
    with trio.move_on_at(context.deadline - 0.2):
        for day in range(days):
            await trio.sleep(PACE)
            found.append(SKIES[(len(place) + day * 3) % len(SKIES)])
    return {"place": place, "days": found, "complete": len(found) == days}


TOOLS = [moon, forecast]

if __name__ == "__main__":
    serve("almanac", TOOLS, instructions="Days are counted from the new year.")
