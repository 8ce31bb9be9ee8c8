"""The time of a search for what is similar in meaning, and what it misses.

Promised, with 50,000 chunks in a file: a search takes at most 30 ms as p99 with vectors
of 384 numbers, and of 1,536 as well; of the ten most similar chunks it finds at least
95 % on average; and it ends at most 5 ms after its deadline.

Measured: a memory file with 1,000, 10,000 and 50,000 facts of one campaign. Facts have
one of twelve audiences. Half of the questions are an NPC's, who is in seven of them,
half the game master's. The vectors are random; their parts are as unequal as those of
real models, in random directions, and there are no groups of similar ones, so that it
is hard to tell the nearest from others. ``missed`` is the part of the ten nearest that
a search did not find, compared with all distances. ``after the deadline``: how late a
search ends.

Against: sqlite-vec's own table with the same vectors and the same restriction, asked in
one thread.
"""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Protocol

import apsw
import attrs
import numpy as np

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.knowledge import Fact
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.sqlite.vectors import load
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Reach
from glyphoxa_trio.memory.visibility import Viewer as NPC

SIZES = (1_000, 10_000, 50_000)
DIMENSIONS = (384, 1_536)
AUDIENCES = 12
SEEN = 7  # of them, by the NPC
MAIN, MODEL = CampaignKey("barrow"), "a model"
TOP, AT_ONCE = 10, 500


@attrs.define
class Meanings:
    """A source of vectors of the length 1, and all that it has made so far."""

    dimensions: int
    made: np.random.Generator = attrs.field(factory=lambda: np.random.default_rng(17))
    turned: Any = attrs.field(init=False)
    known: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        size = self.dimensions
        turned, _ = np.linalg.qr(self.made.normal(size=(size, size)))
        self.turned = turned * np.sqrt(1 / (1 + np.arange(size)))[:, None]
        self.known = np.zeros((0, size), "float32")

    def several(self, number: int) -> Any:
        found = self.made.normal(size=(number, self.dimensions)) @ self.turned
        return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype("float32")

    def nearest(self, query: Any, viewer: NPC) -> set[int]:
        """Return the numbers of the most similar facts that the viewer may know."""
        score = self.known @ query
        if viewer.npc is not None:
            score[np.arange(len(score)) % AUDIENCES >= SEEN] = -2
        return set(np.argpartition(-score, TOP)[:TOP].tolist())


def reach(number: int) -> Reach:
    audience = number % AUDIENCES
    return Reach.of("Bo" if audience < SEEN else "Mira", f"NPC {audience}")


class Bare(Protocol):
    """The vectors alone, in the same kind of database."""

    def add(self, numbers: range, vectors: Any) -> None:
        """Add vectors, the first of which has the first of the numbers."""

    def search(self, query: Any, most: int) -> None:
        """Find the nearest ones of audiences below a number."""


async def grow(store: Memory, meanings: Meanings, bare: Bare, to: int) -> None:
    for first in range(len(meanings.known), to, AT_ONCE):
        new = range(first, min(first + AT_ONCE, to))
        facts = [Fact(text=str(n), reach=reach(n)) for n in new]
        await store.graph.put(MAIN, facts=facts)
        meanings.known = np.concatenate([meanings.known, meanings.several(len(new))])
        pending = await store.index.pending(MODEL, limit=AT_ONCE)
        vectors = [(x.id, meanings.known[int(x.text)].tolist()) for _, x in pending]
        await store.index.add(MODEL, vectors)
        bare.add(new, meanings.known[new.start : new.stop])


