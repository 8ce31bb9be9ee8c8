"""The Duality dice on the SDK's own high-level server, as its documentation writes one.

    python benchmarks/servers/sdk_duality.py [http]

The rules behind it are those behind ours: what differs is the server. Over HTTP it is
on hypercorn, as ours is, at a free port that it says on stderr.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from hypercorn.config import Config
from hypercorn.trio import serve
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


async def over_http() -> None:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    config.keep_alive_timeout = 60  # a turn of the other one's is longer than 5
    async with trio.open_nursery() as nursery:
        app: Any = server.streamable_http_app()
        (url,) = await nursery.start(partial(serve, app, config))
        print(f"duality at {url}/mcp", file=sys.stderr, flush=True)


if __name__ == "__main__":
    trio.run(over_http if "http" in sys.argv else server.run_stdio_async)
