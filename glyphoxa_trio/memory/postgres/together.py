"""Appends that share a statement: those that wait at the same time cost one round trip.

The connection is used by a task rather than by a thread, since two changes of threads
cost more than the rest of an append.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import Final

import attrs
import psycopg
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

import trio

from .pool import PATIENCE, Connection, PostgresPool
from .statement import AppendRows, append_statement, parameters

_MOST_AT_ONCE: Final = 64
_LEFT: Final = 1.0  # seconds for the server, when nobody waits for its answer any more
_NAME: Final = b"append_together"
# What is locked is not waited for, since others would wait as well. The statement is
# planned once, perhaps while the tables are empty.
_SETTINGS: Final = """
    set lock_timeout = 1000;
    set enable_seqscan = off;
    set enable_hashjoin = off;
    set enable_mergejoin = off;
"""


class Ended(Enum):
    """The end of an append. ``REFUSED``: it was not made, but may be by itself."""

    MADE = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@attrs.define(eq=False)
class _Group:
    """Appends that are being made, of different sessions."""

    members: dict[int, _Waiting]
    scope: trio.CancelScope
    left: int = 0

    def leave(self) -> None:
        """Called when one is cancelled, which has to wait for the end all the same."""
        self.left += 1
        if self.left == len(self.members):
            self.hurry()

    def hurry(self) -> None:
        """Give the server a moment, and then give up."""
        self.scope.deadline = min(self.scope.deadline, trio.current_time() + _LEFT)


@attrs.define(eq=False)
class _Waiting:
    values: AppendRows
    task: trio.lowlevel.Task
    group: _Group | None = None
    ended: Ended = Ended.REFUSED


@attrs.define(eq=False)
class Together:
    """Makes appends together, as long as `appending_together` runs."""

    pool: PostgresPool
    holder: int
    _waiting: deque[_Waiting] = attrs.field(factory=deque, init=False)
    _connection: Connection | None = attrs.field(default=None, init=False)
    _awake: trio.Event = attrs.field(factory=trio.Event, init=False)
    _group: _Group | None = attrs.field(default=None, init=False)
    _stopping: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _stopped: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def append(self, values: AppendRows) -> Ended:
        """Make an append to one session, which has no other one here.

        A cancelled one is taken back if it has not begun; else it is waited for.
        """
        if self._stopping.cancel_called:
            return Ended.REFUSED
        mine = _Waiting(values, trio.lowlevel.current_task())
        self._waiting.append(mine)
        self._awake.set()

        def cancelled(_: object) -> trio.lowlevel.Abort:
            if mine.group is None:
                self._waiting.remove(mine)
                return trio.lowlevel.Abort.SUCCEEDED
            mine.group.leave()
            return trio.lowlevel.Abort.FAILED

        await trio.lowlevel.wait_task_rescheduled(cancelled)
        return mine.ended

    async def run(self) -> None:
        try:
            with self._stopping:
                while True:
                    await self._awake.wait()
                    self._awake = trio.Event()
                    while self._waiting:
                        await self._next()
        finally:
            for one in self._waiting:
                one.ended = Ended.REFUSED
                trio.lowlevel.reschedule(one.task)
            self._waiting.clear()
            self._close()
            self._stopped.set()

    async def stop(self) -> None:
        self._stopping.cancel()
        if self._group is not None:
            self._group.hurry()
        with trio.CancelScope(shield=True):
            await self._stopped.wait()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # of a task of trio's own it would end the run
                connection.close()

    async def _next(self) -> None:
        """Make what waits now."""
        count = min(len(self._waiting), _MOST_AT_ONCE)
        several = [self._waiting.popleft() for _ in range(count)]
        with trio.CancelScope(
            deadline=trio.current_time() + PATIENCE, shield=True
        ) as scope:
            group = _Group({x.values["sessions"][0]["id"]: x for x in several}, scope)
            self._group = group
            for one in several:
                one.group = group
            try:
                await self._make(group)
            except Exception:
                # Each is made by itself now, which tells what is wrong.
                self._close()
            finally:
                self._group = None
                for one in several:
                    trio.lowlevel.reschedule(one.task)
        if scope.cancelled_caught:
            self._close()

    async def _make(self, group: _Group) -> None:
        members = group.members
        pgconn = await self._connected()
        given = parameters(self.holder, *(x.values for x in members.values()))
        for one in members.values():
            one.ended = Ended.UNKNOWN
        pgconn.send_query_prepared(_NAME, [x.encode() for x in given])
        result = await _answer(pgconn)
        if pgconn.status != ConnStatus.OK or result is None:
            self._close()
            return
        for one in members.values():
            one.ended = Ended.REFUSED
        if result.status == ExecStatus.TUPLES_OK:
            for row in range(result.ntuples):
                members[int(result.get_value(row, 0) or 0)].ended = Ended.MADE

    async def _connected(self) -> PGconn:
        if self._connection is None:
            self._connection = await trio.to_thread.run_sync(self._connect)
        return self._connection.pgconn

    def _connect(self) -> Connection:
        connection = self.pool.connected()
        try:
            connection.execute(_SETTINGS, prepare=False)
            statement = append_statement(waits=False).encode()
            made = connection.pgconn.prepare(_NAME, statement)
            if made.status != ExecStatus.COMMAND_OK:
                raise psycopg.OperationalError(made.get_error_message())
        except BaseException:
            connection.close()
            raise
        return connection


async def _answer(pgconn: PGconn) -> PGresult | None:
    """Return the answer to what was sent; None if there is none."""
    while pgconn.flush():
        await trio.lowlevel.wait_writable(pgconn.socket)
    first = None
    while True:
        while pgconn.is_busy():
            await trio.lowlevel.wait_readable(pgconn.socket)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return first
        first = first or result


@asynccontextmanager
async def appending_together(
    pool: PostgresPool, holder: int
) -> AsyncGenerator[Together]:
    """Have a connection for appends, which is made when it is needed."""
    together = Together(pool, holder)
    # Not in a nursery: see `holder.living`.
    trio.lowlevel.spawn_system_task(together.run)
    try:
        yield together
    finally:
        await together.stop()
