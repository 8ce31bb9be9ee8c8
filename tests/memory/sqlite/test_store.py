"""A memory file: what is refused, who else has it open, full disks, deaths, copies.

Real files, processes and threads; what the methods return is in `contract`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import attrs
import pytest

import trio

from glyphoxa_trio.extras import ExtraMissing
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Holder, Line
from glyphoxa_trio.memory.errors import HeldElsewhere, MemoryUnavailable, MemoryUnusable
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.sqlite.holders import hold, is_alive
from glyphoxa_trio.memory.sqlite.schema import SCHEMA
from glyphoxa_trio.memory.sqlite.store import SqliteMemory, open_sqlite
from glyphoxa_trio.memory.sqlite.vectors import load
from glyphoxa_trio.memory.visibility import EVERYONE, GAME_MASTER, CampaignKey
from glyphoxa_trio.storage import pool
from glyphoxa_trio.storage.database import Schema, open_database

from .full_disk import numbers, turn, until_full

ROOT = Path(__file__).parents[3]
LIMIT = 100.0  # seconds; only a hang comes near it
BARROW = CampaignKey("barrow")


async def claimed(memory: SqliteMemory) -> Claim:
    return await memory.journal.claim("", "table", BARROW)


def contents(folder: Path) -> dict[str, bytes]:
    return {x.name: x.read_bytes() for x in folder.iterdir() if x.is_file()}


def names(folder: Path) -> list[str]:
    return sorted(x.name for x in folder.iterdir())


def _damaged(path: Path) -> None:
    open_database(path, SCHEMA).close()
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\x07" * 4000 + data[4100:])


def _no_database(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1000)


def _foreign(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("create table bookmarks (url)")
    connection.close()


def _of_another_kind(path: Path) -> None:
    open_database(path, Schema(what="notes", mark=7, migrations=("",))).close()


async def test_the_words_of_an_old_file_are_written_anew_behind_the_turns(
    tmp_path: Path,
) -> None:
    """Whoever is killed at any step leaves the rest to the next one."""
    path = tmp_path / "memory.db"
    before = attrs.evolve(SCHEMA, migrations=SCHEMA.migrations[:3])
    database = open_database(path, before, prepare=load)
    with database.changing() as connection:
        connection.execute(
            """
            create temp table number as with recursive number(value) as (
                select 1 union all select value + 1 from number where value < 500
            ) select value from number;
            insert into campaign values (1, '', 'barrow');
            insert into session (id, tenant, name, campaign) values (1, '', 'old', 1);
            insert into entry (id, session, n, epoch, kind, at)
                select value, 1, value, 1, 'line', value from number;
            insert into line (id, session, campaign, audience, at, speaker, text)
                select value, 1, 1, 0, value, 'Ann', '龙睡在黑塔里'
                from number;
            update line set text = 'a dragon' where id = 250;
            insert into line_words (rowid, words)
                select id << 20, '1z' || replace(text, ' ', ' 1z') from line;
            insert into entity (id, campaign, slug, kind, name, audience, basis, at,
                confidence, confirmed)
                values (7, 1, 'tower', 'lore', '黑塔之主', 0, 'authored', 1, 1, 1);
            insert into name values (1, 7, 0, '黑塔之主', '黑塔之主');
            insert into fact (id, campaign, text, standing, audience, basis, at,
                confidence, confirmed)
                values (9, 1, '黑塔很高', 'accepted', 0, 'authored', 1, 1, 1);
            insert into fact_words (rowid, scope, text) values (9, 'c1', '黑塔很高');
            """
        )
    database.close()
    async with open_sqlite(path) as store:  # left at once, as if it was killed
        assert await _found(store, "dragon") == 1
        claim = await store.journal.claim("", "new", BARROW)
        line = Line(text="黑塔", speaker="Ann", reach=EVERYONE)
        await store.journal.append(
            claim, [Entry(kind=EntryKind.LINE, at=1.0, line=line)]
        )
    while True:
        connection = apsw.Connection(str(path))
        left = connection.execute("select count(*) from stale_words").get
        connection.close()
        if not left:
            break
        async with open_sqlite(path) as store:
            assert await _found(store, "dragon") == 1
            await trio.sleep(0.03)
    async with open_sqlite(path) as store:
        assert await _found(store, "黑塔") == 500
        assert await _found(store, "dragon") == 1
        (entity,) = await store.graph.entities(BARROW, GAME_MASTER, name="黑塔")
        assert entity.id == "tower"
        (fact,) = await store.graph.facts(BARROW, GAME_MASTER, "黑塔")
        assert fact.fact.id == 9


async def test_words_that_cannot_be_written_anew_end_no_program(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    database = open_database(path, SCHEMA, prepare=load)
    with database.changing() as connection:
        connection.execute(
            """
            insert into campaign values (1, '', 'barrow');
            insert into fact (id, campaign, text, standing, audience, basis, at,
                confidence, confirmed)
                values (9, 1, '黑塔很高', 'accepted', 0, 'authored', 1, 1, 1);
            insert into stale_words values ('fact', 9);
            """
        )
        page = connection.execute(
            "select rootpage from sqlite_master where name = 'fact'"
        ).get
        size = connection.pragma("page_size")
    database.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    async with open_sqlite(path) as store:
        await trio.sleep(0.1)
        assert await store.campaigns() == (BARROW,)


async def _found(store: Memory, query: str) -> int:
    answer = await store.transcripts.search(BARROW, GAME_MASTER, query, limit=1000)
    return len(answer.lines)


async def test_a_file_of_before_learns_whom_lines_answer(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    first = attrs.evolve(SCHEMA, migrations=SCHEMA.migrations[:1])
    database = open_database(path, first, prepare=load)
    database.connection.execute(
        """
        insert into campaign values (1, '', 'barrow');
        insert into session (id, tenant, name, campaign) values
            (1, '', 'table', 1), (2, '', 'other', 1);
        insert into entry (id, session, n, epoch, kind, at)
            select value, 1 + (value > 4), value, 1, 'line', value
            from json_each('[1, 2, 3, 4, 5]');
        insert into line (id, session, campaign, audience, at, speaker, player,
            addressee, text) values
            (1, 1, 1, 0, 1, 'Ann', 'p1', 'Bo', 'a'),
            (2, 1, 1, 0, 2, 'Bo', '', 'Ann', 'b'),
            (3, 1, 1, 0, 3, 'Ann', 'p2', '', 'c'),
            (4, 1, 1, 0, 4, 'Bo', '', 'Dan', 'd'),
            (5, 2, 1, 0, 5, 'Bo', '', 'Ann', 'e');
        """
    )
    database.close()
    async with open_sqlite(path) as store:
        lines = await store.transcripts.recent(BARROW, GAME_MASTER)
        assert [x.line.answers for x in lines] == [(), ("p1", "p2"), (), (), ()]
        assert (await store.forget("", "p2")).lines == 2


def _newer(path: Path) -> None:
    later = (*SCHEMA.migrations, "create table later (x)")
    open_database(path, attrs.evolve(SCHEMA, migrations=later)).close()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_damaged, "damaged"),
        (_no_database, "not a database"),
        (_foreign, "not a file of memory"),
        (_of_another_kind, "not a file of memory"),
        (_newer, "a newer one wrote it"),
    ],
)
async def test_a_file_that_cannot_be_used_is_refused_and_stays_as_it_was(
    tmp_path: Path, make: type, told: str
) -> None:
    path = tmp_path / "memory.db"
    make(path)
    before = contents(tmp_path)
    with pytest.raises(MemoryUnusable, match=told) as refused:
        async with open_memory(str(path)):
            pytest.fail("it was opened")
    assert str(path) in str(refused.value)
    assert (contents(tmp_path), names(tmp_path)) == (before, ["memory.db"])


async def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MemoryUnavailable, match=str(tmp_path)):
        async with open_memory(str(tmp_path)):
            pytest.fail("it was opened")


async def test_an_entry_that_a_failing_disk_has_changed_is_told_with_the_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    async with open_sqlite(path) as memory:
        claim = await claimed(memory)
        await memory.journal.append(claim, [turn(1)])
        connection = apsw.Connection(str(path))
        connection.execute("update entry set data = 'nonsense'")
        connection.close()
        with pytest.raises(MemoryUnusable, match=str(path)):
            await memory.journal.load(claim)


async def test_a_database_needs_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ExtraMissing, match="postgres"):
        open_memory("postgresql://nobody:secret@example/memory")


async def test_what_is_written_durably_is_waited_for(tmp_path: Path) -> None:
    def level(connection: apsw.Connection) -> object:
        return connection.pragma("synchronous")

    for durable in (False, True):
        async with open_sqlite(tmp_path / "memory.db", durable=durable) as memory:
            assert await memory._pool.alone(level) == (2 if durable else 1)


async def test_closing_leaves_one_file_and_no_holder(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with open_sqlite(path) as memory:
        await claimed(memory)
        assert is_alive(path, memory.holder.id)
    assert names(tmp_path) == ["memory.db"]
    assert not is_alive(path, memory.holder.id)
    async with open_sqlite(path) as memory:
        (row,) = await memory.journal.sessions()
        assert row.holder == ""
        held = "select count(*) from session where holder <> ''"
        assert await memory._pool.read(lambda c: c.execute(held).get) == 0


def test_who_comes_by_another_path_finds_the_same_holders(tmp_path: Path) -> None:
    path, link = tmp_path / "memory.db", tmp_path / "other" / "link.db"
    path.touch()
    link.parent.mkdir()
    link.symlink_to(path)
    lock = hold(path)
    assert is_alive(link, lock.holder.id)
    lock.release()
    assert not is_alive(link, lock.holder.id)


def test_the_files_of_dead_holders_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    living = hold(path)
    folder = tmp_path / "memory.db.holders"
    (folder / "dead").touch()
    lock = hold(path)
    assert {x.name for x in folder.iterdir()} == {living.holder.id, lock.holder.id}
    living.release()
    lock.release()
    assert not folder.exists()


async def test_a_backup_is_a_memory_of_its_own(tmp_path: Path) -> None:
    path, to = tmp_path / "memory.db", tmp_path / "copy.db"
    to.write_text("an older copy")
    async with open_sqlite(path) as memory:
        claim = await claimed(memory)
        await memory.journal.append(claim, [turn(1)])
        await memory.backup(to)
        await memory.journal.append(claim, [turn(2)])
    async with open_sqlite(to) as copy:
        assert await numbers(copy, await claimed(copy)) == [1]
        with pytest.raises(MemoryUnavailable, match="nowhere"):
            await copy.backup(tmp_path / "nowhere" / "copy.db")


@pytest.mark.border
async def test_a_file_that_another_program_has_locked_can_be_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PATIENCE", 0.1)
    path = tmp_path / "memory.db"
    async with open_sqlite(path) as memory:
        claim = await claimed(memory)
        with process(LOCKS, path):
            for _ in range(2):
                with pytest.raises(MemoryUnavailable, match="another program"):
                    await memory.journal.append(claim, [turn(1)])
            assert await memory.journal.load(claim) == ()
        await memory.journal.append(claim, [turn(2)])
        assert await numbers(memory, claim) == [2]


LOCKS = """
import apsw, sys

