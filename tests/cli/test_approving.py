"""``play`` asks once at its start which granted tools may be used (D13a)."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from .support import run, seer, terminal, written

PROMPT = "you to Bo> "
QUESTION = "approve them? (all, none, or numbers such as 1 3-5) [none] "
HIDDEN = "granted, not approved, and so hidden: "


@pytest.fixture
def apart() -> Generator[dict[str, str]]:
    """An environment in which nothing else of this user's runs, with a short path."""
    with tempfile.TemporaryDirectory(prefix="run") as made:
        yield {"XDG_RUNTIME_DIR": made, "TMPDIR": made}


def table_of(folder: Path, *tools: str, **config: Any) -> Path:
    return written(
        folder,
        npcs=[{"name": "Bo", "tools": list(tools)}],
        mcp={"servers": [seer()]},
        calibration={"at_start": False},
        **config,
    )


@pytest.mark.border
def test_whoever_sits_there_is_asked_once_and_the_answer_is_kept(
    tmp_path: Path, apart: dict[str, str]
) -> None:
    path = table_of(tmp_path, "seer")
    with terminal("play", path, env=apart) as table:
        table.expect("NPCs are granted these tools, which are not approved yet:")
        table.expect(
            "1  seer.daydream: may write, may destroy, reaches the open world (for Bo)"
        )
        table.expect("2  seer.ponder: only reads (for Bo)")
        table.expect("3  seer.vanish: may write, may destroy, reaches the open world")
        table.expect("4  seer.whisper: only reads")
        table.expect(QUESTION)
        table.type("2, 4\n")
        table.expect("approved as they are now: seer.ponder, seer.whisper")
        table.expect("the others stay hidden; /approve TOOL approves one later")
        table.expect(PROMPT)
        assert "can use none of the tools" not in table.screen  # that was the question
        table.type("whisper, seer\n")  # in a fast turn, where nobody could be asked
        table.expect("Bo: A word about whisper.")
        table.type("/quit\n")
        assert table.ends() == 0
    # Kept: for a program without a terminal, and for the next run.
    asked = run("ask", path, "Bo", "whisper", "--tier", "fast")
    assert asked.stdout == "A word about whisper.\n"
    with terminal("play", path, env=apart) as table:
        table.expect("1  seer.daydream")
        table.expect("2  seer.vanish")
        table.expect(QUESTION)
        assert "seer.whisper" not in table.screen
        table.type("all\n")
        table.expect(PROMPT)
        table.type("/quit\n")
        assert table.ends() == 0
    assert HIDDEN not in run("play", path, env=apart).stdout  # none is left


@pytest.mark.border
def test_nobody_is_asked_about_what_is_approved(  # N29
    tmp_path: Path, apart: dict[str, str]
) -> None:
    assert HIDDEN in run("play", table_of(tmp_path, "seer"), env=apart).stdout
    named = table_of(tmp_path, "seer.whisper", "mcp__seer__ponder", "dice")
    assert HIDDEN not in run("play", named, env=apart).stdout
    for trust in ({"mode": "full"}, {"allow_tools": ["seer.*"]}):
        path = table_of(tmp_path, "seer", trust=trust)
        assert HIDDEN not in run("play", path, env=apart).stdout


@pytest.mark.border
def test_a_no_leaves_them_hidden_and_approve_at_the_table_brings_one(
    tmp_path: Path, apart: dict[str, str]
) -> None:
    with terminal("play", table_of(tmp_path, "seer.*"), env=apart) as table:
        table.expect(QUESTION)
        table.type("\n")
        table.expect("the others stay hidden")
        table.expect(PROMPT)
        table.type("/approve seer.whisper yes\n")
        table.expect("seer.whisper may be used again")
        table.type("whisper, seer\n")
        table.expect("Bo: A word about whisper.")
        outside = run("mcp", "approve", "seer.ponder", "--yes", env=apart)
        assert outside.returncode == 0, outside.stderr
        assert outside.stdout.endswith("approved as it is now\n")
        table.type("/quit\n")
        assert table.ends() == 0


@pytest.mark.border
def test_a_script_is_told_and_approve_gives_the_word_without_a_program(
    tmp_path: Path, apart: dict[str, str]
) -> None:
    path = table_of(tmp_path, "seer")
    played = run("play", path, lines="whisper, seer\n", env=apart)
    assert played.returncode == 0
    (line,) = [x for x in played.stdout.splitlines() if HIDDEN in x]
    assert line.startswith(
        f"! approvals: {HIDDEN}seer.daydream, seer.ponder, seer.vanish, seer.whisper;"
        " glyphoxa mcp approve TOOL --config CONFIG approves one"
    )
    assert "A word about whisper" not in played.stdout
    approve = ("mcp", "approve", "seer.whisper", "--config", path)
    nobody = run(*approve, env=apart)
    assert (nobody.returncode, nobody.stderr) == (1, "")
    assert nobody.stdout.endswith("not approved\n")
    done = run(*approve, "--yes", env=apart)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("seer.whisper:\n")
    assert done.stdout.endswith("approved as it is now\n")
    again = run(*approve, "--yes", env=apart)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (
        1,
        "it is not held back",
    )
    played = run("play", path, lines="whisper, seer\n", env=apart)
    assert "Bo: A word about whisper." in played.stdout
