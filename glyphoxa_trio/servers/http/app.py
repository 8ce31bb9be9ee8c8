"""The ASGI application of a server: ``/mcp`` and ``/mcp/health``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from glyphoxa_trio.servers.definition import Changed
from glyphoxa_trio.servers.dispatch import Dispatch

from .access import RequestRefusal, read_headers, refusal
from .bridge import DispatchServer
from .gateway import Gateway
from .limits import Access, Limits
from .replies import Intake, error_body, refuse
from .sessions import Sessions, open_sessions

_ANSWERED = 1.0  # seconds for writing the answers of requests that were cancelled


@attrs.define(eq=False)
class HttpService:
    """The application at ``/mcp``: the gateway and its sessions."""

    shim: Gateway
    bridge: DispatchServer

    @property
    def sessions(self) -> Sessions:
        return self.shim.sessions

    async def drain(self) -> bool:
        """Accept no new requests, and wait for the running ones.

        Requests that have not finished within `limits.drain` are cancelled and answered
        with an error. Returns whether all had finished.
        """
        shim = self.shim
        shim.begin_nothing_new()
        self.bridge.listen.close()
        for session in shim.sessions:
            session.end_streams()
        finished = await shim.running.wait_none(shim.limits.drain)
        for session in shim.sessions:
            session.end()
        await shim.running.wait_none(_ANSWERED)
        for session in shim.sessions:
            await shim.sessions.discard(session)
        return finished


@asynccontextmanager
async def open_service(
    dispatch: Dispatch,
    version: str,
    access: Access,
    limits: Limits,
    *,
    secure: bool = False,
) -> AsyncIterator[HttpService]:
    """Open the sessions and the gateway for ``dispatch``, for use in a `HttpApp`.

    Every session has ended when the block is left.
    """
    bridge = DispatchServer(dispatch, version, listening=limits.listening)
    stateless = StreamableHTTPSessionManager(
        bridge, stateless=True, max_request_body_size=limits.body + 4096
    )
    async with AsyncExitStack() as stack:
        sessions = await stack.enter_async_context(open_sessions(bridge, limits))
        await stack.enter_async_context(stateless.run())
        resources = dispatch.offer.resources
        if resources is not None:

            def note(changed: Changed) -> None:
                sessions.note(changed)
                bridge.changes.note(changed)

            stack.enter_context(resources.changes.tap(note))
        shim = Gateway(
            sessions=sessions,
            stateless=stateless,
            access=access,
            limits=limits,
            secure=secure,
        )
        yield HttpService(shim, bridge)


@attrs.define(eq=False)
class HttpApp:
    """The routes of the server, which also answer before the service is ready."""

    service: HttpService | None = None
    access: Access | None = None  # None until it is known which clients may come in
    asgi: Starlette = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.asgi = Starlette(
            routes=[
                Route("/mcp/health", _Endpoint(self.health)),
                Route("/mcp", _Endpoint(self.serve)),
                Route("/mcp/", _Endpoint(self.serve)),
            ]
        )
        self.asgi.router.redirect_slashes = False
        self.asgi.router.default = self.nothing

    def open(self, service: HttpService) -> None:
        """Serve requests with ``service`` from now on."""
        self.service = service

    @property
    def state(self) -> str:
        if self.service is None:
            return "starting"
        return "stopping" if self.service.shim.draining else "ready"

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.service is None:
            body = error_body("the server is starting", -32603)
            await refuse(Intake(receive), send, 503, body, {"Retry-After": "1"})
        else:
            await self.service.shim(scope, receive, send)

    async def health(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = read_headers(scope["headers"])
        refused = headers if isinstance(headers, RequestRefusal) else None
        if isinstance(headers, dict) and self.access is not None:
            # A health check has no token. A web page of another origin learns nothing.
            open_to_all = attrs.evolve(self.access, tokens=())
            refused = refusal(headers, open_to_all)
        if refused is not None:
            said = error_body(refused.message)
            await refuse(Intake(receive), send, refused.status, said)
            return
        body = json.dumps({"status": self.state}).encode()
        if scope["method"] not in ("GET", "HEAD"):
            allow = {"Allow": "GET, HEAD"}
            await refuse(Intake(receive), send, 405, body, allow)
            return
        await refuse(Intake(receive), send, 200 if self.state == "ready" else 503, body)

    async def nothing(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer any other path with 404. Websocket connections are not accepted."""
        if scope["type"] == "http":
            nowhere = error_body("not found; there are /mcp and /mcp/health")
            await refuse(Intake(receive), send, 404, nowhere)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})


@attrs.frozen(eq=False)
class _Endpoint:
    """An ASGI application as an object: a route recognises one by its class."""

    _serve: Callable[[Scope, Receive, Send], Awaitable[None]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(scope, receive, send)
