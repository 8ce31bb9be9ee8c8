"""The tutorials are done as they stand: each in a folder of its own, its files written,
its commands run, and what it shows of their output is what they print."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import trio

from ..newcomer.support import environment
from .walking import TUTORIALS, differences, steps

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
            (here / step.name).write_text(step.text)
        elif step.kind == "shown":
            assert differences(step.text, printed) == [], printed
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
                    stderr=subprocess.STDOUT,  # in their order, as a reader sees them
                    check=False,
                )
            printed = ran.stdout.decode()
            assert ran.returncode == 0, (script, printed)
            assert "Traceback" not in printed, (script, printed)
            if moved := re.search(r"(?m)^cd (\S+)$", script):
                here = here / moved[1]


def test_what_is_shown_is_all_that_is_printed() -> None:
    printed = "two herbs\n\ntook 1.2 s\nfirst\nsecond\nend of 12\n"
    assert differences("two   herbs\ntook 7 ms\n…\nend of 3", printed) == []
    assert differences("two …\ntook 7 ms\n…", printed) == []
    assert differences("two herbs\ntook 7 ms\nsecond\n…", printed) == ["+ first"]
    assert differences("…\nsecond\nend", printed) == ["- end", "+ end of 12"]
