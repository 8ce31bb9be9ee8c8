"""Appends in a real database: shared, refused, locked out, without an answer."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, contextmanager

import attrs
import psycopg
import pytest

import trio

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.postgres import open_postgres, together
from glyphoxa_trio.memory.visibility import EVERYONE, GAME_MASTER, CampaignKey

from .proxy import Proxy, a_proxy
from .server import Server

pytestmark = pytest.mark.border

LIMIT = 60.0  # seconds; only a hang comes near it
BARROW = CampaignKey("barrow")
MARK = b"xyzzy"


def line(text: str) -> Entry:
    said = Line(text=text, speaker="Ann", player="ann", reach=EVERYONE)
    return Entry(kind=EntryKind.LINE, at=1000.0, line=said)


def turn(number: int) -> Entry:
    return Entry(kind=EntryKind.TURN, at=1000.0, npc="Bo", turn=number)


async def claimed(store: Memory, *names: str) -> list[Claim]:
    found = [await store.journal.claim("", name, BARROW) for name in names]
    await store.journal.append(found[0], [])  # the connection for appends is there
    return found


@pytest.fixture
async def store(database: str) -> AsyncGenerator[Memory]:
    with trio.fail_after(LIMIT):
        async with open_postgres(database) as opened:
            yield opened


@pytest.fixture
async def proxied(
    postgres_server: Server, database: str
) -> AsyncGenerator[tuple[Proxy, Memory]]:
    if postgres_server.folder is None:
        pytest.skip("its socket is not ours")
    with trio.fail_after(LIMIT):
        async with a_proxy(database) as (proxy, address):
            async with open_postgres(address) as opened:
                yield proxy, opened


async def test_appends_that_begin_at_once_share_one_transaction(
    store: Memory, database: str
) -> None:
    claims = await claimed(store, *(f"table {n}" for n in range(50)))
    async with trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(store.journal.append, claim, [turn(1)])
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "select count(*), count(distinct xmin::text) from glyphoxa.entry"
        ).fetchone()
    assert found == (50, 1)


async def test_an_append_that_the_server_refuses_has_no_part_in_the_others(
    store: Memory,
) -> None:
    first, second, third = await claimed(store, "a", "b", "c")

    async def refused() -> None:
        with pytest.raises(MemoryUnavailable, match="out of range"):
            await store.journal.append(second, [turn(1), turn(2**70)])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.journal.append, first, [turn(1)])
        nursery.start_soon(refused)
        nursery.start_soon(store.journal.append, third, [turn(1)])
    assert [len(await store.journal.load(x)) for x in (first, second, third)] == [
        1,
        0,
        1,
    ]
    assert await store.journal.append(second, [turn(1)]) == 1


@contextmanager
def locked(database: str, session: str) -> Generator[None]:
    """Lock a session, as one that another process claims is."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "select from glyphoxa.session where name = %s for update", (session,)
        )
        yield
        connection.rollback()


