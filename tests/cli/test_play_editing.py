"""Lines of ``glyphoxa play`` as they are edited: history, completion, interruptions."""

from __future__ import annotations

import re
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.cli.completing import Completable, Completion, commands, completions
from glyphoxa_trio.cli.history import LONGEST, MOST, FileHistory

from .support import SEER, reports, run, seer, terminal, written

PROMPT = "you to Old Fenn> "
UP, LEFT, TAB = "\x1b[A", "\x1b[D", "\t"
KNOWN = Completable(
    npcs=("Old Fenn", "Mara", "Fenwick"),
    servers=("ledger", "oracle"),
    tools=("ledger.open_tab", "oracle.consult"),
)


def tavern(folder: Path, **mcp: Any) -> Path:
    npcs = [{"name": "Old Fenn", "tools": ["dice"]}, {"name": "Mara"}]
    return written(
        folder,
        npcs=npcs,
        mcp={"state_dir": str(folder / "state"), **mcp},
        calibration={"at_start": False},
    )


@pytest.mark.border
def test_a_line_is_edited_with_the_arrow_keys(tmp_path: Path) -> None:
    with terminal("play", tavern(tmp_path)) as table:
        table.expect(PROMPT)
        table.type(f"roll 2d6 for m{LEFT}{LEFT}{LEFT}{LEFT}{LEFT}{LEFT}+3\n")
        table.expect("roll 2d6+3 for m\n")
        table.expect("Old Fenn: 2d6+3 comes to ")
        table.type("/quit\n")
        assert table.ends() == 0
    assert "^[[" not in table.screen


@pytest.mark.border
def test_what_was_typed_comes_back_also_in_the_next_run(tmp_path: Path) -> None:
    path = tavern(tmp_path)
    with terminal("play", path) as table:
        table.expect(PROMPT)
        table.type("roll 1d4\n")
        table.expect("1d4 comes to")
        table.expect(PROMPT)
        table.type("/quit\n")
        assert table.ends() == 0
    kept = tmp_path / "state" / "history"
    assert kept.read_text() == "roll 1d4\n/quit\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with terminal("play", path) as table:
        table.expect(PROMPT)
        table.type(f"{UP}{UP}\n")
        table.expect("1d4 comes to")
        table.expect(PROMPT)
        table.type("/quit\n")
        assert table.ends() == 0


@pytest.mark.border
@pytest.mark.parametrize(
    ("env", "mcp"),
    [({"GLYPHOXA_HISTORY": "0"}, {}), ({}, {"remember": False})],
    ids=["variable", "setting"],
)
def test_nothing_is_kept_if_that_is_wanted(
    tmp_path: Path, env: dict[str, str], mcp: dict[str, Any]
) -> None:
    with terminal("play", tavern(tmp_path, **mcp), env=env) as table:
        table.expect(PROMPT)
        table.type("/npc\n")
        table.expect("→ Old Fenn")
        table.expect(PROMPT)
        table.type(f"{UP}\n")  # in this run it is known
        table.expect("→ Old Fenn")
        table.type("/quit\n")
        assert table.ends() == 0
    assert not (tmp_path / "state" / "history").exists()


@pytest.mark.border
def test_tab_completes_commands_and_names(tmp_path: Path) -> None:
    with terminal("play", tavern(tmp_path)) as table:
        table.expect(PROMPT)
        table.type(f"/np{TAB}")
        table.expect("/npc")
        table.type(f" Ma{TAB}")
        table.expect(" Mara")
        table.type("\n")
        table.expect("you to Mara> ")
        table.type(f"@Fe{TAB}")
        table.expect("@Old Fenn ")
        table.type("roll 1d4\n")
        table.expect("Old Fenn: 1d4 comes to")
        table.expect(PROMPT)
        table.type("/quit\n")
        assert table.ends() == 0


@pytest.mark.border
def test_ctrl_c_drops_the_line_and_its_text_is_not_said(tmp_path: Path) -> None:
    with terminal("play", tavern(tmp_path)) as table:
        table.expect(PROMPT)
        table.type("roll 1d4")
        table.expect("roll 1d4")
        table.press_ctrl_c()
        table.expect("(Ctrl-C again to leave)\n")
        table.expect(PROMPT)
        table.type("roll 1d6\n")
        table.expect("Old Fenn: 1d6 comes to")
        table.expect(PROMPT)
        table.press_ctrl_c()
        table.expect("(Ctrl-C again to leave)\n")
        table.press_ctrl_c()
        assert table.ends() == 130
        assert not table.is_edited()
    assert "1d4 comes to" not in table.screen


