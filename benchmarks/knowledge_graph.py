"""The cost of a knowledge graph in a file, as an NPC asks for it in a turn.

Promised, with 1,000 entities and 5,000 relationships: an identity snapshot takes at
most 5 ms, of depth 1 at most 1 ms and of depth 3 at most 5 ms; an entity is written in
2 ms; entities are found by name, and facts by words, in 5 ms; all names are read in
10 ms (p99). Measured with ten times as many as well, so that the slope is seen.

Measured: `SqliteGraph` in a file of its own. One end in twenty is one of the ten best
known entities, each of the five facts an entity is about two, one thing in three is
known to few NPCs or needs a topic, half of them have attributes, and half were heard in
an evening. The viewer is an NPC with two topics. ``a snapshot`` is found by a name.
Facts are asked for with a name, whose words are in one of seven and one of thirty of
them; ``common words`` has a verb as well, which is in one of nine.

Against: a read of the same file that does nothing but cross to its thread and back.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import apsw

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.memory.knowledge import (
    AUTHORED,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Relationship,
)
from glyphoxa_trio.memory.sqlite.graph import SqliteGraph
from glyphoxa_trio.memory.sqlite.schema import SCHEMA
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer
from glyphoxa_trio.storage.pool import open_pool

KEY = CampaignKey("the realm")
VIEWER = Viewer("Bartok", frozenset({"magic", "war"}))
FIRST = [f"{x}{y}" for x in ("Al", "Bro", "Ca", "Du", "El") for y in ("bar", "da", "n")]
LAST = [f"{x}{y}" for x in ("Wyrm", "Gold", "Sea", "Raven") for y in FIRST]
VERBS = ["fears", "hates", "owns", "seeks", "guards", "knows", "sold", "found", "lost"]
TYPES = ("lives_in", "member_of", "owns", "fears", "knows", "brother_of")
HUBS = 10


def world(size: int) -> dict[str, Any]:
    chance = random.Random(5)

    def reach() -> Reach:
        return chance.choice(
            [Reach()] * 6
            + [Reach.of("Bartok", "Ann"), Reach.of("Ann")]
            + [Reach(topics=frozenset({"magic"}))]
        )

    def told() -> Provenance:
        heard = chance.random() < 0.5
        return Provenance(at=float(chance.randrange(100_000))) if heard else AUTHORED

    def some() -> dict[str, Any]:
        given = {"race": "elf", "age": chance.randrange(900)}
        return given if chance.random() < 0.5 else {}

    def called(at: int) -> str:
        return f"{chance.choice(FIRST)} {chance.choice(LAST)} {at}"

    def one() -> str:
        return f"e{chance.randrange(HUBS if chance.random() < 0.05 else size)}"

    entities = [
        Entity(
            id=f"e{at}",
            kind=chance.choice(list(EntityKind)),
            name=called(at),
            aliases=(f"the {called(at)}",) if at % 3 == 0 else (),
            summary="An old acquaintance of the ferryman, who owes him a silver.",
            attributes=some(),
            reach=reach(),
            provenance=told(),
        )
        for at in range(size)
    ]
    edges = [
        Relationship(
            source=one(),
            type=chance.choice(TYPES),
            target=one(),
            attributes=some(),
            reach=reach(),
            provenance=told(),
        )
        for _ in range(5 * size)
    ]
    facts = [
        Fact(
            text=f"{called(at)} {chance.choice(VERBS)} {called(at + 1)}.",
            about=(one(), one()),
            reach=reach(),
            provenance=told(),
        )
        for at in range(5 * size)
    ]
    return {"entities": entities, "relationships": edges, "facts": facts}


def nothing(connection: apsw.Connection) -> None:
    del connection


async def timed(times: int, act: Callable[[int], Awaitable[object]]) -> list[float]:
    found = []
    for at in range(times):
        began = perf_counter()
        await act(at)
        found.append(perf_counter() - began)
    return found


async def asked(size: int, times: int, path: Path) -> list[Figure]:
    chance = random.Random(7)
    known = world(size)
    async with open_pool(path, SCHEMA) as pool:
        graph = SqliteGraph(pool)
        await graph.put(KEY, **known)
        entities = [x for x in known["entities"] if x.reach.reaches(VIEWER)]
        del known
        gc.collect()
        gc.freeze()  # as the command and a service do (`settle`)
        wanted = [chance.choice(entities) for _ in range(times)]

        async def identity(at: int, depth: int) -> None:
            await graph.identity(KEY, VIEWER, wanted[at].id, depth=depth)

        async def facts(at: int) -> None:
            await graph.facts(KEY, VIEWER, wanted[at].name)

        async def broad(at: int) -> None:
            query = f"Who {chance.choice(VERBS)} {wanted[at].name}?"
            await graph.facts(KEY, VIEWER, query)

        async def upsert(at: int) -> None:
            await graph.put(KEY, entities=[wanted[at]])

        acts: dict[str, Callable[[int], Awaitable[object]]] = {
            "snapshot": lambda at: graph.identity(KEY, VIEWER, wanted[at].name),
            "depth 1": lambda at: identity(at, 1),
            "depth 3": lambda at: identity(at, 3),
            "entities by name": lambda at: graph.entities(
                KEY, VIEWER, name=wanted[at].name.rsplit(maxsplit=1)[0]
            ),
            "facts by words": facts,
            "facts by common words": broad,
            "upsert": upsert,
        }
        figures = []
        for name, act in acts.items():
            await timed(3, act)
            hop = await timed(times, lambda _: pool.read(nothing))
            taken = await timed(times, act)
            figures.append(figure(f"{name} of {size}", taken, unit="ms", bare=hop))
        hop = await timed(times, lambda _: pool.read(nothing))
        taken = await timed(max(5, times // 10), lambda _: graph.names(KEY))
        figures.append(figure(f"names of {size}", taken, unit="ms", bare=hop))
        return figures


def measure(quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    for size in (100,) if quick else (1000, 10_000):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "memory.db"
            figures += trio.run(asked, size, 20 if quick else 500, path)
    return figures


MOST = {
    "snapshot": 5.0,
    "depth 1": 1.0,
    "depth 3": 5.0,
    "entities by name": 5.0,
    "facts by words": 5.0,
    "upsert": 2.0,
    "names": 10.0,
}
BENCHMARK = Benchmark(
    name="knowledge_graph",
    promise="1,000 entities are asked in 5 ms, and a neighbourhood in 1 ms",
    measure=measure,
    budgets=tuple(
        Budget(figure=f"{name} of 1000", statistic="p99", at_most=most)
        for name, most in MOST.items()
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
