"""An MCP server with a slow tool and one that writes, by the official SDK."""

from __future__ import annotations

import asyncio
import sys

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("oracle")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
async def ponder(seconds: float) -> str:
    """Ponder for so many seconds, then answer."""
    await asyncio.sleep(seconds)
    return "forty-two"


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
async def curse(name: str) -> str:
    """Curse somebody."""
    return f"{name} is cursed"


sys.stderr.write("the oracle wakes\n")
server.run()
