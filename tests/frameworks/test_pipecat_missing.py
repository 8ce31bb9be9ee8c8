"""The adapter for Pipecat where that framework is not installed, as in this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.border

ROOT = Path(__file__).parents[2]


def test_it_is_named_where_it_is_missing() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import glyphoxa_trio.pipecat"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )
    assert ran.stderr.splitlines()[-1] == (
        "glyphoxa_trio.extras.ExtraMissing: an NPC in Pipecat needs the extra"
        " `pipecat`: pip install 'glyphoxa-trio[pipecat]'"
    )
