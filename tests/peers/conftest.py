"""These tests need other people's servers and clients: ``make peers`` installs them.

Where they are not, the tests are skipped, because passing the tests takes no
more than Python. With ``GLYPHOXA_PEERS=required`` they fail instead, so that CI
cannot pass without them.
"""

from __future__ import annotations

import os
import shutil

import pytest

from .support import AIMOCK, EARLIER, NODE


@pytest.fixture(autouse=True)
def installed() -> None:
    needed = (NODE, AIMOCK, EARLIER, EARLIER.with_name("mcp-server-sqlite"))
    if all(program.exists() for program in needed) and shutil.which("git"):
        return
    missing = "other people's servers are not installed (make peers), or no git"
    if os.environ.get("GLYPHOXA_PEERS") == "required":
        pytest.fail(missing)
    pytest.skip(missing)