async def test_a_session_that_is_locked_holds_up_no_other(
    store: Memory, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = together._SETTINGS.replace("1000", "30000")
    monkeypatch.setattr(together, "_SETTINGS", longer)
    first, second = await claimed(store, "a", "b")
    ended: list[str] = []

    async def append(claim: Claim) -> None:
        await store.journal.append(claim, [turn(1)])
        ended.append(claim.session)

    async with trio.open_nursery() as nursery:
        with locked(database, "a"):
            nursery.start_soon(append, first)
            nursery.start_soon(append, second)
            with trio.fail_after(15.0):  # shorter than the wait for a lock
                while not ended:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            assert ended == ["b"]
            for _ in range(20):
                await store.journal.append(second, [turn(2)])
    assert ended == ["b", "a"]


async def test_many_that_are_locked_leave_connections_to_all_others(
    store: Memory, database: str
) -> None:
    names = [f"locked {n}" for n in range(20)]
    (*locks, free) = await claimed(store, *names, "free")
    ended: list[str] = []

    async def append(claim: Claim) -> None:
        try:
            await store.journal.append(claim, [turn(1)])
        finally:
            ended.append(claim.session)

    async with trio.open_nursery() as nursery:
        with ExitStack() as held:
            for name in names:
                held.enter_context(locked(database, name))
            for claim in locks:
                nursery.start_soon(append, claim)
            await trio.sleep(2)  # they have found out, and wait by themselves
            for number in range(5):
                evening = await store.transcripts.begin_evening(free, 1000.0 + number)
                told = line(f"{number}")
                assert told.line is not None
                said = attrs.evolve(told.line, evening=evening.id)
                await store.journal.append(free, [attrs.evolve(told, line=said)])
                assert await store.journal.load(free) == ()
            assert not ended  # nobody had to give up before
    assert len(ended) == len(names)


async def test_a_server_that_does_not_answer_is_left_when_an_append_is_cancelled(
    postgres_server: Server, store: Memory, database: str
) -> None:
    if postgres_server.folder is None:
        pytest.skip("its processes are not ours")
    (claim,) = await claimed(store, "a")
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "select pid from pg_stat_activity where datname = current_database()"
            " and query like '%with asked as%' and pid <> pg_backend_pid()"
        ).fetchone()
    assert row is not None
    postgres_server.signal(row[0], signal.SIGSTOP)
    try:
        with trio.move_on_after(0.1) as scope:
            await store.journal.append(claim, [turn(1)])
        assert scope.cancelled_caught  # though the server is still stopped
    finally:
        postgres_server.signal(row[0], signal.SIGCONT)
    assert await store.journal.append(claim, [turn(1), turn(2)]) == 2
    assert [x.entry.turn for x in await store.journal.load(claim)] == [1, 2]


async def texts(store: Memory) -> list[tuple[int, str]]:
    found = await store.transcripts.recent(BARROW, GAME_MASTER)
    return [(x.n, x.line.text) for x in found]


async def test_an_append_whose_answer_is_lost_is_made_once(
    proxied: tuple[Proxy, Memory],
) -> None:
    proxy, store = proxied
    (claim,) = await claimed(store, "a")
    proxy.losing = MARK
    assert await store.journal.append(claim, [line("xyzzy")]) == 1
    assert proxy.lost == 1
    assert await store.journal.append(claim, [line("plugh")]) == 2
    assert await texts(store) == [(1, "xyzzy"), (2, "plugh")]


async def test_one_that_nobody_can_tell_of_is_made_once_when_it_is_tried_again(
    proxied: tuple[Proxy, Memory],
) -> None:
    proxy, store = proxied
    (claim,) = await claimed(store, "a")
    proxy.losing = MARK
    proxy.closes = True
    with pytest.raises(MemoryUnavailable):
        await store.journal.append(claim, [line("xyzzy")])
    assert proxy.lost == 1
    proxy.closed = proxy.closes = False
    written = [line("xyzzy"), line("plugh")]
    assert await store.journal.append(claim, written) == 2
    assert await texts(store) == [(1, "xyzzy"), (2, "plugh")]


async def test_what_another_one_finds_made_meanwhile_is_not_made_again(
    proxied: tuple[Proxy, Memory],
) -> None:
    proxy, store = proxied
    (claim,) = await claimed(store, "a")
    proxy.losing = MARK
    proxy.closes = True
    with pytest.raises(MemoryUnavailable):
        await store.journal.append(claim, [line("xyzzy")])
    proxy.closed = proxy.closes = False
    assert await store.journal.append(claim, [line("between")]) == 2
    written = [line("xyzzy"), line("plugh")]
    assert await store.journal.append(claim, written) == 3
    assert await store.journal.append(claim, [line("xyzzy")]) == 4  # said once more
    found = [(1, "xyzzy"), (2, "between"), (3, "plugh"), (4, "xyzzy")]
    assert await texts(store) == found
