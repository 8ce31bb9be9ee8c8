"""Campaigns in an SQLite file, which several programs may use at once.

`SqliteRecords` is one transaction; `SqliteFile` is an open file, for one thread at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, TypeVar

import attrs

from glyphoxa_trio.storage.database import (
    Database,
    backup,
    open_database,
    open_in_memory,
    translated,
)
from glyphoxa_trio.storage.errors import UnusableFile

from .model import (
    Campaign,
    CampaignRecord,
    Character,
    GameSession,
    Participant,
    R,
    SessionStatus,
)
from .schema import SCHEMA
from .store import IdempotentResult, Records

T = TypeVar("T")

# Limits of the remembered changes, for other programs, and keys of creations. Both are
# trimmed as they grow, the oldest first.
MOST_CHANGES: Final = 1_000
MOST_KEYS: Final = 10_000

# Instructions of SQLite's virtual machine between two checks whether the caller still
# waits: less than a millisecond, and more than most statements need.
_STEPS: Final = 10_000

_TABLES: Final[dict[type[CampaignRecord], str]] = {
    Campaign: "campaign",
    Participant: "participant",
    Character: "character",
    GameSession: "session",
}


_COLUMNS: Final[dict[type[CampaignRecord], tuple[str, ...]]] = {
    kind: tuple(field.name for field in attrs.fields(kind)) for kind in _TABLES
}
_SELECT: Final[dict[type[CampaignRecord], str]] = {
    kind: f"select number, {', '.join(_COLUMNS[kind])} from {table}"
    for kind, table in _TABLES.items()
}


@attrs.frozen(eq=False)
class SqliteRecords:
    """The records of one transaction."""

    _connection: Any
    _path: Path
    _program: str

    def get(self, kind: type[R], record_id: str) -> R | None:
        rows = self._connection.execute(f"{_SELECT[kind]} where id = ?", (record_id,))
        return next((record for _, record in self._records(kind, rows)), None)

    def page(
        self, kind: type[R], campaign_id: str | None, after: int, limit: int
    ) -> Sequence[tuple[int, R]]:
        of = "" if campaign_id is None else "campaign_id = ? and "
        values = () if campaign_id is None else (campaign_id,)
        rows = self._connection.execute(
            f"{_SELECT[kind]} where {of}number > ? order by number limit ?",
            (*values, after, limit),
        )
        return list(self._records(kind, rows))

    def active_session(self, campaign_id: str) -> GameSession | None:
        rows = self._connection.execute(
            f"{_SELECT[GameSession]} where campaign_id = ? and status = ?",
            (campaign_id, SessionStatus.ACTIVE.value),
        )
        return next((record for _, record in self._records(GameSession, rows)), None)

    def add(self, record: CampaignRecord) -> None:
        columns = _COLUMNS[type(record)]
        self._connection.execute(
            f"insert into {_TABLES[type(record)]} ({', '.join(columns)})"
            f" values ({', '.join('?' * len(columns))})",
            self._values(record),
        )

    def replace(self, record: CampaignRecord) -> None:
        # The id and the campaign never change. Writing them all the same would make
        # SQLite search all records that refer to this one: every actor of the campaign.
        columns = [c for c in _COLUMNS[type(record)] if c not in ("id", "campaign_id")]
        self._connection.execute(
            f"update {_TABLES[type(record)]} set"
            f" {', '.join(f'{column} = ?' for column in columns)} where id = ?",
            (*(getattr(record, column) for column in columns), record.id),
        )

    def remove(self, record: CampaignRecord) -> None:
        self._connection.execute(
            f"delete from {_TABLES[type(record)]} where id = ?", (record.id,)
        )

    def release(self, participant: Participant, at: str) -> int:
        self._connection.execute(
            "update character set controller = null, updated_at = max(updated_at, ?)"
            # The same condition as in the index, which is not used otherwise.
            " where controller = ? and controller is not null and controller <> 'GM'",
            (at, participant.id),
        )
        count: int = self._connection.changes()
        return count

    def kept(self, key: str, since: float) -> IdempotentResult | None:
        row = self._connection.execute(
            "select arguments, record_id from creation where key = ? and at >= ?",
            (key, since),
        ).fetchone()
        return None if row is None else IdempotentResult(*row)

    def keep(self, key: str, kept: IdempotentResult, at: float, since: float) -> None:
        self._connection.execute("delete from creation where at < ?", (since,))
        self._connection.execute(
            "insert or replace into creation (key, arguments, record_id, at)"
            " values (?, ?, ?, ?)",
            (key, kept.arguments, kept.record_id, at),
        )
        self._trim("creation", MOST_KEYS)

    def touch(self, campaign_id: str) -> None:
        self._connection.execute(
            "insert into change (campaign_id, program) values (?, ?)",
            (campaign_id, self._program),
        )
        self._trim("change", MOST_CHANGES)

    def _trim(self, table: str, most: int) -> None:
        self._connection.execute(
            f"delete from {table} where number <= ?",
            (self._connection.last_insert_rowid() - most,),
        )

    def _values(self, record: CampaignRecord) -> tuple[Any, ...]:
        return tuple(getattr(record, column) for column in _COLUMNS[type(record)])

    def _records(self, kind: type[R], rows: Any) -> Iterator[tuple[int, R]]:
        columns = _COLUMNS[kind]
        for number, *values in rows:
            try:
                yield number, kind(**dict(zip(columns, values, strict=True)))
            except ValueError as error:
                raise UnusableFile(
                    f"{self._path}: {kind.WORD} {values[0]}: {error}"
                ) from None


@attrs.define(eq=False)
class SqliteFile:
    """An open file of campaigns. Blocks on the disk; for one thread at a time.

    Args:
      program: an id of the program that writes, so that it is not told of its own
        changes.
    """

    _database: Database
    program: str = attrs.field(factory=lambda: token_hex(8), kw_only=True)
    # Whether the caller still waits for the running work; called while it runs.
    _wanted: Callable[[], bool] = attrs.field(default=lambda: True, init=False)
    _seen: int = attrs.field(default=0, init=False)
    _version: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._version = self._data_version()
        self._seen = self._newest()
        self._database.connection.set_progress_handler(self._left, _STEPS)

    @classmethod
    def open(cls, path: Path | None, **options: Any) -> SqliteFile:
        """Open a file; None means in memory, for as long as the program runs.

        Raises the errors of `open_database`.
        """
        if path is None:
            return cls(open_in_memory(SCHEMA), **options)
        return cls(open_database(path, SCHEMA), **options)

    @property
    def path(self) -> Path:
        return self._database.path

    def serve(self, wanted: Callable[[], bool]) -> None:
        """Set the function that says whether the work from now on is still ``wanted``.

        It is called repeatedly while the work runs.
        """
        self._wanted = wanted

    def read(self, work: Callable[[Records], T]) -> T:
        """Run work that reads. Raises `StorageError`, and the errors of the work."""
        with self._database.reading() as connection:
            return work(SqliteRecords(connection, self.path, self.program))

    def write(self, work: Callable[[Records], T]) -> T:
        """Run work that writes: all of it is done, or nothing.

        Raises:
          StorageError: if nothing was changed; and the errors of the work.
        """
        with self._database.changing() as connection:
            returned = work(SqliteRecords(connection, self.path, self.program))
            # Waiting for other writers may have taken longer than the caller could
            # wait.
            if self._left():
                raise InterruptedError("the caller has left")
            return returned

    def changed_elsewhere(self) -> frozenset[str] | None:
        """Return the campaigns that other programs changed; see `Store`.

        Costs next to nothing while no program writes.

        Raises:
          StorageError: if the file cannot be read now.
        """
        version = self._data_version()
        if version == self._version:
            return frozenset()
        with self._database.reading() as connection:
            (oldest, newest) = connection.execute(
                "select coalesce(min(number), 0), coalesce(max(number), 0) from change"
            ).get
            rows = connection.execute(
                "select distinct campaign_id from change"
                " where number > ? and program <> ?",
                (self._seen, self.program),
            )
            changed = frozenset(campaign_id for (campaign_id,) in rows)
        missed = oldest > self._seen + 1
        self._version, self._seen = version, newest
        return None if missed else changed

    def backup(self, to: Path) -> None:
        """Copy the file. Raises `StorageError`."""
        backup(self._database, to)

    def close(self) -> None:
        self._database.close()

    def _left(self) -> bool:
        """Return whether the caller has left; True interrupts a running statement."""
        return not self._wanted()

    def _data_version(self) -> int:
        with translated(self.path):
            return int(self._database.connection.pragma("data_version"))

    def _newest(self) -> int:
        with self._database.reading() as connection:
            return int(
                connection.execute("select coalesce(max(number), 0) from change").get
            )