@attrs.frozen
class SqliteVectors:
    """Vectors in a table of sqlite-vec."""

    connection: apsw.Connection

    @classmethod
    def made(cls, dimensions: int, path: Path) -> SqliteVectors:
        connection = apsw.Connection(str(path))
        load(connection)
        connection.execute(
            "create virtual table vectors using vec0("
            f"audience integer, vector float[{dimensions}] distance_metric=cosine)"
        )
        return cls(connection)

    def add(self, numbers: range, vectors: Any) -> None:
        self.connection.execute("begin")
        self.connection.executemany(
            "insert into vectors (rowid, audience, vector) values (?, ?, ?)",
            (
                (n, n % AUDIENCES, vector.tobytes())
                for n, vector in zip(numbers, vectors, strict=True)
            ),
        )
        self.connection.execute("commit")

    def search(self, query: Any, most: int) -> None:
        self.connection.execute(
            f"select rowid from vectors where vector match ? and k = {TOP}"
            f" and audience < {most}",
            (query.tobytes(),),
        ).fetchall()


async def of_size(
    store: Memory, meanings: Meanings, bare: Bare, size: int, times: int
) -> list[Figure]:
    took, alone, missed = [], [], []
    queries = meanings.several(times)
    for number, query in enumerate(queries):
        viewer = NPC("Bo") if number % 2 else GAME_MASTER
        asked = query.tolist()
        began = perf_counter()
        found = await store.index.search(MAIN, viewer, MODEL, asked, limit=TOP)
        took.append(perf_counter() - began)
        right = meanings.nearest(query, viewer)
        missed.append(1 - len(right & {int(x.chunk.text) for x in found}) / TOP)
        if number % 4 < 2:
            most = AUDIENCES if viewer.npc is None else SEEN
            began = perf_counter()
            bare.search(query, most)
            alone.append(perf_counter() - began)
    of = f"of {size:,} x {meanings.dimensions}"
    share = sum(missed) / len(missed)
    return [
        figure(f"a search {of}", took, unit="ms", bare=alone),
        Figure(name=f"missed {of}", unit="", n=times, p50=share),
    ]


async def lateness(store: Memory, meanings: Meanings, times: int) -> list[float]:
    """Return how long after its deadline a search ended, if it did not end before."""
    made, found = random.Random(19), []
    for query in meanings.several(times):
        deadline = perf_counter() + made.uniform(0.001, 0.006)
        with trio.move_on_after(deadline - perf_counter()) as scope:
            await store.index.search(MAIN, GAME_MASTER, MODEL, query.tolist())
        if scope.cancelled_caught:
            found.append(perf_counter() - deadline)
    return found


async def measured(
    folder: Path, dimensions: int, sizes: tuple[int, ...], times: int
) -> list[Figure]:
    figures = list[Figure]()
    meanings = Meanings(dimensions)
    bare = SqliteVectors.made(dimensions, folder / f"bare-{dimensions}.db")
    async with open_memory(str(folder / f"memory-{dimensions}.db")) as store:
        for size in sizes:
            await grow(store, meanings, bare, size)
            figures += await of_size(store, meanings, bare, size, times)
        late = await lateness(store, meanings, times)
        of = f"of {sizes[-1]:,} x {dimensions}"
        figures.append(figure(f"after the deadline {of}", late, unit="ms"))
    bare.connection.close()
    return figures


def measure(quick: bool) -> list[Figure]:
    figures = list[Figure]()
    for dimensions in DIMENSIONS[:1] if quick else DIMENSIONS:
        with TemporaryDirectory() as folder:
            sizes, times = (SIZES[:1], 20) if quick else (SIZES, 400)
            figures += trio.run(measured, Path(folder), dimensions, sizes, times)
    return figures


BENCHMARK = Benchmark(
    name="semantic_index",
    promise="of 50,000 chunks, the most similar are found in 30 ms",
    measure=measure,
    budgets=tuple(
        Budget(
            figure=f"{what} of {SIZES[-1]:,} x {dimensions}",
            statistic=statistic,
            at_most=most,
        )
        for dimensions in DIMENSIONS
        for what, statistic, most in (
            ("a search", "p99", 30.0),
            ("missed", "p50", 0.05),
            ("after the deadline", "p99", 5.0),
        )
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
