"""``glyphoxa mcp approve``: look at a tool that is held back, and let it be used."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from glyphoxa_trio.control import ask

from .common import run_orderly
from .render import on_screen
from .status import the_one
from .tools import wide_console


def approve(tool: str, *, pid: int | None, yes: bool) -> int:
    """Show the tool as it is now, ask, and approve that; 1 if it is not approved."""

    async def main() -> int:
        address = the_one(pid)
        console = wide_console()
        found = (await ask(address, {"do": "tool", "tool": tool}))["tool"]
        for line in described(found):
            console.print(on_screen(line), markup=False, soft_wrap=True)
        if not found["held"]:
            console.print("it is not held back", markup=False)
            return 1
        if not (yes or _agreed()):
            console.print("not approved", markup=False)
            return 1
        # What was looked at, and not what its server has made of it since.
        seen = {"do": "approve", "tool": tool, "seen": found["fingerprint"]}
        await ask(address, seen)
        console.print("approved as it is now", markup=False)
        return 0

    return run_orderly(main)


def described(found: Mapping[str, Any]) -> list[str]:
    """What a model reads of a tool, as lines."""
    description = str(found["description"]).splitlines() or ["(no description)"]
    schema = json.dumps(found["parameters"], ensure_ascii=False, indent=2)
    return [
        f"{found['tool']}:",
        *(f"  {line}" for line in description),
        *(f"  {line}" for line in schema.splitlines()),
    ]


def _agreed() -> bool:
    """Whether a person says yes; nobody there is a no."""
    if not sys.stdin.isatty():
        return False
    sys.stdout.write("approve it as it is? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
