"""L5: the runtime from asyncio (discord.py, LiveKit, Pipecat), in one process.

    import asyncio
    from glyphoxa_trio import aio

    async def main() -> None:
        async with aio.open_runtime("config/tavern.yaml") as runtime:
            async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
                async for event in turn:
                    ...

    asyncio.run(main())

`opening` has `open_runtime`; `runtime`, `npc` and `topic` are what it gives, `tools` is
what an embedder gives it. Below them `bridge` carries calls from asyncio to trio and
`errands` those the other way, `block` holds a trio context manager, `items` an
iterator; `guest` and `thread` are the two ways for a trio run to live beside a loop.
"""

from .bridge import Mode, StillRunning
from .errands import LoopTaskEnded
from .npc import Npc, Turn
from .opening import open_runtime
from .runtime import Runtime
from .tools import tool
from .topic import Subscription, Topic

__all__ = [
    "LoopTaskEnded",
    "Mode",
    "Npc",
    "Runtime",
    "StillRunning",
    "Subscription",
    "Topic",
    "Turn",
    "open_runtime",
    "tool",
]
