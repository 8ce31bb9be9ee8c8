"""Forty calls in one process, each a pipeline of Pipecat with an NPC in it.

    tests/frameworks/.pipecat/bin/python -m benchmarks.peers.pipecat_calls TURNS

Prints one line of JSON; times are seconds. Each call says something every four seconds,
at its own time. The model is in the process, and writes a word every 20 ms; it is no
part of ``asked``, from the end of the user turn until the model is asked, and
``spoken``, from the word that ends the first sentence until the TTS service is given
it. ``ours`` is the sum of both. ``processor`` is the share of one core.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs
from loguru import logger

import trio

from glyphoxa_trio import Config, aio
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    OverloadConfig,
)
from glyphoxa_trio.pipecat import NpcProcessor
from glyphoxa_trio.providers.llm import Finished, LLMEvent, LLMRequest, TextChunk

from .pipecat_turns import QUESTION, Line, running, soon

CALLS: Final = 40
EVERY: Final = 4.0  # seconds
WORD: Final = 0.02
ANSWER: Final = "One is one. Two words are here. Three comes last."


@attrs.define(eq=False)
class Model:
    """Notes, for each speaker, when it was asked and when it ended a sentence."""

    asked: dict[str, float] = attrs.field(factory=dict)
    ended: dict[str, float] = attrs.field(factory=dict)
    label: str = "timed"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        who = request.messages[-1].name or ""
        self.asked[who] = time.monotonic()
        yield self._events(who)

    async def _events(self, who: str) -> AsyncIterator[LLMEvent]:
        said = ""
        for word in ANSWER.split():
            await trio.sleep(WORD)
            if said.count(".") == 1:  # the beginning of the next one ends it
                self.ended.setdefault(who, time.monotonic())
            said += f"{word} "
            yield TextChunk(f" {word}")
        yield Finished()


async def call(
    line: Line, model: Model, at: int, turns: int
) -> list[tuple[float, float]]:
    """Hold a conversation; return ``asked`` and ``spoken`` of its turns.

    The first turn, which begins the session, is left out.
    """
    await asyncio.sleep(at * EVERY / CALLS)
    took: list[tuple[float, float]] = []
    for _ in range(turns + 1):
        model.ended.pop(line.user, None)
        begun = await line.ask(QUESTION)
        await soon(line.ear.over)
        await soon(line.mouth.first)
        asked, ended = model.asked[line.user], model.ended[line.user]
        took.append((asked - begun, line.mouth.given - ended))
        await asyncio.sleep(max(0.0, begun + EVERY - time.monotonic()))
    return took[1:]


async def measure(turns: int) -> dict[str, list[float]]:
    config = Config(
        npcs=(NpcConfig(name="Bo"),),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
        overload=OverloadConfig(enabled=False),
    )
    model = Model()
    async with aio.open_runtime(config, llm=model) as runtime:
        lines = [
            Line(NpcProcessor(runtime.session(f"{at}").npc("Bo")), user=f"user {at}")
            for at in range(CALLS)
        ]
        async with running(*lines):
            since, used = time.monotonic(), time.process_time()
            calls = [call(x, model, at, turns) for at, x in enumerate(lines)]
            took = [x for took in await asyncio.gather(*calls) for x in took]
            share = (time.process_time() - used) / (time.monotonic() - since)
    return {
        "asked": [asked for asked, _ in took],
        "spoken": [spoken for _, spoken in took],
        "ours": [asked + spoken for asked, spoken in took],
        "processor": [share],
    }


if __name__ == "__main__":
    logger.remove()  # as in production, where nobody reads its debug lines
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
