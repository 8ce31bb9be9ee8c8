"""``glyphoxa check``: every problem of a configuration at once, with its place."""

from __future__ import annotations

import re
from pathlib import Path

from .support import run, seer, written


def problems(text: str) -> list[str]:
    return [
        line.removeprefix("problem: ")
        for line in text.splitlines()
        if line.startswith("problem: ")
    ]


def test_a_good_configuration_is_said_to_be_good(tmp_path: Path) -> None:
    npcs = [{"name": "Bo", "tools": ["dice", "seer.whisper"]}]
    path = written(tmp_path, npcs=npcs, mcp={"servers": [seer()]})
    checked = run("check", path)
    assert re.fullmatch(
        rf"{path}: 1 NPCs, \d+ tools, 1 of 1 servers ready\n", checked.stdout
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_file_broken_in_five_places_has_five_problems(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        npcs=[
            {"name": "Bo", "budget_tier": "slow"},
            {"nane": "Greymantle"},
        ],
        llm={"provider": "chat_completions", "base_url": "localhost:11434"},
        turn={"max_rounds": "four"},
        mcp={"servers": [{"name": "no.dots", "command": "x", "env": {"A": "${NOPE}"}}]},
    )
    checked = run("check", path)
    assert checked.returncode == 1
    assert "Traceback" not in checked.stdout + checked.stderr
    places = [line.rpartition(" @ ")[2] for line in problems(checked.stdout)]
    for place in (
        "table.json.npcs[0].budget_tier",
        "table.json.npcs[1]",
        "table.json.llm.base_url",
        "table.json.turn.max_rounds",
        "table.json.mcp.servers[0].env.A",
    ):
        assert place in places, checked.stdout


def test_what_only_the_catalogue_knows_comes_all_at_once_too(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["dice.rol", "rules"]}],
        tools={
            "dice.role": {"min_tier": "deep"},
            "roll": {"read_only": False, "cacheable_seconds": 5},
        },
        mcp={"servers": [seer(name="rules")]},
    )
    checked = run("check", path)
    assert checked.returncode == 1
    found = sorted(problems(checked.stdout))
    assert len(found) == 4, found
    assert found[0].startswith("'rules' is a group of built-in tools @ mcp.servers")
    assert "cacheable" in found[1]
    assert found[1].endswith("@ tools.roll")
    assert found[2].startswith("no built-in tool 'dice.role', did you mean dice.roll")
    assert found[3].startswith("no tool 'dice.rol', did you mean dice.roll")
    assert found[3].endswith("@ npcs[Bo].tools")


def test_servers_that_are_absent_are_warnings_and_wrong_names_problems(
    tmp_path: Path,
) -> None:
    """A server that cannot start, that exits, and one that is there (D14)."""
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["seer.wisper", "exits.x", "gone.y", "z*"]}],
        mcp={
            "servers": [
                seer(),
                seer("-", "exits"),
                {"name": "gone", "command": str(tmp_path / "no-such-program")},
            ]
        },
    )
    checked = run("check", path)
    assert checked.returncode == 1
    (only,) = problems(checked.stdout)
    assert only.startswith("no tool 'seer.wisper', did you mean seer.whisper or")
    assert only.endswith(" @ npcs[Bo].tools")
    for warning in (
        "warning: exits: exited with status 3\n  the crystal is cracked\n",
        "warning: gone: cannot be started: ",
        "warning: 'exits.x' waits for the server 'exits' @ npcs[Bo].tools\n",
        "warning: 'gone.y' waits for the server 'gone' @ npcs[Bo].tools\n",
        "warning: 'z*' waits for the server 'exits' @ npcs[Bo].tools\n",
    ):
        assert warning in checked.stdout
    assert checked.stdout.endswith(" tools, 1 of 3 servers ready\n")


def test_absent_servers_alone_are_no_problem(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["exits.x"]}],
        mcp={"servers": [seer("-", "exits")]},
    )
    checked = run("check", path)
    assert checked.returncode == 0
    assert "warning: 'exits.x' waits for the server 'exits'" in checked.stdout


def test_without_servers_their_tools_are_taken_on_trust(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["seer.whisper", "dice.rol"]}],
        mcp={"servers": [seer()]},
    )
    checked = run("check", path, "--no-servers")
    assert checked.returncode == 1
    (only,) = problems(checked.stdout)
    assert only.startswith("no tool 'dice.rol'")


def test_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    checked = run("check", tmp_path / "nobody.yaml")
    assert checked.returncode == 1
    assert problems(checked.stdout) == [
        "cannot be read: No such file or directory @ nobody.yaml"
    ]


def test_the_tavern_of_the_demo_is_in_order() -> None:
    """With its two servers on the SDK, as ``make demo`` starts them."""
    tavern = Path(__file__).parents[2] / "config" / "tavern.yaml"
    checked = run("check", tavern)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith(f"{tavern}: 3 NPCs, ")
    assert checked.stdout.endswith(" 2 of 2 servers ready\n")
