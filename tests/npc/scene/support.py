"""A tavern of three NPCs in one scene, a whole runtime around it, and virtual time.

Each NPC thinks for a second and says "Well." and its first name, unless a script says
otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Any

import attrs

import trio

from glyphoxa_trio.config import (
    CalibrationConfig,
    Config,
    McpConfig,
    NpcConfig,
    OverloadConfig,
    TurnConfig,
)
from glyphoxa_trio.config.model import SpeculationConfig
from glyphoxa_trio.config.scene import SceneConfig
from glyphoxa_trio.npc import Scene, SceneTurn, Turn
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import Runtime, open_runtime
from tests.npc.support import Heard, Reply, ScriptedLLM

NAMES = ("Bartok the Barkeep", "Greymantle the Sage", "Ysolde the Seer")
BARTOK, GREYMANTLE, YSOLDE = NAMES
OVERHEARD = "(What was said in your hearing meanwhile:\n"


def first(name: str) -> str:
    return name.split()[0]


def who(request: LLMRequest) -> str:
    """Whose model is asked."""
    return request.messages[0].content.removeprefix("You are ").split(",")[0]


def usual(request: LLMRequest) -> Reply:
    return [1.0, "Well. ", f"I am {first(who(request))}."]


@attrs.define(eq=False)
class Stage:
    runtime: Runtime
    scene: Scene
    llm: ScriptedLLM
    spoke: list[tuple[str, float]] = attrs.field(factory=list)

    def told(self, npc: str, round_: int = -1) -> list[str]:
        """What that NPC's model was told last, without its prompt."""
        requests = [x for x in self.llm.requests if who(x) == npc]
        return [message.content for message in requests[round_].messages[1:]]

    def overheard(self, npc: str) -> list[str]:
        """All lines that its model was told were said to others."""
        return [
            line.removeprefix("- ").removesuffix(")")
            for text in self.told(npc)
            if text.startswith(OVERHEARD)
            for line in text.splitlines()[1:]
        ]


def config(
    *npcs: str | NpcConfig,
    scene: Any = None,
    speculation: SpeculationConfig | None = None,
    **turn: Any,
) -> Config:
    made = [NpcConfig(name=x) if isinstance(x, str) else x for x in npcs or NAMES]
    return Config(
        npcs=tuple(made),
        mcp=McpConfig(remember=False),
        overload=OverloadConfig(enabled=False),
        calibration=CalibrationConfig(at_start=False),
        scene=SceneConfig(**(scene or {})),
        turn=TurnConfig(**turn),
        speculation=speculation or SpeculationConfig(),
    )


@asynccontextmanager
async def open_stage(
    script: Callable[[LLMRequest], Reply] | Mapping[str, Reply] = usual,
    *npcs: str | NpcConfig,
    only: tuple[str, ...] = (),
    voices: Mapping[str, Any] | None = None,
    **how: Any,
) -> AsyncIterator[Stage]:
    """A tavern, open.

    Args:
      script: a function, or replies by first names.
      voices: what `open_runtime` is given to hear and speak with.
    """

    def reply(request: LLMRequest) -> Reply:
        if callable(script):
            return script(request)
        return script.get(first(who(request))) or usual(request)

    llm = ScriptedLLM(reply)
    async with open_runtime(
        config(*npcs, **how), llm=llm, wait_for_servers=0.0, **(voices or {})
    ) as runtime:
        yield Stage(runtime, runtime.scene(*only), llm)


async def listen(
    turn: Turn,
    *,
    after: float = 0.0,
    pace: float = 0.0,
    leave_at: float = inf,
    heard: Heard | None = None,
) -> Heard:
    """Listen to the end, ``pace`` seconds for every event."""
    heard = Heard() if heard is None else heard
    await trio.sleep(after)
    heard.turn = turn
    with trio.CancelScope(deadline=leave_at):
        try:
            async with turn:
                async for event in turn:
                    heard.events.append((trio.current_time(), event))
                    await trio.sleep(pace)
        except Exception as error:
            heard.error = error
    return heard


def started(nursery: trio.Nursery, turn: SceneTurn, **how: Any) -> Heard:
    heard = Heard()
    nursery.start_soon(partial(listen, turn, heard=heard, **how))
    return heard
