"""Helpers of the tests of this folder: specs of the peers, and a runtime to use them.

Each test has an absolute end, and `at_the_table` itself sees to it that no
process of a server outlives the runtime.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.config import (
    CalibrationConfig,
    Config,
    McpConfig,
    OverloadConfig,
    RestartConfig,
    ServerSpec,
)
from glyphoxa_trio.mcp import ServerStatus, ServerWarning
from glyphoxa_trio.runtime import Runtime, open_runtime
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.outcome import Outcome

MODULES: Final = Path(__file__).with_name("node_modules")
NODE: Final = MODULES / ".bin" / "node"
# A Python with the SDK of the major before ours.
EARLIER: Final = Path(__file__).with_name(".python") / "bin" / "python"
AIMOCK: Final = MODULES / "@copilotkit" / "aimock" / "dist" / "cli.js"

# Seconds: generous, because they only catch what hangs.
PATIENCE: Final = 60.0
_START: Final = 30.0

QUICKLY: Final = RestartConfig(backoff=0.05, max_restarts=50)


def entry(package: str) -> str:
    return str(MODULES / "@modelcontextprotocol" / package / "dist" / "index.js")


def node_peer(
    name: str, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> ServerSpec:
    """A server from npm, under the Node that is pinned with it."""
    return _stdio(name, (str(NODE), entry(f"server-{name}"), *arguments), env, options)


def python_peer(
    name: str, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> ServerSpec:
    """A server from the Python package index, in this environment."""
    program = Path(sys.executable).parent / f"mcp-server-{name}"
    return _stdio(name, (str(program), *arguments), env, options)


def _stdio(
    name: str,
    command: tuple[str, ...],
    env: Mapping[str, str] | None,
    options: Mapping[str, Any],
) -> ServerSpec:
    return ServerSpec(
        **{
            "name": name,
            "command": command,
            "env": {key: Secret(value) for key, value in (env or {}).items()},
            "restart": QUICKLY,
            "start_timeout": _START,
            **options,
        }
    )


@attrs.define(eq=False)
class Table:
    """A runtime with peers, and what it warned of."""

    runtime: Runtime
    warnings: list[ServerWarning]

    async def call(self, tool: str, /, **arguments: Any) -> Outcome:
        """One call, as a host makes it; the ceiling is that of a deep turn."""
        return await self.runtime.host.execute(tool, arguments)

    async def answer(self, tool: str, /, **arguments: Any) -> Any:
        """What a call that must not fail brought."""
        outcome = await self.call(tool, **arguments)
        assert outcome.ok, outcome
        return outcome.data

    def server(self, name: str) -> ServerStatus:
        return next(row for row in self.runtime.servers() if row.name == name)

    def tools(self, server: str) -> dict[str, ToolDefinition]:
        return {
            listing.definition.name: listing.definition
            for listing in self.runtime.host.snapshot.listings
            if listing.definition.group == server
        }


@asynccontextmanager
async def at_the_table(*specs: ServerSpec) -> AsyncGenerator[Table]:
    """A runtime with these servers, all of them ready; afterwards none is left."""
    config = Config(
        # A probe would be one more call, and some tests count what there is.
        calibration=CalibrationConfig(at_start=False),
        mcp=McpConfig(servers=specs, remember=False),
        # It looks how late the loop is, and some tests wait for a loop that rests.
        overload=OverloadConfig(enabled=False),
    )
    warnings: list[ServerWarning] = []
    pids: set[int] = set()
    with trio.fail_after(PATIENCE):
        async with open_runtime(
            config, wait_for_servers=_START, on_warning=warnings.append
        ) as runtime:
            assert await runtime.wait_ready(within=0), (runtime.servers(), warnings)
            pids |= pids_of(runtime)
            try:
                yield Table(runtime, warnings)
            finally:
                pids |= pids_of(runtime)
    left = [pid for pid in pids if group_is_there(pid)]
    assert not left, "processes of a server outlived the runtime"


def pids_of(runtime: Runtime) -> set[int]:
    return {row.pid for row in runtime.servers() if row.pid is not None}


def group_is_there(leader: int) -> bool:
    """Whether a process of the group is there: the server, or a child of it."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True
