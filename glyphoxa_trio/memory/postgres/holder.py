"""The sign that this process lives: a lock of the database, kept by a connection.

PostgreSQL drops it when the connection ends, however the process does. A connection
that is lost, such as in a restart of the database, is replaced. Until all processes
have done that, the database does not know who lives: a process whose own lock is lost
takes others to live, and for a moment after it has it again.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from math import inf
from secrets import token_hex
from typing import Final

import attrs

import trio

from glyphoxa_trio.memory.entries import Holder

from .calls import cut
from .pool import Connection, PostgresPool

_FIRST: Final = 0.1  # seconds between two attempts to get the lock again
_LAST: Final = 1.0
SETTLING: Final = 3.0
"""Seconds after its own lock is back in which a process takes others to live."""
_STILL: Final = 10.0  # seconds between two looks
_UNLOCKING: Final = 3.0  # seconds for a server that may not answer
Connect = Callable[[], Connection]


def alive(column: str) -> str:
    """Return the condition that the process of a lock's key lives."""
    return f"""exists (
        select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())
        and (classid::bigint << 32 | objid::bigint) = {column}
    )"""


def held_by_another(column: str) -> str:
    """Return the condition that another process that may live has the lock's key.

    Its parameters are ``me``, the key of this process, and ``settled``, as that of its
    `LivingHolder`.
    """
    return f"""({column} is not null and {column} <> %(me)s and (
        {alive(column)} or not %(settled)s or not {alive("%(me)s")}
    ))"""


def key_of(holder: Holder) -> int:
    """Return the key of a holder's lock."""
    return int.from_bytes(bytes.fromhex(holder.id), "big", signed=True)


def id_of(key: int) -> str:
    """Return the id of the holder with this key (`key_of`)."""
    return key.to_bytes(8, "big", signed=True).hex()


@asynccontextmanager
async def living(pool: PostgresPool) -> AsyncGenerator[LivingHolder]:
    """Hold the lock of a new holder as long as the block runs.

    Raises:
      MemoryUnavailable: the database cannot be reached.
    """
    holder = Holder(
        id=token_hex(8), where=f"process {os.getpid()} on {socket.gethostname()}"
    )

    def locked() -> Connection:
        connection = pool.connected()
        try:
            connection.execute("select pg_advisory_lock(%s)", (key_of(holder),))
        except BaseException:
            connection.close()
            raise
        return connection

    with pool.translated():
        connection = await trio.to_thread.run_sync(locked)
    # Not in a nursery: its block would have to be left before those of other stores
    # that were opened earlier.
    keeper = LivingHolder(holder, connection, locked)
    trio.lowlevel.spawn_system_task(keeper.run)
    try:
        yield keeper
    finally:
        await keeper.stop()


@attrs.define(eq=False)
class LivingHolder:
    """A holder, and the connection of its lock: it is replaced whenever it is lost."""

    holder: Holder
    connection: Connection
    connect: Connect
    _settled: float = attrs.field(default=0.0, init=False)
    _stopping: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _stopped: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def settled(self) -> bool:
        """False while others may live without their locks, since it was so here."""
        return trio.current_time() >= self._settled

    async def run(self) -> None:
        """Keep the lock until `stop`. Whatever the connection does is a loss of it: an
        error here would end the program, since the task is one of trio's own."""
        try:
            with self._stopping:
                while True:
                    await self._until_lost()
                    self._settled = inf
                    self._close()
                    self.connection = await self._again()
                    self._settled = trio.current_time() + SETTLING
        finally:
            # By name: the server notices some time later that a connection is closed,
            # and until then the holder would seem to live.
            with trio.move_on_after(_UNLOCKING, shield=True) as unlocking:
                await trio.to_thread.run_sync(self._unlock, abandon_on_cancel=True)
            if unlocking.cancelled_caught:
                cut(self.connection)  # the thread waits for it
            self._close()
            self._stopped.set()

    def _unlock(self) -> None:
        with suppress(Exception):  # it is lost, and the lock with it
            self.connection.execute("select pg_advisory_unlock_all()")

    def _close(self) -> None:
        with suppress(Exception):
            self.connection.close()

    async def stop(self) -> None:
        """Let go of the lock, within about 3 seconds, and close its connection."""
        self._stopping.cancel()
        with trio.CancelScope(shield=True):
            await self._stopped.wait()

    async def _until_lost(self) -> None:
        with suppress(Exception):
            while True:
                with trio.move_on_after(_STILL):
                    # The server says nothing to it unasked, but good-bye.
                    await trio.lowlevel.wait_readable(self.connection.fileno())
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(self.connection.execute, "select")

    async def _again(self) -> Connection:
        pause = _FIRST
        while True:
            with suppress(Exception), trio.CancelScope(shield=True):
                return await trio.to_thread.run_sync(self.connect)
            await trio.sleep(pause)
            pause = min(2 * pause, _LAST)
