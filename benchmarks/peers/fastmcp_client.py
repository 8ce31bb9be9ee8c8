"""FastMCP's `Client`, with its own timeout for each call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from benchmarks.peers.measure import LIMIT, EachByItself, measure, text_of


class FastMcp(EachByItself):
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        answer = await self.client.call_tool(name, arguments)
        return text_of(answer)

    async def limited(self, name: str, arguments: dict[str, Any]) -> str | None:
        try:
            answer = await self.client.call_tool(name, arguments, timeout=LIMIT)
        except Exception:  # its timeout is one of several kinds of error
            return None
        return text_of(answer)


async def main(calls: int) -> None:
    server = str(Path(__file__).with_name("server.py"))
    async with Client(StdioTransport(sys.executable, [server])) as client:
        await measure(FastMcp(client), calls)


anyio.run(main, int(sys.argv[1]))
