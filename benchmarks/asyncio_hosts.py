"""The cost of running the NPCs from asyncio.

Promised: a turn with one tool takes at most 2.5 times as long as natively, as a guest
of the loop and in a thread; and an event reaches asyncio within 1 ms, as a guest at the
99th percentile, from a thread at the median: where two threads compute, one waits for
the other's switch interval, 5 ms.

Measured: the same turn of the same configuration, by `glyphoxa_trio.open_runtime`
under `trio.run` and by `aio.open_runtime` under `asyncio.run` in both modes, in turns,
in one process. The model answers at once; the tool is on an MCP server over stdio that
does next to nothing (``servers/trivial.py``), so that the rest is ours and the loops'.
A turn is timed from ``say`` until its block is left, every event taken. Against: the
native one.

``an event``: from the moment that a topic is told of it until its subscriber, who
waits for nothing else, has it. Against: a subscriber in trio.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final, Literal

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, Runtime, aio, open_runtime
from glyphoxa_trio.config import NpcConfig, ServerSpec
from glyphoxa_trio.config.mcp import McpConfig
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.npc import TextDelta, TurnDone, TurnEvent
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.tools.outcome import Status, ToolCall

SERVER: Final = Path(__file__).parent / "servers" / "trivial.py"
CONFIG: Final = Config(
    npcs=(NpcConfig(name="Bartok", tools=("trivial.echo",)),),
    mcp=McpConfig(
        servers=(
            ServerSpec(
                name="trivial",
                command=("python", str(SERVER)),
                estimated_duration=0.01,
            ),
        ),
        remember=False,
    ),
    calibration=CalibrationConfig(at_start=False),
)
UTTERANCE: Final = "What does the page say?"
PATIENCE: Final = 60.0  # of the first event and the last
Host = Literal["trio", "guest", "thread"]


@attrs.frozen
class InstantModel:
    """Calls the tool, then says a sentence."""

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
        yield CallReady(ToolCall("call", request.tools[0].name, '{"term": "grapple"}'))
        yield Finished(reason=FinishReason.TOOL_CALLS)
    else:
        yield TextChunk("It is on page 112.")
        yield Finished()


@attrs.define
class Took:
    turns: list[float] = attrs.field(factory=list)
    events: list[float] = attrs.field(factory=list)


def measure(quick: bool) -> list[Figure]:
    rounds, turns, events = (1, 20, 50) if quick else (10, 200, 500)
    took: dict[Host, Took] = {"trio": Took(), "guest": Took(), "thread": Took()}
    for _ in range(rounds):
        trio.run(_native, took["trio"], turns, events)
        asyncio.run(_from_asyncio("guest", took["guest"], turns, events))
        asyncio.run(_from_asyncio("thread", took["thread"], turns, events))
    bare = took["trio"]
    figures = [figure("turn, natively", bare.turns, unit="ms")]
    for mode in ("guest", "thread"):
        found = took[mode]
        figures += [
            figure(f"turn, {mode}", found.turns, unit="ms", bare=bare.turns),
            figure(f"an event, {mode}", found.events, unit="µs", bare=bare.events),
        ]
    return figures


async def _native(took: Took, turns: int, events: int) -> None:
    async with open_runtime(CONFIG, llm=InstantModel()) as runtime:

        async def turn() -> TurnDone | None:
            async with runtime.npc("Bartok").say(UTTERANCE) as said:
                async for _ in said:
                    pass
            return said.done

        await _turns(turn, took, turns)
        with runtime.events.subscribe(only=TextDelta) as heard:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_publish, runtime, events)
                await _hear(heard, took, events)


async def _from_asyncio(mode: aio.Mode, took: Took, turns: int, events: int) -> None:
    async with aio.open_runtime(CONFIG, mode=mode, llm=InstantModel()) as runtime:

        async def turn() -> TurnDone | None:
            async with runtime.npc("Bartok").say(UTTERANCE) as said:
                async for _ in said:
                    pass
            return said.done

        await _turns(turn, took, turns)
        async with runtime.events.subscribe(only=TextDelta) as heard:
            publishing = asyncio.create_task(runtime.run(_publish, events))
            await _hear(heard, took, events)
            await publishing


async def _turns(
    turn: Callable[[], Awaitable[TurnDone | None]], took: Took, n: int
) -> None:
    for at in range(n + 5):
        begun = perf_counter()
        done = await turn()
        if at >= 5:  # the first of them warm up
            took.turns.append(perf_counter() - begun)
        if done is None or [x.status for x in done.outcomes] != [Status.OK]:
            raise RuntimeError(f"a turn did not end well: {done}")


async def _publish(runtime: Runtime, n: int) -> None:
    for _ in range(n):
        await trio.sleep(0.002)  # it has been taken, and its subscriber waits again
        runtime.events.publish(TextDelta(npc="", turn=0, text=str(perf_counter())))


async def _hear(heard: AsyncIterator[TurnEvent], took: Took, n: int) -> None:
    for _ in range(n):
        event = await anext(heard)
        assert isinstance(event, TextDelta)
        took.events.append(perf_counter() - float(event.text))


BENCHMARK = Benchmark(
    name="asyncio_hosts",
    promise="a turn from asyncio takes at most 2.5 times as long, an event 1 ms",
    measure=measure,
    budgets=(
        Budget(figure="turn, guest", statistic="ratio", at_most=2.5),
        Budget(figure="turn, thread", statistic="ratio", at_most=2.5),
        Budget(figure="an event, guest", statistic="p99", at_most=1000),
        Budget(figure="an event, thread", statistic="p50", at_most=1000),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
