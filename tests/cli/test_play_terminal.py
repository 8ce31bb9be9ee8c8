"""``glyphoxa play`` as a person has it: on a real terminal, with Ctrl-C."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from .support import (
    PATIENT,
    SEER,
    is_dead,
    reports,
    run,
    seer,
    terminal,
    written,
)


def table_of(folder: Path, *servers: dict[str, Any]) -> Path:
    """Two NPCs; the first may ponder and whisper with every server."""
    granted = [f"{x['name']}.{tool}" for x in servers for tool in ("ponder", "whisper")]
    bo = {
        "name": "Bo [the] Barkeep",
        "greeting": "[polishes a mug] Sit, sit! [/b]",
        "tools": ["dice", *granted],
        "budget_tier": "deep",
    }
    sage = {"name": "Greymantle", "tools": ["dice"], "greeting": "Mind the books."}
    return written(
        folder,
        npcs=[bo, sage],
        mcp={"servers": servers},
        tiers=PATIENT,
        calibration={"at_start": False},  # only the NPC calls
    )


PROMPT = "you to Bo [the] Barkeep> "


@pytest.mark.border
def test_a_conversation_on_a_terminal(tmp_path: Path) -> None:
    with terminal("play", table_of(tmp_path)) as table:
        table.expect("model: offline stand-in (no language model)\n")
        table.expect("/help lists what can be done\n")
        # What looks like markup is what an author wrote.
        table.expect("Bo [the] Barkeep: [polishes a mug] Sit, sit! [/b]\n")
        table.expect(PROMPT)
        table.type("roll 2d6+3 for me\n")
        table.expect(" dice.roll ")
        table.expect("Bo [the] Barkeep: 2d6+3 comes to ")
        table.expect(PROMPT)
        table.type("@Greymantle roll 1d4\n")
        table.expect("Greymantle: Mind the books.\n")
        table.expect("Greymantle: 1d4 comes to ")
        table.expect("you to Greymantle> ")
        table.type("/npc bo\n")
        table.expect(PROMPT)  # the greeting comes once
        table.type("\x04")  # the end of the input
        assert table.ends() == 0
    assert table.screen.count("polishes") == 1


@pytest.mark.border
def test_the_first_ctrl_c_interrupts_and_the_second_leaves(tmp_path: Path) -> None:
    with reports(tmp_path) as told:
        late = f"sleep 2; exec {sys.executable} {SEER} {told.path}"
        path = table_of(tmp_path, seer(told.path, command=["sh", "-c", late]))
        with terminal("play", path) as table:
            table.expect("servers, starting: seer\n")
            table.expect(PROMPT)
            table.type("whisper, seer\n")
            # It is still starting: the first question waits for it.
            table.expect("waiting for seer\n")
            pid = told.expect("started")
            table.expect("A word about whisper.\n")
            table.expect(PROMPT)
            table.type("ponder, seer\n")
            told.expect("called ponder")
            table.press_ctrl_c()
            table.expect("(interrupted; Ctrl-C again to leave)\n")
            told.expect("cancelled")  # the server hears of it, too
            table.expect(PROMPT)
            # The conversation goes on, and the next Ctrl-C is a first one again.
            table.type("whisper, seer\n")
            table.expect("A word about whisper.\n")
            table.expect(PROMPT)
            table.press_ctrl_c()
            table.expect("(Ctrl-C again to leave)\n")
            table.expect(PROMPT)
            assert table.process.poll() is None
            table.press_ctrl_c()
            assert table.ends() == 130
        assert is_dead(pid)
        told.expect("stdin closed")  # it was asked, and left by itself
    assert "Traceback" not in table.screen


@pytest.mark.border
def test_the_first_question_after_a_restart_is_answered(tmp_path: Path) -> None:
    # The tools are remembered and shown at once; their server takes longer to start
    # than a turn may wait. G16, D5
    command = f"sleep 2; exec {sys.executable} {SEER} -"
    slow = {"name": "seer", "command": ["sh", "-c", command]}
    bo = {"name": "Bo", "tools": ["seer.whisper"], "budget_tier": "standard"}
    path = written(
        tmp_path,
        npcs=[bo],
        mcp={"servers": [slow]},
        calibration={"at_start": False},
    )
    assert "A word about" in run("play", path, lines="whisper, seer\n").stdout
    with terminal("play", path) as table:
        table.expect("you to Bo> ")
        table.type("whisper, seer\n")
        table.expect("waiting for seer\n")
        table.expect("A word about whisper.\n")
        table.type("/quit\n")
        assert table.ends() == 0


@pytest.mark.border
def test_sigterm_leaves_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    with reports(tmp_path) as told:
        path = table_of(tmp_path, seer(told.path))
        with terminal("play", path) as table:
            pid = told.expect("started")
            table.expect(PROMPT)
            _wait_until_ready(table)
            table.type("ponder, seer\n")
            told.expect("called ponder")
            table.process.send_signal(signal.SIGTERM)
            assert table.ends() == 130
        assert is_dead(pid)
    assert "Traceback" not in table.screen


@pytest.mark.border
def test_a_closed_window_leaves_no_server_behind(tmp_path: Path) -> None:
    with reports(tmp_path) as told:
        path = table_of(tmp_path, seer(told.path, "stubborn"))
        with terminal("play", path) as table:
            pid = told.expect("started")
            table.expect(PROMPT)
            _wait_until_ready(table)
            table.hang_up()
            table.ends()
        assert is_dead(pid)


@pytest.mark.border
def test_ctrl_c_twice_leaves_while_a_server_hangs_at_its_handshake(
    tmp_path: Path,
) -> None:
    with reports(tmp_path) as told:
        path = table_of(tmp_path, seer(told.path, "mute"))
        with terminal("play", path) as table:
            pid = told.expect("started")
            table.expect(PROMPT)
            table.press_ctrl_c()
            table.expect("(Ctrl-C again to leave)\n")
            table.press_ctrl_c()
            assert table.ends() == 130
        assert is_dead(pid)


@pytest.mark.border
def test_a_third_ctrl_c_leaves_at_once_and_leaves_no_server_behind(
    tmp_path: Path,
) -> None:  # T8: a stubborn one would not end with its stdin
    with reports(tmp_path) as told:
        path = table_of(tmp_path, seer(told.path, "stubborn"))
        with terminal("play", path) as table:
            pid = told.expect("started")
            table.expect(PROMPT)
            _wait_until_ready(table)
            table.press_ctrl_c()
            table.expect("(Ctrl-C again to leave)\n")
            table.press_ctrl_c()
            told.expect("stdin closed")  # it is being left, and resists
            table.press_ctrl_c()
            assert table.ends() == 130
        assert is_dead(pid)


def _wait_until_ready(table: Any) -> None:
    """Ask for the servers until none is starting: the screen says when."""
    while True:
        table.type("/servers\n")
        table.expect("[")
        table.expect(PROMPT)
        if "[ready]" in table.screen.rpartition("/servers")[2]:
            return
