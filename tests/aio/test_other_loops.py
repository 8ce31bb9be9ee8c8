"""Loops that are not asyncio's own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from glyphoxa_trio import aio, tool
from glyphoxa_trio.aio import Mode
from glyphoxa_trio.tools.outcome import Status, ToolCall

from .support import LIMIT, config, opened, play, say, seer


def test_a_loop_in_another_thread(mode: Mode) -> None:
    """Where there are no signals."""

    async def main() -> None:
        async with opened(mode, config(), ["Aye."]) as runtime:
            assert (await say(runtime, "well?")).text == "Aye."

    with ThreadPoolExecutor(1) as threads:
        threads.submit(play, main).result(LIMIT)


@pytest.fixture(scope="module")
def uvloop() -> Any:
    """It keeps a pipe of the process for good, from its first loop on."""
    found = pytest.importorskip("uvloop")
    found.run(asyncio.sleep(0))
    return found


def test_uvloop(uvloop: Any, mode: Mode) -> None:
    """A turn with a tool on a server and one on the loop; an interruption."""

    @aio.tool
    @tool(read_only=True, estimated_duration_ms=10)
    async def act() -> str:
        await asyncio.sleep(0)
        return type(asyncio.get_running_loop()).__module__

    async def main() -> None:
        calls = (
            ToolCall("1", "mcp__seer__whisper", "{}"),
            ToolCall("2", "act", "{}"),
        )
        hang = (ToolCall("1", "mcp__seer__ponder", "{}"),)
        tools = ("seer.whisper", "seer.ponder", "custom.act")
        chosen = config(*tools, servers=(seer(),))
        script = (calls, ["There."], hang)
        async with (
            asyncio.timeout(LIMIT),
            opened(mode, chosen, *script, tools=[act]) as runtime,
        ):
            async with runtime.npc("Bo").say("act") as turn:
                done = await turn.finish()
            assert [x.status for x in done.outcomes] == [Status.OK, Status.OK]
            assert done.outcomes[1].message == "uvloop"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), runtime.npc("Bo").say("wait") as turn:
                    await turn.finish()
            assert runtime.turns_running == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
