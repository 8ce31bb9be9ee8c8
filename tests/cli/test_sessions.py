"""``glyphoxa sessions``: listed, shown, exported, ended (G38)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import trio

from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import EVERYONE, GAME_MASTER, NO_NPC, Reach

from .support import environment, run, written
from .test_memory import KEY, fill, said

HOLD = """
import sys, trio
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import CampaignKey

async def main():
    async with open_memory(sys.argv[1]) as memory:
        await memory.journal.claim("", "table", CampaignKey("nights"))
        print("held", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    trio.run(fill, str(tmp_path / "kept.db"))
    return written(tmp_path, memory={"store": "kept.db"})


def test_a_session_is_listed_shown_and_exported(filled: Path) -> None:
    (row,) = said("sessions", "list", filled)["sessions"]
    assert (row["session"], row["campaign"], row["lines"], row["state"]) == (
        "table",
        "nights",
        2,
        "set aside",
    )
    shown = said("sessions", "show", filled, "table", "--lines", "1")
    assert [x["text"] for x in shown["last_lines"]] == ["Where is the dragon?"]
    assert len(shown["evenings"]) == 1
    assert "A dragon!" in run("sessions", "show", filled, "table").stdout
    out = filled.parent / "table.json.out"
    run("sessions", "export", filled, "table", "-o", out)
    assert [x["text"] for x in json.loads(out.read_text())["lines"]] == [
        "A dragon!",
        "Where is the dragon?",
    ]


def test_each_audience_has_its_summary_shown(filled: Path) -> None:
    trio.run(summarise, str(filled.parent / "kept.db"))
    (evening,) = said("sessions", "show", filled, "table")["evenings"]
    told = {x["text"]: x["known_to"] for x in evening["summaries"]}
    assert told == {"A dragon came.": "Bo", "A question.": "all", "Hm.": "no NPC"}
    shown = run("sessions", "show", filled, "table").stdout
    assert all(text in shown for text in told)


async def summarise(place: str) -> None:
    async with open_memory(place) as memory:
        (evening,) = await memory.transcripts.evenings(KEY, GAME_MASTER)
        summaries = {
            "A dragon came.": Reach.of("Bo"), "A question.": EVERYONE, "Hm.": NO_NPC
        }  # fmt: skip
        for text, reach in summaries.items():
            await memory.transcripts.set_summary(KEY, evening.id, text, reach)


@pytest.mark.parametrize("verb", ["show", "export", "end"])
def test_an_unknown_session_names_the_nearest(filled: Path, verb: str) -> None:
    ran = run("sessions", verb, filled, "tabel")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "there is no session 'tabel', did you mean table?" in ran.stderr


def test_a_session_that_ended_keeps_its_lines(filled: Path) -> None:
    assert said("sessions", "end", filled, "table")["before"] is False
    assert said("sessions", "end", filled, "table")["before"] is True
    (row,) = said("sessions", "list", filled)["sessions"]
    assert (row["lines"], row["ended"], row["state"]) == (2, True, "ended")
    (evening,) = said("sessions", "show", filled, "table")["evenings"]
    assert evening["ended"] is not None


@pytest.mark.border
def test_a_session_that_a_process_has_open_is_not_ended(filled: Path) -> None:
    place = str(filled.parent / "kept.db")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, place],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            (row,) = said("sessions", "list", filled)["sessions"]
            assert row["state"].startswith(f"open in process {holder.pid}")
            ran = run("sessions", "end", filled, "table")
            assert ran.returncode == 2
            assert f"process {holder.pid}" in ran.stderr
            assert "try again" in ran.stderr
            forgotten = run("memory", "forget", filled, "p1", "--yes").stdout
            assert f"the session table is open in process {holder.pid}" in forgotten
        finally:
            holder.kill()
    assert run("sessions", "end", filled, "table").returncode == 0  # the dead hold none


@pytest.mark.border
async def test_nothing_of_a_command_stays_behind(filled: Path) -> None:
    await trio.to_thread.run_sync(run, "sessions", "list", filled)
    async with open_memory(str(filled.parent / "kept.db")) as memory:
        (row,) = await memory.journal.sessions()
        assert row.campaign == KEY.campaign
        assert row.holder == ""
