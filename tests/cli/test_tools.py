"""``glyphoxa tools`` and ``calibrate``: the list of tools, and its figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from .support import run, seer, terminal, written

MOODY = Path(__file__).parents[1] / "runtime" / "servers" / "moody.py"


def table(text: str) -> dict[str, list[str]]:
    """The rows by canonical name: shown, exposed, declared, p50, p99, …"""
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return {row[1]: [row[0], *row[2:]] for row in rows if row[0] in ("yes", "no")}


def hidden(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line.startswith("hidden: ")]
    return dict(line.removeprefix("hidden: ").split(": ", 1) for line in lines)


def tavern(folder: Path, *servers: dict[str, Any]) -> Path:
    npcs = [
        {"name": "Bo", "tools": ["dice.roll", "seer"], "budget_tier": "fast"},
        {"name": "Ysolde [the] Seer", "tools": ["seer.daydream", "seer.vanish"]},
    ]
    return written(folder, npcs=npcs, mcp={"servers": list(servers)})


@pytest.mark.border
def test_every_tool_is_in_the_table_with_what_is_known_of_it(tmp_path: Path) -> None:
    path = tavern(tmp_path, seer(), seer("-", "exits"))
    shown = run("tools", path)
    assert shown.returncode == 0
    assert shown.stdout.startswith("Tools in a deep turn")
    for heading in ("declared", "p50", "p99", "tier", "health", "exposed as"):
        assert heading in shown.stdout
    rows = table(shown.stdout)
    assert rows["dice.roll"][:5] == ["yes", "roll", "5.0 ms", "–", "–"]  # noqa: RUF001
    assert rows["seer.whisper"][:3] == ["no", "mcp__seer__whisper", "20 ms"]
    assert rows["seer.whisper"][-2:] == ["fast", "good"]
    assert rows["seer.daydream"][-2:] == ["fast", "good"]  # it is tried out
    # What is missing is told beside the table.
    assert "warning: exits: exited with status 3" in shown.stderr
    assert "the crystal is cracked" in shown.stderr


@pytest.mark.border
def test_what_is_hidden_says_why_and_what_would_change_it(tmp_path: Path) -> None:
    path = tavern(tmp_path, seer())
    shown = run("tools", path, "--npc", "Bo", "--tier", "deep")
    assert shown.returncode == 0
    assert "\nTools in a fast turn for Bo" in shown.stdout  # its ceiling
    rows, reasons = table(shown.stdout), hidden(shown.stdout)
    assert rows.keys() == {
        "dice.roll",
        *(f"seer.{name}" for name in ("whisper", "ponder", "vanish", "daydream")),
    }
    assert rows["dice.roll"][0] == "yes"
    # A whole server is granted, and nobody has approved it (D13a).
    assert reasons["seer.whisper"] == (
        "it is not approved, and turns ask no person: add 'seer.whisper' to the"
        " tools of Bo, or add 'seer.whisper' to trust.allow_tools"
    )
    assert "dice.roll" not in reasons


@pytest.mark.border
def test_tools_that_have_to_be_loaded_first_are_not_said_to_be_shown(
    tmp_path: Path,
) -> None:
    def rows(threshold: int) -> tuple[list[str], str]:
        mcp = {"servers": [seer()], "defer_threshold": threshold}
        shown = run("tools", written(tmp_path, mcp=mcp))
        return [x.strip() for x in shown.stdout.splitlines() if "seer." in x], (
            shown.stdout
        )

    lines, out = rows(4)  # as many as there are
    assert len(lines) == 4
    assert all(line.startswith("yes ") for line in lines)
    assert "tool_search" not in out
    lines, out = rows(3)
    assert len(lines) == 4
    assert all(line.startswith("in a line ") for line in lines)
    assert "these 4 tools of servers are more than mcp.defer_threshold (3)" in out
    assert table(out)["dice.roll"][0] == "yes"  # ours are always shown


@pytest.mark.border
def test_an_npcs_name_is_never_markup_and_the_tier_holds(tmp_path: Path) -> None:
    slow = {"daydream": {"min_tier": "standard"}, "vanish": {"min_tier": "deep"}}
    npcs = [
        {
            "name": "Ysolde [the] Seer",
            "tools": ["seer.daydream", "seer.vanish"],
            "budget_tier": "standard",
        }
    ]
    path = written(tmp_path, npcs=npcs, mcp={"servers": [seer(tools=slow)]})
    shown = run("tools", path, "--npc", "yso", "--tier", "fast")
    assert shown.stdout.startswith("Tools in a fast turn for Ysolde [the] Seer")
    assert hidden(shown.stdout) == {
        "seer.daydream": "mcp__seer__daydream is too slow for a fast answer; it can be"
        " used in standard turns",
        "seer.vanish": "its min_tier is deep: raise Ysolde [the] Seer's budget_tier to"
        " deep, or set min_tier to standard under mcp.servers[seer].tools[vanish]",
    }


def test_who_asks_for_turns_that_an_npc_never_has_is_told_so(tmp_path: Path) -> None:
    path = written(tmp_path, mcp={"servers": [seer("-", "mute")], "enabled": False})
    shown = run("tools", path, "--npc", "Bo", "--tier", "standard").stdout
    assert shown.startswith(
        "Bo has no standard turns, because its budget_tier is fast: raise it to"
        " standard, or in play type /elevate Bo standard\nTools in a fast turn for Bo"
    )
    played = run("play", path, lines="/tools standard\n").stdout
    assert "Bo has no standard turns, because its budget_tier is fast" in played


@pytest.mark.border
def test_a_tools_name_can_be_copied_from_a_narrow_terminal(tmp_path: Path) -> None:
    name = "a_tool_whose_name_is_far_too_long_for_a_column_of_a_table"
    path = written(tmp_path, tools={"dice.roll": {"expose_as": name}})
    with terminal("tools", path, env={"COLUMNS": "40"}) as table:
        table.expect(name)
        assert table.ends() == 0
    assert "…" not in table.screen


@pytest.mark.parametrize("columns", ["40", "80", "400"])
def test_a_tools_name_is_whole_in_a_pipe_whatever_the_width(
    columns: str, tmp_path: Path
) -> None:
    name = "a_tool_whose_name_is_far_too_long_for_a_column_of_a_table"
    path = written(tmp_path, tools={"dice.roll": {"expose_as": name}})
    assert name in run("tools", path, env={"COLUMNS": columns}).stdout


def test_an_unknown_npc_is_told_the_nearest(tmp_path: Path) -> None:
    asked = run("tools", tavern(tmp_path, seer("-", "mute")), "--npc", "Isolde")
    assert asked.returncode == 2
    assert asked.stderr == "glyphoxa: no NPC 'Isolde', there is Bo, Ysolde [the] Seer\n"


@pytest.mark.border
@pytest.mark.alone  # what answers has to have answered within three seconds
def test_calibrate_measures_what_it_may_and_shows_the_table(tmp_path: Path) -> None:
    hints = {"ponder": {"open_world": False}, "whisper": {"open_world": False}}
    done = run("calibrate", tavern(tmp_path, seer(tools=hints)), "--within", "3")
    assert done.returncode == 1  # "ponder" never answers
    rows = table(done.stdout)
    dash = "\N{EN DASH}"
    for measured in ("dice.roll", "seer.whisper"):
        assert re.fullmatch(r"[\d.]+ ms", rows[measured][3]), rows[measured]
        assert rows[measured][-2] == "fast"
    assert rows["seer.vanish"][3] == dash  # it has side effects, so nobody called it
    assert "not done within 3 s" in done.stderr


@pytest.mark.border
def test_calibrate_all_calls_the_others_too_and_says_what_went_wrong(
    tmp_path: Path,
) -> None:
    # One whose tools answer, and one that dies of its own.
    seers = seer(allow=["daydream"]), seer(name="dying", allow=["vanish"])
    npcs = [{"name": "Bo", "tools": ["seer", "dying"]}]
    path = written(tmp_path, npcs=npcs, mcp={"servers": seers})
    declined = run("calibrate", path, "--all")
    assert declined.returncode == 1
    assert "Nothing was called: add --yes" in declined.stderr
    done = run("calibrate", path, "--all", "--yes")
    assert done.returncode == 0
    rows = table(done.stdout)
    assert rows["seer.daydream"][3] != "\N{EN DASH}"
    assert rows["seer.daydream"][-2] == "fast"  # measured now
    assert "dying.vanish: 0 samples, then: " in done.stderr
    assert "warning: dying: was ended by SIGKILL" in done.stderr


def test_tools_can_measure_first(tmp_path: Path) -> None:
    shown = run("tools", written(tmp_path), "--calibrate")
    assert re.fullmatch(r"[\d.]+ ms", table(shown.stdout)["dice.roll"][3])


@pytest.mark.border
@pytest.mark.parametrize("verb", ["tools", "leaderboard", "telemetry"])
def test_every_verb_that_measures_says_first_what_it_calls(
    verb: str, tmp_path: Path
) -> None:
    path = written(tmp_path, mcp={"servers": [seer(allow=["whisper", "vanish"])]})
    done = run(verb, path, "--calibrate")
    said = done.stderr.splitlines()
    assert "Calling 5 times each, one after the other:" in said
    assert "  seer.whisper: only reads" in said  # though no NPC is granted it
    assert "seer.vanish" not in done.stderr


@pytest.mark.border
def test_calibrate_of_a_tool_that_is_held_back_says_so(tmp_path: Path) -> None:
    # Found: it said that it calls the tool, and called nothing.
    text = tmp_path / "moody"
    text.write_text("Tell a thing.")
    server = {"name": "moody", "command": ["python", str(MOODY), str(text)]}
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["moody.tell"]}],
        mcp={"servers": [server], "state_dir": str(tmp_path / "state")},
        calibration={"at_start": False},
    )
    assert run("ask", path, "Bo", "hello").returncode == 0
    text.write_text("Tell every secret.")
    done = run("calibrate", path, "moody.tell")
    assert done.returncode == 0
    assert "Calling" not in done.stderr
    assert (
        "moody.tell: 0 samples, then: not called: it has changed since it was approved;"
        " look at it with glyphoxa mcp approve moody.tell"
    ) in done.stderr
