"""``glyphoxa leaderboard`` and ``telemetry``, and ``play`` with metrics: real runs."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .support import COMMAND, LIMIT, environment, run, seer, written


def rivals(folder: Path) -> Path:
    """Servers of several kinds; what one is, says it, the operator, or nobody."""
    glyphoxa = str(COMMAND)
    servers = [
        seer(name="elder", allow=["whisper", "vanish"], category="Omens"),
        seer(
            name="younger", allow=["whisper"], tools={"whisper": {"category": "omens"}}
        ),
        seer(name="alone", allow=["whisper"]),
        {"name": "casino", "command": [glyphoxa, "serve", "dice"], "allow": ["roll"]},
    ]
    granted = ["dice", "elder.*", "younger.*", "alone.*", "casino.*"]
    npcs = [{"name": "Bo", "tools": granted}]
    return written(folder, npcs=npcs, mcp={"servers": servers})


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


@pytest.mark.border
def test_tools_of_one_kind_are_ranked_by_their_median(tmp_path: Path) -> None:
    # G39
    path = rivals(tmp_path)
    done = run("leaderboard", path, "--calibrate", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        kinds.setdefault(line["category"], []).append(line)
    assert list(kinds) == ["alone", "dice", "memory", "omens", "rules"]
    first, second = kinds["omens"]  # as the configuration says, of both
    assert {first["tool"], second["tool"]} == {"elder.whisper", "younger.whisper"}
    assert (first["rank"], second["rank"], first["of"]) == (1, 2, 2)
    assert (first["transport"], first["samples"]) == ("stdio", 5)
    (alone,) = kinds["alone"]  # nobody says, and first of one is no rank
    assert (alone["rank"], alone["of"]) == (None, 1)
    # The server says what it is, and is ranked with ours: by figures, not by names. On
    # a busy machine its five calls may be the quicker ones.
    dice = kinds["dice"]
    assert {x["tool"] for x in dice} == {"dice.roll", "dice.roll_table", "casino.roll"}
    assert [x["rank"] for x in dice] == [1, 2, 3]
    for found in kinds.values():
        assert [x["p50_ms"] for x in found] == sorted(x["p50_ms"] for x in found)
    (roll,) = [line for line in lines if line["tool"] == "dice.roll"]
    assert (roll["badge"], roll["tag"], roll["transport"]) == (
        "Lightning",
        "FAST compatible",
        "in-process",
    )


def test_the_board_is_a_table_and_says_what_is_not_on_it(tmp_path: Path) -> None:
    path = written(tmp_path, tools={"dice.roll_table": {"category": "alone"}})
    done = run("leaderboard", path, "--calibrate")
    assert done.returncode == 0, done.stderr
    head = next(row for row in rows(done.stdout) if row[0] == "category")
    assert head[1:] == ["rank", "tool", "p50", "p99", "samples", "badge", "fits"]
    table = rows(done.stdout)
    alone = next(row for row in table if row[0] == "alone")
    assert alone[1:3] == ["-", "dice.roll_table"]
    kind, rank, _, *_, badge, fits = next(row for row in table if row[0] == "rules")
    assert (kind, rank) == ("rules", "1")
    assert badge in ("Lightning", "Fast", "Standard", "Slow")
    assert fits.endswith(" compatible")
    (missing,) = [x for x in done.stdout.splitlines() if x.startswith("not measured: ")]
    assert "memory.remember" in missing  # it has side effects


@pytest.mark.border
def test_what_is_away_is_said_beside_the_lines_too(tmp_path: Path) -> None:
    away = {"name": "away", "command": "this-command-does-not-exist"}
    path = written(tmp_path, npcs=[], mcp={"servers": [away]})
    done = run("leaderboard", path, "--calibrate", "--json")
    assert done.returncode == 0, done.stderr
    assert "warning: away: " in done.stderr
    assert all(json.loads(line) for line in done.stdout.splitlines())


def test_without_any_figure_there_is_no_table(tmp_path: Path) -> None:
    done = run("leaderboard", written(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("not measured: dice.roll, ")


def test_what_would_be_told_is_shown_and_not_sent(tmp_path: Path) -> None:
    # G39: opt in, and nothing but figures
    path = written(tmp_path)
    off = run("telemetry", path, "--calibrate")
    assert off.returncode == 0, off.stderr
    assert "telemetry is off: nothing is sent" in off.stderr
    report = json.loads(off.stdout)
    assert {tool["tool"] for tool in report["tools"]} >= {"dice.roll"}
    for tool in report["tools"]:
        assert list(tool) == [
            *("tool", "transport", "badge"),
            *("p50_ms", "p99_ms", "samples", "failures"),
        ]
    target = tmp_path / "told.json"
    config = {"enabled": True, "file": str(target), "interval_hours": 12}
    config["url"] = "https://bob:hunter22@scores.example/v1?key=77-secret"
    path = written(tmp_path, telemetry=config)
    on = run("telemetry", path)
    assert f"told every 12 h and at the end, to {target} and " in on.stderr
    assert on.stderr.rstrip().endswith("https://scores.example/v1")
    assert not target.exists()


def test_a_table_that_ends_tells_what_the_preview_shows(tmp_path: Path) -> None:
    target = tmp_path / "told.json"
    path = written(
        tmp_path,
        telemetry={"enabled": True, "file": str(target)},
        calibration={"at_start": False},
    )
    done = run("play", path, lines="roll 1d4\n")
    assert done.returncode == 0, done.stderr
    (tool,) = json.loads(target.read_text())["tools"]
    assert (tool["tool"], tool["samples"], tool["failures"]) == ("dice.roll", 1, 0.0)


@contextmanager
def playing(*words: str | Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A table that waits for a line, and the address of its metrics."""
    with subprocess.Popen(
        [COMMAND, "play", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("metrics at "):
                    yield process, line.removeprefix("metrics at ").strip()
                    break
            else:
                raise AssertionError("no metrics")
        finally:
            process.kill()


@pytest.mark.border
def test_a_table_can_be_scraped_while_it_plays(tmp_path: Path) -> None:
    # A46 to A49: through the command
    path = written(tmp_path, mcp={"servers": [seer()]})
    with playing(path, "--metrics", "0") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=LIMIT) as answer:
            text = answer.read().decode()
        assert 'ai_agent_mcp_server_up{server="seer"} 1.0' in text
        assert 'ai_agent_mcp_server_restarts_total{server="seer"} 0.0' in text
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(LIMIT) == 0


def test_a_port_that_is_taken_is_bad_input(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("play", written(tmp_path), "--metrics", str(port))
    assert done.returncode == 2
    assert f"glyphoxa: port {port} is taken" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_says_what_a_category_is_and_that_nothing_is_sent() -> None:
    board = run("leaderboard", "--help", env={"COLUMNS": "200"})
    for lesson in ("has no rank", "Lightning", "--calibrate", "--json"):
        assert lesson in board.stdout
    told = run("telemetry", "--help", env={"COLUMNS": "200"})
    assert "Nothing is sent." in told.stdout
    assert "telemetry.enabled" in told.stdout
    assert "--metrics" in run("play", "--help", env={"COLUMNS": "200"}).stdout
