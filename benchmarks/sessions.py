"""The cost of many NPC sessions in one process, in time and in memory.

Promised: with 1,000 sessions, each with a turn of three tool calls every five
seconds, a ceiling that cuts a hung tool ends at most 20 ms late at the 99th
percentile, and so with 300 whose tools are other people's servers; an idle session
takes at most 64 KiB. With the collector of garbage told to stay away (*settled*).

Measured: `open_runtime` with so many `NpcConfig`s and a model that answers at
once, so that all the time is ours: in the first round of a turn it calls three
tools (dice, a rule, one of our own), in the second it says a sentence. Speakers
come every five seconds, give or take a second, from a start at random. The tool
of our own hangs every fourth time; then the fan-out ends at the turn's ceiling
of 500 ms, and its lateness is what `FanOutDone` says it took beyond its budget.
Against: twenty bare ``move_on_after`` of 200 to 500 ms around a sleep, again and
again under the same load. Processor: `process_time` over wall time; one core is
100 %, and more than that there is not: a process that needs more falls behind,
which the turns a second show, and turns some away, which is counted.

``stdio``: the three tools are of three server processes, the third of which does not
answer every fourth time. Their processor time is not in ours.

``every core`` is a process of 500 sessions on each core, all at the same time, and
``one core`` is one of them alone: turns and processor are of all together, lateness
is that of all their calls, and ``worst process`` of the one whose p99 was worst.

What the collector of garbage does, by the row's name:

    (nothing)  as Python sets it up
    frozen     ``gc.collect()`` and ``gc.freeze()`` with all sessions open, which put
               what there is by then out of the collector's way
    settled    and ``gc.set_threshold(700, 10, 10_000)``: no full collection for a
               long time, and what a turn leaves is freed without one: ``left to the
               collector`` counts the objects a turn for which that is not so

A history grows with the turns, to 40 of them, and is told to the model in every
round: ``turn with a history`` is the forty-first to sixtieth turn of one session
alone, without a hung tool, against its first turns, the second to the sixth.

Memory is the growth of the resident set (``/proc/self/statm``) from an open
runtime, whose first NPC has had a turn, to all sessions open; and to all of them
after two or three turns each, which they remember. The configurations of the NPCs are
not in it. Each size is a process of its own; so it is on Linux only.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Barrier
from time import perf_counter, process_time
from typing import Literal

import attrs

import trio

from benchmarks.common import (
    Benchmark,
    Budget,
    Figure,
    figure,
    in_fresh_process,
    main,
    percentile,
)
from glyphoxa_trio import Config, Runtime, Tool, TurnDone, open_runtime, tool
from glyphoxa_trio.config import NpcConfig, ServerSpec
from glyphoxa_trio.config.mcp import McpConfig
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
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.outcome import Limit, ToolCall

SIZES = (10, 100, 1000, 3000)
EVERY = 5.0  # seconds between two turns of one session
JITTER = 1.0
RAMP = 6.0  # every session has begun, and estimates have settled
WINDOW = 12.0
TIMERS = 20
HANGS = 4  # every fourth call
PATIENCE = 60.0  # of one process with the others
UTTERANCE = "Well met, friend. What would a room for the night cost?"
SERVER = Path(__file__).parent / "servers" / "forgetful.py"
OURS = (
    ("roll", '{"expression": "2d6+3"}'),
    ("get_rule", '{"id": "condition-blinded"}'),
    ("listen", "{}"),
)
THEIRS = tuple((f"{name}.ask", '{"what": "ale"}') for name in ("cellar", "well", "inn"))

Calls = tuple[tuple[str, str], ...]
Collector = Literal["", "frozen", "settled"]


@attrs.frozen
class InstantModel:
    """Calls three tools in the first round of a turn, then says a sentence."""

    calls: Calls = OURS
    label: str = "instant"

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        return _stream(request, self.calls)


@asynccontextmanager
async def _stream(
    request: LLMRequest, calls: Calls
) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
    yield _events(request, calls)


async def _events(request: LLMRequest, calls: Calls) -> AsyncIterator[LLMEvent]:
    await trio.lowlevel.checkpoint()
    if request.messages[-1].role == "user":
        for at, (name, arguments) in enumerate(calls):
            yield CallReady(ToolCall(f"call_{at}", name, arguments))
        yield Finished(reason=FinishReason.TOOL_CALLS)
    else:
        yield TextChunk("A silver piece, and you look after your own horse.")
        yield Finished()


@attrs.frozen(kw_only=True)
class Scene:
    """The number of sessions and their work. ``pace`` below 1 makes everything
    shorter, and the load higher.
    """

    size: int
    pace: float = 1.0
    collector: Collector = ""
    stdio: bool = False
    window: float = WINDOW

    @property
    def name(self) -> str:
        said = (f"{self.size} sessions", "stdio" if self.stdio else "", self.collector)
        return ", ".join(filter(None, said))


@attrs.define
class Seen:
    """Measurements of one run. Times in seconds, memory in KiB."""

    late: list[float] = attrs.field(factory=list)
    bare: list[float] = attrs.field(factory=list)
    turns: list[float] = attrs.field(factory=list)
    shed: int = 0
    looking: bool = False
    wall: float = 0.0
    processor: float = 0.0
    idle: float = 0.0
    spoken: float = 0.0
    garbage: float = 0.0

    def event(self, event: object) -> None:
        if (
            self.looking
            and isinstance(event, FanOutDone)
            and any(outcome.limit is Limit.TURN for outcome in event.outcomes)
        ):
            self.late.append(event.elapsed - event.budget)

    def done(self, done: TurnDone | None) -> None:
        if done is not None and done.end is TurnEnd.SHED:
            self.shed += self.looking
        elif done is None or done.end is not TurnEnd.COMPLETED:
            raise RuntimeError(f"a turn did not end well: {done}")
        elif self.looking:
            self.turns.append(done.timings.total)


def measure(quick: bool) -> list[Figure]:
    figures = [in_fresh_process(measure_history)]
    pace = 0.2 if quick else 1.0
    for size in (20,) if quick else SIZES:
        figures += _told(Scene(size=size, pace=pace))
    if not quick:
        figures += _told(Scene(size=1000, collector="frozen"))[:5]
        figures += _told(Scene(size=1000, collector="settled"))
    few = Scene(size=20 if quick else 300, pace=pace, collector="settled", stdio=True)
    figures += _told(attrs.evolve(few, window=3 * WINDOW))[:5]
    return figures + _every_core(
        Scene(size=20 if quick else 500, pace=pace, collector="settled")
    )


def measure_history() -> Figure:
    return trio.run(_measure_history)


async def _measure_history() -> Figure:
    took: list[float] = []
    config, tools = _config(Scene(size=1)), [_listen(0)]
    async with open_runtime(config, tools=tools, llm=InstantModel()) as runtime:
        for _ in range(60):
            begun = perf_counter()
            await _turn(runtime, 0, Seen())
            took.append(perf_counter() - begun)
    return figure("turn with a history", took[40:], unit="ms", bare=took[1:6])


def _told(scene: Scene) -> list[Figure]:
    """A scene in a process of its own, as figures: the first five are of time."""
    seen = in_fresh_process(measure_scene, scene)
    one = Figure(name="", unit="KiB", n=scene.size, p50=0.0)
    return [
        *_of_time(scene.name, [seen]),
        attrs.evolve(one, name=f"{scene.name}: idle", p50=seen.idle),
        attrs.evolve(one, name=f"{scene.name}: after turns", p50=seen.spoken),
        attrs.evolve(
            one, name=f"{scene.name}: left to the collector", unit="", p50=seen.garbage
        ),
    ]


def _of_time(name: str, all_seen: Sequence[Seen]) -> list[Figure]:
    """Lateness, turns and processor of some processes together."""
    late = list(chain.from_iterable(seen.late for seen in all_seen))
    bare = list(chain.from_iterable(seen.bare for seen in all_seen))
    turns = list(chain.from_iterable(seen.turns for seen in all_seen))
    shed = sum(seen.shed for seen in all_seen)
    rate = sum(len(seen.turns) / seen.wall for seen in all_seen)
    share = sum(100 * seen.processor / seen.wall for seen in all_seen)
    away = 100 * shed / max(1, shed + len(turns))
    n = max(1, len(turns))
    return [
        figure(f"{name}: lateness", late, unit="ms", bare=bare),
        figure(f"{name}: whole turn", turns, unit="ms"),
        Figure(name=f"{name}: turns", unit="1/s", n=n, p50=rate),
        Figure(name=f"{name}: turned away", unit="%", n=n, p50=away),
        Figure(name=f"{name}: processor", unit="%", n=n, p50=share),
    ]


def _every_core(scene: Scene) -> list[Figure]:
    """One process alone, and one on each core together."""
    (alone,) = _at_once(scene, 1)
    together = _at_once(scene, max(2, os.cpu_count() or 2))
    worst = max(together, key=lambda seen: percentile(99, seen.late or [0.0]))
    name = f"every core, {scene.size} each"
    found = _of_time(name, together)
    one = _of_time(f"one core, {scene.size}", [alone])
    rate = attrs.evolve(found[2], bare_p50=one[2].p50)
    if rate.p50 is not None and rate.bare_p50:
        rate = attrs.evolve(rate, ratio=rate.p50 / rate.bare_p50)
    return [
        *one,
        *found[:2],
        figure(f"{name}: worst process", worst.late, unit="ms", bare=worst.bare),
        rate,
        *found[3:],
    ]


def _at_once(scene: Scene, processes: int) -> list[Seen]:
    """The scene in so many fresh processes, which begin when all are ready."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        max_workers=processes,
        mp_context=spawn,
        initializer=_wait_with,
        initargs=(spawn.Barrier(processes),),
    ) as pool:
        return list(pool.map(measure_scene, [scene] * processes))


