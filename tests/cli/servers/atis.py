"""A server on the protocol's SDK with one tool, which takes a while and says nothing of
how long.

    python atis.py SECONDS CALLS

Each call is a line of the file CALLS.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer

seconds, calls = float(sys.argv[1]), sys.argv[2]
server: MCPServer[Any] = MCPServer("aviation-atis", log_level="ERROR")


@server.tool()
async def get_atis(icao: str) -> dict[str, Any]:
    """The weather of an aerodrome."""
    async with await anyio.open_file(calls, "a") as file:
        await file.write(f"{icao}\n")
    await anyio.sleep(seconds)
    return {"icao": icao, "atis_text": f"{icao} information Quebec."}


@server.tool(name="Lookup-Customer")
async def lookup_customer(phone: str) -> dict[str, str]:
    """The customer of a number."""
    return {"name": "Ann"}


server.run()
