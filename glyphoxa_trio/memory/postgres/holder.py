"""The sign that this process lives: a lock of the database, kept by a connection.

PostgreSQL drops it when the connection ends, however the process does. A connection that
is lost, such as in a restart of the database, is replaced.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any, Final

import psycopg

import trio
from glyphoxa_trio.memory.entries import Holder

_FIRST: Final = 0.1  # seconds between two attempts to get the lock again
_LAST: Final = 5.0
_STILL: Final = 30.0  # seconds between two looks
Connect = Callable[[], psycopg.Connection[Any]]


def alive(column: str) -> str:
    """Return the condition that the process of a lock's key lives."""
    return f"""exists (
        select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())
        and (classid::bigint << 32 | objid::bigint) = {column}
    )"""


def key_of(holder: Holder) -> int:
    """Return the key of a holder's lock."""
    return int.from_bytes(bytes.fromhex(holder.id), "big", signed=True)


@asynccontextmanager
async def living(connect: Connect) -> AsyncGenerator[Holder]:
    """Hold the lock of a new holder as long as the block runs.

    Raises:
      psycopg.Error: the first connection failed.
    """
    holder = Holder(
        id=token_hex(8), where=f"process {os.getpid()} on {socket.gethostname()}"
    )

    def locked() -> psycopg.Connection[Any]:
        connection = connect()
        try:
            connection.execute("select pg_advisory_lock(%s)", (key_of(holder),))
        except BaseException:
            connection.close()
            raise
        return connection

    connection = await trio.to_thread.run_sync(locked)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_keep, connection, locked)
        try:
            yield holder
        finally:
            nursery.cancel_scope.cancel()


async def _keep(connection: psycopg.Connection[Any], connect: Connect) -> None:
    try:
        while True:
            await _until_lost(connection)
            connection.close()
            connection = await _again(connect)
    finally:
        connection.close()


async def _until_lost(connection: psycopg.Connection[Any]) -> None:
    while True:
        with trio.move_on_after(_STILL):
            # The server says nothing to it unasked, but good-bye.
            await trio.lowlevel.wait_readable(connection.fileno())
        try:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(connection.execute, "select")
        except psycopg.Error:
            return


async def _again(connect: Connect) -> psycopg.Connection[Any]:
    pause = _FIRST
    while True:
        with suppress(psycopg.Error):
            return await trio.to_thread.run_sync(connect)
        await trio.sleep(pause)
        pause = min(2 * pause, _LAST)
