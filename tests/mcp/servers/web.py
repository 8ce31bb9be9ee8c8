"""A server on the SDK over streamable HTTP, on loopback.

    python web.py [PORT]

Writes its port to stdout, then a line for every request: method, path,
authorization, and a header of the operator's. The same server is at ``/mcp``,
and at ``/old/mcp``, where it knows only the protocol family of 2025-11-25.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

server: MCPServer[Any] = MCPServer("web", log_level="ERROR")


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def echo(text: str) -> str:
    return text


@server.tool()
async def hang() -> str:
    say("hanging")
    try:
        await anyio.sleep(3600)
    except BaseException:
        say("cancelled")
        raise
    return "never"


@server.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    async def grown() -> str:
        return "grown"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    return "done"


app = server.streamable_http_app()


async def front(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        await app(scope, receive, send)
        return
    headers = {key.decode(): value.decode() for key, value in scope["headers"]}
    seen = (headers.get("authorization", "-"), headers.get("x-table", "-"))
    say(scope["method"], scope["path"], *seen)
    if scope["path"].startswith("/old"):
        if headers.get("mcp-method") == "server/discover":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"what?"})
            return
        path = scope["path"].removeprefix("/old")
        scope = {**scope, "path": path, "raw_path": path.encode()}
    await app(scope, receive, send)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", int((sys.argv[1:] or ["0"])[0])))
    config = uvicorn.Config(front, log_level="error", timeout_graceful_shutdown=0)
    say(str(listener.getsockname()[1]))
    uvicorn.Server(config).run(sockets=[listener])


main()
