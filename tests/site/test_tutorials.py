"""The tutorials are done as they stand: each in a folder of its own, its files written,
its commands run, and what it shows of their output is what they print."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

import trio

from ..newcomer.support import environment
from .walking import TUTORIALS, missing, steps

PAGES: Final = sorted(TUTORIALS.glob("*.md"))
TIDY: Final = "trap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT"
"""Nothing that a block has started outlives it, also where the block fails."""

LIMIT: Final = 300.0  # seconds for the commands of one block; it only ends what hangs
NOT_RUN: Final = {
    "pip install": "it is installed",
    "ollama": "it needs Ollama",
}
"""Lines of commands that are not run, and why."""


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_a_tutorial_is_done(page: Path, tmp_path: Path) -> None:
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    env = environment(home, COLUMNS="120", TERM="dumb")
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    here, printed = folder, ""
    for step in steps(page):
        if step.kind == "file":
            (here / step.name).write_text(step.text + "\n")
        elif step.kind == "shown":
            assert not (lost := missing(step.text, printed)), (lost, printed)
        else:
            script = "\n".join(
                line
                for line in step.text.splitlines()
                if not any(words in line for words in NOT_RUN)
            )
            with trio.fail_after(LIMIT):
                ran = await trio.run_process(
                    [shutil.which("bash") or "bash", "-ec", f"{TIDY}\n{script}"],
                    cwd=here,
                    env=env,
                    stdin=b"",
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                )
            printed = (ran.stdout + ran.stderr).decode()
            assert ran.returncode == 0, (script, printed)
            assert "Traceback" not in printed, (script, printed)
            if moved := re.search(r"(?m)^cd (\S+)$", script):
                here = here / moved[1]
