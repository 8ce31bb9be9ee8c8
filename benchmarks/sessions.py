"""What many NPC sessions in one process cost, in time and in memory.

Promised: with 1,000 sessions, each with a turn of three tool calls every five
seconds, a ceiling that cuts a hung tool ends at most 20 ms late at the 99th
percentile; an idle session takes at most 64 KiB.

Measured: `open_runtime` with so many `NpcConfig`s and a model that answers at
once, so that all the time is ours: in the first round of a turn it calls three
tools (dice, a rule, one of our own), in the second it says a sentence. Speakers
come every five seconds, give or take a second, from a start at random. The tool
of our own hangs every fourth time; then the fan-out ends at the turn's ceiling
of 500 ms, and its lateness is what `FanOutDone` says it took beyond its budget.
Against: twenty bare ``move_on_after`` of 200 to 500 ms around a sleep, again and
again under the same load. Processor: `process_time` over wall time; one core is
100 %, and more than that there is not: a process that needs more falls behind,
which the turns a second show.

A history grows with the turns, to 40 of them, and is told to the model in every
round: ``turn with a history`` is the forty-first to sixtieth turn of one session
alone, without a hung tool, against its first turns, the second to the sixth.

``frozen`` is the same after ``gc.collect()`` and ``gc.freeze()`` with all sessions
open, which put what there is by then out of the collector's way.

Memory is the growth of the resident set (``/proc/self/statm``) from an open
runtime, whose first NPC has had a turn, to all sessions open; and to all of them
after one turn each, which they remember. The configurations of the NPCs are not
in it. Each size is a process of its own; so it is on Linux only.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import perf_counter, process_time

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, in_fresh_process, main
from glyphoxa_trio import Config, Runtime, Tool, TurnDone, open_runtime, tool
from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.npc import FanOutDone, TurnEnd
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.tools.outcome import Limit, ToolCall

SIZES = (10, 100, 1000, 3000)
EVERY = 5.0  # seconds between two turns of one session
JITTER = 1.0
RAMP = 6.0  # every session has begun, and estimates have settled
WINDOW = 12.0
TIMERS = 20
HANGS = 4  # every fourth call
UTTERANCE = "Well met, friend. What would a room for the night cost?"


@attrs.frozen
class InstantModel:
    """Calls three tools in the first round of a turn, then says a sentence."""

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
        arguments = ('{"expression": "2d6+3"}', '{"id": "condition-blinded"}', "{}")
        for at, name in enumerate(("roll", "get_rule", "listen")):
            yield CallReady(ToolCall(f"call_{at}", name, arguments[at]))
        yield Finished(reason=FinishReason.TOOL_CALLS)
    else:
        yield TextChunk("A silver piece, and you look after your own horse.")
        yield Finished()


@attrs.define
class _Seen:
    """What happened while it was looked at."""

    late: list[float] = attrs.field(factory=list)
    bare: list[float] = attrs.field(factory=list)
    turns: list[float] = attrs.field(factory=list)
    looking: bool = False

    def event(self, event: object) -> None:
        if (
            self.looking
            and isinstance(event, FanOutDone)
            and any(outcome.limit is Limit.TURN for outcome in event.outcomes)
        ):
            self.late.append(event.elapsed - event.budget)

    def done(self, done: TurnDone | None) -> None:
        if done is None or done.end is not TurnEnd.COMPLETED:
            raise RuntimeError(f"a turn did not end well: {done}")
        if self.looking:
            self.turns.append(done.timings.total)


def measure(quick: bool) -> list[Figure]:
    figures = [in_fresh_process(measure_history)]
    for size in (20, 50) if quick else SIZES:
        figures += in_fresh_process(measure_size, size, quick)
    if not quick:
        figures += in_fresh_process(measure_size, 1000, quick, frozen=True)[:4]
    return figures


def measure_history() -> Figure:
    return trio.run(_measure_history)


async def _measure_history() -> Figure:
    took: list[float] = []
    config = _config(1)
    async with open_runtime(config, tools=[_listen(0)], llm=InstantModel()) as runtime:
        for _ in range(60):
            begun = perf_counter()
            await _turn(runtime, 0, _Seen())
            took.append(perf_counter() - begun)
    return figure("turn with a history", took[40:], unit="ms", bare=took[1:6])


def measure_size(size: int, quick: bool, *, frozen: bool = False) -> list[Figure]:
    return trio.run(_measure, size, 0.2 if quick else 1.0, frozen)


async def _measure(size: int, pace: float, frozen: bool) -> list[Figure]:
    """``pace`` below 1 makes everything shorter, and the load higher."""
    config, listen, seen = _config(size + 1), _listen(HANGS), _Seen()
    async with open_runtime(config, tools=[listen], llm=InstantModel()) as runtime:
        await _turn(runtime, size, seen)
        before = _resident()
        for at in range(size):
            runtime.npc(f"Guest {at}")
        await trio.sleep(0.2)
        opened = _resident()
        if frozen:
            gc.freeze()
        async with trio.open_nursery() as nursery:
            for at in range(size):
                nursery.start_soon(_guest, runtime, at, seen, pace)
            for _ in range(TIMERS):
                nursery.start_soon(_bare_timers, seen)
            await trio.sleep(RAMP * pace)
            seen.looking, begun, spent = True, perf_counter(), process_time()
            await trio.sleep(WINDOW if pace == 1.0 else 1.5)
            wall, spent = perf_counter() - begun, process_time() - spent
            nursery.cancel_scope.cancel()
        spoken = _resident()
    share = 100 * spent / wall
    name = f"{size} sessions{', frozen' if frozen else ''}: "
    one = Figure(name="", unit="KiB", n=size, p50=0.0)
    return [
        figure(f"{name}lateness", seen.late, unit="ms", bare=seen.bare),
        figure(f"{name}whole turn", seen.turns, unit="ms"),
        Figure(name=f"{name}turns", unit="1/s", n=size, p50=len(seen.turns) / wall),
        Figure(name=f"{name}processor", unit="%", n=size, p50=share),
        attrs.evolve(one, name=f"{name}idle", p50=(opened - before) / size),
        attrs.evolve(one, name=f"{name}after turns", p50=(spoken - before) / size),
    ]


def _config(npcs: int) -> Config:
    return Config(
        npcs=tuple(
            NpcConfig(name=f"Guest {at}", tools=("dice", "rules", "listen"))
            for at in range(npcs)
        ),
        calibration=CalibrationConfig(at_start=False),
    )


def _listen(hangs: int) -> Tool:
    """A tool of which every so many calls never end; 0 is none."""
    calls = 0

    @tool(group="own", estimated_duration_ms=5, read_only=True)
    async def listen() -> str:
        """Listen for something that sometimes never comes."""
        nonlocal calls
        calls += 1
        if hangs and calls % hangs == 0:
            await trio.sleep_forever()
        return "A door, and then nothing."

    return listen


async def _guest(runtime: Runtime, at: int, seen: _Seen, pace: float) -> None:
    """One session's player: speaks every five seconds, listens to the end."""
    rng = random.Random(at)
    following = trio.current_time() + rng.uniform(0, EVERY) * pace
    while True:
        jitter = rng.uniform(-JITTER, JITTER) * pace
        await trio.sleep_until(following + jitter)
        await _turn(runtime, at, seen)
        following += EVERY * pace


async def _turn(runtime: Runtime, at: int, seen: _Seen) -> None:
    async with runtime.npc(f"Guest {at}").say(UTTERANCE) as turn:
        async for event in turn:
            seen.event(event)
        seen.done(turn.done)


async def _bare_timers(seen: _Seen) -> None:
    while True:
        patience = random.uniform(0.2, 0.5)
        due = perf_counter() + patience
        with trio.move_on_after(patience):
            await trio.sleep_forever()
        if seen.looking:
            seen.bare.append(perf_counter() - due)


def _resident() -> float:
    """KiB of memory in use by this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


BENCHMARK = Benchmark(
    name="sessions",
    promise="1,000 sessions: ceilings end 20 ms late at p99, 64 KiB an idle one",
    measure=measure,
    budgets=(
        Budget(figure="1000 sessions: lateness", statistic="p99", at_most=20),
        Budget(figure="1000 sessions, frozen: lateness", statistic="p99", at_most=20),
        Budget(figure="1000 sessions: idle", statistic="p50", at_most=64),
        Budget(figure="1000 sessions: after turns", statistic="p50", at_most=64),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
