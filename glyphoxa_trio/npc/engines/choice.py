"""Which engine answers a turn: decided here, and nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from glyphoxa_trio.config.model import NpcConfig
from glyphoxa_trio.config.voices import CascadeMode, Engine

from . import cascaded, sentence_cascade
from .cascaded import TurnInProgress

_ENGINES: Final[Mapping[Engine, Callable[[TurnInProgress], Awaitable[None]]]] = {
    Engine.CASCADED: cascaded.run,
    Engine.SENTENCE_CASCADE: sentence_cascade.run,
    Engine.S2S: cascaded.run,  # words that are asked for in words
}


async def answer(turn: TurnInProgress) -> None:
    """Answer once, as the turn's engine does."""
    await _ENGINES[turn.engine](turn)


def may_speculate(npc: NpcConfig) -> bool:
    """Whether a turn of this NPC begins with the request that a speculation makes."""
    match npc.engine:
        case Engine.CASCADED:
            return True
        case Engine.SENTENCE_CASCADE:
            return npc.cascade_mode is CascadeMode.OFF
        case Engine.S2S:
            return False
