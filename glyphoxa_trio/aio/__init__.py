"""L5: the runtime from asyncio (discord.py, LiveKit, Pipecat), in one process.

    import asyncio
    from glyphoxa_trio import aio

    async def main() -> None:
        async with aio.open_runtime("config/tavern.yaml") as runtime:
            async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
                async for event in turn:
                    ...

    asyncio.run(main())

`opening` has `open_runtime`; `runtime`, `npc`, `scene`, `turn`, `voice` and `topic` are
what it gives, `tools` is what an embedder gives it. Below them `bridge` carries calls
from asyncio to trio and `errands` those the other way, `held` is a trio context manager
that is entered from asyncio, `items` an iterator; `guest` and `thread` are the two ways
for a trio run to live beside a loop, and `block` has one of them.
"""

from .bridge import Mode, StillRunning
from .npc import Npc
from .opening import open_runtime
from .reverse_calls import LoopTaskEnded
from .runtime import Runtime
from .scene import Scene
from .session import Session
from .tools import tool
from .topic import Subscription, Topic
from .turn import SceneTurn, Turn
from .voice import Voice

__all__ = [
    "LoopTaskEnded",
    "Mode",
    "Npc",
    "Runtime",
    "Scene",
    "SceneTurn",
    "Session",
    "StillRunning",
    "Subscription",
    "Topic",
    "Turn",
    "Voice",
    "open_runtime",
    "tool",
]
