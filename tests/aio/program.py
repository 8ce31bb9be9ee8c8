"""An asyncio program that ends in the middle of things.

    python program.py MODE END

It says ``ready`` when an NPC waits for a tool that never answers, and then ends as it
is told: `ENDS`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from glyphoxa_trio.tools.outcome import ToolCall
from tests.aio.support import config, opened, seer

ENDS = {
    "forgets": "stops its loop, and returns without a thought for it",
    "closes": "closes its loop, and returns",
    "exits": "calls sys.exit in a task",
    "waits": "goes on until it is interrupted",
}
PONDER = (ToolCall("1", "mcp__seer__ponder", "{}"),)


async def live(inside: asyncio.Event) -> None:
    chosen = config("seer.ponder", servers=(seer(), seer("stubborn", name="other")))
    async with opened(mode, chosen, PONDER) as runtime:  # type: ignore[arg-type]
        async with runtime.npc("Bo").say("ponder") as turn:
            async for event in turn:
                if type(event).__name__ == "ToolStarted":
                    inside.set()


async def until_inside(tasks: list[asyncio.Task[None]]) -> None:
    inside = asyncio.Event()
    tasks.append(asyncio.create_task(live(inside)))
    await inside.wait()
    print("ready", flush=True)  # noqa: T201 what the test waits for


async def wait() -> None:
    tasks: list[asyncio.Task[None]] = []
    await until_inside(tasks)
    if end == "exits":
        await asyncio.to_thread(sys.stdin.readline)
        sys.exit(3)
    await tasks[0]


if __name__ == "__main__":
    mode, end = sys.argv[1:]
    assert end in ENDS
    if end in ("forgets", "closes"):
        loop = asyncio.new_event_loop()
        tasks: list[asyncio.Task[None]] = []
        loop.run_until_complete(until_inside(tasks))
        sys.stdin.readline()
        if end == "closes":
            loop.close()
    else:
        asyncio.run(wait())
