"""pydantic-ai's `MCPToolset`, called directly; its timeout is the toolset's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset

from benchmarks.peers.measure import LIMIT, EachByItself, measure


class PydanticAi(EachByItself):
    """Two toolsets with a server each: one limits its calls, the other does not."""

    def __init__(self, patient: MCPToolset, limited: MCPToolset) -> None:
        self.patient, self.impatient = patient, limited

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        toolset = self.impatient if name == "cancelled" else self.patient
        return str(await toolset.direct_call_tool(name, arguments))

    async def limited(self, name: str, arguments: dict[str, Any]) -> str | None:
        try:
            return str(await self.impatient.direct_call_tool(name, arguments))
        except Exception:  # a timeout is told to the model as a reason to try again
            return None


def toolset(**limits: float) -> MCPToolset:
    server = str(Path(__file__).with_name("server.py"))
    return MCPToolset(StdioTransport(sys.executable, [server]), **limits)


async def main(calls: int) -> None:
    async with toolset() as patient, toolset(read_timeout=LIMIT) as limited:
        await measure(PydanticAi(patient, limited), calls)


anyio.run(main, int(sys.argv[1]))
