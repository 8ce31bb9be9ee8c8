"""``--json``: each command that shows something has it, and writes what parses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import trio

from glyphoxa_trio.cli.app import app

from .support import run, seer, written
from .test_memory import fill

# Commands without it, and why.
WITHOUT = {
    "demo": "a conversation",
    "play": "a conversation",
    "serve": "speaks MCP, each of its servers",
    "init": "writes files",
    "schema": "writes JSON anyway",
    "memory export": "writes JSON anyway",
    "sessions export": "writes JSON anyway",
    "mcp add": "writes a file",
    "mcp remove": "writes a file",
    "mcp trust": "asks",
    "mcp approve": "asks",
    "discord": "serves",
    "run": "serves, with JSON of its own",
    "cluster worker": "serves",
    "cluster gateway": "serves, as run does",
    "cluster dev": "a conversation",
    "cluster drain": "acts, and its status says if it did",
    "cluster init": "acts, and its status says if it did",
}
LINES = {"ask", "status", "leaderboard"}  # a line each, instead of one object


def commands() -> Iterator[tuple[str, Any]]:
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            for inner, each in command.commands.items():
                yield f"{name} {inner}", each
        else:
            yield name, command


def test_every_command_that_shows_something_has_it() -> None:
    found = dict(commands())
    with_it = {
        name
        for name, command in found.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    without = {name for name in found if not name.startswith("serve ")}
    assert without - with_it == WITHOUT.keys() - {"serve"}
    elsewhere = {"status", "reload", "replay", "talk", "memory summarise"}
    elsewhere |= {f"cluster {x}" for x in ("status", "say", "sessions", "where")}
    assert with_it == SHAPES.keys() | elsewhere


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["dice"]}],
        mcp={"state_dir": str(tmp_path / "state")},
        tools={"dice.roll_table": {"min_tier": "deep"}},
        calibration={"at_start": False},
        memory={"store": "kept.db"},
    )


SHAPES: dict[str, tuple[list[str], set[str]]] = {
    "ask": (["PATH", "Bo", "roll 1d4"], {"event"}),
    "tools": (["PATH"], {"tier", "npc", "tools", "warnings"}),
    "calibrate": (
        ["PATH", "dice.roll"],
        {
            *("complete", "measured", "not_called", "tier", "npc", "tools"),
            *("advice", "warnings"),
        },
    ),
    "check": (
        ["PATH", "--model"],
        {
            *("config", "ok", "problems", "warnings", "npcs", "models", "npc_count"),
            *("tool_count", "servers", "servers_ready"),
        },
    ),
    "verify": (
        ["PATH", "--evenings", "1", "--offline"],
        {"passed", "explored", "npcs", "findings"},
    ),
    "simulate": (["PATH", "--turns", "5"], {"configured_tier_by", "runs"}),
    "leaderboard": (
        ["PATH", "--calibrate"],
        {
            *("category", "rank", "of", "tool", "transport", "p50_ms", "p99_ms"),
            *("samples", "badge", "tag"),
        },
    ),
    "telemetry": (["PATH"], {"enabled", "interval_ms", "to", "report"}),
    "measurements list": (["PATH"], {"measurements"}),
    "measurements forget": (["PATH", "--all"], {"forgotten", "samples"}),
    "memory show": (["PATH"], {"place", "bytes", "campaigns", "embeddings"}),
    "memory search": (["PATH", "dragon"], {"query", "partial", "found"}),
    "memory review": (["PATH"], {"facts"}),
    "memory reveal": (["PATH", "smaug"], {"campaign", "revealed"}),
    "memory explain": (
        ["PATH", "Bo", "Where is the dragon?"],
        {"npc", "campaign", "system", "tokens", "told", "left_out", "missed"},
    ),
    "memory add": (["PATH", "It rains."], {"campaign", "fact"}),
    "memory edit": (["PATH", "1", "--pin"], {"campaign", "fact"}),
    "memory delete": (["PATH", "smaug"], {"campaign", "removed"}),
    "memory import": (
        ["PATH", "WORLD"],
        {
            *("campaign", "tenant", "dry_run", "entities", "entities_new"),
            *("entities_changed", "relationships", "facts", "facts_new"),
            *("facts_removed", "skipped", "removed", "notes"),
        },
    ),
    "memory backup": (["PATH", "COPY"], {"place", "backup", "bytes"}),
    "memory forget": (
        ["PATH", "p1", "--yes"],
        {"player", "removed", "open_sessions"},
    ),
    "sessions list": (["PATH"], {"sessions"}),
    "sessions show": (
        ["PATH", "table"],
        {
            *("tenant", "session", "campaign", "holder", "lines", "last_at", "ended"),
            *("state", "evenings", "last_lines"),
        },
    ),
    "sessions end": (["PATH", "table"], {"session", "ended", "before"}),
    "mcp list": (["--config", "PATH"], {"servers"}),
    "mcp test": (
        ["exits", "--config", "PATH"],
        {"server", "ok", "steps", "tools", "prompts", "warnings", "stderr"},
    ),
}


@pytest.mark.parametrize("command", [x for x in SHAPES if x != "mcp test"])
def test_the_output_parses_and_has_the_keys_that_help_names(
    command: str, path: Path
) -> None:
    words, _ = SHAPES[command]
    if command.startswith("measurements"):
        assert run("calibrate", path, "dice.roll").returncode == 0
    if command.startswith(("memory", "sessions")):
        trio.run(fill, str(path.parent / "kept.db"))
        (path.parent / "world.yaml").write_text("entities: [{name: Tower}]")
    places = {"PATH": path}
    places |= {"WORLD": path.parent / "world.yaml", "COPY": path.parent / "copy.db"}
    given = [str(places.get(word, word)) for word in words]
    _parses(command, given, status=0)


def _parses(command: str, given: list[str], *, status: int) -> list[Any]:
    keys = SHAPES[command][1]
    done = run(*command.split(), *given, "--json")
    assert done.returncode == status, done.stderr
    assert "\x1b" not in done.stdout
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    assert objects
    if command not in LINES:
        assert len(objects) == 1
    for one in objects:
        if command == "ask":  # each kind of event has keys of its own
            assert one.keys() >= keys
        else:
            assert one.keys() == keys
    durations = [*_durations(objects)]
    assert all(isinstance(value, (int, float, type(None))) for value in durations)
    helped = " ".join(run(*command.split(), "--help").stdout.replace("│", " ").split())
    if command != "ask":
        assert all(re.search(rf"\b{key}\b", helped) for key in keys)
    return objects


def _durations(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key.endswith("_ms"):
                yield item
            else:
                yield from _durations(item)
    elif isinstance(value, list):
        for item in value:
            yield from _durations(item)


def test_what_tools_says_of_each(path: Path) -> None:
    found = json.loads(run("tools", path, "--npc", "Bo", "--json").stdout)
    assert (found["tier"], found["npc"]) == ("fast", "Bo")
    tools = {tool["tool"]: tool for tool in found["tools"]}
    assert tools["dice.roll"] == {
        "tool": "dice.roll",
        "exposed_as": "roll",
        "declared_ms": 5.0,
        "p50_ms": None,
        "p99_ms": None,
        "samples": 0,
        "badge": None,
        "tier": "fast",
        "health": "good",
        "shown": True,
        "deferred": False,
        "hidden": None,
    }
    table = tools["dice.roll_table"]
    assert table["shown"] is False
    assert "its min_tier is deep" in table["hidden"]


def test_a_configuration_that_is_none_is_a_problem_in_json_too(tmp_path: Path) -> None:
    path = written(tmp_path, npcs=[{"name": "Bo", "budget_tier": "quick"}])
    done = run("check", path, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert "expected one of fast, standard, deep" in found["problems"][0]


@pytest.mark.border
def test_a_step_that_fails_is_in_the_object(tmp_path: Path) -> None:
    path = written(tmp_path, mcp={"servers": [seer("-", "exits")]})
    (found,) = _parses("mcp test", ["exits", "--config", str(path)], status=1)
    assert (found["ok"], found["steps"][-1]["ok"]) == (False, False)
    assert any("the crystal is cracked" in line for line in found["stderr"])
