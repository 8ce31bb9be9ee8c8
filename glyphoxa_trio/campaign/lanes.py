"""Running work on a file in worker threads: one that writes, and one that reads.

Each has a connection of its own, so a read never waits for a write. A caller that is
cancelled returns at once: work that has not begun is not done, and work that has begun
is interrupted and rolled back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import attrs

import trio

from glyphoxa_trio.storage.errors import StorageError

from .sqlite import SqliteFile
from .store import Records

T = TypeVar("T")

# Seconds that closing waits for running work.
LEAVING: Final = 3.0


@attrs.define(eq=False)
class _Lane:
    """An open file, and the one thread at a time that uses it."""

    file: SqliteFile
    _limiter: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(1), init=False
    )

    async def run(self, work: Callable[[SqliteFile], T]) -> T:
        """Return the result of the work. If cancelled, interrupts it."""
        left = False

        def in_thread() -> T:
            self.file.serve(lambda: not left)
            return work(self.file)

        try:
            # An abandoned thread keeps its slot in the limiter until it ends, so the
            # next one never uses the file at the same time.
            return await trio.to_thread.run_sync(
                in_thread, abandon_on_cancel=True, limiter=self._limiter
            )
        except trio.Cancelled:
            left = True
            raise

    async def close(self) -> None:
        with trio.move_on_after(LEAVING, shield=True):
            # If that fails, the file is closed when the process ends.
            with suppress(StorageError):
                await self.run(SqliteFile.close)


@attrs.define(eq=False)
class FileStore:
    """A `Store` in a file; see `open_store`."""

    _writing: _Lane
    _reading: _Lane

    async def read(self, work: Callable[[Records], T]) -> T:
        return await self._reading.run(lambda file: file.read(work))

    async def write(self, work: Callable[[Records], T]) -> T:
        return await self._writing.run(lambda file: file.write(work))

    async def changed_elsewhere(self) -> Collection[str] | None:
        return await self._reading.run(SqliteFile.changed_elsewhere)

    async def backup(self, to: Path) -> None:
        """Write a copy of the present state to ``to``, whole or not at all.

        Raises:
          StorageError: if it could not be made.
        """
        await self._reading.run(lambda file: file.backup(to))


@asynccontextmanager
async def open_store(path: Path | None) -> AsyncGenerator[FileStore]:
    """Open the store in a file, which is created if it does not exist; None: in memory.

    Raises:
      UnusableFile: if the file is damaged, of another program, or of a newer version.
      StorageError: if it cannot be opened now.
    """

    def opened() -> tuple[SqliteFile, SqliteFile]:
        writing = SqliteFile.open(path)
        if path is None:
            return writing, writing
        try:
            return writing, SqliteFile.open(path, program=writing.program)
        except BaseException:
            writing.close()
            raise

    # Not abandoned when cancelled: the files would stay open.
    first, second = await trio.to_thread.run_sync(opened)
    writing = _Lane(first)
    reading = writing if second is first else _Lane(second)
    try:
        yield FileStore(writing, reading)
    finally:
        if reading is not writing:
            await reading.close()
        await writing.close()
