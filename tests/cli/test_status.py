"""``glyphoxa status`` and ``reload``: requests to a runtime that is in use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.testing.model_server import Fail, SayText, open_model_server

from .support import (
    COMMAND,
    LIMIT,
    Terminal,
    beside,
    environment,
    run,
    seer,
    terminal,
    written,
)

PROMPT = "you to Bo> "


@pytest.fixture
def apart() -> Generator[dict[str, str]]:
    """An environment in which nothing else of this user's runs.

    In a folder with a short path, which the path of a socket must have.
    """
    with tempfile.TemporaryDirectory(prefix="run") as made:
        yield {"XDG_RUNTIME_DIR": made, "TMPDIR": made}


def table_of(folder: Path, *servers: dict[str, Any]) -> Path:
    npcs = [{"name": "Bo", "tools": ["dice", "seer.*"], "budget_tier": "deep"}]
    return written(
        folder,
        npcs=npcs,
        mcp={"servers": list(servers), "remember": False},
        trust={"mode": "full"},
        calibration={"at_start": False},
    )


def status(env: Mapping[str, str], *words: str) -> Any:
    said = run("status", "--json", *words, env=env)
    assert (said.returncode, said.stderr) == (0, "")
    (line,) = said.stdout.splitlines()
    return json.loads(line)


def until_ready(env: Mapping[str, str]) -> Any:
    """Ask until every server is ready; each question takes its own process."""
    for _ in range(50):
        said = status(env)
        if all(row["state"] == "ready" for row in said["servers"]):
            return said
    raise AssertionError(said)


@pytest.mark.border
def test_a_table_tells_how_its_servers_and_npcs_are(
    tmp_path: Path, apart: dict[str, str]
) -> None:
    with terminal("play", table_of(tmp_path, seer()), env=apart) as table:
        table.expect(PROMPT)
        said = until_ready(apart)
        (row,) = said["servers"]
        assert said["pid"] == table.process.pid
        assert (row["name"], row["restarts"], row["last_error"]) == ("seer", 0, None)
        assert row["tools"] == ["whisper", "ponder", "vanish", "daydream"]
        os.kill(row["pid"], 0)  # there is such a process
        assert said["npcs"] == [
            {"name": "Bo", "tier": "deep", "tools": ["dice", "seer.*"]}
        ]
        table.type("roll 2d6\n")
        table.expect("Bo: 2d6 comes to ")
        table.expect(PROMPT)
        assert status(apart)["calls"]["outcomes"] == {"ok": 1}
        assert status(apart, "--pid", str(table.process.pid))["pid"] == said["pid"]

        shown = run("status", env=apart)
        assert (shown.returncode, shown.stderr) == (0, "")
        lines = shown.stdout.splitlines()
        assert lines[0].startswith(f"process {said['pid']}: ")
        assert lines[1:5] == [
            "  sessions: 1 open, 0 set aside: default",
            "  turns: 0 running",
            "  calls: 0 running, 0 lingering, 1 ok",
            "  Bo (deep): dice, seer.*",
        ]
        assert re.fullmatch(r"  seer \(stdio\): ready for [\d a-z]+", lines[5])
        assert lines[6] == "    4 tools: whisper, ponder, vanish, daydream"
        assert lines[7] == f"    pid: {row['pid']}"
        table.type("/quit\n")
        assert table.ends() == 0
    nobody = run("status", env=apart)
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert nobody.stderr == "nothing of this user's is running that can be asked\n"
    # Whoever leaves takes the socket along.
    assert list(Path(apart["TMPDIR"]).rglob("*.sock")) == []


@pytest.mark.border
def test_what_is_left_of_a_killed_table_does_not_confuse(
    tmp_path: Path, apart: dict[str, str]
) -> None:
    with terminal("play", table_of(tmp_path), env=apart) as table:
        table.expect(PROMPT)
        table.process.kill()
        table.ends()
        assert len(list(Path(apart["TMPDIR"]).rglob("*.sock"))) == 1
        assert run("status", env=apart).returncode == 1
        assert list(Path(apart["TMPDIR"]).rglob("*.sock")) == []
        assert run("status", "--pid", str(table.process.pid), env=apart).stderr == (
            f"no runtime {table.process.pid} is running that can be asked\n"
        )


@pytest.mark.border
def test_two_tables_are_both_shown_and_a_reload_needs_to_know_which(
    tmp_path: Path, apart: dict[str, str]
) -> None:
    path = table_of(tmp_path)
    with terminal("play", path, env=apart) as one:
        with terminal("play", path, env=apart) as two:
            one.expect(PROMPT)
            two.expect(PROMPT)
            pids = sorted([one.process.pid, two.process.pid])
            shown = run("status", "--json", env=apart).stdout.splitlines()
            assert [json.loads(line)["pid"] for line in shown] == pids
            refused = run("reload", env=apart)
            assert refused.returncode == 2
            assert refused.stderr == (
                f"glyphoxa: several are running, give --pid: {pids[0]}, {pids[1]}\n"
            )
            done = run("reload", "--pid", str(one.process.pid), env=apart)
            assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.border
def test_a_reload_brings_what_the_files_say_now(
    tmp_path: Path, apart: dict[str, str]
) -> None:  # A44
    (tmp_path / ".git").mkdir()
    path = table_of(tmp_path)
    with terminal("play", path, env=apart) as table:
        table.expect(PROMPT)
        assert status(apart)["servers"] == []
        shared = {"mcpServers": {"seer": {**seer(), "autoApprove": ["vanish"]}}}
        del shared["mcpServers"]["seer"]["name"]
        (tmp_path / ".mcp.json").write_text(json.dumps(shared))
        unseen = run("reload", env=apart)  # D14a: nobody can be asked now
        assert unseen.returncode == 2
        assert "it is not agreed to yet: look at it with" in unseen.stderr
        trusted = run("mcp", "trust", "--config", path, "--yes")
        assert (trusted.returncode, trusted.stdout) == (0, "seer may be started\n")
        done = run("reload", env=apart)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "reloaded; added: seer\n"
        table.expect("! autoApprove is for another program and approves nothing here")
        assert until_ready(apart)["servers"][0]["name"] == "seer"
        path.write_text("{")
        refused = run("reload", env=apart)
        assert refused.returncode == 2
        assert refused.stderr.startswith("glyphoxa: is not JSON: ")
        assert [row["name"] for row in status(apart)["servers"]] == ["seer"]
        table.type("whisper, seer\n")
        table.expect("Bo: A word about whisper.\n")


# ----------------------------------------------------------------- /mcp in play


def wait_until_ready(table: Terminal, name: str) -> None:
    while True:
        table.type("/servers\n")
        table.expect(f"{name} [")
        table.expect(PROMPT)
        if f"{name} [ready]" in table.screen.rpartition("/servers")[2]:
            return


@pytest.mark.border
def test_the_servers_at_the_table_have_the_layout_of_the_design(
    tmp_path: Path, apart: dict[str, str]
) -> None:  # N27
    servers = [
        seer("-", "exits", restart={"enabled": False}),
        seer(name="seer"),
        seer(name="remote-api", allow=["ponder", "whisper"]),
    ]
    with terminal("play", table_of(tmp_path, *servers), env=apart) as table:
        table.expect("! exits: has failed")
        wait_until_ready(table, "seer")
        wait_until_ready(table, "remote-api")
        table.type("/mcp\n")
        table.expect("/mcp\n")
        table.expect(PROMPT)
        shown = table.screen.rpartition("/mcp\n")[2].rpartition("\n\nyou to")[0]
        assert shown.splitlines() == [
            "MCP Servers:",
            "  seer (4 tools): whisper, ponder, vanish, daydream",
            "  remote-api (2 tools): whisper, ponder",
            "  exits (failed): exited with status 3",
        ]
        (row,) = (x for x in status(apart)["servers"] if x["name"] == "exits")
        assert (row["state"], row["pid"]) == ("failed", None)
        assert row["last_error"].startswith("exited with status 3")
        told = run("status", env=apart).stdout
        assert re.search(r"\n  exits \(stdio\): failed for [\d a-z]+\n", told)
        assert "\n    last error: exited with status 3" in told
        assert "\n  warning: exits: exited with status 3\n" in told
        table.type("/mcp exits\n")
        table.expect("exits (stdio): failed for ")
        table.expect("last error: exited with status 3")
        table.type("/mcp seet\n")
        table.expect("no server 'seet', there is seer\n")


def test_a_table_without_servers_says_so(tmp_path: Path) -> None:
    played = run("play", table_of(tmp_path), lines="/mcp\n/mcp x\n")
    assert "MCP Servers:\n  none\n" in played.stdout
    assert "no server 'x', there is none\n" in played.stdout


def test_a_table_is_played_at_also_where_no_socket_can_be_made(
    tmp_path: Path, apart: dict[str, str]
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    env = {"XDG_RUNTIME_DIR": str(long), "TMPDIR": str(long)}
    played = run("play", table_of(tmp_path), lines="roll 2d6\n", env=env)
    assert (played.returncode, played.stderr) == (0, "")
    assert "no control socket: " in played.stdout
    assert "Bo: 2d6 comes to " in played.stdout


@pytest.mark.border
def test_what_models_did_and_cost_is_told(
    tmp_path: Path, apart: dict[str, str]
) -> None:
    """Played with a model that is down, and another in its place that has a price."""
    with (
        beside(open_model_server([Fail(529)])) as down,
        beside(open_model_server([SayText("Well met.")])) as up,
    ):
        path = written(
            tmp_path,
            npcs=[{"name": "Bo", "fallback": ["Not now."]}],
            llm={
                "provider": "anthropic",
                "model": "first",
                "base_url": down.origin,
                "fallbacks": [
                    {
                        "provider": "chat_completions",
                        "model": "second",
                        "base_url": up.base_url,
                    }
                ],
            },
            cost={"prices": {"second": {"output": 1_000_000}}, "per_npc": 2},
        )
        with subprocess.Popen(
            [COMMAND, "play", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(**apart),
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write("hello\nand now?\n")
                process.stdin.flush()
                text = ""
                while "Not now." not in text:
                    text += (line := process.stdout.readline())
                    assert line, text  # it has not ended
                shown = run("status", env=apart).stdout
                process.stdin.close()
                assert process.wait(LIMIT) == 0
            finally:
                process.kill()
    assert "· second answers: overloaded: HTTP 529: scripted failure\n" in text
    assert "Bo: Well met.\n" in text
    assert "turns are turned away" in text
    assert "· nothing to say (cost_ceiling), so:\nBo: Not now." in text
    lines = shown.splitlines()
    assert f"  first at {down.base_url}: 0 answered, 1 overloaded" in lines
    assert f"  second at {up.base_url}: 1 answered" in lines
    (total,) = [line for line in lines if line.startswith("  models: ")]
    assert re.fullmatch(r"  models: \d+ tokens in, \d+ out, cost \d+", total)
    assert f"    Bo: {total.removeprefix('  models: ')}" in lines
    assert "    turns turned away for it: 1" in lines
