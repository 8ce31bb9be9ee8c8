"""A PostgreSQL database for many tasks: a bounded number of connections.

Work is a plain function that runs in a worker thread, with a connection of its own,
inside one transaction::

    async with open_pool(PostgresAddress.of("postgresql://me@host/database")) as pool:
        await pool.write(add_note, "Hm.")
        notes = await pool.read(all_notes)

    def add_note(connection: Connection, text: str) -> None:
        connection.execute("insert into note values (%s)", (text,))

Cancellation makes the server cancel the statement that runs. A connection that was lost
is replaced by the next call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import attrs
import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

import trio

from glyphoxa_trio.memory.errors import MemoryUnavailable, MemoryUnusable

from .address import PostgresAddress
from .calls import Connection as Connection
from .calls import DatabaseCall, Slot, cancel, cut

MOST: Final = 8  # connections
PATIENCE: Final = 10.0  # seconds for a connection that is free, and for a lock
ANSWER: Final = 30.0  # seconds for one statement
_LONG: Final = 3600.0  # seconds for what rewrites tables
_CLOSING: Final = 3.0  # seconds for calls that run when the pool is closed
_TRIES: Final = 3  # of a transaction that stood in the way of another
_READ: Final = "begin isolation level repeatable read read only"
_WRITE: Final = "begin"
_EACH: Final = ""  # each statement commits by itself
# A plan by the numbers of this query, and no compilation of queries that last 10 ms.
_SETTINGS: Final = f"""
    set jit = off;
    set statement_timeout = {ANSWER:.0f}000;
    set lock_timeout = {PATIENCE:.0f}000;
    set idle_in_transaction_session_timeout = {2 * ANSWER:.0f}000;
    set default_text_search_config = 'pg_catalog.simple';
