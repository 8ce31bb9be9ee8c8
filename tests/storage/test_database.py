"""Files that are opened, brought up to date, and left alone if they are not ours.

Real files, and real processes where several of them matter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import attrs
import pytest

from glyphoxa_trio.storage.database import (
    Database,
    Schema,
    backup,
    open_database,
    open_to_read,
)
from glyphoxa_trio.storage.errors import StorageError, UnusableFile

LIMIT = 60.0  # seconds; only a hang comes near it
NORMAL, FULL = 1, 2  # of `pragma synchronous`

SCHEMA = Schema(
    what="notes",
    mark=0x6E6F7465,
    migrations=(
        "create table note (text text not null) strict;",
        "alter table note add column mood text not null default 'calm';",
    ),
)
FIRST = attrs.evolve(SCHEMA, migrations=SCHEMA.migrations[:1])


def write(database: Database, *texts: str) -> None:
    with database.changing() as connection:
        connection.executemany(
            "insert into note (text) values (?)", [(text,) for text in texts]
        )


def notes(database: Database) -> list[str]:
    with database.reading() as connection:
        return [text for (text,) in connection.execute("select text from note")]


def test_a_file_is_made_with_its_folders_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "of mine" / "notes.db"
    database = open_database(path, SCHEMA)
    write(database, "Hm.")
    assert {p.name: p.stat().st_mode & 0o777 for p in path.parent.iterdir()} == {
        "notes.db": 0o600,
        "notes.db-wal": 0o600,
        "notes.db-shm": 0o600,
    }
    assert path.parent.stat().st_mode & 0o777 == 0o700
    database.close()
    assert [p.name for p in path.parent.iterdir()] == ["notes.db"]
    again = open_database(path, SCHEMA)
    assert notes(again) == ["Hm."]
    assert again.connection.pragma("journal_mode") == "wal"
    again.close()


def test_an_older_file_is_brought_up_to_date_with_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    database = open_database(path, FIRST)
    write(database, "Hm.")
    database.close()
    database = open_database(path, SCHEMA)
    with database.reading() as connection:
        assert list(connection.execute("select * from note")) == [("Hm.", "calm")]
    assert database.connection.pragma("user_version") == 2
    database.close()


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    open_database(path, FIRST).close()
    broken = attrs.evolve(
        SCHEMA, migrations=(*SCHEMA.migrations, "create table note (x);")
    )
    with pytest.raises(UnusableFile, match="already exists"):  # a bug of ours
        open_database(path, broken)
    database = open_database(path, FIRST)
    assert database.connection.pragma("user_version") == 1
    database.close()


def _newer(path: Path) -> None:
    open_database(path, SCHEMA).close()


def _foreign(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("create table bookmarks (url)")
    connection.close()


def _marked(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("pragma application_id = 7")
    connection.close()


def _no_database(path: Path) -> None:
    path.write_bytes(b"Dear diary, today nothing happened. " * 100)


def _damaged(path: Path) -> None:
    open_database(path, FIRST).close()
    # The first page has the schema behind its header.
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 3000)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_newer, "its version is 2, and this program knows 1"),
        (_foreign, "it is not a file of notes"),
        (_marked, "it is not a file of notes"),
        (_no_database, "it is damaged, or not a database"),
        (_damaged, "it is damaged, or not a database"),
    ],
)
def test_what_cannot_be_used_is_said_and_left_as_it_is(
    spoil: object, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes.db"
    assert callable(spoil)
    spoil(path)
    before = path.read_bytes()
    for opened in (open_database, open_to_read):
        with pytest.raises(UnusableFile) as raised:
            opened(path, FIRST)
        assert str(raised.value).startswith(f"{path}: ")
        assert why in str(raised.value)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["notes.db"]


@pytest.mark.parametrize(
    ("disk", "journal", "waits_for"),
    [("unix", "wal", NORMAL), ("unix-dotfile", "delete", FULL)],
)
def test_where_no_log_can_be_kept_everything_is_waited_for(
    disk: str, journal: str, waits_for: int, tmp_path: Path
) -> None:
    usual = apsw.vfs_names()[0]
    apsw.set_default_vfs(disk)
    try:
        database = open_database(tmp_path / "notes.db", SCHEMA)
        assert database.connection.pragma("journal_mode") == journal
        assert database.connection.pragma("synchronous") == waits_for
        write(database, "Hm.")
        assert notes(database) == ["Hm."]
        database.close()
    finally:
        apsw.set_default_vfs(usual)


def test_tables_that_are_not_there_are_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    connection = apsw.Connection(str(path))
    connection.pragma("application_id", SCHEMA.mark)
    connection.pragma("user_version", len(SCHEMA.migrations))
    connection.close()
    database = open_database(path, SCHEMA)
    with pytest.raises(
        UnusableFile, match=r"notes\.db: its layout does not fit its version"
    ):
        notes(database)
    with pytest.raises(
        UnusableFile, match=r"notes\.db: its layout does not fit its version"
    ):
        write(database, "Hm.")
    database.close()


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.touch()
    database = open_database(path, SCHEMA)
    assert notes(database) == []
    database.close()


def test_a_folder_in_the_place_of_a_file_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="it cannot be opened") as raised:
        open_database(tmp_path, SCHEMA)
    assert not isinstance(raised.value, UnusableFile)


def test_a_folder_that_cannot_be_made_is_an_error_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StorageError, match=r"notes\.db: (File exists|Not a directory)"):
        open_database(tmp_path / "state" / "notes.db", SCHEMA)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write everything, so in here it is another user."""
    us = os.geteuid()
    if us == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(us)


