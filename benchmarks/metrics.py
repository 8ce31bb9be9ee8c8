"""The cost of metrics for a runtime, in time of the processor.

Promised: a turn costs at most a twentieth more with metrics than without.

Measured: a turn of three calls and an answer in forty pieces, from `say` to its end,
in processor time of the process (`process_time`), which other work on the machine
does not change. Against: the same turn in a runtime without metrics, in the same
run, in turns of fifty.

A scrape has two parts. ``read`` is in trio's thread, where figures are read and
copied: with 200 tools that were all called, each in its own 14 buckets. ``write`` is
in a worker thread: what Prometheus' library makes of it, in both formats.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from time import process_time

import attrs
from prometheus_client.exposition import choose_encoder

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, Runtime, Tool, open_runtime, tool
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig, TurnConfig
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.observability import Metrics, open_metrics
from glyphoxa_trio.observability.readings import read
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.window import Sample, SampleKind

CHUNK = 50
PIECES = ["A silver ", "piece, and ", "look after ", "your horse. "] * 10
CALLED = [f"page_{number}" for number in range(200)]
FORMATS = {"plain": "text/plain", "OpenMetrics": "application/openmetrics-text"}


@attrs.frozen
class Model:
    """Calls three tools in the first round of a turn, then answers in pieces."""

    label: str = "instant"

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        return _stream(request)


@asynccontextmanager
async def _stream(request: LLMRequest) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
    yield _events(request)


async def _events(request: LLMRequest) -> AsyncIterator[LLMEvent]:
    await trio.lowlevel.checkpoint()
    if request.messages[-1].role == "user":
        for name in CALLED[:3]:
            yield CallReady(ToolCall(f"call_{name}", name))
        yield Finished(reason=FinishReason.TOOL_CALLS)
    else:
        for piece in PIECES:
            yield TextChunk(piece)
        yield Finished()


def pages() -> list[Tool]:
    async def page() -> str:
        """Turn to a page."""
        return "It is torn."

    return [
        tool(name=name, group="lore", estimated_duration_ms=1, read_only=True)(page)
        for name in CALLED
    ]


CONFIG = Config(
    npcs=(NpcConfig(name="Bo", tools=("lore.page_0", "lore.page_1", "lore.page_2")),),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
    turn=TurnConfig(history=2),
)


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 2 if quick else 20)


async def _measure(rounds: int) -> list[Figure]:
    watched: list[float] = []
    bare: list[float] = []
    async with (
        open_runtime(CONFIG, tools=pages(), llm=Model()) as seen,
        open_runtime(CONFIG, tools=pages(), llm=Model()) as unseen,
        open_metrics(seen) as metrics,
    ):
        for runtime in (seen, unseen):
            await _turns(runtime, CHUNK, [])  # warm
        for _ in range(rounds):
            await _turns(seen, CHUNK, watched)
            await _turns(unseen, CHUNK, bare)
        for name in CALLED:
            metrics.figures.sample(f"lore.{name}", Sample(SampleKind.OK, 0.001, 0.0))
        reads = [_spent(partial(read, seen, metrics.figures)) for _ in range(100)]
        writes = [
            figure(f"scrape, write {name}", await _writing(metrics, kind), unit="ms")
            for name, kind in FORMATS.items()
        ]
    return [
        figure("turn", watched, unit="µs", bare=bare),
        figure("scrape, read", reads, unit="µs"),
        *writes,
    ]


async def _turns(runtime: Runtime, count: int, spent: list[float]) -> None:
    npc = runtime.npc("Bo")
    for _ in range(count):
        begun = process_time()
        async with npc.say("What is a room?") as turn:
            done = await turn.finish()
        spent.append(process_time() - begun)
        if done.end is not TurnEnd.COMPLETED or len(done.outcomes) != 3:
            raise RuntimeError(f"a turn did not end well: {done}")


async def _writing(metrics: Metrics, kind: str) -> list[float]:
    encode, _ = choose_encoder(kind)
    return [
        await trio.to_thread.run_sync(_spent, partial(encode, metrics.registry))
        for _ in range(20)
    ]


def _spent(work: Callable[[], object]) -> float:
    begun = process_time()
    work()
    return process_time() - begun


BENCHMARK = Benchmark(
    name="metrics",
    promise="who is watched does not notice: a turn costs a twentieth more at most",
    measure=measure,
    budgets=(Budget(figure="turn", statistic="ratio", at_most=1.05),),
)

if __name__ == "__main__":
    main(BENCHMARK)
