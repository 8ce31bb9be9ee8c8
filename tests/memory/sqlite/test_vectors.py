"""Vectors in a file: with sqlite-vec and without; how much is looked at; cancelled."""

from __future__ import annotations

import random
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import apsw
import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.extras import ExtraMissing
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.knowledge import Fact
from glyphoxa_trio.memory.sqlite import index, vectors
from glyphoxa_trio.memory.sqlite.index import remove_chunks
from glyphoxa_trio.memory.sqlite.schema import SCHEMA
from glyphoxa_trio.memory.sqlite.store import open_sqlite
from glyphoxa_trio.memory.sqlite.vectors import compared, load
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.storage.database import open_database

KEY = CampaignKey("mines")
MODEL = "meanings-1"
pytest.importorskip("sqlite_vec")


def filled(path: Path, number: int, size: int, *, seed: int = 1) -> None:
    """Make a file with facts and their vectors, in groups of similar ones."""
    chance = random.Random(seed)
    centres = [[chance.gauss(0, 1) for _ in range(size)] for _ in range(50)]
    with open_database(path, SCHEMA, prepare=load).changing() as connection:
        connection.execute("insert into campaign (tenant, name) values ('', 'mines')")
        connection.executemany(
            "insert into fact (campaign, text, standing, audience, basis, at,"
            " confidence, confirmed) values (1, ?, 'accepted', 0, 'stated', 0, 1, 0)",
            ((str(n),) for n in range(number)),
        )
        rows = [
            (
                n,
                vectors.packed(
                    [x + chance.gauss(0, 0.7) for x in chance.choice(centres)]
                ),
            )
            for n in range(1, number + 1)
        ]
        index._add(connection, MODEL, size, rows)


async def test_without_sqlite_vec_the_file_opens_and_a_search_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    filled(path, 3, 4)
    monkeypatch.setattr(vectors, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "sqlite_vec", None)  # for `extras`
    async with open_sqlite(path) as store:
        for asked in (
            lambda: store.index.pending(MODEL),
            lambda: store.index.search(KEY, GAME_MASTER, MODEL, (1.0,) * 4),
            lambda: store.index.add(MODEL, [(1, (1.0,) * 4)]),
        ):
            with pytest.raises(ExtraMissing, match=r"glyphoxa-trio\[memory\]"):
                await asked()
        assert await store.index.progress(MODEL) == (3, 3)
        # All that is removed takes its vectors along all the same.
        await store.graph.remove(KEY, fact=1)
        assert await store.index.progress(MODEL) == (2, 2)
        await store.index.drop_other_models("another")
        assert await store.index.progress(MODEL) == (0, 2)


async def test_an_extension_that_cannot_be_loaded_is_as_one_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ModuleSpec("sqlite_vec", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(vectors, "find_spec", lambda name: there)
    async with open_sqlite(tmp_path / "memory.db") as store:
        await store.graph.put(KEY, facts=[Fact(text="a")])
        with pytest.raises(ExtraMissing, match=r"glyphoxa-trio\[memory\]"):
            await store.index.add(MODEL, [(1, (1.0,) * 4)])
        assert await store.index.progress(MODEL) == (0, 1)


def test_nothing_else_can_load_extensions_afterwards(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "x.db", SCHEMA, prepare=load).connection
    with pytest.raises(apsw.SQLError, match="not authorized"):
        connection.execute("select load_extension('vec0')")


def test_few_are_compared_in_full() -> None:
    assert [compared(x) for x in (8, 256, 384, 1536, 4096)] == [
        4000,
        2343,
        1562,
        400,
        400,
    ]


async def test_of_many_nearly_all_of_the_nearest_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "memory.db", 3000, 64)
    chance = random.Random(7)
    async with open_sqlite(tmp_path / "memory.db") as store:
        shared = 0
        for _ in range(20):
            query = [chance.gauss(0, 1) for _ in range(64)]
            found = []
            for most in (300, 3000):  # the second is exact
                monkeypatch.setattr(index, "compared", lambda _, most=most: most)
                chunks = await store.index.search(KEY, GAME_MASTER, MODEL, query)
                found.append({x.chunk.text for x in chunks})
            assert [len(x) for x in found] == [10, 10]
            shared += len(found[0] & found[1])
    assert shared > 150  # by chance it would be 20


async def test_chunks_are_removed_with_their_vectors(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    filled(path, 5, 4)
    with open_database(path, SCHEMA).changing() as connection:
        assert remove_chunks(connection, [2, 3, 99]) == 2
        for table in ("vector", "code"):
            left = connection.execute(
                f"select chunk from {table} order by 1"
            ).fetchall()
            assert left == [(1,), (4,), (5,)]
        assert remove_chunks(connection, []) == 0


async def test_a_model_that_is_being_dropped_is_gone_at_once_and_bit_by_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "memory.db", 25, 4)
    monkeypatch.setattr(index, "_DROPPED", 10)
    async with open_sqlite(tmp_path / "memory.db") as store:
        drop, calls = index._drop_some, 0

        def dropping(connection: apsw.Connection) -> bool:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise apsw.FullError("full")
            return drop(connection)

        monkeypatch.setattr(index, "_drop_some", dropping)
        with pytest.raises(MemoryUnavailable):
            await store.index.drop_other_models("new")
        # As if it had no vectors, although some are there still.
        assert await store.index.progress(MODEL) == (0, 25)
        assert await store.index.search(KEY, GAME_MASTER, MODEL, (1.0,) * 4) == ()
        await store.index.drop_other_models("new")
        assert calls == 2 + 3
    with open_database(tmp_path / "memory.db", SCHEMA).reading() as connection:
        assert connection.execute("select count(*) from code").get == 0
        assert connection.execute("select count(*) from vector").get == 0
        assert connection.execute("select count(*) from model").get == 0


@pytest.mark.long
async def test_a_search_can_be_cancelled_while_it_compares(tmp_path: Path) -> None:
    filled(tmp_path / "memory.db", 20_000, 64)
    interrupted = 0
    async with open_sqlite(tmp_path / "memory.db") as store:
        search = store.index.search
        for _ in range(20):
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def searching() -> None:
                    nonlocal interrupted
                    with trio.CancelScope() as scope:
                        nursery.start_soon(cancel_soon, scope)
                        await search(KEY, GAME_MASTER, MODEL, (1.0,) * 64)
                    interrupted += scope.cancelled_caught

        # A busy machine may let a search end first, but not many of them.
        assert interrupted
        # And the reader is as good as before.
        assert len(await search(KEY, GAME_MASTER, MODEL, (1.0,) * 64)) == 10


async def cancel_soon(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()