_others: list[Barrier] = []


def _wait_with(others: Barrier) -> None:
    _others.append(others)


def measure_scene(scene: Scene) -> Seen:
    return trio.run(_measure, scene)


async def _measure(scene: Scene) -> Seen:
    seen, size, pace = Seen(), scene.size, scene.pace
    model = InstantModel(THEIRS if scene.stdio else OURS)
    tools = [] if scene.stdio else [_listen(HANGS)]
    async with open_runtime(_config(scene), tools=tools, llm=model) as runtime:
        if not await runtime.wait_ready(within=PATIENCE):
            raise RuntimeError(str(runtime.servers()))
        await _turn(runtime, size, seen)
        before = resident()
        for at in range(size):
            runtime.npc(f"Guest {at}")
        await trio.sleep(0.2)
        seen.idle = (resident() - before) / size
        settle(scene.collector)
        for others in _others:
            await trio.to_thread.run_sync(partial(others.wait, PATIENCE))
        async with trio.open_nursery() as nursery:
            for at in range(size):
                nursery.start_soon(_guest, runtime, at, seen, pace)
            for _ in range(TIMERS):
                nursery.start_soon(_bare_timers, seen)
            await trio.sleep(RAMP * pace)
            seen.looking, begun, spent = True, perf_counter(), process_time()
            await trio.sleep(scene.window if pace == 1.0 else 1.5)
            seen.wall, seen.processor = perf_counter() - begun, process_time() - spent
            seen.looking = False
            nursery.cancel_scope.cancel()
        seen.garbage = await _left_to_the_collector(runtime, size)
        seen.spoken = (resident() - before) / size
    return seen


