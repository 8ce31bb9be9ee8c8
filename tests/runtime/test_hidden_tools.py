"""A tool that is hidden for now is told with the time at which it is tried again."""

from __future__ import annotations

import re

import trio
import trio.testing

from glyphoxa_trio import Config, Runtime, open_runtime, tool
from glyphoxa_trio.config import NO_GROUPS, CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.npc import ToolsShown
from glyphoxa_trio.tools.tier import Tier

WHEN = re.compile(r"next try in \d|tried again after about \d+ min of talk|trial call")


async def turn(runtime: Runtime) -> bool:
    """Have Bo use the tool; return True if he was shown it."""
    shown = False
    async with runtime.npc("Bo").say("use pick {}") as said:
        async for event in said:
            if isinstance(event, ToolsShown):
                shown = shown or "pick" in event.shown
    return shown


async def test_each_turn_without_a_tool_is_explained(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seconds = 0.02

    @tool(read_only=True, estimated_duration_ms=20)
    async def pick() -> str:
        """Pick a lock."""
        await trio.sleep(seconds)
        return "open"

    config = Config(
        npcs=(NpcConfig(name="Bo", tools=("pick",), budget_tier=Tier.FAST),),
        builtin=NO_GROUPS,
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
    )
    hidden = 0
    async with open_runtime(config, tools=[pick]) as runtime:
        for number in range(60):
            await trio.sleep(3)
            seconds = 30.0 if 6 <= number < 14 else 0.02
            told = [str(x) for x in runtime.problems()]
            if await turn(runtime):
                continue
            hidden += 1
            (text,) = told
            assert text.startswith("custom.pick is hidden for now: ")
            assert WHEN.search(text), text
        assert runtime.problems() == []
    assert hidden
