"""``glyphoxa play`` with its lines piped in: the same session, without a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.testing.model_server import Die, Reply, SayText, open_model_server
from tests.builtin.music.tones import tone

from .support import PATIENT, beside, run, seer, written

NPCS: list[dict[str, Any]] = [
    {"name": "Bo", "tools": ["dice"], "greeting": "Sit, sit!"},
    {"name": "Greymantle the Sage", "tools": ["rules"], "budget_tier": "standard"},
]


def test_a_conversation_from_a_pipe(tmp_path: Path) -> None:
    path = written(tmp_path, npcs=NPCS)
    played = run(
        "play",
        path,
        lines="""\
roll 2d6+3 for me

@greymantle, What does blinded mean?
/why
/npc
/npc bo
/tier standard
roll 1d4
hello""",  # the last line ends with the input, not with a newline
    )
    assert (played.returncode, played.stderr) == (0, "")
    out = played.stdout
    assert out.startswith("model: offline stand-in (no language model)\n")
    assert "--model ollama:llama3.2" in out  # how to get a real one
    for line in (
        "  Bo (fast): dice\n",
        "you> roll 2d6+3 for me\n· fast · 2 tools shown · dice.roll ",
        "Bo: 2d6+3 comes to ",
        "you> What does blinded mean?\n· standard · 2 tools shown · rules.search_rules",
        "Greymantle the Sage: Blinded",
        "standard because of ",
        "round 1: 1500 ms left, shown get_rule, search_rules\n",
        "round 1: ran standard · ",
        "completed: model ",
        "  Bo (fast): can use 2 of 2 tools\n",
        "\N{RIGHTWARDS ARROW} Greymantle the Sage (standard): can use ",
        "the next utterance is standard\n",
        "you> roll 1d4\n· fast · ",  # the ceiling of the NPC stays
        "Bo: 1d4 comes to ",
        "Bo: I am the offline stand-in for Bo, not a language model. ",
    ):
        at = out.find(line)
        assert at >= 0, (line, out)
        out = out[at + len(line) :]


def test_bad_lines_are_told_and_the_table_lives(tmp_path: Path) -> None:
    played = run(
        "play",
        written(tmp_path, npcs=NPCS),
        lines="""\
/why
/npc Graymantle
@Nobody hello
/fly now
/tier quick
/tools quick
/elevate deep soon
/elevate deep \N{SUPERSCRIPT TWO}
/elevate deep 5
@
/
/approve
/why not
roll 2d6
/quit
never read
""",
    )
    assert (played.returncode, played.stderr) == (0, "")
    out = played.stdout
    for line in (
        "nothing has been said yet\n",
        "no NPC 'Graymantle', there is Greymantle the Sage\n",
        "no NPC 'Nobody', there is Bo, Greymantle the Sage\n",
        "no command like /fly now\nTEXT ",
        "tier must be one of fast, standard, deep, got 'quick'\n",
        "tier must be one of fast, standard, deep, got 'quick'\n",
        "'soon' is not a number of seconds\n",
        "'\N{SUPERSCRIPT TWO}' is not a number of seconds\n",
        "Bo may go to deep for 5 s\n",
        "no NPC '', there is Bo, Greymantle the Sage\n",
        "no command like /\n",
        "/approve lacks a word, or has one too many:\n/approve TOOL ",
        "/why not lacks a word, or has one too many:\n/why ",
        "Bo: 2d6 comes to ",
    ):
        at = out.find(line)
        assert at >= 0, (line, out)
        out = out[at + len(line) :]
    assert "never read" not in out


def test_the_dm_directs_the_scene(tmp_path: Path) -> None:
    """Who is meant by a plain line, and every command for it."""
    played = run(
        "play",
        written(tmp_path, npcs=[*NPCS, {"name": "Tom Tanner"}, {"name": "Tom Reed"}]),
        lines="""\
