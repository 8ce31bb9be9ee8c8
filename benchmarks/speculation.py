"""The gain and cost of speculation on partial transcripts (off by default).

Promised: where the recogniser's last partial is what was said, and 300 ms pass until
that is certain, the first sentence comes in at most 0.75 of the time that it takes
without; where it is not, it takes at most 1.1 of it.

Measured: `open_runtime` twice in one run, with speculation and without, each with so
many NPCs whose players speak at the same time. A player's words come as partials, one
word more every 60 ms; the speech ends with the last of them, and the recogniser is
certain of it 300 ms later: then comes `say`. Every fourth time it has corrected the
last word by then. The model thinks for 150 ms in each of two rounds; in the first one
it calls a tool that only reads and takes 150 ms, and one that writes and takes none.
The settings are the defaults, so that it is begun 150 ms after the last partial.
The clock runs from `say` to the first sentence of the answer. Against: the same
players at the same time, without speculation.

Every fifth time a player pauses within a sentence, and what is begun then is for
nothing. What is *wasted*, requests to the model, calls, and seconds of both, is divided
by the turns that were begun ahead of their words and taken over.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, Runtime, Tool, open_runtime, tool
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    SpeculationConfig,
)
from glyphoxa_trio.npc import Npc, Sentence
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.tools.outcome import ToolCall

PLAYERS = 6
UTTERANCES = 16
THINKS = 0.15
READS = 0.15
WORD = 0.06  # between two partials
CERTAIN = 0.3  # after the last one
CORRECTED = 4  # every fourth time the last word is another one
PAUSES = 5  # every fifth time the player thinks in the middle of a sentence
SENTENCE = "do you know who lives in the old mill by the river"


@attrs.frozen
class Model:
    """Thinks, calls two tools, thinks, and says a sentence."""

    label: str = "thoughtful"

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        return _stream(request)


@asynccontextmanager
async def _stream(request: LLMRequest) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
    yield _events(request)


async def _events(request: LLMRequest) -> AsyncIterator[LLMEvent]:
    await trio.sleep(THINKS)
    if request.messages[-1].role == "user":
        yield CallReady(ToolCall("call_1", "recall", "{}"))
        yield CallReady(ToolCall("call_2", "note", "{}"))
        yield Finished(reason=FinishReason.TOOL_CALLS)
    else:
        yield TextChunk("Nobody, since the miller went down to the river.")
        yield Finished()


@attrs.define
class _Seen:
    """Seconds from `say` to the first sentence; ``missed``: the words were others."""

    hit: list[float] = attrs.field(factory=list)
    missed: list[float] = attrs.field(factory=list)

    @property
    def all(self) -> list[float]:
        return self.hit + self.missed


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 4 if quick else UTTERANCES)


async def _measure(utterances: int) -> list[Figure]:
    ahead, bare = _Seen(), _Seen()
    async with (
        open_runtime(_config(enabled=True), tools=_tools(), llm=Model()) as with_it,
        open_runtime(_config(enabled=False), tools=_tools(), llm=Model()) as without,
    ):
        for runtime in (with_it, without):  # warm
            await _speak(runtime.npc("Guest 0"), random.Random(1), 1, _Seen())
        before = with_it.speculation
        async with trio.open_nursery() as nursery:
            for player in range(PLAYERS):
                for runtime, seen in ((with_it, ahead), (without, bare)):
                    nursery.start_soon(_play, runtime, player, utterances, seen)
        counted = with_it.speculation
    adopted = counted.adopted - before.adopted
    begun = counted.begun - before.begun
    calls = counted.calls_wasted - before.calls_wasted
    seconds = counted.wasted - before.wasted
    one = Figure(name="", unit="", n=begun)
    return [
        figure("first sentence", ahead.all, unit="ms", bare=bare.all),
        figure("first sentence, as heard", ahead.hit, unit="ms", bare=bare.hit),
        figure("first sentence, corrected", ahead.missed, unit="ms", bare=bare.missed),
        attrs.evolve(one, name="hit rate", unit="%", p50=100 * adopted / begun),
        attrs.evolve(one, name="turns begun ahead", unit="%", p50=_share(begun, ahead)),
        attrs.evolve(one, name="requests wasted", p50=(begun - adopted) / adopted),
        attrs.evolve(one, name="calls wasted", p50=calls / adopted),
        attrs.evolve(one, name="time wasted", unit="ms", p50=1e3 * seconds / adopted),
    ]


def _share(begun: int, seen: _Seen) -> float:
    return 100 * begun / len(seen.all)


async def _play(runtime: Runtime, player: int, utterances: int, seen: _Seen) -> None:
    rng = random.Random(player)  # the same words and pauses in both runtimes
    await trio.sleep(rng.uniform(0, 0.5))
    for number in range(1, utterances + 1):
        await _speak(runtime.npc(f"Guest {player}"), rng, number, seen)


async def _speak(npc: Npc, rng: random.Random, number: int, seen: _Seen) -> None:
    """One utterance: its partials, what was really said, and the answer."""
    whole = SENTENCE.split()
    length = rng.randint(6, len(whole))
    words = [*whole[: length - 1], f"{whole[length - 1]} {number}"]
    pause = rng.randint(3, length - 1) if number % PAUSES == 0 else 0
    for count in range(1, length + 1):
        await npc.hearing(" ".join(words[:count]))
        await trio.sleep(CERTAIN if count in (pause, length) else WORD)
    corrected = number % CORRECTED == 0
    said = " ".join(words).capitalize() + ("er?" if corrected else "?")
    begun = perf_counter()
    async with npc.say(said) as turn:
        async for event in turn:
            if isinstance(event, Sentence):
                took = perf_counter() - begun
                (seen.missed if corrected else seen.hit).append(took)


def _tools() -> list[Tool]:
    @tool(group="own", estimated_duration_ms=READS * 1000, read_only=True)
    async def recall() -> str:
        """Remember who lived where."""
        await trio.sleep(READS)
        return "The miller."

    @tool(group="own", estimated_duration_ms=1)
    async def note() -> str:
        """Note that somebody asked."""
        return "Noted."

    return [recall, note]


def _config(*, enabled: bool) -> Config:
    return Config(
        npcs=tuple(
            NpcConfig(name=f"Guest {player}", tools=("recall", "note"))
            for player in range(PLAYERS)
        ),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
        speculation=SpeculationConfig(enabled=enabled),
    )


BENCHMARK = Benchmark(
    name="speculation",
    promise="begun on a partial 300 ms old, the first sentence takes 0.75 of the time",
    measure=measure,
    budgets=(
        Budget(figure="first sentence, as heard", statistic="ratio", at_most=0.75),
        Budget(figure="first sentence, corrected", statistic="ratio", at_most=1.1),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
