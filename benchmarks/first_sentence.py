"""The gain of a sentence cascade, over real HTTP, and the delays of a sentence.

Promised: with a fast model that opens, the first sentence comes in at most 0.6 of the
time that it takes without; between the piece of text that decides a sentence and the
sentence at its listener are at most 20 ms p99, as between that piece and the request
to the model that goes on; an interruption reaches the player within 10 ms p99.

Measured: one `open_runtime` with pairs of NPCs who are spoken to at the same time,
again and again, one of each pair a sentence cascade and the other cascaded. Both models
are at one scripted server on loopback: the fast one thinks for 100 ms, the strong one
for 400 ms, and both write a word every 20 ms; the strong one calls a tool first, which
takes 50 ms. The clock runs from `say` to the first `Sentence`. Against: the cascaded
NPCs.

A listener between the runtime and its models notes when each piece of text was handed
over and when each model was asked. At the end every NPC is interrupted in the middle of
what it says, over and over; that clock runs from `interrupt` to the `Flush`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import Any

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, Runtime, Tool, open_runtime, tool
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.npc import Flush, Npc, Sentence
from glyphoxa_trio.npc.prompting import only_opens
from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.providers.llm import LLMEvent, LLMRequest, TextChunk
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Forever,
    Pause,
    Reply,
    SayText,
    open_model_server,
)

PAIRS = 4
TURNS = 25
INTERRUPTIONS = 10
FAST, STRONG = 0.1, 0.4  # until the first word
WORD = 0.02
TOOL = 0.05
OPENER = "Well now, let me think about that. And then"
ANSWER = "Nobody has lived there since the miller went down to the river. So it is."
ENDLESS = "tell me everything"


def _answer(body: Mapping[str, Any]) -> Reply:
    """The scripted server's."""
    if body["model"] == "fast":
        return [
            Pause(FAST),
            SayText(OPENER, every=WORD),
            Forever(" and so on", every=WORD),
        ]
    if ENDLESS in str(body["messages"]):
        return Forever("Once upon a time. ", every=WORD)
    if body["messages"][-1]["role"] == "tool":
        return [Pause(STRONG), SayText(ANSWER, every=WORD)]
    return [Pause(STRONG), CallTools([("recall", {})])]


@attrs.define(eq=False)
class _Heard:
    """Both models, and what became of the one that was asked last, for each NPC.

    ``decided`` is when the last piece was handed over that may end a sentence,
    ``asked`` when the strong model was asked the first time.
    """

    fast: ChatCompletions
    strong: ChatCompletions
    decided: dict[str, float] = attrs.field(factory=dict)
    asked: dict[str, float] = attrs.field(factory=dict)
    label: str = "listened to"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        npc = next(x.name for x in reversed(request.messages) if x.role == "user")
        opens = only_opens(request)
        if not opens:
            self.asked.setdefault(npc, perf_counter())
        async with (self.fast if opens else self.strong).stream(request) as events:
            yield self._listened(npc, events)

    async def _listened(
        self, npc: str, events: AsyncIterator[LLMEvent]
    ) -> AsyncIterator[LLMEvent]:
        ended = False
        async for event in events:
            if isinstance(event, TextChunk):
                # The first piece behind a full stop: it holds the blank that decides.
                if ended or ". " in event.text:
                    self.decided.setdefault(npc, perf_counter())
                ended = event.text.endswith(".")
            yield event


@attrs.define
class _Seen:
    first: list[float] = attrs.field(factory=list)
    added: list[float] = attrs.field(factory=list)
    went_on: list[float] = attrs.field(factory=list)
    flushed: list[float] = attrs.field(factory=list)


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 2 if quick else TURNS, 2 if quick else INTERRUPTIONS)


async def _measure(turns: int, interruptions: int) -> list[Figure]:
    cascade, bare = _Seen(), _Seen()
    async with open_model_server(_answer) as server:
        heard = _Heard(
            ChatCompletions(model="fast", base_url=server.base_url),
            ChatCompletions(model="strong", base_url=server.base_url),
        )
        async with open_runtime(_config(), tools=_tools(), llm=heard) as runtime:
            for kind in ("opened", "plain"):  # warm
                await _speak(runtime, heard, f"{kind} 0", _Seen())
            async with trio.open_nursery() as nursery:
                for pair in range(PAIRS):
                    for kind, seen in (("opened", cascade), ("plain", bare)):
                        talk = partial(_talk, runtime, heard, f"{kind} {pair}")
                        nursery.start_soon(talk, turns, seen)
            async with trio.open_nursery() as nursery:
                for pair in range(PAIRS):
                    npc = runtime.npc(f"plain {pair}")
                    nursery.start_soon(_interrupt, npc, interruptions, bare)
        await heard.fast.aclose()
        await heard.strong.aclose()
    return [
        figure("first sentence", cascade.first, unit="ms", bare=bare.first),
        figure("text to sentence", cascade.added, unit="ms", bare=bare.added),
        figure("text to the strong model", cascade.went_on, unit="ms"),
        figure("interruption to flush", bare.flushed, unit="ms"),
    ]


async def _talk(
    runtime: Runtime, heard: _Heard, name: str, turns: int, seen: _Seen
) -> None:
    for _ in range(turns):
        await _speak(runtime, heard, name, seen)


async def _speak(runtime: Runtime, heard: _Heard, name: str, seen: _Seen) -> None:
    """One turn, to its end."""
    heard.decided.pop(name, None)
    heard.asked.pop(name, None)
    begun, first = perf_counter(), True
    async with runtime.npc(name).say("Who lives in the mill?", speaker=name) as turn:
        async for event in turn:
            if isinstance(event, Sentence) and first:
                first, now = False, perf_counter()
                decided = heard.decided[name]
                seen.first.append(now - begun)
                seen.added.append(now - decided)
    if name.startswith("opened"):
        seen.went_on.append(heard.asked[name] - decided)


async def _interrupt(npc: Npc, count: int, seen: _Seen) -> None:
    """Have it speak without end, and interrupt it."""
    for _ in range(count):
        begun = 0.0
        async with npc.say(ENDLESS, speaker=npc.name) as turn:
            async for event in turn:
                match event:
                    case Sentence() if not begun:
                        begun = perf_counter()
                        await npc.interrupt()
                    case Flush():
                        seen.flushed.append(perf_counter() - begun)


def _tools() -> list[Tool]:
    @tool(group="own", estimated_duration_ms=TOOL * 1000, read_only=True)
    async def recall() -> str:
        """Remember who lived where."""
        await trio.sleep(TOOL)
        return "The miller."

    return [recall]


def _config() -> Config:
    kinds = {"opened": Engine.SENTENCE_CASCADE, "plain": Engine.CASCADED}
    return Config(
        npcs=tuple(
            NpcConfig(name=f"{kind} {pair}", engine=engine, tools=("recall",))
            for kind, engine in kinds.items()
            for pair in range(PAIRS)
        ),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
    )


BENCHMARK = Benchmark(
    name="first_sentence",
    promise="with an opener the first sentence takes 0.6 of the time, and none waits",
    measure=measure,
    budgets=(
        Budget(figure="first sentence", statistic="ratio", at_most=0.6),
        Budget(figure="text to sentence", statistic="p99", at_most=20),
        Budget(figure="text to the strong model", statistic="p99", at_most=20),
        Budget(figure="interruption to flush", statistic="p99", at_most=10),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
