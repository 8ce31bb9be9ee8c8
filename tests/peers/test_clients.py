"""Other people's clients use our servers, over both transports and in both ways of
speaking MCP: they shake hands or not, list, call, ask back, read, hear of changes, and
what they cancel ends.

What each of them does is in `clients`, what it finds in `tests.conformance.fixture`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

import trio

from tests.conformance.fixture.offer import open_offer
from tests.conformance.servers import PROGRAMS, ROOT, serving

from .support import EARLIER, NODE, PATIENCE

pytestmark = pytest.mark.border

FIXTURE: Final = PROGRAMS["fixture"]
CLIENTS: Final = Path(__file__).with_name("clients")

# Each client as a command, and the version of MCP that it ends up with.
WHOSE: Final = {
    "python-1": ((str(EARLIER), str(CLIENTS / "earlier.py")), "2025-11-25"),
    "python-2-legacy": (
        (sys.executable, str(CLIENTS / "current.py"), "legacy"),
        "2025-11-25",
    ),
    "python-2": ((sys.executable, str(CLIENTS / "current.py"), "auto"), "2026-07-28"),
    "typescript-1": ((str(NODE), str(CLIENTS / "typescript.mjs")), "2025-11-25"),
}
# Each of them with one of both transports; the others are long.
NOW: Final = {
    ("python-1", "stdio"),
    ("python-2-legacy", "stdio"),
    ("python-2", "http"),
    ("typescript-1", "stdio"),
}


async def seen_by(command: Sequence[str]) -> dict[str, Any]:
    """What a client says that it saw."""
    with trio.fail_after(PATIENCE):
        done = await trio.run_process(
            list(command),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=ROOT,
        )
    assert not done.returncode, done.stderr.decode()[-4000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.mark.parametrize(
    ("whose", "transport"),
    [
        pair if pair in NOW else pytest.param(*pair, marks=pytest.mark.long)
        for pair in product(WHOSE, ("stdio", "http"))
    ],
)
async def test_a_client_finds_everything_and_what_it_cancels_ends(
    whose: str, transport: str
) -> None:
    # F1, F8
    command, version = WHOSE[whose]
    if transport == "stdio":
        seen = await seen_by([*command, "stdio", *FIXTURE])
    else:
        async with serving(*FIXTURE) as server:
            seen = await seen_by([*command, "http", server.url])
        assert server.process.returncode == 0
    # One SDK hears of a step no more once the answer is there.
    assert seen.pop("progress")[:2] == [0, 50]
    async with open_offer(argparse.Namespace()) as offer:
        assert seen.pop("tools") == len(offer.tools)
    assert seen == {
        "version": version,
        "image": "image/png",
        "refused": [True, "This tool intentionally returns an error for testing"],
        "asked": "somebody",
        "read": "7",
        "resources": 3,
        "prompt": "Prompt with arguments: arg1='a', arg2='b'",
        "told": "test://watched-resource",
        "reread": "changed 1 times",
        "cancelled": "mine: cancelled",
    }
