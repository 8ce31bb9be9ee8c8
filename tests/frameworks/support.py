"""Programs that need a framework, which the tests' own Python does not have."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def python_of(framework: str) -> Path:
    """The Python that has the framework. Without it the test is skipped, unless
    ``GLYPHOXA_PEERS=required``."""
    found = HERE / f".{framework}" / "bin" / "python"
    if not (found.parents[1] / ".installed").exists():
        missing = f"{framework} is not installed for these tests (make peers)"
        if os.environ.get("GLYPHOXA_PEERS") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def run(
    python: Path, *arguments: str, within: float, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program of this project there."""
    done = subprocess.run(
        [python, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=within,
    )
    assert not check or done.returncode == 0, done.stderr[-4000:]
    return done


def seen(python: Path, module: str, *cases: str) -> dict[str, dict[str, Any]]:
    """What the cases of a module saw, by their names."""
    done = run(python, "-m", module, *cases, within=400)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["case"]: one for one in found}
