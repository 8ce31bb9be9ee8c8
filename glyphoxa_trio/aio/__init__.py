"""The runtime for asyncio programs (discord.py, LiveKit, Pipecat), in one process.

    import asyncio
    from glyphoxa_trio import aio

    async def main() -> None:
        async with aio.open_runtime("config/tavern.yaml") as runtime:
            async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
                async for event in turn:
                    ...

    asyncio.run(main())

This is layer L5. The runtime itself runs on trio, beside the asyncio loop; every class
here stands for the one of the same name in `glyphoxa_trio`. `opening` has
`open_runtime`; `runtime`, `session`, `npc`, `scene`, `turn`, `voice` and `topic` are
the objects that it gives to an embedder, and `tools` adapts the coroutines that an
embedder gives to it.

Below them, `bridge` carries calls from asyncio to trio, and `reverse_calls` calls in
the other direction. `context_proxy` enters a trio context manager from asyncio, and
`iterator_proxy` takes items of a trio iterator. `guest` and `thread` are the two ways
in which a trio run lives beside a loop, and `block` is a context manager that opens one
of them.
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
