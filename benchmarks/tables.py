"""The cost of many sessions of one character, in memory and in time.

Promised: with 10,000 sessions open, a turn of one of them takes at most 1.25 times the
processor of a turn when it is the only one; a session takes at most 24 KiB while
nothing was said, and 48 after three turns of three calls.

Measured: `open_runtime` with one NPC and a model that answers at once, in a process of
its own. So many sessions are opened, and the NPC looked for in each; memory is the
growth of the resident set. Python's collector is told to stay away (`sessions`). Then
three turns of three in-process calls in each; memory again. Then turns of one new
session, twenty at a time, as `process_time`.

Against: the same turns of the first session, before there was another one.
"""

from __future__ import annotations

import attrs

import trio
import trio.testing

from benchmarks.common import Benchmark, Budget, Figure, figure, in_fresh_process, main
from benchmarks.sessions import resident, settle
from benchmarks.turn import CONFIG, Model, cost, look_up
from glyphoxa_trio import Session, open_runtime
from glyphoxa_trio.npc import TurnEnd

SESSIONS = 10_000
TURNS = 3
GROUPS = 20  # of turns that are timed together


@attrs.frozen
class Seen:
    """Memory in KiB a session, times in seconds a turn."""

    idle: float
    spoken: float
    alone: list[float]
    beside: list[float]


async def speak(session: Session) -> None:
    async with session.npc("Bo").say("Good evening! What is new?") as turn:
        done = await turn.finish()
    if done.end is not TurnEnd.COMPLETED or [x.ok for x in done.outcomes] != [True] * 3:
        raise RuntimeError(f"a turn did not end well: {done}")


async def timed(session: Session) -> list[float]:
    """Of a session that has had its first turns."""
    for _ in range(TURNS):
        await speak(session)
    return [await cost(lambda: speak(session)) for _ in range(GROUPS)]


async def look(size: int) -> Seen:
    async with open_runtime(CONFIG, llm=Model(3), tools=[look_up]) as runtime:
        alone = await timed(runtime.session("first"))
        before = resident()
        sessions = [runtime.session(f"table {at}") for at in range(size)]
        for session in sessions:
            session.npc("Bo")
            await trio.lowlevel.checkpoint()  # or all of them begin in one moment
        await trio.testing.wait_all_tasks_blocked()
        idle = resident()
        settle("settled")  # else the collector stops everything, for half a second
        for session in sessions:
            for _ in range(TURNS):
                await speak(session)
        spoken = resident()
        await runtime.session("first").end()
        beside = await timed(runtime.session("last"))
        return Seen((idle - before) / size, (spoken - before) / size, alone, beside)


def seen_in(size: int) -> Seen:
    return trio.run(look, size)


def measure(quick: bool) -> list[Figure]:
    size = 50 if quick else SESSIONS - 2
    seen = in_fresh_process(seen_in, size)
    memory = Figure(name="", unit="KiB", n=size, p50=0.0)
    return [
        attrs.evolve(memory, name="a session, nothing said", p50=seen.idle),
        attrs.evolve(memory, name="a session, three turns", p50=seen.spoken),
        figure("a turn beside all others", seen.beside, unit="ms", bare=seen.alone),
    ]


BENCHMARK = Benchmark(
    name="tables",
    promise="10,000 sessions of one character: a turn costs what it costs alone",
    measure=measure,
    budgets=(
        Budget(figure="a session, nothing said", statistic="p50", at_most=24.0),
        Budget(figure="a session, three turns", statistic="p50", at_most=48.0),
        Budget(figure="a turn beside all others", statistic="ratio", at_most=1.25),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
