"""An SQLite file that is ours: opened, brought up to date, changed as a whole.

A process may be killed at any moment: what was committed is there when the file is
opened next. A machine that loses its power may lose the last commits, and nothing
else. Several processes may use one file.

    database = open_database(path, SCHEMA)
    with database.changing() as connection:
        connection.execute("insert into note values (?)", ("Hm.",))
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

import apsw
import attrs

from .errors import StorageError, StorageFull, UnusableFile

# How long to wait for another process that writes, seconds.
PATIENCE: Final = 2.0
_PAUSE: Final = 0.02


@attrs.frozen(kw_only=True)
class Schema:
    """What is in a file, and how it came to be so.

    Args:
      what: in a word or two, for errors.
      mark: SQLite's application id, which tells our files from others.
      migrations: SQL; the n-th brings a file from version n to n+1. They are only
        ever added to.
    """

    what: str
    mark: int = attrs.field(validator=attrs.validators.in_(range(1, 2**31)))
    migrations: tuple[str, ...]


@attrs.frozen(eq=False)
class Database:
    """An open file. One thread at a time."""

    path: Path
    connection: apsw.Connection

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """What is read in the block is of one moment.

        Raises:
          StorageError: if it cannot be.
        """
        with translated(self.path):
            self.connection.execute("begin")
            try:
                yield self.connection
            finally:
                self._end("rollback")

    @contextmanager
    def changing(self) -> Iterator[apsw.Connection]:
        """Everything in the block, or nothing of it. Waits for other writers.

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
        """Raises `StorageError`; the file is closed all the same."""
        with translated(self.path):
            self.connection.close(force=True)

    def _end(self, how: str) -> None:
        # SQLite ends some transactions by itself when they fail.
        if self.connection.in_transaction:
            self.connection.execute(how)


def open_database(
    path: Path, schema: Schema, *, patience: float = PATIENCE
) -> Database:
    """Open a file, or make it; older versions are brought up to date.

    A new file is for its owner only.

    Raises:
      UnusableFile: if it is damaged, not of this schema, or of a newer version.
      StorageError: if it cannot be read and written now.
    """
    with translated(path):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                # Made by SQLite it would be as readable as any file. Only a new one
                # may be opened by hand: closing it gives up every lock that the
                # process has on it.
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror or error}") from None
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(round(patience * 1000))
            if connection.readonly("main"):
                raise StorageError(f"{path}: it can be read, but not written")
            _bring_up_to_date(connection, path, schema)
            # Without a log of its own, a file may be torn by a loss of power unless
            # everything is waited for.
            careful = "normal" if _in_wal_mode(connection, patience) else "full"
            connection.pragma("synchronous", careful)
            connection.pragma("foreign_keys", True)
        except BaseException:
            connection.close(force=True)
            raise
    return Database(path, connection)


def open_in_memory(schema: Schema) -> Database:
    """A database that nobody else can open, and that goes with the process."""
    path = Path(":memory:")
    with translated(path):
        connection = apsw.Connection(":memory:")
        _bring_up_to_date(connection, path, schema)
        connection.pragma("foreign_keys", True)
    return Database(path, connection)


def open_to_read(path: Path, schema: Schema, *, oldest: int | None = None) -> Database:
    """Open a file that is there, as it is, and change nothing.

    Args:
      oldest: the oldest version that the caller can read; None if only the newest.

    Raises:
      UnusableFile: if it is damaged, not of this schema or of another version.
      StorageError: if it is not there, or cannot be read now.
    """
    with translated(path):
        # Where writing is allowed it is opened for that, to tidy up behind itself.
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
    """A copy as of now in the place of ``to``, whole or not at all.

    Others may go on using the file.

    Raises:
      StorageError: if it could not be made; what was at ``to`` is as it was.
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
    """What APSW raises, as errors of ours that name the file."""
    try:
        yield
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise UnusableFile(f"{path}: it is damaged, or no database: {error}") from error
    except apsw.SQLError as error:
        raise UnusableFile(f"{path}: it is not laid out as it says: {error}") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StorageError(f"{path}: somebody else is using it") from error
    except apsw.ReadOnlyError as error:
        raise StorageError(f"{path}: it can be read, but not written") from error
    except apsw.CantOpenError as error:
        raise StorageError(f"{path}: it cannot be opened") from error
    except apsw.FullError as error:
        raise StorageFull(f"{path}: {error}") from error
    except (apsw.IOError, apsw.PermissionsError) as error:
        raise StorageError(f"{path}: {error}") from error


def _version(connection: apsw.Connection, path: Path, schema: Schema) -> int:
    """How far along the file is; 0 for a new one.

    Raises:
      UnusableFile: if it is not one of ours, or ahead of us.
    """
    with connection:  # of one moment, since others may be making the file
        mark = connection.pragma("application_id")
        version = connection.pragma("user_version")
        changes = connection.pragma("schema_version")
    if mark != schema.mark:
        if mark or version or changes:
            raise UnusableFile(f"{path}: it is no file of {schema.what}")
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
        # Somebody else may have been faster.
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
    """Readers and a writer at once; a file system that cannot do it does without,
    which is False."""
    last = time.monotonic() + patience
    while True:
        try:
            return bool(connection.pragma("journal_mode", "wal") == "wal")
        except apsw.BusyError:
            # For this lock SQLite itself does not wait.
            if time.monotonic() > last:
                raise
            time.sleep(_PAUSE)
