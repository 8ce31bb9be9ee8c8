"""A server on the SDK over streamable HTTP, on loopback.

    python web.py [PORT [ISSUER]]

Writes its port to stdout, then a line for every request: method, path,
authorization, and a header of the operator's. The same server is at ``/mcp``,
and at ``/old/mcp``, where it knows only the protocol family of 2025-11-25.

With the address of an issuer it wants tokens from there, made for it and good for
the scope ``tools``, and asks the issuer about each.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import anyio
import httpx2
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from pydantic import AnyHttpUrl

listener = socket.create_server(("127.0.0.1", int((sys.argv[1:] or ["0"])[0])))
port = listener.getsockname()[1]


class Issuer:
    """Whoever knows what a token is good for."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def verify_token(self, token: str) -> AccessToken | None:
        async with httpx2.AsyncClient() as client:
            where = f"{self.address}/introspect"
            known = (await client.post(where, data={"token": token})).json()
        if not known["active"]:
            return None
        return AccessToken(
            token=token,
            client_id=known["client_id"],
            scopes=known["scope"].split(),
            resource=known["aud"],
        )


def guard() -> dict[str, Any]:
    if not sys.argv[2:]:
        return {}
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(sys.argv[2]),
        resource_server_url=AnyHttpUrl(f"http://127.0.0.1:{port}/mcp"),
        required_scopes=["tools"],
        validate_token_resource=True,
    )
    return {"auth": settings, "token_verifier": Issuer(sys.argv[2])}


server: MCPServer[Any] = MCPServer("web", log_level="ERROR", **guard())


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


@server.resource("shelf://herbal")
async def herbal() -> str:
    return "Mugwort."


@server.resource("shelf://{name}/page")
async def page_of(name: str) -> str:
    return name


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
    config = uvicorn.Config(front, log_level="error", timeout_graceful_shutdown=0)
    say(str(port))
    uvicorn.Server(config).run(sockets=[listener])


main()