@pytest.mark.border
def test_sigterm_while_a_line_is_typed_leaves_the_terminal_as_it_was(
    tmp_path: Path,
) -> None:
    with terminal("play", tavern(tmp_path)) as table:
        table.expect(PROMPT)
        table.type("half a l")
        table.expect("half a l")
        assert table.is_edited()
        table.process.send_signal(signal.SIGTERM)
        assert table.ends() == 130
        assert not table.is_edited()
    assert "Traceback" not in table.screen


@pytest.mark.border
def test_what_comes_beside_does_not_tear_the_line_that_is_typed(
    tmp_path: Path,
) -> None:
    typed = tmp_path / "typed"
    late = f"until [ -e {typed} ]; do sleep 0.05; done; exec {sys.executable} {SEER}"
    with reports(tmp_path) as told:
        late = f"{late} {told.path} exits"
        path = written(
            tmp_path,
            npcs=[{"name": "Old Fenn", "tools": ["dice"]}],
            mcp={"servers": [seer(told.path, "exits", command=["sh", "-c", late])]},
            calibration={"at_start": False},
        )
        with terminal("play", path) as table:
            table.expect(PROMPT)
            table.type("roll 2")
            table.expect("roll 2")
            typed.touch()
            table.expect("! exits: exited with status 3\n  the crystal is cracked\n")
            table.expect(f"{PROMPT}roll 2")
            table.type("d6\n")
            table.expect("Old Fenn: 2d6 comes to ")
            table.type("/quit\n")
            assert table.ends() == 0


def test_piped_lines_are_not_remembered(tmp_path: Path) -> None:
    played = run("play", tavern(tmp_path), lines="@Fenn roll 1d4\n")
    assert "Old Fenn: 1d4 comes to" in played.stdout  # a word of its name is enough
    assert not (tmp_path / "state" / "history").exists()


# what completion knows


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("@", ["Old Fenn ", "Mara ", "Fenwick "]),
        ("@fen", ["Old Fenn ", "Fenwick "]),
        ("@old f", ["Old Fenn "]),
        ("/npc ma", ["Mara"]),
        ("/puppet o", ["Old Fenn", "off"]),
        ("/as m", ["Mara "]),
        ("/tools ", ["fast", "standard", "deep"]),
        ("/tools deep ", []),
        ("/dm s", ["standard"]),
        ("/elevate Mara d", ["deep"]),
        ("/mcp o", ["oracle"]),
        ("/approve ", ["ledger.open_tab", "oracle.consult"]),
        ("/approve oracle.consult y", ["yes"]),
        ("/scene ", ["off"]),
        ("/nothing ", []),
        ("roll 2d6", []),
        ("", []),
    ],
)
def test_what_completes_a_line(line: str, found: list[str]) -> None:
    assert [x.text for x in completions(line, KNOWN)] == found


def test_every_command_is_completed_with_what_it_is_for() -> None:
    found = completions("/", KNOWN)
    assert {x.text for x in found} == set(commands())
    assert {"npc", "tools", "why", "tier", "approve", "unmute", "quit"} <= set(
        commands()
    )
    assert completions("/qu", KNOWN) == [
        Completion("quit", 2, "leave; so does Ctrl-C, twice")
    ]
    assert all(x.note for x in found)


def test_the_history_is_bounded_and_one_line_each(tmp_path: Path) -> None:
    kept = FileHistory(tmp_path / "state" / "history")
    for number in range(2 * MOST + 1):
        kept.store_string(f"line {number}")
    kept.store_string("two\nlines")
    kept.store_string("x" * (2 * LONGEST))
    kept.store_string(" \n")
    found = [*kept.load_history_strings()]
    assert len(found) == MOST
    assert found[:3] == ["x" * LONGEST, "two lines", f"line {2 * MOST}"]
    assert len((tmp_path / "state" / "history").read_text().splitlines()) == MOST
    assert stat.S_IMODE((tmp_path / "state" / "history").stat().st_mode) == 0o600
    assert [x.name for x in (tmp_path / "state").iterdir()] == ["history"]


def test_a_history_that_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    kept = FileHistory(tmp_path / "state" / "history")
    kept.store_string("roll 1d4")
    assert [*kept.load_history_strings()] == []
    assert re.fullmatch(r"a file .*", (tmp_path / "state").read_text())
