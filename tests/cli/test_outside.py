"""Streams that are closed or full, and folders that are gone or cannot be written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .support import COMMAND, LIMIT, environment

pytestmark = pytest.mark.border

FILE = """
llm: {provider: offline}
npcs:
  - {name: Bo, tools: [dice], budget_tier: standard}
"""


@pytest.fixture
def inn(tmp_path: Path) -> Path:
    path = tmp_path / "inn.yaml"
    path.write_text(FILE)
    return path


def shell(
    line: str, inn: Path, tmp_path: Path, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a line of sh; ``$G`` is the command, ``$C`` a configuration."""
    home = tmp_path / "home"
    home.mkdir()
    env = environment(HOME=str(home), G=str(COMMAND), C=str(inn), **env)
    return subprocess.run(
        ["sh", "-c", line],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    ["ask $C Bo Hail", "play $C", "check $C", "--help", "init --reference"],
)
def test_a_full_disk_at_stdout_is_one_line(
    words: str, inn: Path, tmp_path: Path
) -> None:
    ended = shell(f"echo Hail | $G {words} > /dev/full", inn, tmp_path)
    line = ended.stderr.splitlines()[-1]
    assert ended.returncode == 1
    assert "the output cannot be written: No space left on device" in line
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "redirected", ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-", "< /dev/null"]
)
@pytest.mark.parametrize("words", ["ask $C Bo Hail", "play $C"])
def test_streams_may_be_closed(
    redirected: str, words: str, inn: Path, tmp_path: Path
) -> None:
    ended = shell(f"$G {words} {redirected}", inn, tmp_path)
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "words", ["mcp list", "mcp add x -- y", "check inn.yaml", "demo", "init"]
)
def test_a_working_directory_that_is_gone_is_one_line(
    words: str, inn: Path, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    line = f"cd gone && rmdir ../gone && $G {words} < /dev/null"
    ended = shell(line, inn, tmp_path)
    assert "Traceback" not in ended.stderr
    if ended.returncode:
        (said,) = ended.stderr.splitlines()
        assert "working directory" in said or "cannot be written" in said


@pytest.mark.parametrize("words", ["ask $C Bo Hail", "demo", "serve campaign"])
def test_a_home_that_cannot_be_written_is_one_line_with_the_remedy(
    words: str, inn: Path, tmp_path: Path
) -> None:
    # A file: not even root writes below it.
    line = f"env -u XDG_STATE_HOME -u XDG_DATA_HOME HOME=$C $G {words} < /dev/null"
    ended = shell(line, inn, tmp_path)
    said = ended.stderr.splitlines()[-1]
    assert ended.returncode == 2
    assert any(x in said for x in ("mcp.state_dir", "XDG_DATA_HOME", "--db"))


@pytest.mark.parametrize(
    "env",
    [
        {"TERM": "dumb"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"LC_ALL": "POSIX", "LANG": ""},
        {"TMPDIR": "/nonexistent"},
    ],
    ids=str,
)
def test_it_runs_in_poor_surroundings(
    env: dict[str, str], inn: Path, tmp_path: Path
) -> None:
    ended = shell("echo Grüße | $G play $C", inn, tmp_path, **env)
    assert ended.returncode == 0
    assert "\nBo: " in ended.stdout  # an answer