"""
P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[Concatenate[Connection, P], T]


class OutcomeUnknown(MemoryUnavailable):
    """The connection was lost during a commit: it was made, or it was not."""


@attrs.frozen(eq=False)
class _Lost(Exception):
    error: psycopg.Error


@attrs.define(eq=False)
class PostgresPool:
    """The connections to a database. Its methods may be called by any task.

    All of them raise `MemoryUnavailable` if the database cannot be used now, and
    `MemoryUnusable` if it never can.
    """

    address: PostgresAddress
    schemas: str = "pg_catalog"
    _idle: list[Slot] = attrs.field(init=False)
    _all: tuple[Slot, ...] = attrs.field(init=False)
    _free: trio.Semaphore = attrs.field(init=False)
    _closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._all = tuple(Slot() for _ in range(MOST))
        self._idle = list(self._all)
        self._free = trio.Semaphore(MOST)

    async def read(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``work`` returns, which sees one state of the database.

        Cancellation returns at once, and interrupts its query.
        """
        return await self._run(_READ, partial(work, **kwargs), args, reads=True)

    async def read_one(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``work`` returns, which reads with one statement."""
        return await self._run(_EACH, partial(work, **kwargs), args, reads=True)

    async def write(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``work`` returns: all its changes are made, or none.

        A cancelled one is interrupted, and waited for: if it was too late, this returns
        as if it had not been cancelled. ``work`` is called again after a deadlock.

        Raises:
          OutcomeUnknown: the connection was lost during the commit.
        """
        return await self._run(_WRITE, partial(work, **kwargs), args)

    async def write_one(
        self,
        work: Work[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what ``work`` returns, each of whose statements commits by itself.

        Raises:
          OutcomeUnknown: the connection was lost during a statement.
        """
        return await self._run(_EACH, partial(work, **kwargs), args)

    async def _run(
        self,
        begin: str,
        work: Callable[..., T],
        args: tuple[Any, ...],
        *,
        reads: bool = False,
        within: float = ANSWER + PATIENCE,
    ) -> T:
        with trio.move_on_after(PATIENCE) as waiting:
            await self._free.acquire()
        if waiting.cancelled_caught:
            raise MemoryUnavailable(
                f"all {MOST} connections to {self.address} were busy for"
                f" {PATIENCE:.0f} s"
            )
        slot = self._idle.pop()

        def in_thread(call: DatabaseCall) -> T:
            with self.translated():
                connection = slot.fresh(self.connected)
                call.begin()
                if begin and not _begun(connection, begin):
                    # The server had closed it just now.
                    connection = slot.fresh(self.connected)
                    call.begin()
                return _transaction(connection, begin, work, args, reads)

        call = DatabaseCall(slot, in_thread, reads, self._give_back)
        with trio.move_on_after(within) as answering:
            made: T = await call.made()
            return made
        assert answering.cancelled_caught
        raise OutcomeUnknown(f"{self.address} gave no answer within {within:.0f} s")

    def _give_back(self, slot: Slot) -> None:
        if self._closed and slot.connection is not None:
            with suppress(Exception):  # called by trio, whose run it would end
                slot.connection.close()
        self._idle.append(slot)
        self._free.release()

    def connected(self) -> Connection:
        """Return a new connection, which is not counted. Blocks."""
        connection = self.address.connect()
        try:
            connection.execute(
                f"{_SETTINGS} set search_path = {self.schemas};", prepare=False
            )
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def translated(self) -> Generator[None]:
        """Raise the errors of a memory for those of PostgreSQL."""
        try:
            yield
        except _Lost as lost:
            raise OutcomeUnknown(
                f"{self.address}: the connection was lost; whether the change was made"
                f" is not known: {self.address.told(lost.error)}"
            ) from None
        except (errors.InsufficientPrivilege, errors.ProgrammingError) as error:
            raise MemoryUnusable(
                f"{self.address}: {self.address.told(error)}"
            ) from None
        except psycopg.Error as error:
            raise MemoryUnavailable(
                f"{self.address}: {self.address.told(error)}"
            ) from None

    async def maintain(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``work`` returns, which may take an hour, outside of a
        transaction."""
        long = partial(_unhurried, work)
        run = partial(long, **kwargs)
        return await self._run(_EACH, run, args, within=_LONG)

    async def close(self) -> None:
        """Close all connections; calls that run are waited for, up to 3 seconds.

        Those that still run then are cancelled at the server, and their connections
        are cut.
        """
        with trio.CancelScope(shield=True):
            with trio.move_on_after(_CLOSING):
                for _ in self._all:
                    await self._free.acquire()
            self._closed = True
            late = [x for x in self._all if x not in self._idle]
            async with trio.open_nursery() as nursery:
                for slot in late:
                    if slot.connection is not None:
                        run = trio.to_thread.run_sync
                        nursery.start_soon(run, _stop, slot.connection)
            open_ = [x.connection for x in self._idle if x.connection is not None]
            await trio.to_thread.run_sync(_close, open_)


def _stop(connection: Connection) -> None:
    cancel(connection)
    cut(connection)


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


def _begun(connection: Connection, begin: str) -> bool:
    """Begin a transaction; return False if the connection turns out to be lost."""
    try:
        connection.execute(begin)
    except psycopg.OperationalError:
        if not connection.closed:
            raise
        return False
    return True


def _transaction(
    connection: Connection,
    begin: str,
    work: Callable[..., T],
    args: tuple[Any, ...],
    reads: bool,
) -> T:
    if not begin:
        return _known(connection, reads, work, connection, *args)
    for left in reversed(range(_TRIES)):
        if connection.info.transaction_status is TransactionStatus.IDLE:
            connection.execute(begin)
        try:
            done = work(connection, *args)
            _known(connection, reads, connection.execute, "commit")
            return done
        except (errors.DeadlockDetected, errors.SerializationFailure):
            if not left:
                raise
        finally:
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    connection.execute("rollback")
    raise AssertionError("unreachable")


def _known(
    connection: Connection, reads: bool, work: Callable[..., T], *args: Any
) -> T:
    try:
        return work(*args)
    except psycopg.Error as error:
        if connection.closed and not reads:
            raise _Lost(error) from error
        raise


def _unhurried(
    work: Work[P, T], connection: Connection, *args: P.args, **kwargs: P.kwargs
) -> T:
    connection.execute("set statement_timeout = 0")
    try:
        return work(connection, *args, **kwargs)
    finally:
        with suppress(psycopg.Error):
            connection.execute(f"set statement_timeout = {ANSWER:.0f}000")


@asynccontextmanager
async def open_pool(
    address: PostgresAddress, *, schemas: str = "pg_catalog"
) -> AsyncGenerator[PostgresPool]:
    """Open a pool, whose connections are made when they are needed.

    Args:
      schemas: where names without a schema are looked up, such as ``notes, public``.
    """
    pool = PostgresPool(address, schemas)
    try:
        yield pool
    finally:
        await pool.close()
