"""The endpoints of the service over HTTP: what each needs, and the ASGI application.

A handler gets a `ServiceRequest` whose client has the right that its endpoint names.
Answers are JSON; an error is ``{"error": "..."}``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

import attrs
from pydantic import BaseModel, ConfigDict
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.servers.http.access import RequestRefusal, read_headers
from glyphoxa_trio.servers.http.bucket import whose
from glyphoxa_trio.servers.http.limits import Access

from .admission import ClientAdmission
from .connections import refusal_of
from .protocol import InvalidRequest, why_invalid
from .rates import ClientRates
from .refusal import Refused, code_of
from .rights import Right, ServiceClient, ServiceTokens

logger = logging.getLogger(__name__)

_MOST_BODY: Final = 64 * 1024  # bytes
_BODY_WITHIN: Final = 10.0  # seconds
_SLASH: Final = "\udc2f"  # one in a name: no path that was decoded can have this

_STATUS: Final = {
    "bad_message": 400,
    "forbidden": 403,
    "not_found": 404,
    "refused": 409,
    "changed": 409,
    "too_many": 429,
    "busy": 503,
    "failed": 500,
}

# What every answer says: it is of this moment, and no page of another origin reads it.
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def json_response(value: Any, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(json.dumps(value), status, _HEADERS, "application/json")


def error_response(code: str, why: str) -> Response:
    """Return an error; ``code`` is as in `protocol.FailedReply`."""
    return json_response({"error": why, "code": code}, _STATUS[code])


@attrs.frozen(eq=False)
class ServiceRequest:
    """A request that may come in.

    ``client``: None for one without a valid token, at an endpoint that needs nothing.
    ``path``: the values of the path's parameters.
    """

    client: ServiceClient | None
    path: dict[str, str]
    query: dict[str, str]
    headers: dict[str, str]
    receive: Receive

    def asked(self, kind: type[BaseModel]) -> Any:
        """Return the query as a ``kind``.

        Raises:
          InvalidRequest: it is none.
        """
        with why_invalid():
            return kind.model_validate_strings(self.query)

    async def body(self, kind: type[BaseModel]) -> Any:
        """Return the body as a ``kind``.

        Raises:
          InvalidRequest: it is none, too long, or does not come.
        """
        read = b""
        with trio.move_on_after(_BODY_WITHIN) as patience:
            more = True
            while more and len(read) <= _MOST_BODY:
                message = await self.receive()
                if message["type"] != "http.request":
                    raise InvalidRequest("the client has left")
                read += message.get("body", b"")
                more = message.get("more_body", False)
        if patience.cancelled_caught:
            raise InvalidRequest(f"no whole body within {_BODY_WITHIN:g} s")
        if len(read) > _MOST_BODY:
            raise InvalidRequest(f"a body has at most {_MOST_BODY // 1024} KiB")
        with why_invalid():
            return kind.model_validate_json(read or b"{}")


class EmptyBody(BaseModel):
    """No body, or an empty object."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Handler: TypeAlias = Callable[[ServiceRequest], Awaitable[Response]]


@attrs.frozen(kw_only=True)
class ServiceEndpoint:
    """One endpoint, with what its documentation says.

    ``right``: what a client needs; None means nothing, not even a token. ``session``:
    the parameter of the path that names a session, for tokens of one session.
    """

    method: str
    path: str
    right: Right | None
    summary: str
    handler: Handler
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    session: str | None = None
    answer: str = "application/json"


async def answer_of(endpoint: ServiceEndpoint, asked: ServiceRequest) -> Response:
    """Return the answer to a request that may come in; an error is an answer, too."""
    try:
        return await endpoint.handler(asked)
    except InvalidRequest as error:
        return error_response("bad_message", str(error))
    except (Refused, GlyphoxaError, ValueError) as error:
        return error_response(code_of(error), str(error) or type(error).__name__)
    except Exception:  # border: an error ends its request only
        logger.exception("%s %s failed", endpoint.method, endpoint.path)
        return error_response("failed", "an error of the service; its log has it")


class ServiceDoor(Protocol):
    """Says who the clients of endpoints are, and how often each may ask."""

    @property
    def admission(self) -> ClientAdmission: ...

    @property
    def rates(self) -> ClientRates: ...


@attrs.frozen(eq=False)
class OpenDoor:
    """The door of endpoints that need nothing."""

    admission: ClientAdmission = attrs.field(
        factory=lambda: ClientAdmission(ServiceTokens(()))
    )
    rates: ClientRates = attrs.field(factory=lambda: ClientRates(None))


@attrs.frozen(eq=False)
class _Guarded:
    """An endpoint as an ASGI application, which checks a request before its handler."""

    _endpoint: ServiceEndpoint
    _door: ServiceDoor
    _access: Access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(scope, receive)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        headers = read_headers(scope["headers"])
        refused = headers if isinstance(headers, RequestRefusal) else None
        if isinstance(headers, dict):
            refused = refusal_of(headers, self._access)
        if refused is not None or not isinstance(headers, dict):
            assert refused is not None
            return json_response({"error": refused.message}, refused.status)
        found = scope.get("path_params", {}).items()
        endpoint, path = self._endpoint, {x: y.replace(_SLASH, "/") for x, y in found}
        client = self._door.admission.client_of(headers, endpoint.method)
        if endpoint.right is not None:
            if client is None:
                return self._challenge(headers)
            session = None if endpoint.session is None else path[endpoint.session]
            if not client.may(endpoint.right, session):
                why = f"this needs the right to {endpoint.right}"
                if client.may(endpoint.right):
                    why = "this token is for another session"
                return error_response("forbidden", why)
        if endpoint.right is not None or endpoint.method != "GET":
            name = None if client is None else client.name
            address = (scope.get("client") or ("",))[0]
            wait = self._door.rates.take(name or whose(str(address)))
            if wait > 0:
                return error_response("too_many", f"wait {wait:.1f} s")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        asked = ServiceRequest(client, path, query, headers, receive)
        return await answer_of(endpoint, asked)

    def _challenge(self, headers: dict[str, str]) -> Response:
        why = 'Bearer realm="glyphoxa"'
        if "authorization" in headers:
            why += ', error="invalid_token"'
        response = json_response({"error": "a token is needed"}, 401)
        response.headers["WWW-Authenticate"] = why
        return response


def application(
    endpoints: Sequence[ServiceEndpoint], door: ServiceDoor, access: Access
) -> Starlette:
    """Return the ASGI application of these endpoints."""
    routes = [
        Route(x.path, _Guarded(x, door, access), methods=[x.method]) for x in endpoints
    ]
    app = Starlette(routes=routes, middleware=[Middleware(_Segments)])
    app.router.redirect_slashes = False
    app.router.default = _nothing
    return app


@attrs.frozen(eq=False)
class _Segments:
    """Keeps slashes apart that are part of a name, as of a session ``guild/table``.

    They come as ``%2F``, and the server has made slashes of them.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" in raw.lower():
            segments = raw.decode("ascii", "replace").split("/")
            path = "/".join(unquote(x).replace("/", _SLASH) for x in segments)
            scope = {**scope, "path": path}
        await self.app(scope, receive, send)


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer any other path."""
    if scope["type"] == "http":
        response = error_response("not_found", "not found; see /api/openapi.json")
        await response(scope, receive, send)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
