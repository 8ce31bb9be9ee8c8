"""``glyphoxa measurements``: what is remembered, and forgetting it. Real files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.storage.measurements import MeasurementFile
from glyphoxa_trio.tools.history import Measured, ToolPlace
from glyphoxa_trio.tools.window import SampleKind

from .support import run, written

DICE = ToolPlace("local", "", "dice.roll")
NOW = ToolPlace("local", "a1", "clock.now")
THEN = ToolPlace("local", "a1", "clock.then")
AWAY = ToolPlace("far.example", "b2", "clock.now")
OLD = ToolPlace("local", "c3", "gone.tool")


def table(folder: Path, **more: Any) -> Path:
    mcp: dict[str, Any] = {"state_dir": str(folder / "state")} | more.pop("mcp", {})
    return written(folder, mcp=mcp, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table about whose tools something is known."""
    path = table(tmp_path)
    now = time.time()

    def measured(place: ToolPlace, kind: SampleKind, *times: float) -> list[Measured]:
        when = now - (3 * 86400 if place is OLD else 90)
        return [Measured(place, kind, x, when) for x in times]

    file = MeasurementFile.open(tmp_path / "state" / "measurements.db")
    file.write(
        [
            *measured(DICE, SampleKind.OK, 0.001, 0.001),
            *measured(NOW, SampleKind.OK, 0.8, 0.8, 0.9),
            *measured(NOW, SampleKind.CENSORED, 0.5),
            *measured(THEN, SampleKind.TOOL_ERROR, 0.1),
            *measured(AWAY, SampleKind.OK, 0.2),
            *measured(OLD, SampleKind.OK, 0.2),
        ],
        keep=100,
    )
    file.close()
    return path


def kept(path: Path) -> set[ToolPlace]:
    file = MeasurementFile.open(path.parent / "state" / "measurements.db")
    found = {one.place for one in file.load(float("-inf"), float("inf"))}
    file.close()
    return found


def test_what_is_remembered_is_listed_by_place(path: Path) -> None:
    done = run("measurements", "list", path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert lines[0] == ["environment", "tool", "samples", "p50", "p99", "newest"]
    told = {(line[0], line[1]): " ".join(line[2:]) for line in lines[2:]}
    assert told["local", "clock.now"].startswith("3 ok, 1 censored 800 ms 900 ms 1 min")
    assert told["local", "dice.roll"].startswith("2 ok 1.0 ms 1.0 ms 1 min")
    dash = "\N{EN DASH}"
    assert told["local", "clock.then"].startswith(f"1 tool_error {dash} {dash} 1 min")
    assert told["far.example", "clock.now"].startswith("1 ok 200 ms 200 ms 1 min")
    assert told["local", "gone.tool"].startswith("1 ok 200 ms 200 ms 3 d ")
    assert told["local", "gone.tool"].endswith("ago, too old to count")


@pytest.mark.parametrize(
    ("names", "gone"),
    [
        (["clock.now"], {NOW, AWAY}),  # wherever it ran
        (["mcp__clock__then"], {THEN}),
        (["clock.*", "roll"], {NOW, AWAY, THEN, DICE}),
        (["clock"], {NOW, AWAY, THEN}),
        (["--all"], {NOW, AWAY, THEN, DICE, OLD}),
    ],
)
def test_what_is_named_is_forgotten(
    path: Path, names: list[str], gone: set[ToolPlace]
) -> None:
    done = run("measurements", "forget", path, *names)
    assert (done.returncode, done.stderr) == (0, "")
    assert "until it is started again" in done.stdout
    assert kept(path) == {DICE, NOW, THEN, AWAY, OLD} - gone


def test_nothing_is_forgotten_by_mistake(path: Path) -> None:
    wrong = run("measurements", "forget", path, "clock.now", "clock.thn")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith(
        "glyphoxa: nothing was measured of 'clock.thn', did you mean clock.then"
    )
    nobody = run("measurements", "forget", path)
    assert nobody.returncode == 2
    assert nobody.stderr == "glyphoxa: name a tool, or forget --all\n"
    assert kept(path) == {DICE, NOW, THEN, AWAY, OLD}


def test_a_table_that_remembers_nothing_says_so(tmp_path: Path) -> None:
    done = run("measurements", "list", table(tmp_path))
    assert done.returncode == 2
    assert "nothing has been measured yet" in done.stderr
    never = table(tmp_path, calibration={"remember": False})
    done = run("measurements", "list", never)
    assert done.returncode == 2
    assert "measurements are not kept @ calibration.remember" in done.stderr


def test_a_tool_that_was_slow_once_is_shown_again_when_it_is_forgotten(
    path: Path,
) -> None:
    slow = [Measured(DICE, SampleKind.OK, 2.0, time.time() - 9)] * 20
    file = MeasurementFile.open(path.parent / "state" / "measurements.db")
    file.write(slow, keep=100)
    file.close()
    before = run("tools", path, "--npc", "Bo").stdout
    assert "glyphoxa measurements forget CONFIG dice.roll" in before
    assert run("measurements", "forget", path, "dice.roll").returncode == 0
    assert "hidden: dice.roll" not in run("tools", path, "--npc", "Bo").stdout


def test_nobody_is_asked_about_servers_that_are_not_started(path: Path) -> None:
    # Found: each run warned of them, or asked whether to start them.
    (path.parent / ".git").mkdir()
    servers = {"clock": {"command": "x"}}
    (path.parent / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    listed = run("measurements", "list", path)
    assert (listed.returncode, listed.stderr) == (0, "")
    gone = run("measurements", "forget", path, "mcp__clock__now")  # as models see it
    assert (gone.returncode, gone.stderr) == (0, "")
    assert kept(path) == {DICE, THEN, OLD}