file = apsw.Connection(sys.argv[1])
file.execute("begin immediate")
print(flush=True)
sys.stdin.read()
"""
HOLDS = """
import sys, trio
from pathlib import Path
from glyphoxa_trio.memory.sqlite.store import open_sqlite
from glyphoxa_trio.memory.visibility import CampaignKey

async def hold():
    async with open_sqlite(Path(sys.argv[1])) as memory:
        await memory.journal.claim("", "table", CampaignKey("barrow"))
        print(flush=True)
        sys.stdin.read()

trio.run(hold)
"""


@contextmanager
def process(code: str, path: Path) -> Iterator[int]:
    """Run a program on a file until the block is left, and kill it then.

    Yields its process id when it has printed a line.
    """
    command = [sys.executable, "-c", code, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"\n"
            yield running.pid
        finally:
            running.kill()


@pytest.mark.border
async def test_a_session_of_another_process_is_free_when_that_is_killed(
    tmp_path: Path,
) -> None:
    # G38
    path = tmp_path / "memory.db"
    async with open_sqlite(path) as memory:
        with process(HOLDS, path) as pid:
            with pytest.raises(HeldElsewhere, match=f"process {pid}"):
                await claimed(memory)
            (row,) = await memory.journal.sessions()
            assert f"process {pid}" in row.holder
        assert (await claimed(memory)).epoch == 2


async def test_a_file_that_may_not_grow_can_be_written_when_it_may(
    tmp_path: Path,
) -> None:
    async with open_sqlite(tmp_path / "memory.db") as memory:
        claim = await claimed(memory)

        def most(connection: apsw.Connection, pages: int) -> None:
            pages += connection.pragma("page_count")
            connection.execute(f"pragma max_page_count = {pages}")

        await memory._pool.alone(most, 20)
        last = await until_full(memory, claim)
        assert last > 10
        # Nothing of those that wait together is written, and each of them is told.
        failed = []

        async def append(number: int) -> None:
            with pytest.raises(MemoryUnavailable, match="full"):
                await memory.journal.append(claim, [turn(number)])
            failed.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(append, number)
        assert len(failed) == 10
        assert await numbers(memory, claim) == list(range(1, last + 1))
        await memory._pool.alone(most, 20)
        assert await until_full(memory, claim, last + 1) > last
        kept = await numbers(memory, claim)
        assert kept == list(range(1, len(kept) + 1))


@pytest.mark.border
def test_a_disk_that_is_full_can_be_written_when_there_is_room(
    tmp_path: Path,
) -> None:
    # G38
    if shutil.which("unshare") is None:
        pytest.skip("there is no `unshare` here")
    allowed = subprocess.run(["unshare", "-rm", "true"], check=False)
    if allowed.returncode:
        pytest.skip("this machine mounts nothing for an ordinary user")
    code = ["-m", "tests.memory.sqlite.full_disk", str(tmp_path)]
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, *code],
        cwd=ROOT,
        check=False,
        timeout=LIMIT,
        capture_output=True,
        text=True,
    )
    if done.returncode == 77:
        pytest.skip(f"this machine mounts nothing: {done.stderr}")
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_what_was_acknowledged_survives_twenty_kills(tmp_path: Path) -> None:
    # G38
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.memory.soak"),
            *("20", str(tmp_path / "memory.db"), "1"),
        ],
        cwd=ROOT,
        check=False,
        timeout=LIMIT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 100


async def test_one_append_that_cannot_be_written_does_not_spoil_the_others(
    tmp_path: Path,
) -> None:
    async with open_sqlite(tmp_path / "memory.db") as memory:
        claim = await claimed(memory)

        async def bad() -> None:
            # SQLite has integers of 64 bits.
            with pytest.raises(OverflowError):
                await memory.journal.append(
                    claim, [Entry(kind=EntryKind.TURN, at=1.0, turn=2**70)]
                )

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(memory.journal.append, claim, [turn(number)])
                nursery.start_soon(bad)
        assert sorted(await numbers(memory, claim)) == list(range(5))


async def test_appends_that_wait_together_share_a_commit(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "memory.db") as memory:
        claim = await claimed(memory)
        log = tmp_path / "memory.db-wal"
        before = log.stat().st_size
        await memory.journal.append(claim, [turn(0)])
        one = log.stat().st_size - before
        async with trio.open_nursery() as nursery:
            for number in range(1, 51):
                nursery.start_soon(memory.journal.append, claim, [turn(number)])
        assert log.stat().st_size - before - one < 25 * one
        assert len(await numbers(memory, claim)) == 51


async def test_an_append_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "memory.db") as memory:
        claim = await claimed(memory)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(memory.journal.append, claim, [turn(1)])
            await trio.testing.wait_all_tasks_blocked()
            with trio.CancelScope() as scope:
                scope.cancel()
                await memory.journal.append(claim, [turn(2)])
        with trio.fail_after(30):
            await memory.journal.append(claim, [turn(3)])
        assert await numbers(memory, claim) == [1, 3]


async def test_a_reader_is_interrupted_when_it_is_cancelled(tmp_path: Path) -> None:
    def for_ever(connection: apsw.Connection) -> object:
        return connection.execute(
            "with recursive n (x) as (values (1) union all select x + 1 from n)"
            " select count(*) from n"
        ).get

    async with open_sqlite(tmp_path / "memory.db") as memory:
        for _ in range(5):  # more than there are readers
            with trio.move_on_after(0.02) as scope:
                await memory._pool.read(for_ever)
            assert scope.cancelled_caught
        assert await memory.campaigns() == ()


async def test_a_deadline_that_is_put_off_is_no_error(tmp_path: Path) -> None:
    def a_while(connection: apsw.Connection) -> object:
        return connection.execute(
            "with recursive n (x) as (values (1) union all select x + 1 from n"
            " where x < 2000000) select count(*) from n"
        ).get

    async with open_sqlite(tmp_path / "memory.db") as memory:
        with trio.move_on_after(0.01) as scope:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def put_off() -> None:
                    scope.deadline = float("inf")

                assert await memory._pool.read(a_while) == 2000000


def test_a_holder_says_for_people_which_process_it_is(tmp_path: Path) -> None:
    lock = hold(tmp_path / "memory.db")
    assert isinstance(lock.holder, Holder)
    assert str(os.getpid()) in lock.holder.where
    lock.release()
