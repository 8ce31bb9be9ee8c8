"""``--log-json`` and ``--watch``: what a run leaves behind, and what it notices."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest

from .support import COMMAND, LIMIT, environment, run, seer, written


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.border
def test_every_call_is_a_line_of_the_log(tmp_path: Path) -> None:  # A50
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["dice", "seer.*"]}],
        mcp={"servers": [seer()]},
    )
    log = tmp_path / "log.jsonl"
    done = run("ask", path, "Bo", "roll 1d4", "--log-json", log)
    assert done.returncode == 0, done.stderr
    (call,) = [one for one in records(log) if one.get("tool") == "roll"]
    assert call["context_name"] == "Bo"
    assert call["provider_name"] == "offline"
    assert call["server"] == "dice"
    assert call["exposed_name"] == "roll"
    assert call["status"] == "ok"
    assert call["call_id"]
    assert isinstance(call["duration_ms"], float | int)
    assert any(one.get("server") == "seer" for one in records(log))
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_log_is_added_to(tmp_path: Path) -> None:
    path, log = written(tmp_path), tmp_path / "log.jsonl"
    run("play", path, "--log-json", log, lines="roll 1d4\n")
    once = records(log)
    run("play", path, "--log-json", log, lines="roll 1d4\n")
    assert records(log)[: len(once)] == once
    assert len(records(log)) > len(once)


def test_a_log_that_cannot_be_written_is_told_before_anything_else(
    tmp_path: Path,
) -> None:
    path = written(tmp_path)
    done = run("ask", path, "Bo", "hi", "--log-json", tmp_path / "not" / "there")
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert done.stdout == ""


@pytest.mark.border
def test_a_watched_file_is_read_again_while_somebody_plays(tmp_path: Path) -> None:
    # A44
    path = written(tmp_path)
    with subprocess.Popen(
        [str(COMMAND), "play", str(path), "--watch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write("@Bo hello\n")
            process.stdin.flush()
            while "Bo: " not in process.stdout.readline():
                pass
            written(tmp_path, npcs=[{"name": "Bo"}, {"name": "Al"}, 7])
            while "not reloaded" not in (line := process.stdout.readline()):
                assert line  # it has not ended
            written(tmp_path, npcs=[{"name": "Bo"}, {"name": "Al"}])
            while "reloaded; " not in (line := process.stdout.readline()):
                assert line
            process.stdin.write("@Al hello\n")
            process.stdin.flush()
            while "Al: " not in (line := process.stdout.readline()):
                assert line
            process.stdin.close()
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()
