"""NPCs in LiveKit Agents: its own session and test harness, real tool servers.

`livekit_cases.py` has the programs; LiveKit is in a Python of its own (`make peers`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from .support import python_of, run, seen

pytestmark = pytest.mark.long
CASES = "tests.frameworks.livekit_cases"
WORDS = "The rain has not stopped. Sit down by the fire."
CUT = "The rain has not stopped. Sit down"


@pytest.fixture(scope="module")
def python() -> Path:
    return python_of("livekit")


@pytest.fixture(scope="module")
def saw(python: Path) -> dict[str, dict[str, Any]]:
    """All cases, in one process: importing LiveKit takes seconds."""
    return seen(python, CASES)


def test_every_message_is_one_turn(saw: dict[str, dict[str, Any]]) -> None:
    text = saw["text"]
    assert text["said"] == WORDS
    assert text["turns"] == 2  # asked to answer the same words again, it does not
    assert text["told"] == [
        ["user", "Who is there?"],
        ["assistant", WORDS],
        ["user", "And now?"],
    ]
    assert text["history"] == [*text["told"], ["assistant", WORDS]]
    assert text["model"] == "Bo"


def test_tokens_are_in_the_usage_of_the_session(
    saw: dict[str, dict[str, Any]],
) -> None:
    assert saw["text"]["used"] == ["scripted", 24, 10]
    first_token, duration = saw["text"]["times"]
    assert 0 < first_token <= duration


def test_the_greeting_is_said_and_remembered(saw: dict[str, dict[str, Any]]) -> None:
    greeting = saw["greeting"]
    assert greeting["said"] == "Welcome, stranger."
    assert greeting["told"] == [
        ["assistant", "Welcome, stranger."],
        ["user", "Thank you."],
    ]


@pytest.mark.parametrize("case", ["cut", "cut_by_time"])
def test_what_was_played_is_what_the_npc_remembers(
    saw: dict[str, dict[str, Any]], case: str
) -> None:
    first = [["user", "Who is there?"], ["assistant", CUT], ["user", "Go on."]]
    assert saw[case]["after_cut"] == first
    whole = ["assistant", WORDS]
    assert saw[case]["after_nothing"] == [
        *first,
        whole,
        ["user", "Well?"],  # of whose answer nothing was played
        ["user", "Hello?"],
    ]


def test_an_interruption_stops_a_tool_in_its_server(
    saw: dict[str, dict[str, Any]],
) -> None:
    tool = saw["interrupted_tool"]
    assert (tool["end"], tool["status"]) == ("interrupted", "cancelled")
    assert tool["told_after"] > 0  # benchmarks/livekit.py has the milliseconds


def test_a_tool_that_hangs_ends_with_the_tool_time_of_the_turn(
    saw: dict[str, dict[str, Any]],
) -> None:
    tool = saw["hung_tool"]
    assert tool["said"].endswith(" That took its time.")
    assert tool["said"] != "That took its time."  # there was a filler before
    assert tool["status"] == "timeout"
    assert 4.0 <= tool["tools"] < 8.0  # the tool takes ten


def test_a_model_that_is_away_is_audible_and_its_key_is_nowhere(
    saw: dict[str, dict[str, Any]],
) -> None:
    away = saw["away"]
    assert (away["said"], away["end"]) == ("My thoughts wandered off.", "failed")
    assert away["error"].startswith("unreachable")
    [[error, recoverable]] = away["errors"]
    assert "unreachable" in error
    assert recoverable  # or LiveKit ends the session after four of them
    assert away["logged"]
    assert not away["key_seen"]


def test_a_runtime_that_has_ended_fails_the_run(
    saw: dict[str, dict[str, Any]],
) -> None:
    assert saw["closed"]["error"] == "RuntimeClosed"


def test_function_tools_of_livekit_are_refused(
    saw: dict[str, dict[str, Any]],
) -> None:
    assert saw["their_tools"]["error"].startswith("an NPC cannot call LiveKit's")


def test_two_players_of_two_rooms_wait_for_each_other(
    saw: dict[str, dict[str, Any]],
) -> None:
    assert saw["speakers"]["ends"] == [["completed"] * 2, ["completed"]]
    assert sorted(saw["speakers"]["named"]) == ["Ann", "Ann", "Ben"]


def test_in_a_scene_the_others_have_heard_what_was_played(
    saw: dict[str, dict[str, Any]],
) -> None:
    scene = saw["scene"]
    assert scene["answered"] == ["Bartok", "Ysolde"]  # "Hm." was for nobody
    overheard, asked = scene["told"]
    assert overheard[1].endswith(
        f"- player to Bartok: Bartok, who is there?\n- Bartok to player: {CUT})"
    )
    assert asked == ["user", "Ysolde, what did he say?"]


def test_who_interrupts_the_npc_silences_livekit(
    saw: dict[str, dict[str, Any]],
) -> None:
    assert saw["game_master"]["interrupted"]
    assert saw["game_master"]["end"] == "interrupted"


def test_a_turn_begins_with_the_words_of_a_user_who_still_speaks(
    saw: dict[str, dict[str, Any]],
) -> None:
    assert (saw["partial"]["end"], saw["partial"]["requests"]) == ("adopted", 1)


def test_the_example_greets_and_answers(python: Path) -> None:
    asked = "What does blinded mean?"
    done = run(python, "-m", "tests.frameworks.livekit_example", asked, within=90)
    greeting, question, answer = done.stdout.splitlines()
    assert greeting == "Mind the books. What do you want to know?"
    assert question == asked
    assert answer.startswith("Blinded: You see nothing")


IMPORT = """
import importlib.metadata
found = importlib.metadata.version
importlib.metadata.version = (
    lambda name: {0!r} if name == "livekit-agents" else found(name)
)
import glyphoxa_trio.livekit
"""


@pytest.mark.parametrize("version", ["1.7.4", "1.7rc1", "2.0.0rc1", "0.12.20"])
def test_another_version_is_refused_at_the_import(python: Path, version: str) -> None:
    done = run(python, "-c", IMPORT.format(version), within=60, check=False)
    last = done.stderr.splitlines()[-1]
    assert last == (
        "glyphoxa_trio.extras.UnsupportedVersion: an NPC in LiveKit Agents is for"
        f" livekit-agents 1.8 and later, before 2, and {version} is installed:"
        " pip install 'glyphoxa-trio[livekit]'"
    )


def test_the_adapter_is_typed_where_livekit_is(python: Path) -> None:
    done = run(
        Path(sys.executable),
        *("-m", "mypy", "--cache-dir", os.devnull, "--follow-imports", "silent"),
        *("--python-executable", str(python)),
        *("-p", "glyphoxa_trio.livekit"),
        within=300,
        check=False,
    )
    assert done.stdout.startswith("Success"), done.stdout
