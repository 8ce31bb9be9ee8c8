"""Files that are locked, full, damaged, newer or shared, and death at any moment.

Real files and real processes; each test with processes has an absolute limit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from glyphoxa_trio.campaign.listing import listed
from glyphoxa_trio.campaign.model import Campaign, Character
from glyphoxa_trio.campaign.schema import SCHEMA
from glyphoxa_trio.campaign.sqlite import SqliteFile
from glyphoxa_trio.servers.builtin import campaign as shelf
from glyphoxa_trio.storage.errors import StorageError, UnusableFile

from .killed import ACTORS
from .table import Refused, options, served

LIMIT = 100.0  # seconds; only a hang comes near it
ROOT = Path(__file__).parents[2]


def _no_database(path: Path) -> None:
    path.write_bytes(b"Dear diary, today nothing happened. " * 100)


def _foreign(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("create table bookmarks (url)")
    connection.close()


def _newer(path: Path) -> None:
    SqliteFile.open(path).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", len(SCHEMA.migrations) + 1)
    connection.close()


def _damaged(path: Path) -> None:
    SqliteFile.open(path).close()
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 3000)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_no_database, "it is damaged, or not a database"),
        (_foreign, "it is not a file of campaigns"),
        (_newer, "a newer one wrote it"),
        (_damaged, "it is damaged, or not a database"),
    ],
)
async def test_what_cannot_be_used_is_said_and_left_as_it_is(
    spoil: object, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "campaigns.db"
    assert callable(spoil)
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(UnusableFile, match=says) as refused:
        async with shelf.open_offer(options("--db", str(path))):
            pass
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["campaigns.db"]


async def test_a_folder_and_nothing_are_no_files(tmp_path: Path) -> None:
    for db, says in ((str(tmp_path), "cannot be opened"), (" ", "must not be empty")):
        with pytest.raises((StorageError, ValueError), match=says):
            async with shelf.open_offer(options("--db", db)):
                pass


async def test_a_row_that_nobody_can_have_written_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "campaigns.db"
    async with served(path) as server:
        ann = server.guest()
        await ann.call("campaign_create", name="C", gm_mode="AI")
        connection = apsw.Connection(str(path))
        connection.execute("update campaign set gm_mode = 'NONSENSE'")
        connection.close()
        with pytest.raises(Refused, match="NONSENSE") as refused:
            await ann.call("campaign_list")
        assert refused.value.code == "Unavailable"
        assert str(path) not in refused.value.message


async def test_while_somebody_else_keeps_it_writes_are_refused_and_reads_go_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "campaigns.db"
    async with served(path) as server:
        ann = server.guest()
        await ann.call("campaign_create", name="C", gm_mode="AI")
        server.store._writing.file._database.connection.set_busy_timeout(50)
        theirs = apsw.Connection(str(path))
        theirs.execute("begin immediate")
        with pytest.raises(Refused, match="another program is using it") as refused:
            await ann.call("session_start", campaign_id="camp_1")
        assert refused.value.code == "Unavailable"
        assert str(path) not in refused.value.message
        assert await ann.call("session_list", campaign_id="camp_1") == {"sessions": []}
        theirs.execute("rollback")
        theirs.close()
        await ann.call("session_start", campaign_id="camp_1")


async def test_a_full_disk_is_said_and_nothing_is_half_done(tmp_path: Path) -> None:
    path = tmp_path / "campaigns.db"
    async with served(path, counted=False) as server:
        ann = server.guest()
        campaign = await ann.call("campaign_create", name="C", gm_mode="AI")
        await ann.call("set_context", campaign_id=campaign["id"])
        writer = server.store._writing.file._database.connection
        writer.pragma("max_page_count", writer.pragma("page_count") + 4)
        made = 0
        with pytest.raises(Refused, match="full") as refused:
            for _ in range(100):
                await ann.call("actor_create", name="A", kind="PC", notes="n" * 4000)
                made += 1
        assert refused.value.code == "ResourceExhausted"
        assert made > 0
        whole = await ann.call("campaign_get")
        assert whole["actor_count"] == made
        assert len((await ann.call("actor_list"))["actors"]) == made
        writer.pragma("max_page_count", 10**6)
        await ann.call("actor_create", name="A", kind="PC", notes="n" * 4000)


# Several processes

MANY = """
import sys
from functools import partial
from pathlib import Path
from glyphoxa_trio.campaign.changing import move_session
from glyphoxa_trio.campaign.errors import FailedPrecondition
from glyphoxa_trio.campaign.model import SessionStatus
from glyphoxa_trio.campaign.rules import create_character, start_session
from glyphoxa_trio.campaign.sqlite import SqliteFile
from glyphoxa_trio.campaign.stamps import Stamps

