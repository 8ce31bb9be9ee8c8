"""``glyphoxa simulate``, as a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .support import environment, run, terminal, written


@pytest.mark.border
def test_the_command_simulates_the_tavern() -> None:
    """Its servers are started for real, to be asked for their tools."""
    ended = run("simulate", "config/tavern.yaml", "--turns", "10", "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert [x["tier_by"] for x in report["runs"]] == ["p50", "p95", "adaptive"]
    assert {x["turns"] for x in report["runs"]} == {10}
    keys = {tool["key"] for tool in report["runs"][0]["tools"]}
    assert {"oracle.vision", "ledger.open_tab", "dice.roll"} <= keys


def test_the_command_names_what_is_wrong_with_a_script(tmp_path: Path) -> None:
    script = tmp_path / "talk.yaml"
    script.write_text("script: [{ npc: Nobody, say: Hm. }]\n")
    ended = run("simulate", "config/tavern.yaml", "--script", str(script), "--offline")
    assert ended.returncode == 2
    assert "no NPC 'Nobody'" in ended.stderr
    assert "script[0].npc" in ended.stderr


@pytest.mark.border
def test_a_server_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    file = tmp_path / "far.yaml"
    file.write_text(
        "npcs: [{ name: Ysolde, tools: [dice] }]\n"
        "mcp: { servers: [{ name: far, command: this-command-does-not-exist }] }\n"
    )
    ended = run("simulate", str(file), "--turns", "3", "--tier-by", "p50")
    assert ended.returncode == 0, ended.stderr
    assert "far: cannot be started" in ended.stderr


@pytest.mark.long
def test_what_was_measured_here_is_used(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    measured = run("calibrate", "config/tavern.yaml", env=environment(**state))
    assert measured.returncode == 0, measured.stderr
    ended = run(
        *("simulate", "config/tavern.yaml", "--turns=3", "--tier-by=p50", "--json"),
        env=environment(**state),
    )
    (report,) = json.loads(ended.stdout)["runs"]
    known = {tool["key"]: tool["latency"] for tool in report["tools"]}
    assert known["oracle.consult"] == "measured"
    assert known["files.write_file"] == "declared"  # nobody probes a write


@pytest.mark.border
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("simulate", "--turns=40", "--tier-by=p50"), "talking"),
        (("verify", "--evenings=2"), "rehearsing"),
    ],
)
def test_whoever_waits_at_a_terminal_sees_how_far_it_is(
    words: tuple[str, ...], shown: str, tmp_path: Path
) -> None:
    # Found: half a minute of silence.
    path = written(tmp_path, npcs=[{"name": "Bo", "tools": ["dice.*"]}])
    command, *options = words
    with terminal(command, path, "--offline", *options) as table:
        table.expect(shown)
        assert table.ends() == 0
