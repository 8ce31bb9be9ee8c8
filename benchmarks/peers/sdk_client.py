"""The raw SDK: `ClientSession`, with its own timeout for each call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from benchmarks.peers.measure import LIMIT, EachByItself, measure, text_of


class Sdk(EachByItself):
    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        answer = await self.session.call_tool(name, arguments)
        return text_of(answer)

    async def limited(self, name: str, arguments: dict[str, Any]) -> str | None:
        try:
            answer = await self.session.call_tool(
                name, arguments, read_timeout_seconds=LIMIT
            )
        except MCPError:
            return None
        return text_of(answer)


async def main(calls: int) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=[str(Path(__file__).with_name("server.py"))]
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.list_tools()
        await measure(Sdk(session), calls)


anyio.run(main, int(sys.argv[1]))
