"""A memory in a real database: what is refused, restarts, cuts, deaths."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import trio

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import (
    Fenced,
    HeldElsewhere,
    MemoryUnavailable,
    MemoryUnusable,
)
from glyphoxa_trio.memory.knowledge import Entity, EntityKind, Fact
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.postgres import migrating, open_postgres
from glyphoxa_trio.memory.postgres.rows import index_words
from glyphoxa_trio.memory.postgres.schema import MIGRATIONS
from glyphoxa_trio.memory.visibility import EVERYONE, GAME_MASTER, CampaignKey

from .proxy import a_proxy
from .server import Server, a_server, cut

ROOT = Path(__file__).parents[3]
LIMIT = 60.0  # seconds; only a hang comes near it
pytestmark = pytest.mark.border
BARROW = CampaignKey("barrow")


def line(n: int) -> Entry:
    said = Line(text=f"number {n}", speaker="Ann", player="ann", reach=EVERYONE)
    return Entry(kind=EntryKind.LINE, at=1000.0 + n, line=said)


def layout(address: str) -> list[tuple[object, ...]]:
    with psycopg.connect(address) as connection:
        return connection.execute(
            "select table_schema, table_name, column_name from"
            " information_schema.columns where table_schema not in"
            " ('pg_catalog', 'information_schema') order by 1, 2, 3"
        ).fetchall()


def execute(address: str, sql: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute(sql.encode())


@pytest.fixture
def own_server() -> Generator[Server]:
    """A server that the test may stop."""
    with a_server() as server:
        if server is None:
            pytest.skip("PostgreSQL is not installed")
        yield server


async def test_a_memory_is_opened_by_its_address(database: str) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(database)
    address = (
        f"postgresql://{parts['user']}:hunter2@/{parts['dbname']}?host={parts['host']}"
    )
    async with open_memory(address) as memory:
        assert memory.place.startswith(f"the database {parts['dbname']} at ")
        assert "hunter2" not in repr(memory)
        with pytest.raises(MemoryUnavailable, match="pg_dump --schema=glyphoxa") as no:
            await memory.backup(Path("copy.dump"))
        assert "hunter2" not in str(no.value)


async def test_the_words_of_an_old_memory_are_written_anew_behind_the_turns(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed at any step leaves the rest to the next one."""
    with monkeypatch.context() as patch, psycopg.connect(database) as connection:
        patch.setattr(migrating, "MIGRATIONS", MIGRATIONS[:4])
        migrating.migrate(connection)
        connection.execute(
            """
            insert into campaign (tenant, name) values ('', 'barrow');
            insert into session (tenant, name, campaign)
                values ('', 'table', 1), ('', 'other', 1);
            insert into line (session, n, epoch, campaign, at, npc, turn, data, evening,
                speaker, player, addressee, text, corrected, seconds, audience, words)
            select 1 + n % 2, n, 1, 1, n, '', 0, '{}', '', 'Ann', '', '', text, '', 0,
                0, array_to_tsvector(string_to_array(text, ' ') || array['@1'])
            from (
                select n, case n when 250 then 'a dragon'
                    else '龙睡在黑塔里' end as text
                from generate_series(1, 500) as n
            ) as said;
            insert into entity (campaign, slug, kind, name, folded, summary, attributes,
                audience, basis, at, confidence, confirmed)
                values (1, 'tower', 'lore', '黑塔之主', '黑塔之主', '', '{}',
                0, 'authored', 1, 1, true);
            insert into name values (1, 1, 0, '黑塔之主', '黑塔之主', '{黑塔之主}');
            insert into fact (campaign, text, standing, audience, basis, at, confidence,
                confirmed, words)
                values (1, '黑塔很高', 'accepted', 0, 'authored', 1, 1, true,
                '黑塔很高');
            """
        )

    async def count(store: Memory, query: str) -> int:
        answer = await store.transcripts.search(BARROW, GAME_MASTER, query, limit=1000)
        return len(answer.lines)

    async with open_postgres(database) as store:  # left at once, as if it was killed
        assert await count(store, "dragon") == 1
    left = True
    while left:
        async with open_postgres(database) as store, open_postgres(database) as other:
            assert await count(other, "dragon") == 1
            await trio.sleep(0.05)
        with psycopg.connect(database) as connection:
            left = bool(
                connection.execute("select from glyphoxa.stale_words").fetchall()
            )
    async with open_postgres(database) as store:
        assert await count(store, "黑塔") == 499
        assert await count(store, "dragon") == 1
        (entity,) = await store.graph.entities(BARROW, GAME_MASTER, name="黑塔")
        assert entity.id == "tower"
        (fact,) = await store.graph.facts(BARROW, GAME_MASTER, "黑塔")
        assert fact.fact.text == "黑塔很高"


