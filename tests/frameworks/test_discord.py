"""The bot for Discord: py-cord itself, at a Discord on the loopback.

`discord_cases.py` has the programs; py-cord is in a Python of its own (`make peers`).
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from .support import python_of, run, seen

pytestmark = pytest.mark.long
CASES = "tests.frameworks.discord_cases"
TOKEN = "bot-token-not-to-be-seen-012345"
WORDS = "The rain has not stopped. Sit down by the fire."


@pytest.fixture(scope="module")
def python() -> Path:
    return python_of("discord")


@pytest.fixture(scope="module")
def saw(python: Path) -> dict[str, dict[str, Any]]:
    """All cases, in one process: importing py-cord takes a second."""
    return seen(python, CASES)


def test_mentions_replies_and_threads_are_answered_in_one_message_each(
    saw: dict[str, dict[str, Any]],
) -> None:
    text = saw["text"]
    assert text["asked"] == ["Bo, who is there?", "And who are you?", "Ida, and here?"]
    assert text["texts"][0] == f"**Bo:** {WORDS}"
    assert len(text["texts"]) == 2
    assert text["texts"][1].startswith("**Bo:** ")  # whose words were replied to
    assert text["thread"][0].startswith("**Ida:** ")
    assert text["sessions"] == ["discord-100-200", "discord-100-400"]


def test_the_game_master_directs_and_a_player_may_not(
    saw: dict[str, dict[str, Any]],
) -> None:
    directed = saw["directed"]
    assert directed["refused"] == "That needs the role 'Game Master'."
    assert directed["muted"] == "Bo says nothing now."
    assert directed["who"] == "Bo (muted)\nIda"
    assert directed["silent"] == "(Bo is muted)"
    assert directed["unmuted"] == "Bo may speak again."
    assert directed["nobody"] == "no NPC 'Xaver', there is Bo, Ida"
    assert directed["puppet_said"].startswith("**Ida:** ")
    assert directed["elevated"] == "Bo may go to deep for 60 s."  # G31
    override = directed["override"]  # G18
    assert override.startswith("What you write next is answered in standard")
    assert directed["as_said"] == "**Bo:** Get out!"
    assert directed["none"] == "They say nothing just now."
    assert directed["nothing_asked"] == "no question is open"
    assert directed["said"] == "Ann to Bo: What is that smell?"
    assert directed["knows_scene"]
    assert directed["interrupted"] == "They fall silent."
    assert directed["cut"] == "**Bo:** Well. \N{EM DASH}"


def test_a_tool_waits_for_the_button_of_the_game_master(
    saw: dict[str, dict[str, Any]],
) -> None:
    approved = saw["approved"]
    assert approved["asked"] == "Bo wants to use patient.cancellations: `{}`"
    assert approved["not_you"] == "Only a game master may answer that."
    assert approved["allowed"] == "Bo may use patient.cancellations."
    assert approved["said"] == "**Bo:** That was it."


def test_members_are_heard_and_answered_in_a_voice_channel(
    saw: dict[str, dict[str, Any]],
) -> None:
    voice = saw["voice"]
    assert voice["nowhere"] == "Join a voice channel first, and call us from there."
    assert voice["joined"] == "We are in channel-300 and listen."
    # Each tone went through Opus and the encryption, and so did the answer.
    assert voice["asked"] == ["Bo, who is there?", "Ida, and you?"]
    assert voice["heard"] == [True, True]
    assert voice["sessions"] == ["discord-100-300"]
    assert (voice["left"], voice["closed"]) == ("We have left channel-300.", True)


def test_who_speaks_interrupts_what_is_played(saw: dict[str, dict[str, Any]]) -> None:
    barge_in = saw["barge_in"]
    assert barge_in["heard"]
    # Of an answer of half a minute; and nothing of it counts as heard.
    assert barge_in["seconds"] < 15
    assert barge_in["told"] == ["Bo, who is there?", "Bo, speak slowly."]


def test_a_game_master_mutes_by_voice_and_a_player_does_not(
    saw: dict[str, dict[str, Any]],
) -> None:
    spoken = saw["spoken"]
    assert spoken["player"].splitlines()[0] in ("Bo", "Bo (speaking)")
    assert spoken["said"] == "(Bo says nothing now.)"
    assert spoken["elevated"] == "(Ida may go to deep for 60 s.)"  # G31
    assert spoken["game_master"].splitlines()[0] == "Bo (muted)"


def test_npcs_that_cannot_hear_say_so_once(saw: dict[str, dict[str, Any]]) -> None:
    assert saw["deaf"]["said"].startswith("(Ann: no NPC can hear: ")
    assert saw["deaf"]["times"] == 1


def test_a_flood_is_refused_and_said_once(saw: dict[str, dict[str, Any]]) -> None:
    flood = saw["flood"]
    assert len(flood["told"]) == 1
    assert 1 <= flood["asked"] <= 4  # three places, and the one when it was calm
    assert flood["calm"]


def test_who_speaks_where_the_bot_may_not_is_told_in_private(
    saw: dict[str, dict[str, Any]],
) -> None:
    private = saw["forbidden"]["private"]
    assert private.startswith("I may not write in channel-200.")


def test_a_session_that_was_ended_begins_again(saw: dict[str, dict[str, Any]]) -> None:
    assert len(saw["gone"]["texts"]) == saw["gone"]["requests"] == 2


def test_a_connection_that_breaks_is_resumed(saw: dict[str, dict[str, Any]]) -> None:
    assert saw["resumed"]["identified"] == 1
    assert saw["resumed"]["said"].startswith("**Bo:** ")


def test_who_is_not_let_in_is_told_what_to_do(saw: dict[str, dict[str, Any]]) -> None:
    refused = saw["refused"]
    assert refused["token"].startswith("Discord refused the token: ")
    assert "Message Content Intent" in refused["intents"]
    assert refused["closed"].startswith("Discord closed the connection: ")


def test_the_command_serves_and_stops_in_order(saw: dict[str, dict[str, Any]]) -> None:
    command = saw["command"]
    assert command["lines"][-1] == "glyphoxa: the bot has left"
    assert any("logged in as npcs" in line for line in command["lines"])
    assert TOKEN not in "".join(command["lines"])
    assert command["status"] == 0


def test_the_program_of_the_page_serves(saw: dict[str, dict[str, Any]]) -> None:
    program = saw["program"]
    assert program["said"].startswith("**Bartok the Barkeep:** ")
    assert program["status"] == -signal.SIGINT
    assert TOKEN not in "".join(program["lines"])


def test_speech_is_mixed_and_counted_and_commands_are_found(
    saw: dict[str, dict[str, Any]],
) -> None:
    mixed = saw["mixed"]
    stereo = 2 * 960
    assert mixed["samples"] == [
        [32_767, 20_000, stereo],  # the second one had half a frame
        [0, 0, stereo],
        [20_000, 20_000, stereo],
    ]
    # Milliseconds since the last flush.
    assert mixed["counted"] == [{"1": 20.0, "2": 10.0}, {"1": 40.0}]
    assert mixed["ends"] == 10
    assert mixed["commands"] == [
        *("mute Bo", "STOP", "scene the roof burns"),
        *(None, None, None),
    ]


def test_nothing_is_left_and_no_token_is_logged(
    saw: dict[str, dict[str, Any]],
) -> None:
    assert saw["left"]["tasks"] == []
    assert {name: x["threads"] for name, x in saw.items() if x["threads"]} == {}
    assert not any(x["token_seen"] for x in saw.values())


IMPORT = """
import importlib.metadata
found = importlib.metadata.version
importlib.metadata.version = lambda name: {0!r} if name == "py-cord" else found(name)
import glyphoxa_trio.discord
"""


@pytest.mark.parametrize("version", ["2.7.2", "3.0.0"])
def test_another_version_is_refused_at_the_import(python: Path, version: str) -> None:
    done = run(python, "-c", IMPORT.format(version), within=60, check=False)
    last = done.stderr.splitlines()[-1]
    assert last == (
        "glyphoxa_trio.extras.UnsupportedVersion: a bot for Discord is for py-cord 2.8"
        f" and later, before 3, and {version} is installed:"
        " pip install 'glyphoxa-trio[discord]'"
    )


def test_the_adapter_is_typed_where_py_cord_is(python: Path, tmp_path: Path) -> None:
    done = run(
        Path(sys.executable),
        *("-m", "mypy", "--cache-dir", str(tmp_path), "--follow-imports", "silent"),
        *("--config-file", str(Path(__file__).with_name("discord_mypy.ini"))),
        *("--python-executable", str(python)),
        *("-p", "glyphoxa_trio.discord"),
        within=300,
        check=False,
    )
    assert done.stdout.startswith("Success"), done.stdout
