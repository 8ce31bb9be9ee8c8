"""Our SQLite files: opened, migrated, and changed in transactions.

A process may be killed at any moment: everything committed is there when the file is
opened again. A machine that loses power may lose the last commits, but nothing else.
Several processes may use one file.

    database = open_database(path, SCHEMA)
    with database.changing() as connection:
        connection.execute("insert into note values (?)", ("Hm.",))
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

import apsw
import attrs

from .errors import StorageError, StorageFull, UnusableFile

# Seconds to wait for another process that writes.
PATIENCE: Final = 2.0
_PAUSE: Final = 0.02


@attrs.frozen(kw_only=True)
class Schema:
    """The layout of a file, and the migrations that lead to it.

    Args:
      what: the content of the file in a word or two, for errors.
      mark: SQLite's application id, which tells our files from others.
      migrations: SQL; the n-th brings a file from version n to n+1. New ones are only
        ever appended.
    """

    what: str
    mark: int = attrs.field(validator=attrs.validators.in_(range(1, 2**31)))
    migrations: tuple[str, ...]


@attrs.frozen(eq=False)
class Database:
    """An open file, for one thread at a time."""

    path: Path
    connection: apsw.Connection

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Read from a snapshot of the file, for the length of the block.

        Raises:
          StorageError: if the file cannot be read.
        """
        with translated(self.path):
            self.connection.execute("begin")
            try:
                yield self.connection
            finally:
                self._end("rollback")

    @contextmanager
    def changing(self) -> Iterator[apsw.Connection]:
        """Make all changes of the block, or none of them. Waits for other writers.

        Raises:
          StorageError: if nothing was changed.
        """
        with translated(self.path):
            self.connection.execute("begin immediate")
            try:
                yield self.connection
                self.connection.execute("commit")
            finally:
                self._end("rollback")

    def close(self) -> None:
        """Close the file; it is closed even if this raises `StorageError`."""
        with translated(self.path):
            self.connection.close(force=True)

    def _end(self, how: str) -> None:
        # SQLite ends some transactions by itself when they fail.
        if self.connection.in_transaction:
            self.connection.execute(how)


def open_database(
    path: Path,
    schema: Schema,
    *,
    patience: float = PATIENCE,
    prepare: Callable[[apsw.Connection], None] | None = None,
) -> Database:
    """Open a file, or create it; older versions are migrated.

    A new file is readable for its owner only.

    Args:
      patience: how many seconds to wait for another program that uses the file.
      prepare: called with the connection before the file is migrated: it may load
        extensions that the schema needs.

    Raises:
      UnusableFile: if it is damaged, not of this schema, or of a newer version.
      StorageError: if it cannot be read and written now.
    """
    with translated(path):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                # SQLite would create it with the usual permissions. Only a new file may
                # be opened by hand: closing it gives up every lock that the process has
                # on it.
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror or error}") from None
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(round(patience * 1000))
            if prepare is not None:
                prepare(connection)
            if connection.readonly("main"):
                raise StorageError(f"{path}: it can be read, but not written")
            _bring_up_to_date(connection, path, schema)
            # Without a write-ahead log, a loss of power may damage the file unless
            # every write is waited for.
            careful = "normal" if _in_wal_mode(connection, patience) else "full"
            connection.pragma("synchronous", careful)
            connection.pragma("foreign_keys", True)
        except BaseException:
            connection.close(force=True)
            raise
    return Database(path, connection)


def open_in_memory(schema: Schema) -> Database:
    """Return a database in memory: private to the caller, and lost with the process."""
    path = Path(":memory:")
    with translated(path):
        connection = apsw.Connection(":memory:")
        _bring_up_to_date(connection, path, schema)
        connection.pragma("foreign_keys", True)
    return Database(path, connection)


def open_to_read(path: Path, schema: Schema, *, oldest: int | None = None) -> Database:
    """Open an existing file as it is, without changing it.

    Args:
      oldest: the oldest version that the caller can read; None if only the newest.

    Raises:
      UnusableFile: if it is damaged, not of this schema or of another version.
      StorageError: if it does not exist, or cannot be read now.
    """
    with translated(path):
        # Opened for writing where that is allowed, so that SQLite can remove its log
        # files.
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(round(PATIENCE * 1000))
            connection.execute("pragma query_only = on")
            version = _version(connection, path, schema)
            if version < (len(schema.migrations) if oldest is None else oldest):
                raise UnusableFile(f"{path}: its version is {version}, too old to read")
        except BaseException:
            connection.close(force=True)
            raise
    return Database(path, connection)


def backup(database: Database, to: Path) -> None:
    """Write a copy of the present state to ``to``, whole or not at all.

    Other programs may use the file meanwhile.

    Raises:
      StorageError: if it could not be made; a file at ``to`` is unchanged then.
    """
    beside = to.with_name(f".{to.name}.{token_hex(8)}.new")
    try:
        file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with translated(database.path):
                database.connection.execute("vacuum into ?", (str(beside),))
            os.fsync(file)
            os.replace(beside, to)
        finally:
            os.close(file)
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{to}: {error.strerror or error}") from None


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate APSW's errors into ours, which name the file."""
    try:
        yield
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise UnusableFile(
            f"{path}: it is damaged, or not a database: {error}"
        ) from error
    except apsw.SQLError as error:
        raise UnusableFile(
            f"{path}: its layout does not fit its version: {error}"
        ) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StorageError(f"{path}: another program is using it") from error
    except apsw.ReadOnlyError as error:
        raise StorageError(f"{path}: it can be read, but not written") from error
    except apsw.CantOpenError as error:
        raise StorageError(f"{path}: it cannot be opened") from error
    except apsw.FullError as error:
        raise StorageFull(f"{path}: {error}") from error
    except (apsw.IOError, apsw.PermissionsError) as error:
        raise StorageError(f"{path}: {error}") from error


def _version(connection: apsw.Connection, path: Path, schema: Schema) -> int:
    """Return the version of the file; 0 for a new one.

    Raises:
      UnusableFile: if it is not one of ours, or of a newer version.
    """
    with connection:  # a snapshot, since another process may be creating the file
        mark = connection.pragma("application_id")
        version = connection.pragma("user_version")
        changes = connection.pragma("schema_version")
    if mark != schema.mark:
        if mark or version or changes:
            raise UnusableFile(f"{path}: it is not a file of {schema.what}")
        return 0
    newest = len(schema.migrations)
    if not isinstance(version, int) or not 0 <= version <= newest:
        raise UnusableFile(
            f"{path}: its version is {version}, and this program knows {newest}: a"
            " newer one wrote it"
        )
    return version


def _bring_up_to_date(connection: apsw.Connection, path: Path, schema: Schema) -> None:
    if _version(connection, path, schema) == len(schema.migrations):
        return
    connection.execute("begin immediate")
    try:
        # Another process may have migrated it meanwhile.
        for migration in schema.migrations[_version(connection, path, schema) :]:
            connection.execute(migration)
        connection.pragma("application_id", schema.mark)
        connection.pragma("user_version", len(schema.migrations))
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _in_wal_mode(connection: apsw.Connection, patience: float) -> bool:
    """Switch to a write-ahead log, so that reads and a write can run at once.

    Returns False on a file system that cannot do it.
    """
    last = time.monotonic() + patience
    while True:
        try:
            return bool(connection.pragma("journal_mode", "wal") == "wal")
        except apsw.BusyError:
            # SQLite itself does not wait for this lock.
            if time.monotonic() > last:
                raise
            time.sleep(_PAUSE)
