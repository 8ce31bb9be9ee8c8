"""An MCP server with one slow read, which notes each call in a file:
``python counting_server.py LEDGER``. A line has what was asked, and the process that
started the server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations


def counting(ledger: Path) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("shop")

    @server.tool(
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        meta={
            "glyphoxa/estimated_duration_ms": 400,
            "glyphoxa/cacheable_seconds": 600,
        },
    )
    async def look(at: str) -> str:
        """Look at something."""
        with ledger.open("a") as file:
            file.write(f"{at} {os.getppid()}\n")
        await anyio.sleep(0.4)
        return f"{at} is here"

    return server


if __name__ == "__main__":
    counting(Path(sys.argv[1])).run()