def settle(collector: Collector) -> None:
    """Do what an embedder with many sessions does when all of them are open."""
    if collector:
        gc.collect()
        gc.freeze()
    if collector == "settled":
        gc.set_threshold(700, 10, 10_000)


async def _left_to_the_collector(runtime: Runtime, at: int) -> float:
    """Count the objects that a turn leaves and only the collector can free."""
    turns = 20
    await _turn(runtime, at, Seen())
    gc.collect()
    gc.disable()
    for _ in range(turns):
        await _turn(runtime, at, Seen())
    found = gc.collect()
    gc.enable()
    return found / turns


def _config(scene: Scene) -> Config:
    servers = tuple(
        ServerSpec(
            name=name.partition(".")[0],
            command=(sys.executable, str(SERVER), str(HANGS if at == 2 else 0)),
            estimated_duration=0.005,
        )
        for at, (name, _) in enumerate(THEIRS)
    )
    theirs = tuple(name for name, _ in THEIRS)
    tools = theirs if scene.stdio else ("dice", "rules", "listen")
    return Config(
        mcp=McpConfig(servers=servers if scene.stdio else (), remember=False),
        npcs=tuple(
            NpcConfig(name=f"Guest {at}", tools=tools) for at in range(scene.size + 1)
        ),
        # By any other statistic, what hangs so often would not be let in any more.
        calibration=CalibrationConfig(at_start=False, tier_by=TierBy.P50),
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


async def _guest(runtime: Runtime, at: int, seen: Seen, pace: float) -> None:
    """One session's player: speaks every five seconds, listens to the end."""
    rng = random.Random(at)
    following = trio.current_time() + rng.uniform(0, EVERY) * pace
    while True:
        jitter = rng.uniform(-JITTER, JITTER) * pace
        await trio.sleep_until(following + jitter)
        await _turn(runtime, at, seen)
        following += EVERY * pace


async def _turn(runtime: Runtime, at: int, seen: Seen) -> None:
    async with runtime.npc(f"Guest {at}").say(UTTERANCE) as turn:
        async for event in turn:
            seen.event(event)
        seen.done(turn.done)


async def _bare_timers(seen: Seen) -> None:
    while True:
        patience = random.uniform(0.2, 0.5)
        due = perf_counter() + patience
        with trio.move_on_after(patience):
            await trio.sleep_forever()
        if seen.looking:
            seen.bare.append(perf_counter() - due)


def resident() -> float:
    """KiB of memory in use by this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


BENCHMARK = Benchmark(
    name="sessions",
    promise="1,000 sessions: ceilings end 20 ms late at p99, 64 KiB an idle one",
    measure=measure,
    budgets=(
        Budget(figure="1000 sessions, settled: lateness", statistic="p99", at_most=20),
        Budget(
            figure="300 sessions, stdio, settled: lateness", statistic="p99", at_most=20
        ),
        Budget(figure="1000 sessions: idle", statistic="p50", at_most=64),
        Budget(figure="1000 sessions: after turns", statistic="p50", at_most=64),
        Budget(
            figure="1000 sessions: left to the collector", statistic="p50", at_most=1
        ),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