async def test_the_server_knows_a_world_as_soon_as_it_is_imported(
    database: str,
) -> None:
    def seen() -> object:
        with psycopg.connect(database) as connection:
            row = connection.execute(
                "select reltuples from pg_class where relname = 'entity'"
            ).fetchone()
        assert row is not None
        return row[0]

    world = [
        Entity(id=f"e{n}", kind=EntityKind.LOCATION, name=f"Place {n}")
        for n in range(500)
    ]
    async with open_postgres(database) as store:
        await store.graph.put(BARROW, entities=world[:2])
        assert seen() == -1  # it was never looked at
        await store.graph.put(BARROW, entities=world)
        assert seen() == 500


async def test_a_memory_of_before_learns_whom_lines_answer(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, psycopg.connect(database) as connection:
        patch.setattr(migrating, "MIGRATIONS", MIGRATIONS[:1])
        migrating.migrate(connection)
        connection.execute(
            """
            insert into campaign (tenant, name) values ('', 'barrow');
            insert into session (tenant, name, campaign)
                values ('', 'table', 1), ('', 'other', 1);
            insert into line (session, n, epoch, campaign, at, npc, turn, data, evening,
                speaker, player, addressee, text, corrected, seconds, audience, words)
            select session, n, 1, 1, n, '', 0, '{}', '', speaker, player, addressee,
                'x', '', 0, 0, '' from (values
                (1, 1, 'Ann', 'p1', 'Bo'), (1, 2, 'Bo', '', 'Ann'),
                (1, 3, 'Ann', 'p2', ''), (1, 4, 'Bo', '', 'Dan'),
                (2, 5, 'Bo', '', 'Ann')
            ) as x (session, n, speaker, player, addressee)
            """
        )
    async with open_postgres(database) as store:
        lines = await store.transcripts.recent(BARROW, GAME_MASTER)
        assert [x.line.answers for x in lines] == [(), ("p1", "p2"), (), (), ()]
        assert (await store.forget("", "p2")).lines == 2


async def test_a_newer_memory_is_refused_and_left_alone(database: str) -> None:
    async with open_postgres(database):
        pass
    execute(database, "update glyphoxa.version set version = 1000")
    before = layout(database)
    with pytest.raises(MemoryUnusable, match="newer version 1000"):
        async with open_postgres(database):
            pass
    assert layout(database) == before


@pytest.mark.parametrize(
    "sql",
    [
        "create schema glyphoxa; create table glyphoxa.thing (n int)",
        "create schema glyphoxa; create table glyphoxa.version (name text)",
        "create schema glyphoxa; create table glyphoxa.version (version text)",
    ],
)
async def test_a_schema_of_another_program_is_left_alone(
    database: str, sql: str
) -> None:
    execute(database, sql)
    before = layout(database)
    with pytest.raises(MemoryUnusable, match="another program"):
        async with open_postgres(database):
            pass
    assert layout(database) == before


async def test_a_database_that_is_not_there_is_an_error(database: str) -> None:
    address = psycopg.conninfo.make_conninfo(database, dbname="nowhere")
    with pytest.raises(MemoryUnavailable, match="nowhere"):
        async with open_postgres(address):
            pass


async def test_a_closed_memory_holds_no_session_before_the_server_learns_of_the_end(
    postgres_server: Server, database: str
) -> None:
    if postgres_server.folder is None:
        pytest.skip("its socket is not ours")
    with trio.fail_after(LIMIT):
        async with a_proxy(database) as (proxy, address):
            proxy.lingers = True
            async with open_postgres(database) as other:
                async with open_postgres(address) as memory:
                    await memory.journal.claim("", "table", BARROW)
                    with pytest.raises(HeldElsewhere):
                        await other.journal.claim("", "table", BARROW)
                assert (await other.journal.claim("", "table", BARROW)).epoch == 2


async def test_a_memory_closes_although_the_server_does_not_answer(
    postgres_server: Server, database: str
) -> None:
    if postgres_server.folder is None:
        pytest.skip("its processes are not ours")
    stopped = 0
    try:
        with trio.fail_after(LIMIT):
            async with open_postgres(database):
                with psycopg.connect(database) as connection:
                    ((stopped,),) = connection.execute(
                        "select pid from pg_locks where locktype = 'advisory' and"
                        " database = (select oid from pg_database"
                        " where datname = current_database())"
                    ).fetchall()
                postgres_server.signal(stopped, signal.SIGSTOP)
        assert stopped  # and it is closed although that is
    finally:
        if stopped:
            postgres_server.signal(stopped, signal.SIGCONT)


async def test_several_may_open_a_new_database_at_once(database: str) -> None:
    async def open_one() -> None:
        async with open_postgres(database) as memory:
            await memory.graph.put(BARROW, facts=[Fact(text="It rains.")])

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(open_one)


async def test_without_pgvector_there_are_arrays(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "_extend", lambda connection: None)
    async with open_postgres(database) as memory:
        await memory.graph.put(BARROW, facts=[Fact(text=x) for x in ("a", "b", "c")])
        chunks = [chunk for _, chunk in await memory.index.pending("m")]
        vectors = [(1.0, 0.0), (1.0, 1.0), (0.0, 0.0)]
        await memory.index.add(
            "m", [(x.id, y) for x, y in zip(chunks, vectors, strict=True)]
        )
        found = await memory.index.search(BARROW, GAME_MASTER, "m", (0.0, 2.0))
    assert [(x.chunk.text, round(x.score, 4)) for x in found] == [
        ("b", 0.7071),
        ("a", 0.0),
        ("c", 0.0),
    ]


async def test_each_entry_is_written_once_however_often_connections_are_cut(
    database: str,
) -> None:
    with trio.fail_after(LIMIT):
        async with open_postgres(database) as memory, trio.open_nursery() as nursery:
            claim = await memory.journal.claim("", "table", BARROW)

            async def scissors() -> None:
                while True:
                    await trio.sleep(0.02)
                    await trio.to_thread.run_sync(cut, database)

            nursery.start_soon(scissors)
            failed = 0
            for n in range(1, 101):
                while True:
                    try:
                        assert await memory.journal.append(claim, [line(n)]) == n
                        break
                    except MemoryUnavailable:
                        failed += 1
            nursery.cancel_scope.cancel()
        async with open_postgres(database) as memory:
            found = await memory.transcripts.recent(BARROW, GAME_MASTER, limit=1000)
    assert [(x.n, x.line.text) for x in found] == [
        (n, f"number {n}") for n in range(1, 101)
    ]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_nothing_is_lost_in_a_restart_of_the_database(
    own_server: Server, how: signal.Signals
) -> None:
    with trio.fail_after(LIMIT), own_server.database() as address:
        async with open_postgres(address) as memory, open_postgres(address) as other:
            claim = await memory.journal.claim("", "table", BARROW)
            assert await memory.journal.append(claim, [line(1), line(2)]) == 2
            await trio.to_thread.run_sync(own_server.stop, how)
            with pytest.raises(MemoryUnavailable):
                await memory.journal.append(claim, [line(3)])
            with pytest.raises(MemoryUnavailable):
                await memory.transcripts.recent(BARROW, GAME_MASTER)
            await trio.to_thread.run_sync(own_server.start)
            assert await memory.journal.append(claim, [line(3), line(4)]) == 4
            found = await memory.transcripts.recent(BARROW, GAME_MASTER)
            assert [x.n for x in found] == [1, 2, 3, 4]
            # It is known to live again, after a moment.
            while True:
                (row,) = await other.journal.sessions()
                if row.holder:
                    break
                await trio.sleep(0.02)
            with pytest.raises(HeldElsewhere):
                await other.journal.claim("", "table", BARROW)


@pytest.mark.long
async def test_who_lives_is_not_known_before_all_have_come_back(
    own_server: Server,
) -> None:
    with trio.fail_after(LIMIT), own_server.database() as address:
        async with open_postgres(address) as memory, open_postgres(address) as other:
            claim = await memory.journal.claim("", "table", BARROW)
            away, again = True, memory.journal.living.connect

            def connect() -> psycopg.Connection[Any]:
                if away:
                    raise psycopg.OperationalError("not yet")
                return again()

            memory.journal.living.connect = connect
            await trio.to_thread.run_sync(own_server.stop)
            await trio.to_thread.run_sync(own_server.start)
            with pytest.raises(HeldElsewhere) as held:  # though its lock is not there
                await other.journal.claim("", "table", BARROW)
            assert (held.value.holder, held.value.epoch) == (memory.holder.id, 1)
            assert (await memory.journal.append(claim, [line(1)])) == 1
            while not other.journal.living.settled:
                with pytest.raises(HeldElsewhere):
                    await other.journal.claim("", "table", BARROW)
                await trio.sleep(0.2)
            # Who has not come back by then is dead.
            assert (await other.journal.claim("", "table", BARROW)).epoch == 2
            away = False


async def test_a_session_of_a_dead_process_can_be_taken_by_who_found_it_dead(
    own_server: Server,
) -> None:
    with trio.fail_after(LIMIT), own_server.database() as address:
        async with open_postgres(address) as other:
            async with open_postgres(address) as memory:
                claim = await memory.journal.claim("", "table", BARROW)
            await trio.to_thread.run_sync(own_server.stop)
            await trio.to_thread.run_sync(own_server.start)
            taken = await other.journal.claim(
                "", "table", BARROW, steal_from=claim.epoch
            )
            assert taken.epoch == 2


_HOLDS = """
import sys
import trio
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.memory.visibility import CampaignKey

async def main():
    async with open_postgres(sys.argv[1]) as memory:
        await memory.journal.claim("", "table", CampaignKey("barrow"))
        print("held", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_process_that_was_killed_holds_no_session(database: str) -> None:
    with trio.fail_after(LIMIT):
        async with open_postgres(database) as memory:
            command = [sys.executable, "-c", _HOLDS, database]
            with _started(command) as other:
                assert other.stdout is not None
                try:
                    told = await trio.to_thread.run_sync(other.stdout.readline)
                    assert told == b"held\n"
                    with pytest.raises(HeldElsewhere, match=f"process {other.pid} on"):
                        await memory.journal.claim("", "table", BARROW)
                finally:
                    other.kill()
            claim = await _claimed(memory.journal.claim)
            assert claim.epoch == 2


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


async def _claimed(claim: object) -> Claim:
    """Claim the session as soon as its dead holder is known to be dead."""
    assert callable(claim)
    while True:
        try:
            made: Claim = await claim("", "table", BARROW)
            return made
        except HeldElsewhere:
            await trio.sleep(0.01)


async def test_who_was_fenced_stays_so_after_a_cut(database: str) -> None:
    async with open_postgres(database) as memory, open_postgres(database) as thief:
        claim = await memory.journal.claim("", "table", BARROW)
        await memory.journal.append(claim, [line(1)])
        taken = await thief.journal.claim("", "table", BARROW, steal_from=claim.epoch)
        await trio.to_thread.run_sync(cut, database)
        with pytest.raises(Fenced):
            await memory.journal.append(claim, [line(2)])
        assert await thief.journal.append(taken, [line(2)]) == 2


async def test_forgotten_words_are_in_no_table_of_the_database(database: str) -> None:
    async with open_postgres(database) as memory:
        claim = await memory.journal.claim("", "table", BARROW)
        said = Line(text="xyzzy plugh", speaker="A", player="ann", reach=EVERYONE)
        await memory.journal.append(
            claim, [Entry(kind=EntryKind.LINE, at=1.0, line=said)]
        )
        assert await _in_files(database) > 0
        await memory.forget("", "ann")
        assert await _in_files(database) == 0


async def _in_files(address: str) -> int:
    """Count the tables and indexes whose files have the words in them."""

    def count() -> int:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("checkpoint")
            row = connection.execute(
                """
                select count(*) from pg_class c
                where relnamespace = 'glyphoxa'::regnamespace and relkind in ('r', 'i')
                and position('xyzzy'::bytea in
                    pg_read_binary_file(pg_relation_filepath(c.oid))) > 0
                """
            ).fetchone()
            assert row is not None
            return int(row[0])

    return await trio.to_thread.run_sync(count)


async def test_a_fact_that_changes_while_its_words_are_made_keeps_its_own(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_postgres(database):
        pass  # the layout
    met: list[str] = []

    def meanwhile(*texts: str) -> list[str]:
        """The words of these texts, which another process changes now, or has to
        wait."""
        if not met:
            with psycopg.connect(database) as other:
                other.execute("set lock_timeout = '100ms'")
                try:
                    other.execute(
                        "update glyphoxa.fact set text = '红龙', words = '红 红龙 龙'"
                    )
                    met.append("changed")
                except psycopg.errors.LockNotAvailable:
                    met.append("waits")
        return index_words(*texts)

    execute(
        database,
        "set search_path = glyphoxa;"
        "insert into campaign (tenant, name) values ('', 'barrow');"
        "insert into stale_words values ('fact', 9);"
        "insert into fact (campaign, text, standing, audience, basis, at, confidence,"
        " confirmed, words)"
        " values (1, '黑塔', 'accepted', 0, 'authored', 1, 1, true, '黑塔')",
    )
    monkeypatch.setattr(migrating, "index_words", meanwhile)
    with psycopg.connect(database) as connection:
        connection.execute("set search_path = glyphoxa")
        assert migrating.rebuild(connection)
        found = connection.execute("select text, words::text from fact").fetchone()
    assert met
    assert found is not None
    assert ("龙" in found[0]) == ("龙" in found[1]), (met, found)
