"""The official suite as a program: its scenarios, and what it writes down."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

import trio

MODULES: Final = Path(__file__).parents[1] / "peers" / "node_modules"
NODE: Final = MODULES / ".bin" / "node"

_OFFERED: Final = re.compile(r"^ +- (\S+)(?: \[(.*)\])?", re.MULTILINE)


@attrs.frozen
class Offered:
    """A scenario, and the revisions of the protocol that it is for."""

    name: str
    revisions: Sequence[str]

    @property
    def extension(self) -> bool:
        """It is for none, but for an extension of the protocol."""
        return list(self.revisions) == ["extension"]


async def conformance(
    package: str, *words: str, within: float
) -> subprocess.CompletedProcess[bytes]:
    """Run the suite of a package, for so many seconds at most."""
    entry = MODULES / package / "dist" / "index.js"
    with trio.fail_after(within):
        return await trio.run_process(
            [str(NODE), str(entry), *words],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )


async def offered(package: str, side: str) -> list[Offered]:
    """The scenarios for one side, ``client`` or ``server``."""
    done = await conformance(package, "list", f"--{side}", within=60)
    return [
        Offered(name, revisions.split(","))
        for name, revisions in _OFFERED.findall(done.stdout.decode())
    ]
