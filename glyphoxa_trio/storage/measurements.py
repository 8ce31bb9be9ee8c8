"""The file of measurements: the last calls of every tool, by the place where it runs.

Several processes may write into one file: each adds its measurements, and the newest of
all of them are kept. "Newest" means the order of writing, since clocks may be set back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.history import Measured, ToolPlace
from glyphoxa_trio.tools.window import SampleKind

from .database import Database, Schema, open_database, open_to_read
from .errors import UnusableFile

# Of all tools together; beyond that the oldest are removed. It is about 2 MB, and a
# fifth of a second of the start.
MOST_SAMPLES: Final = 50_000

_NAMED: Final = {kind.value: kind for kind in SampleKind}
_KINDS: Final = ", ".join(map(repr, _NAMED))
_NOT_THE_TOOLS: Final = """
    kind in ('censored', 'timeout')
    and place in (select id from place where origin <> '')
"""
_DROP_EMPTY: Final = """
    delete from place
    where not exists (select 1 from sample where sample.place = place.id)
"""
SCHEMA: Final = Schema(
    what="measurements",
    mark=0x676C796D,
    migrations=(
        f"""
        create table place (
            id integer primary key,
            environment text not null,
            origin text not null,
            tool text not null,
            unique (environment, origin, tool)
        ) strict;
        create table sample (
            id integer primary key,
            place integer not null references place on delete cascade,
            kind text not null check (kind in ({_KINDS})),
            seconds real not null check (seconds >= 0 and seconds < 1e300),
            at real not null,
            probe integer not null check (probe in (0, 1))
        ) strict;
        create index sample_of on sample (place, id);
        """,
        # Version 1 also counted as latency the time in which a server started or a call
        # waited for its turn; and calls were cut because the event loop was late.
        f"""
        delete from sample where {_NOT_THE_TOOLS};
        {_DROP_EMPTY};
        """,
    ),
)

_READ: Final = """
    select environment, origin, tool, kind, seconds, at, probe
    from sample join place on place.id = sample.place
"""
_TRIM: Final = """
    delete from sample where place = ?1 and id <= (
        select id from sample where place = ?1 order by id desc limit 1 offset ?2
    )
"""
_TRIM_ALL: Final = """
    delete from sample where id <= (
        select id from sample order by id desc limit 1 offset ?
    )
"""


@attrs.frozen(eq=False)
class MeasurementFile:
    """An open file of measurements. Blocks on the disk; for one thread at a time."""

    _database: Database

    @classmethod
    def open(cls, path: Path) -> MeasurementFile:
        """Open the file. Raises the errors of `open_database`."""
        return cls(open_database(path, SCHEMA))

    def load(self, since: float, until: float) -> list[Measured]:
        """Return the measurements between two moments of Unix time, oldest first.

        Raises:
          UnusableFile: if the file holds an impossible measurement.
          StorageError: if it cannot be read.
        """
        with self._database.reading() as connection:
            rows = connection.execute(
                f"{_READ} where at between ? and ? order by sample.id", (since, until)
            )
            return _measured(rows, self._database.path)

    def write(self, batch: Sequence[Measured], *, keep: int) -> None:
        """Add measurements, all or none; of each tool the last ``keep`` stay.

        Raises:
          StorageError: if nothing was added.
        """
        with self._database.changing() as connection:
            ids: dict[ToolPlace, int] = {}
            for one in batch:
                place = one.place
                if place not in ids:
                    parts = tuple(
                        map(_text, (place.environment, place.origin, place.key))
                    )
                    connection.execute(
                        "insert or ignore into place (environment, origin, tool)"
                        " values (?, ?, ?)",
                        parts,
                    )
                    ids[place] = connection.execute(
                        "select id from place"
                        " where (environment, origin, tool) = (?, ?, ?)",
                        parts,
                    ).get
            connection.executemany(
                "insert into sample (place, kind, seconds, at, probe)"
                " values (?, ?, ?, ?, ?)",
                (
                    (ids[x.place], x.kind.value, x.seconds, x.when, int(x.probe))
                    for x in batch
                ),
            )
            connection.executemany(_TRIM, ((id_, keep) for id_ in ids.values()))
            if connection.execute("select count(*) from sample").get > MOST_SAMPLES:
                connection.execute(_TRIM_ALL, (MOST_SAMPLES,))
                connection.execute(_DROP_EMPTY)

    def forget(self, places: Iterable[ToolPlace]) -> int:
        """Remove the samples of these tools, all or none; return how many there were.

        Raises:
          StorageError: if nothing was removed.
        """
        gone = 0
        with self._database.changing() as connection:
            for place in places:
                parts = tuple(map(_text, place))
                connection.execute(
                    "delete from sample where place = (select id from place"
                    " where (environment, origin, tool) = (?, ?, ?))",
                    parts,
                )
                gone += connection.changes()
            connection.execute(_DROP_EMPTY)
        return gone

    def close(self) -> None:
        self._database.close()


@attrs.frozen
class Latencies:
    """The measured latencies of one tool in seconds, oldest first.

    ``ended`` are calls that were measured to their end: they returned, or reached the
    limit of their tool or server. ``cut`` are calls that took longer than these times.
    """

    ended: tuple[float, ...] = ()
    cut: tuple[float, ...] = ()


def read_latencies(path: Path) -> dict[tuple[str, str], Latencies]:
    """Return the latencies in a file, however old, by environment and key.

    If several servers had one name in one environment, returns those of the server that
    was measured last. Blocks on the disk; changes nothing.

    Raises:
      UnusableFile: if it is no file of measurements, damaged, or newer.
      StorageError: if it does not exist, or cannot be read now.
    """
    database = open_to_read(path, SCHEMA, oldest=1)
    try:
        with database.reading() as connection:
            old = connection.pragma("user_version") == 1
            true = f"where not ({_NOT_THE_TOOLS})" if old else ""
            rows = connection.execute(f"{_READ} {true} order by sample.id")
            every = _measured(rows, path)
    finally:
        database.close()
    last = {(x.place.environment, x.place.key): x.place.origin for x in every}
    ended: dict[tuple[str, str], list[float]] = {}
    cut: dict[tuple[str, str], list[float]] = {}
    for one in every:
        where = (one.place.environment, one.place.key)
        if one.place.origin != last[where]:
            continue
        if one.kind is SampleKind.CENSORED:
            cut.setdefault(where, []).append(one.seconds)
        elif one.kind in (SampleKind.OK, SampleKind.TIMEOUT):
            ended.setdefault(where, []).append(one.seconds)
    return {
        where: Latencies(tuple(ended.get(where, ())), tuple(cut.get(where, ())))
        for where in last
        if where in ended or where in cut
    }


def _text(name: str) -> str:
    """Escape half a surrogate pair, which a tool's name may hold but a file cannot."""
    return name.encode("utf-8", "backslashreplace").decode()


def _measured(rows: Iterable[Any], path: Path) -> list[Measured]:
    """Check and convert rows: a failing disk can change them."""
    places: dict[tuple[str, str, str], ToolPlace] = {}
    found: list[Measured] = []
    for environment, origin, key, name, seconds, at, probe in rows:
        kind = _NAMED.get(name)
        told = isinstance(seconds, float) and 0 <= seconds < math.inf
        if kind is None or not told or not isinstance(at, float):
            what = f"{name!r}, {seconds!r}, {at!r}"
            raise UnusableFile(f"{path}: it is damaged: not a measurement: {what}")
        where = (environment, origin, key)
        place = places.get(where)
        if place is None:
            place = places[where] = ToolPlace(*where)
        found.append(Measured(place, kind, seconds, at, bool(probe)))
    return found
