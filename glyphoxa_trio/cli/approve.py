"""``glyphoxa mcp approve``: look at a tool that may not be used, and let it be used.

In a program that runs, or, with a configuration, without one.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from glyphoxa_trio.config import Config, ConfigError
from glyphoxa_trio.config.memory import OFF
from glyphoxa_trio.control import ask
from glyphoxa_trio.control.admin_socket import AdminSocket
from glyphoxa_trio.runtime import open_runtime
from glyphoxa_trio.runtime.looking import looked_lines

from .common import WAIT, Model, run, run_orderly, without_calibration
from .console import say, wide_console
from .grids import GOOD, HELD
from .status import the_one
from .terminal import InputLines


def approve(tool: str, *, pid: int | None, yes: bool) -> int:
    """Show the tool as it is now, ask, and approve that; 1 if it is not approved.

    Args:
      yes: without asking.
    """

    async def main() -> int:
        address = the_one(pid)

        async def put(request: Mapping[str, Any]) -> Mapping[str, Any]:
            return await ask(address, request)

        return await _approve(tool, put, yes=yes)

    return run_orderly(main)


def approve_in(tool: str, path: Path, *, yes: bool) -> int:
    """As `approve`, if no program runs: start the servers, ask, and keep the answer."""

    async def main(config: Config) -> int:
        if not config.mcp.remember:
            raise ConfigError("approvals are not kept: set mcp.remember @ mcp.remember")
        async with open_runtime(
            without_calibration(config), wait_for_servers=0.0, memory=OFF
        ) as runtime:
            await runtime.wait_ready(within=WAIT)
            desk = AdminSocket(runtime)

            async def put(request: Mapping[str, Any]) -> Mapping[str, Any]:
                return desk.put(request)

            return await _approve(tool, put, yes=yes)

    return run(main, path, Model())


async def _approve(
    tool: str,
    put: Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]],
    *,
    yes: bool,
) -> int:
    console = wide_console()
    found = (await put({"do": "tool", "tool": tool}))["tool"]
    for line in looked_lines(found):
        say(console, line)
    if not (found["held"] or found["waits"]):
        say(console, "it is not held back")
        return 1
    if not (yes or await _agreed()):
        say(console, "not approved", HELD)
        return 1
    # Approve the tool that was shown, not what its server may have made of it since.
    await put({"do": "approve", "tool": tool, "seen": found["fingerprint"]})
    say(console, "approved as it is now", GOOD)
    return 0


async def _agreed() -> bool:
    """Return true if a person says yes. Without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    sys.stdout.write("approve it as it is? [y/N] ")
    sys.stdout.flush()
    return (await InputLines().next() or "").lower() in ("y", "yes")