file, stamps = SqliteFile.open(Path(sys.argv[1])), Stamps()
print("ready", flush=True)
sys.stdin.readline()
started = refused = 0
for n in range(40):
    try:
        session = file.write(
            lambda r: start_session(r, stamps.moment(), "camp_1", name=sys.argv[2])
        )
        started += 1
    except FailedPrecondition:
        refused += 1
    else:
        file.write(
            lambda r: move_session(
                r, stamps.moment(), "camp_1", session.id, SessionStatus.ENDED
            )
        )
    file.write(
        lambda r: create_character(
            r, stamps.moment(), "camp_1", name=f"{sys.argv[2]} {n}", kind="NPC"
        )
    )
file.close()
print(started, refused, flush=True)
"""


@contextmanager
def children(*commands: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    processes = [
        subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for command in commands
    ]

    def end_them() -> None:
        for one in processes:
            one.kill()

    guard = threading.Timer(LIMIT, end_them)
    guard.start()
    try:
        yield processes
    finally:
        guard.cancel()
        end_them()
        for one in processes:
            one.communicate()


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


@pytest.mark.border
async def test_several_programs_count_together_and_start_one_session_at_a_time(
    tmp_path: Path,
) -> None:
    # F31, F32
    path = tmp_path / "campaigns.db"
    async with served(path) as server:
        await server.guest().call("campaign_create", name="C", gm_mode="AI")
    with children(*(["-c", MANY, str(path), name] for name in "ab")) as processes:
        for one in processes:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in processes:
            say(one, "go")
        told = [
            tuple(map(int, one.stdout.readline().split()))
            for one in processes
            if one.stdout is not None
        ]
        assert [one.wait() for one in processes] == [0, 0]
    started = sum(some for some, _ in told)
    assert all(some + others == 40 for some, others in told)
    async with served(path) as server:
        ann = server.guest()
        await ann.call("set_context", campaign_id="camp_1")
        assert (await ann.call("campaign_get"))["actor_count"] == 80
        actors = (await ann.call("actor_list", limit=100))["actors"]
        for name in "ab":
            mine = [one["name"] for one in actors if one["name"].startswith(name)]
            assert mine == [f"{name} {n}" for n in range(40)]
        sessions = (await ann.call("session_list", limit=100))["sessions"]
        assert len(sessions) == started
        assert {one["status"] for one in sessions} == {"ENDED"}


@pytest.mark.long
@pytest.mark.border
def test_who_dies_at_any_call_of_the_disk_loses_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "campaigns.db"
    deaths = 0
    command = ["-m", "tests.campaign.killed", str(path), "1", "400"]
    with children(command) as (process,):
        assert process.stdout is not None
        for line in process.stdout:
            point, acknowledged, was_killed = map(int, line.split())
            _sound(path, point, acknowledged)
            deaths += was_killed
            if not was_killed:  # it came to its end before that call
                assert acknowledged == ACTORS + 1
                break
            say(process, "next")
        else:
            pytest.fail(f"it ended by itself after {deaths} deaths")
    assert deaths > 40


def _sound(path: Path, point: int, acknowledged: int) -> None:
    """What was acknowledged is there, at most one more, and the counts are right."""
    file = SqliteFile.open(path)
    campaign = file.read(lambda records: records.get(Campaign, f"camp_{point}"))
    if campaign is None:
        assert acknowledged == 0
    else:
        actors = file.read(
            lambda r: listed(r, Character, f"camp_{point}", size=10**6)
        ).records
        assert len(actors) + 1 in (acknowledged, acknowledged + 1)
        assert [one["name"] for one in actors] == [f"A{n}" for n in range(len(actors))]
        assert campaign.actor_count == len(actors)
    file.close()
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    assert connection.execute("pragma foreign_key_check").get is None
    connection.close()
