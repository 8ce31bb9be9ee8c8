"""An SQLite file for many tasks: one connection that writes, several that read.

Uses APSW's mode for trio: each connection has a thread of its own, and cancellation
interrupts the query that it runs. Work is a plain function that runs in such a thread,
inside one transaction::

    async with open_pool(path, SCHEMA) as pool:
        await pool.write(add_note, "Hm.")
        notes = await pool.read(all_notes)

    def add_note(connection: apsw.Connection, text: str) -> None:
        connection.execute("insert into note values (?)", (text,))
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import apsw
import apsw.aio
import attrs

import trio

from .database import PATIENCE, Schema, open_database, translated

READERS: Final = 2
_CLOSING: Final = 5.0  # seconds for a query that runs when the file is closed
P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[Concatenate[apsw.Connection, P], T]
Prepare = Callable[[apsw.Connection], None]
Translated = Callable[[Path], AbstractContextManager[None]]


class taken:
    """Hold a lock or a semaphore for a block, as its own block does.

    If it is free, that takes no pass of the event loop, which costs as much as a short
    query.
    """

    __slots__ = ("_lock",)

    def __init__(self, lock: trio.Lock | trio.Semaphore) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


@attrs.define(eq=False)
class SqlitePool:
    """An open file. Its methods may be called by any task of the run."""

    path: Path
    _writer: apsw.Connection
    _readers: list[apsw.Connection]
    _connected: Callable[[], AbstractAsyncContextManager[apsw.Connection]]
    _translated: Translated = translated
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _free: trio.Semaphore = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._free = trio.Semaphore(len(self._readers))

    async def read(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``work`` returns, which reads one state of the file.

        Cancellation interrupts its query.

        Raises:
          StorageError: the file cannot be read.
        """
        async with taken(self._free):
            reader = self._readers.pop()
            try:
                return await self._run(reader, "begin", partial(work, **kwargs), args)
            finally:
                self._readers.append(reader)

    async def write(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``work`` returns: all its changes are made, or none.

        Writes run one after the other, in the order of their callers. A write that is
        cancelled may have been made.

        Raises:
          StorageError: nothing was changed.
        """
        async with taken(self._turn):
            return await self._run(
                self._writer, "begin immediate", partial(work, **kwargs), args
            )

    async def alone(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``work`` returns; it begins its own transactions, if any.

        For checkpoints, copies and the like. Other writes wait for it.

        Raises:
          StorageError: the file cannot be read or written.
        """
        async with taken(self._turn):
            return await self._run(self._writer, "", partial(work, **kwargs), args)

    async def apart(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what ``work`` returns, which has a connection of its own.

        For what takes long, such as a copy of the file: nothing waits for it.

        Raises:
          StorageError: the file cannot be read or written.
        """
        async with self._connected() as connection:
            return await self._run(connection, "", partial(work, **kwargs), args)

    async def _run(
        self,
        connection: apsw.Connection,
        begin: str,
        work: Callable[..., T],
        args: tuple[Any, ...],
    ) -> T:
        # Without this, APSW raises an error of its own when a deadline has passed that
        # the caller's scope may have moved since.
        token = apsw.aio.deadline.set(math.inf)
        try:
            with self._translated(self.path):
                run = cast(Any, connection).async_run
                return cast(T, await run(_transaction, connection, begin, work, args))
        finally:
            apsw.aio.deadline.reset(token)


def _transaction(
    connection: apsw.Connection,
    begin: str,
    work: Callable[..., T],
    args: tuple[Any, ...],
) -> T:
    """Run in the connection's thread, where the connection is an ordinary one."""
    if not begin:
        return work(connection, *args)
    connection.execute(begin)
    try:
        done = work(connection, *args)
        connection.execute("commit")
        return done
    finally:
        # SQLite ends some transactions by itself when they fail.
        if connection.in_transaction:
            connection.execute("rollback")


@asynccontextmanager
async def open_pool(
    path: Path,
    schema: Schema,
    *,
    readers: int = READERS,
    durable: bool = False,
    prepare: Prepare | None = None,
    translated: Translated = translated,
) -> AsyncGenerator[SqlitePool]:
    """Open a file, or create it; older versions are migrated.

    Args:
      durable: each commit survives a loss of power as well, and takes longer.
      prepare: called with each connection, in its thread: it may load extensions.
      translated: raises other errors than `StorageError` and `UnusableFile`.

    Raises:
      UnusableFile: if it is damaged, not of this schema, or of a newer version.
      StorageError: if it cannot be read and written now.
    """

    @asynccontextmanager
    async def connected(*, writes: bool = True) -> AsyncGenerator[apsw.Connection]:
        token = apsw.async_controller.set(cast(Any, apsw.aio.Trio))
        try:
            with translated(path):
                connection: Any = await apsw.Connection.as_async(str(path))
        finally:
            apsw.async_controller.reset(token)
        try:
            with translated(path):
                await connection.async_run(
                    _settle, connection, prepare, writes, durable
                )
            yield cast(apsw.Connection, connection)
        finally:
            with trio.move_on_after(_CLOSING, shield=True):
                await connection.aclose()

    opening = partial(_create, path, schema, prepare)
    with translated(path):
        await trio.to_thread.run_sync(opening, abandon_on_cancel=True)
    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(connected())
        several = [
            await stack.enter_async_context(connected(writes=False))
            for _ in range(readers)
        ]
        yield SqlitePool(path, writer, several, connected, translated)


def _create(path: Path, schema: Schema, prepare: Prepare | None) -> None:
    open_database(path, schema, prepare=prepare).close()


def _settle(
    connection: apsw.Connection, prepare: Prepare | None, writes: bool, durable: bool
) -> None:
    connection.set_busy_timeout(round(PATIENCE * 1000))
    wal = connection.pragma("journal_mode") == "wal"
    connection.pragma("synchronous", "normal" if wal and not durable else "full")
    connection.pragma("foreign_keys", True)
    if prepare is not None:
        prepare(connection)
    if not writes:
        connection.pragma("query_only", True)