hello
Greymantle, roll 1d4
and again
hey Bo's friend
/who
/dm standard
Sage, what does prone mean?
/as bo We are closed.  Go home!
/as Greymantle the Sage Mind the books.
/as tom reed Hm.
/mute bo
Bo, are you there?
/npc bo
/who
/unmute Bo
/puppet Greymantle
Bo, roll 1d6
/who
/puppet off
Bo, roll 1d6
/scene Night falls.
/who
/scene off
/elevate greymantle the sage deep 5
/elevate bo deep
/elevate greymantle quick
/elevate bo deep 5 6
/as tom Hm.
/as nobody hello
/as
/mute
/mute nobody
/puppet
tell me, tom
""",
    )
    assert (played.returncode, played.stderr) == (0, "")
    out = played.stdout
    sage = "Greymantle the Sage"
    for line in (
        "you> hello\nBo: I am the offline stand-in for Bo",
        f"you> Greymantle, roll 1d4\n{sage}: ",
        f"you> and again\n{sage}: ",  # it stays with the one that was named
        "you> hey Bo's friend\nBo: ",
        f"\N{RIGHTWARDS ARROW} Bo (fast)\n  {sage} (standard)\n  Tom Tanner (fast)\n",
        "the next utterance is standard\n",
        "you> Sage, what does prone mean?\n· standard · ",
        f"{sage}: Prone",
        "Bo: We are closed. Go home!\n",
        f"{sage}: Mind the books.\n",
        "Tom Reed: Hm.\n",
        "Bo says nothing now\n",
        "you> Bo, are you there?\nBo is muted\n",
        "\N{RIGHTWARDS ARROW} Bo (fast, muted)\n",
        "Bo may speak again\n",
        f"all that you say is for {sage} now\n",
        f"you> Bo, roll 1d6\n{sage}: ",
        f"\N{RIGHTWARDS ARROW} {sage} (standard, all is said to it)\n",
        "what you say is for the NPC that it names again\n",
        "you> Bo, roll 1d6\n· fast · ",
        "Bo: 1d6 comes to ",
        "every NPC knows: Night falls.\n",
        "  the scene: Night falls.\n",
        "the scene is forgotten\n",
        f"{sage} may go to deep for 5 s\n",
        "Bo may go to deep for 60 s\n",
        "tier must be one of fast, standard, deep, got 'quick'\n",
        "'5 6' is not a number of seconds\n",
        "no NPC 'tom', there is Tom Tanner, Tom Reed\n",
        "no NPC 'nobody', there is Bo, ",
        "/as lacks a word, or has one too many:\n/as NAME TEXT ",
        "/mute lacks a word, or has one too many:\n/mute NAME ",
        "no NPC 'nobody', there is Bo, ",
        "/puppet lacks a word, or has one too many:\n/puppet NAME ",
        "you> tell me, tom\nBo: ",  # there are two of them
    ):
        at = out.find(line)
        assert at >= 0, (line, out)
        out = out[at + len(line) :]


def test_no_lines_at_all_is_an_orderly_end(tmp_path: Path) -> None:
    played = run("play", written(tmp_path, npcs=NPCS))
    assert (played.returncode, played.stderr) == (0, "")


def test_nobody_to_talk_to_is_told(tmp_path: Path) -> None:
    played = run("play", written(tmp_path, npcs=[]), lines="hello\n")
    assert played.returncode == 1
    assert played.stdout == "this configuration has no NPCs to talk to\n"


def test_a_grant_of_nothing_is_told_not_thrown(tmp_path: Path) -> None:
    path = written(tmp_path, npcs=[{"name": "Bo", "tools": ["dice.rol"]}])
    played = run("play", path, lines="hello\n")
    assert played.returncode == 2
    assert played.stderr.startswith("glyphoxa: no tool 'dice.rol', did you mean")
    assert played.stderr.count("\n") == 1


@pytest.mark.border
def test_an_npc_talks_on_when_its_server_dies_and_returns(tmp_path: Path) -> None:
    """Killed in the middle of a call; what the table sees, and the next lines."""
    npcs = [{"name": "Bo", "tools": ["dice", "seer.vanish", "seer.whisper"]}]
    path = written(
        tmp_path,
        npcs=npcs,
        mcp={"servers": [seer(restart={"backoff_ms": 1, "max_restarts": 5})]},
        tiers=PATIENT,
    )
    lines = "vanish\nroll 2d6\nwhisper\n/servers\n"
    played = run("play", path, lines=lines)
    assert (played.returncode, played.stderr) == (0, "")
    out = played.stdout
    for line in (
        "you> vanish\n",
        "· seer.vanish unavailable: ",
        ", effect unknown · ",
        " vanish",
        "Bo: 2d6 comes to ",
        "Bo: A word about whisper.\n",  # the call waited for the new process
        "  seer [ready] whisper, ponder, vanish, daydream: was ended by SIGKILL\n",
    ):
        at = out.find(line)
        assert at >= 0, (line, played.stdout)
        out = out[at + len(line) :]
    assert "! seer: was ended by SIGKILL\n" in played.stdout


@pytest.mark.border
def test_a_model_that_fails_once_is_told_and_the_next_line_answered(
    tmp_path: Path,
) -> None:
    script: list[Reply] = [[SayText("Well, I"), Die()], SayText("As I was saying.")]
    npcs = [{"name": "Bo"}, {"name": "Ysolde", "model": "another"}]
    with beside(open_model_server(script)) as server:
        llm = {"provider": "chat_completions", "model": "llama"}
        path = written(tmp_path, npcs=npcs, llm={**llm, "base_url": server.base_url})
        played = run("play", path, lines="hello\nand now?\n@ysolde you?\n")
    out = played.stdout
    assert played.stderr == ""
    assert out.startswith(f"model: llama at {server.base_url}\n")
    assert "  Ysolde (fast, another): no tools\n" in out
    assert "Bo: Well, I\n! the model failed: interrupted: " in out
    assert "you> and now?\nBo: As I was saying.\n" in out
    assert [body["model"] for body in server.requests] == ["llama", "llama", "another"]


def test_reload_reads_the_configuration_again(tmp_path: Path) -> None:
    path = written(tmp_path, npcs=[{"name": "Bo"}])
    played = run("play", path, lines="/reload\n/reload now\n")
    assert played.returncode == 0
    assert "reloaded; nothing has changed\n" in played.stdout
    assert "/reload now lacks a word, or has one too many:\n" in played.stdout


def test_music_that_no_program_plays_is_a_line(tmp_path: Path) -> None:  # G12
    tone(tmp_path / "music" / "battle" / "drums.wav", 0.1)
    path = written(
        tmp_path,
        npcs=[{"name": "Bard", "tools": ["music"]}],
        builtin={"music": {"enabled": True, "library": "music", "player": "events"}},
    )
    # Again, where this machine is too slow for a fast answer.
    played = run("play", path, lines="play track battle\n" * 3 + "stop music\n")
    assert played.returncode == 0
    assert "(music: drums.wav, for battle)\n" in played.stdout
    assert "(the music fades out)\n" in played.stdout


def test_an_evening_goes_on_in_its_file(tmp_path: Path) -> None:
    path, kept = written(tmp_path, npcs=NPCS), tmp_path / "evening"
    first = run("play", path, "--session", kept, lines="roll 2d6\n/puppet bo\n")
    assert first.returncode == 0, first.stderr
    again = run("play", path, "--session", kept, lines="@greymantle hello\n/who\n")
    assert again.returncode == 0, again.stderr
    third = run("ask", path, "Bo", "hello", "--json", "--session", kept)
    assert third.returncode == 0, third.stderr
    turns = {json.loads(line)["turn"] for line in third.stdout.splitlines()}
    assert turns == {2}
    assert '"session": "evening"' in third.stdout
