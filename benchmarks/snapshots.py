"""The cost of keeping a session, and of bringing it back.

Promised: a snapshot of a session of 40 turns, each of three calls that answered 1 KiB,
is bytes after at most 2 ms, and a session again after at most 2 ms (p99).

Measured: `open_runtime` with one NPC and a model that answers at once; that session is
taken a snapshot of, as bytes, signed; and restored from them under another name, which
is ended. ``spoken to again`` is a turn in one of two such sessions with room for one:
each sets the other aside, and is brought back.

Against: `json` and SHA-256 alone on the same bytes; for the turn, the same turn with
room for both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from time import perf_counter

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.turn import CONFIG, Model
from glyphoxa_trio import Session, open_runtime, tool
from glyphoxa_trio.config.sessions import SessionsConfig
from glyphoxa_trio.secret import Secret

TURNS = 40
KEY = Secret("a key of the benchmark")


@tool(group="lore", estimated_duration_ms=1, max_duration_ms=400, read_only=True)
async def look_up(term: str) -> str:
    """Look up a term in the lore of the realm."""
    return f"{term} " * (1024 // (len(term) + 1))


async def speak(session: Session) -> None:
    async with session.npc("Bo").say("Good evening! What is new?") as turn:
        done = await turn.finish()
    if [x.ok for x in done.outcomes] != [True] * 3:
        raise RuntimeError(f"a turn did not end well: {done}")


def timed(once: Callable[[], object], times: int) -> list[float]:
    found = []
    for _ in range(times):
        began = perf_counter()
        once()
        found.append(perf_counter() - began)
    return found


async def kept(times: int) -> list[Figure]:
    config = attrs.evolve(CONFIG, sessions=SessionsConfig(key=KEY))
    async with open_runtime(config, llm=Model(3), tools=[look_up]) as runtime:
        session = runtime.session("one")
        for _ in range(TURNS):
            await speak(session)
        taken, restored = [], []
        for at in range(times):
            began = perf_counter()
            data = (await session.snapshot()).to_bytes(KEY)
            taken.append(perf_counter() - began)
            began = perf_counter()
            other = runtime.session(f"again {at}", restore=data)
            npc = other.npc("Bo")
            restored.append(perf_counter() - began)
            await npc.overhear("Dan", "It is awake.")
            await other.end()
        body = data.partition(b"\n")[2]
        value = json.loads(body)

        def written() -> None:
            hashlib.sha256(json.dumps(value).encode()).digest()

        def read() -> None:
            hashlib.sha256(body).digest(), json.loads(body)

        return [
            figure("a snapshot as bytes", taken, unit="ms", bare=timed(written, times)),
            figure("a session of them", restored, unit="ms", bare=timed(read, times)),
        ]


async def alternating(most: int, times: int) -> list[float]:
    config = attrs.evolve(CONFIG, sessions=SessionsConfig(most=most, key=KEY))
    found: list[float] = []
    async with open_runtime(config, llm=Model(3), tools=[look_up]) as runtime:
        for at in range(2 * TURNS + times):
            session = runtime.session("one" if at % 2 else "two")
            began = perf_counter()
            await speak(session)
            if at >= 2 * TURNS:
                found.append(perf_counter() - began)
    return found


def measure(quick: bool) -> list[Figure]:
    times = 20 if quick else 1000
    figures = trio.run(kept, times)
    awake = trio.run(alternating, 2, times)
    woken = trio.run(alternating, 1, times)
    return [*figures, figure("spoken to again", woken, unit="ms", bare=awake)]


BENCHMARK = Benchmark(
    name="snapshots",
    promise="a session of 40 turns is kept, and brought back, in 2 ms each",
    measure=measure,
    budgets=(
        Budget(figure="a snapshot as bytes", statistic="p99", at_most=2.0),
        Budget(figure="a session of them", statistic="p99", at_most=2.0),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
