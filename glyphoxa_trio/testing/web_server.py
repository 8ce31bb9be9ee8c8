"""A scripted MCP server on the web: real HTTP on loopback, good or bad by request.

    def script(request: Request) -> Reply | None:
        if request.called == "tools/call":
            return Status(429, {"Retry-After": "2"})
        return None

    async with open_mcp_server(script) as server:
        spec = ServerSpec(name="web", url=server.url)
        ...
    assert server.calls == ["server/discover", "tools/list", "tools/call"]

A script sees each request and answers it, or leaves it to the server by returning None.
By itself the server does the handshake, in the protocol version asked for, lists its
tools, and answers every call with the text ``<tool> says hello``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from .http_server import CloseConnection as CloseConnection
from .http_server import EventStreamReply as EventStreamReply
from .http_server import HttpServer, open_http_server
from .http_server import LateReply as LateReply
from .http_server import NoAnswer as NoAnswer
from .http_server import RawBytes as RawBytes
from .http_server import ReceivedRequest as ReceivedRequest
from .http_server import Reply as Reply
from .http_server import StatusReply as StatusReply

Script = Callable[[ReceivedRequest], Reply | None]


def result(request: ReceivedRequest, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON-RPC answer to ``request``."""
    return {"jsonrpc": "2.0", "id": request.message.get("id"), "result": value}


def error(request: ReceivedRequest, code: int, message: str) -> dict[str, Any]:
    """Return the JSON-RPC error for ``request``."""
    why = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": request.message.get("id"), "error": why}


_TOOLS: Final = (
    {"name": "greet", "inputSchema": {"type": "object"}, "description": "Says hello."},
)


@attrs.define(eq=False)
class McpServer:
    """A scripted MCP server: its address, and its HTTP server."""

    http: HttpServer
    path: str

    @property
    def url(self) -> str:
        return self.http.origin + self.path

    @property
    def calls(self) -> list[str]:
        """The `ReceivedRequest.called` of each request so far."""
        return [request.called for request in self.http.requests]


@asynccontextmanager
async def open_mcp_server(
    script: Script | None = None,
    *,
    old: bool = False,
    path: str = "/mcp",
    tools: Sequence[Mapping[str, Any]] = _TOOLS,
) -> AsyncIterator[McpServer]:
    """Serve MCP at ``path`` and below, by ``script`` where that answers.

    Args:
      old: speak the protocol of 2025-11-25, with a session; else that of 2026-07-28.
    """

    def answer(request: ReceivedRequest) -> Reply:
        reply = script(request) if script is not None else None
        if reply is not None:
            return reply
        if request.path != path and not request.path.startswith(f"{path}/"):
            return StatusReply(404)
        return _old(request, tools) if old else _new(request, tools)

    async with open_http_server(answer) as server:
        yield McpServer(server, path)


def _new(request: ReceivedRequest, tools: Sequence[Mapping[str, Any]]) -> Reply:
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    match request.called:
        case "server/discover":
            value: dict[str, Any] = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
        case "tools/list":
            value = {"tools": list(tools)}
        case "tools/call":
            value = _hello(request)
        case _:
            return StatusReply(404, body=error(request, -32601, "no such method"))
    return StatusReply(200, body=result(request, value | more))


def _old(request: ReceivedRequest, tools: Sequence[Mapping[str, Any]]) -> Reply:
    match request.called:
        case "GET":
            return EventStreamReply((), "stay")
        case "DELETE":
            return StatusReply(204)
        case "initialize":
            value: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
            session = {"Mcp-Session-Id": "scripted-session"}
            return StatusReply(200, session, result(request, value))
        case "tools/list":
            value = {"tools": list(tools)}
        case "tools/call":
            value = _hello(request)
        case "ping":
            value = {}
        case "server/discover":
            return StatusReply(400)
        case _ if "id" not in request.message:
            return StatusReply(202)
        case _:
            return StatusReply(200, body=error(request, -32601, "no such method"))
    return StatusReply(200, body=result(request, value))


def _hello(request: ReceivedRequest) -> dict[str, Any]:
    name = request.message.get("params", {}).get("name")
    return {"content": [{"type": "text", "text": f"{name} says hello"}]}