def test_a_file_that_may_not_be_written_is_an_error_that_names_it() -> None:
    with TemporaryDirectory() as name:  # where pytest has its own nobody else may look
        path = Path(name) / "notes.db"
        open_database(path, SCHEMA).close()
        before = path.read_bytes()
        path.chmod(0o444)
        path.parent.chmod(0o555)
        with unprivileged():
            with pytest.raises(
                StorageError, match=r"notes\.db: it can be read, but"
            ) as e:
                open_database(path, SCHEMA)
        path.parent.chmod(0o700)
        assert not isinstance(e.value, UnusableFile)
        assert path.read_bytes() == before


def test_a_file_that_is_only_to_be_read_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    open_database(path, SCHEMA).close()
    database = open_to_read(path, SCHEMA)
    with pytest.raises(StorageError, match=r"notes\.db: it can be read, but not"):
        write(database, "Hm.")
    assert notes(database) == []
    database.close()


def test_reading_makes_no_file_and_changes_no_version(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with pytest.raises(StorageError, match="it cannot be opened"):
        open_to_read(path, SCHEMA)
    assert not path.exists()
    open_database(path, FIRST).close()
    with pytest.raises(UnusableFile, match="its version is 1, too old"):
        open_to_read(path, SCHEMA)


def test_who_waits_too_long_for_another_writer_is_told_and_may_try_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "notes.db"
    ours = open_database(path, SCHEMA, patience=0.05)
    theirs = open_database(path, SCHEMA)
    with theirs.changing() as connection:
        connection.execute("insert into note (text) values ('theirs')")
        with pytest.raises(StorageError, match="another program is using it") as raised:
            write(ours, "ours")
        assert not isinstance(raised.value, UnusableFile)
        assert notes(ours) == []  # readers do not wait for writers
    write(ours, "ours")
    assert notes(theirs) == ["theirs", "ours"]
    ours.close()
    theirs.close()


def test_a_file_that_somebody_keeps_to_himself_is_in_use_and_not_damaged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "notes.db"
    open_database(path, SCHEMA).close()
    theirs = apsw.Connection(str(path))
    theirs.execute("pragma locking_mode = exclusive")
    theirs.execute("insert into note (text) values ('mine')")
    with pytest.raises(StorageError, match="another program is using it") as raised:
        open_database(path, SCHEMA, patience=0.05)
    assert not isinstance(raised.value, UnusableFile)
    theirs.close()


@pytest.mark.parametrize("bug", [KeyError("x"), KeyboardInterrupt()])
def test_a_change_that_ends_early_is_none(tmp_path: Path, bug: BaseException) -> None:
    database = open_database(tmp_path / "notes.db", SCHEMA)
    with pytest.raises(type(bug)):
        with database.changing() as connection:
            connection.execute("insert into note (text) values ('Hm.')")
            raise bug
    assert notes(database) == []
    write(database, "Then.")
    assert notes(database) == ["Then."]
    database.close()


def test_what_is_read_in_one_block_is_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    database, other = open_database(path, SCHEMA), open_database(path, SCHEMA)
    count = "select count(*) from note"
    with database.reading() as connection:
        assert connection.execute(count).get == 0
        write(other, "Hm.")
        assert connection.execute(count).get == 0
    assert notes(database) == ["Hm."]
    database.close()
    other.close()


def test_a_backup_is_a_whole_file_in_the_place_of_another(tmp_path: Path) -> None:
    path, copy = tmp_path / "notes.db", tmp_path / "copy.db"
    copy.write_bytes(b"an older copy")
    database = open_database(path, SCHEMA)
    write(database, "Hm.")
    backup(database, copy)
    write(database, "Later.")
    assert copy.stat().st_mode & 0o777 == 0o600
    copied = open_database(copy, SCHEMA)
    assert notes(copied) == ["Hm."]
    copied.close()
    database.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.db", "notes.db"]


def test_a_backup_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    database = open_database(tmp_path / "notes.db", SCHEMA)
    (tmp_path / "copy.db").mkdir()
    with pytest.raises(StorageError, match=r"copy\.db: Is a directory"):
        backup(database, tmp_path / "copy.db")
    with pytest.raises(StorageError, match=r"copy\.db: No such file"):
        backup(database, tmp_path / "nowhere" / "copy.db")
    database.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.db", "notes.db"]


def test_a_file_that_somebody_makes_while_we_look_at_it_is_no_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, overtaken = tmp_path / "notes.db", list[bool]()

    class Slow(apsw.Connection):
        def pragma(self, name: str, *value: Any, **more: Any) -> Any:
            if name == "user_version" and not overtaken:
                overtaken.append(True)
                with suppress(StorageError):  # one of the two has to wait
                    open_database(path, SCHEMA, patience=0.05).close()
            return super().pragma(name, *value, **more)

    monkeypatch.setattr(apsw, "Connection", Slow)
    database = open_database(path, SCHEMA)
    write(database, "Hm.")
    assert notes(database) == ["Hm."]
    database.close()
    assert overtaken


MANY = """
import sys
from pathlib import Path
from tests.storage.test_database import SCHEMA, open_database, write
print("ready", flush=True)
sys.stdin.readline()
database = open_database(Path(sys.argv[1]), SCHEMA, patience=30)
for n in range(20):
    write(database, f"{sys.argv[2]} {n}")
database.close()
"""


@pytest.mark.border
def test_several_processes_may_open_one_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, str(path), str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for n in range(3)
    ]

    def end_them() -> None:
        for one in writers:
            one.kill()

    guard = threading.Timer(LIMIT, end_them)
    guard.start()
    try:
        for one in writers:
            assert one.stdout is not None
            assert one.stdout.readline() == b"ready\n"
        for one in writers:
            assert one.stdin is not None
            one.stdin.write(b"go\n")
            one.stdin.flush()
        assert [one.wait() for one in writers] == [0, 0, 0]
    finally:
        guard.cancel()
        end_them()
        for one in writers:
            one.communicate()
    database = open_database(path, SCHEMA)
    assert sorted(notes(database)) == sorted(
        f"{writer} {n}" for writer in range(3) for n in range(20)
    )
    database.close()
