"""Connections to a real database: cancelled, cut, used up, replaced."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Awaitable, Callable

import psycopg
import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.memory.errors import MemoryUnavailable, MemoryUnusable
from glyphoxa_trio.memory.postgres import pool as pool_module
from glyphoxa_trio.memory.postgres.address import PostgresAddress
from glyphoxa_trio.memory.postgres.pool import (
    Connection,
    OutcomeUnknown,
    PostgresPool,
    open_pool,
)

from .server import Server, cut

pytestmark = pytest.mark.border
LIMIT = 60.0  # seconds; only a hang comes near it


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[PostgresPool]:
    with trio.fail_after(LIMIT):
        async with open_pool(PostgresAddress.of(database), schemas="public") as opened:
            await opened.write(_execute, "create table note (n int primary key)")
            yield opened


def _execute(connection: Connection, sql: str) -> list[tuple[object, ...]]:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


async def test_a_cancelled_read_is_cancelled_in_the_server(pool: PostgresPool) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.read, _execute, "select pg_sleep(100)")
        await until_it_sleeps(pool)
        nursery.cancel_scope.cancel()
    while await sleeping(pool):  # noqa: ASYNC110
        await trio.sleep(0.01)


async def sleeping(pool: PostgresPool) -> bool:
    """Return True while the server sleeps for a statement of another connection."""
    running = (
        "select count(*) from pg_stat_activity where query like '%pg_sleep(100)'"
        " and state = 'active' and pid <> pg_backend_pid()"
        " and datname = current_database()"
    )
    return await pool.read(_execute, running) != [(0,)]


async def until_it_sleeps(pool: PostgresPool) -> None:
    while not await sleeping(pool):  # noqa: ASYNC110
        await trio.sleep(0.01)


async def test_connections_serve_on_after_many_cancelled_calls(
    pool: PostgresPool,
) -> None:
    async def cancelled(after: float) -> None:
        with trio.move_on_after(after):
            await pool.read(_execute, "select pg_sleep(0.02)")

    for round_ in range(10):
        async with trio.open_nursery() as nursery:
            for n in range(2 * pool_module.MOST):
                nursery.start_soon(cancelled, 0.002 * ((n + round_) % 12))
        # None of the cancellations comes late and meets another query.
        async with trio.open_nursery() as nursery:
            for _ in range(2 * pool_module.MOST):
                nursery.start_soon(pool.read, _execute, "select pg_sleep(0.001)")


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1])
async def test_a_cancelled_write_is_made_as_a_whole_or_not_at_all(
    pool: PostgresPool, after: float
) -> None:
    def write(connection: Connection) -> bool:
        for n in range(5):
            connection.execute("insert into note values (%s)", (n,))
            connection.execute("select pg_sleep(0.01)")
        return True

    made = False
    with trio.move_on_after(after):
        made = await pool.write(write)
    assert await pool.read(_execute, "select count(*) from note") == [(5 * made,)]


async def test_work_that_fails_changes_nothing(pool: PostgresPool) -> None:
    def write(connection: Connection) -> None:
        connection.execute("insert into note values (1)")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await pool.write(write)
    assert await pool.read(_execute, "select count(*) from note") == [(0,)]


async def test_a_read_writes_nothing(pool: PostgresPool) -> None:
    with pytest.raises(MemoryUnavailable, match="read-only"):
        await pool.read(_execute, "insert into note values (1)")


async def test_writes_that_lock_each_other_are_tried_again(pool: PostgresPool) -> None:
    await pool.write(_execute, "insert into note values (1), (2)")

    def write(connection: Connection, first: int, second: int) -> None:
        for n in (first, second):
            connection.execute("select from note where n = %s for update", (n,))
            connection.execute("select pg_sleep(0.05)")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.write, write, 1, 2)
        nursery.start_soon(pool.write, write, 2, 1)


async def test_a_pool_that_is_used_up_says_so(
    pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(pool_module.MOST):
            nursery.start_soon(pool.read, _execute, "select pg_sleep(100)")
        await wait_all_tasks_blocked()
        with monkeypatch.context() as patch:
            patch.setattr(pool_module, "PATIENCE", 0.1)
            with pytest.raises(MemoryUnavailable, match=r"all 8 connections to the"):
                await pool.read(_execute, "select 1")
        nursery.cancel_scope.cancel()
    assert await pool.read(_execute, "select 1") == [(1,)]


async def test_connections_that_were_cut_are_replaced(
    pool: PostgresPool, database: str
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(pool_module.MOST):
            nursery.start_soon(pool.read, _execute, "select pg_sleep(0.05)")
    await trio.to_thread.run_sync(cut, database)
    for _ in range(pool_module.MOST + 1):
        assert await pool.read(_execute, "select 1") == [(1,)]


async def test_a_connection_that_is_cut_while_it_is_used_is_an_error(
    pool: PostgresPool, database: str
) -> None:
    async def cut_off() -> None:
        await until_it_sleeps(pool)
        await trio.to_thread.run_sync(cut, database)

    slow = "select pg_sleep(100)"
    for call, error in (
        (pool.read, MemoryUnavailable),
        (pool.write, MemoryUnavailable),
        (pool.write_one, OutcomeUnknown),
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_off)
            with pytest.raises(error) as caught:
                await call(_execute, slow)
            assert type(caught.value) is error
    assert await pool.read(_execute, "select 1") == [(1,)]


async def test_a_cancelled_read_does_not_wait_for_a_server_that_has_stopped(
    postgres_server: Server, pool: PostgresPool
) -> None:
    pid = (await pool.read(_execute, "select pg_backend_pid()"))[0][0]
    assert isinstance(pid, int)
    if postgres_server.folder is None:
        pytest.skip("its processes are not ours")
    postgres_server.signal(pid, signal.SIGSTOP)
    try:
        with trio.move_on_after(0.1) as read:
            await pool.read(_execute, "select 1")
        assert read.cancelled_caught  # though the server is still stopped
    finally:
        postgres_server.signal(pid, signal.SIGCONT)
    assert await pool.read(_execute, "select 1") == [(1,)]


async def test_one_that_does_not_answer_at_all_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = "postgresql://me:hunter2@127.0.0.1:1/tales?connect_timeout=2"
    async with open_pool(PostgresAddress.of(address)) as pool:
        with pytest.raises(MemoryUnavailable, match="refused") as caught:
            await pool.read(_execute, "select 1")
    assert "the database tales at 127.0.0.1:1" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@host:port/tales",
        "postgresql://me:hun/ter2@host/tales",
        "postgresql://me:12/ter2@host/tales",
        "postgresql://me:hun@ter2@host/tales",
        "postgresql://me:hunter2@host/tales?no_such_option=1",
        "postgresql://me:hunter2@[host/tales",
        "postgresql://me:%zzhunter2@host/tales",
    ],
)
def test_an_address_that_is_wrong_is_refused_without_its_password(
    address: str,
) -> None:
    with pytest.raises(MemoryUnusable, match="percent encoding") as caught:
        PostgresAddress.of(address)
    assert "ter2" not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_the_text_of_an_address_has_no_secrets() -> None:
    address = PostgresAddress.of(
        "postgresql://me:hunter2@host:5433/tales?sslmode=require"
    )
    assert str(address) == "the database tales at host:5433"
    assert "hunter2" not in repr(address)
    error = psycopg.OperationalError("hunter2 is wrong,\n  says host")
    assert address.told(error) == "*** is wrong, says host"


async def test_a_pool_that_closes_leaves_no_statement_behind(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_CLOSING", 0.1)
    address = PostgresAddress.of(database)
    slow = "select pg_sleep(100)"
    failed: list[Exception] = []

    async def call(work: Callable[..., Awaitable[object]]) -> None:
        try:
            await work(_execute, slow)
        except MemoryUnavailable as error:
            failed.append(error)

    with trio.fail_after(LIMIT):
        async with open_pool(address) as other, trio.open_nursery() as nursery:
            async with open_pool(address) as pool:
                for work in (pool.read, pool.write, pool.write_one):
                    nursery.start_soon(call, work)
                await until_it_sleeps(other)
            with trio.fail_after(15):  # its statements would end by themselves after 30
                while await sleeping(other):  # noqa: ASYNC110
                    await trio.sleep(0.01)
    assert len(failed) == 3
