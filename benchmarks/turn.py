"""The processor time of one turn of one NPC, when model and tools cost nothing.

Promised: a turn without a tool takes at most 8 times, one with three in-process tools
at most 4 times the processor of the bare twin below, at the median, also with 40 turns
of history. Wanted, and not reached: 0.35 ms and 1 ms on the machine of
docs/performance.md. And that a plain turn is at most 3,200 calls of functions, one with
three tools 8,200: a count that no other process changes.

Measured: `open_runtime` with one NPC and a model that answers at once; one turn after
the other, twenty at a time, as `process_time`.

    plain, first turns  one response, nothing said before
    plain               one response, with 40 turns of history
    three tools         three calls in the first response, words in the second; 40 turns
    calls, ...          calls of functions, Python's and C's, as cProfile counts them

Against: what such a turn cannot do without, on bare trio: two tasks that hand five
events to each other over a memory channel; with tools, three more tasks in a nursery
for each of five such rounds.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import process_time

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, open_runtime, tool
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.tools.outcome import ToolCall

AT_ONCE = 20  # turns that are timed together
HISTORY = 40

CONFIG = Config(
    npcs=(NpcConfig(name="Bo", tools=("*",)),),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
)


@tool(group="lore", estimated_duration_ms=1, max_duration_ms=400, read_only=True)
async def look_up(term: str) -> dict[str, object]:
    """Look up a term in the lore of the realm."""
    return {"term": term, "page": 112}


class Model:
    """Calls so many tools when it is spoken to, and then says a sentence."""

    label = "at once"

    def __init__(self, calls: int) -> None:
        self.calls = calls

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        yield self._events(asked=request.messages[-1].role == "user")

    async def _events(self, *, asked: bool) -> AsyncIterator[LLMEvent]:
        if asked and self.calls:
            for number in range(self.calls):
                arguments = f'{{"term": "page {number}"}}'
                yield CallReady(ToolCall(f"c{number}", "look_up", arguments))
        else:
            yield TextChunk("Well met, traveller.")
        yield Finished()


@asynccontextmanager
async def talking(
    calls: int, before: int
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield what plays one turn, after so many others."""
    async with open_runtime(CONFIG, llm=Model(calls), tools=[look_up]) as runtime:
        npc = runtime.npc("Bo")

        async def turn() -> None:
            async with npc.say("Good evening! What is new?") as said:
                done = await said.finish()
            assert done.end is TurnEnd.COMPLETED
            assert [x.ok for x in done.outcomes] == [True] * calls

        for _ in range(before):
            await turn()
        yield turn


async def turns(
    calls: int, before: int, groups: int
) -> tuple[list[float], list[float]]:
    """Seconds for a turn, by groups; and of the bare twin, in turns with it."""
    ours: list[float] = []
    bare: list[float] = []

    async def twin() -> None:
        for _ in range(5 if calls else 1):
            await handing_over(calls)

    async with talking(calls, before) as turn:
        for _ in range(groups):
            ours.append(await cost(turn))
            bare.append(await cost(twin))
    return ours, bare


async def counted(calls: int) -> float:
    """The calls of functions in a turn: the mean of a hundred."""
    async with talking(calls, HISTORY) as turn:
        profile = cProfile.Profile()
        with profile:
            for _ in range(100):
                await turn()
    return float(pstats.Stats(profile).total_calls) / 100  # type: ignore[attr-defined]


async def cost(once: Callable[[], Awaitable[None]]) -> float:
    began = process_time()
    for _ in range(AT_ONCE):
        await once()
    return (process_time() - began) / AT_ONCE


async def handing_over(tasks: int) -> None:
    send, receive = trio.open_memory_channel[int](64)

    async def give() -> None:
        for number in range(5):
            await send.send(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give)
        for _ in range(tasks):
            nursery.start_soon(trio.lowlevel.checkpoint)
        for _ in range(5):
            await receive.receive()


def measure(quick: bool) -> list[Figure]:
    groups = 5 if quick else 100
    figures: list[Figure] = []
    for name, calls, before in (
        ("plain, first turns", 0, 1),
        ("plain", 0, HISTORY),
        ("three tools", 3, HISTORY),
    ):
        first = 2 if before < HISTORY else groups  # later ones have a history
        ours, bare = trio.run(turns, calls, before, first)
        figures.append(figure(name, ours, unit="ms", bare=bare))
        if before == HISTORY:
            count = trio.run(counted, calls)
            figures.append(Figure(name=f"calls, {name}", unit="calls", n=1, p50=count))
    return figures


BENCHMARK = Benchmark(
    name="turn",
    promise="a turn costs at most 8 times a bare one, with three tools 4 times",
    measure=measure,
    budgets=(
        Budget(figure="plain", statistic="ratio", at_most=8.0),
        Budget(figure="three tools", statistic="ratio", at_most=4.0),
        Budget(figure="calls, plain", statistic="p50", at_most=3_200),
        Budget(figure="calls, three tools", statistic="p50", at_most=8_200),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
