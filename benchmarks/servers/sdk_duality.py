"""The Duality dice on the SDK's own high-level server, as its documentation writes one.

    python benchmarks/servers/sdk_duality.py

The rules behind it are those behind ours: what differs is the server.
"""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer

import trio

from glyphoxa_trio.builtin import duality

server = MCPServer("duality")
(roll,) = [
    tool for tool in duality.tools() if tool.definition.name == "duality_action_roll"
]


@server.tool()
async def duality_action_roll(
    modifier: int = 0, difficulty: int | None = None
) -> dict[str, Any]:
    """Roll the Duality dice, Hope and Fear, and get the outcome of the action."""
    said: dict[str, Any] = await roll(modifier, difficulty)
    return said


if __name__ == "__main__":
    trio.run(server.run_stdio_async)
