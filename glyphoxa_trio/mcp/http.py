"""The HTTP client under a streamable HTTP session: what goes wrong gets a meaning.

The SDK lets an exception of one request end every call of its session, and
tells a server that was never reached from one that broke off by the words of a
message. So this client answers in place of a server that does not: with a
JSON-RPC error whose code says what the failure means for the call (T2).

Import it lazily: it costs what HTTPX costs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import httpx2

from glyphoxa_trio.config import ServerSpec

# Outside of every range that JSON-RPC or MCP gives a meaning.
NEVER_SENT: Final = -33001  # no server, or it has forgotten our session
REFUSED: Final = -33002  # it answered, and did not run the request
BROKEN: Final = -33003  # it may have run the request

_CONNECT: Final = 5.0
_WRITE: Final = 10.0
_READ_SLACK: Final = 5.0

_TIMED_OUT: Final = 408
_BUSY: Final = 503


def open_client(spec: ServerSpec) -> httpx2.AsyncClient:
    """A client that carries the token and headers of ``spec`` on every request.

    The SDK follows redirects only within the endpoint's origin, so they go
    nowhere else. A read may take as long as a call of this server and a little;
    the streams on which a server speaks by itself may be silent for ever.
    """
    headers = {name: value.reveal() for name, value in spec.headers.items()}
    if spec.token is not None:
        headers["Authorization"] = f"Bearer {spec.token.reveal()}"
    return _Client(
        headers=headers,
        timeout=httpx2.Timeout(
            connect=min(_CONNECT, spec.start_timeout),
            read=spec.timeout + _READ_SLACK,
            write=_WRITE,
            pool=None,
        ),
        limits=httpx2.Limits(max_connections=None),
    )


class _Client(httpx2.AsyncClient):
    async def send(
        self, request: httpx2.Request, *args: Any, **options: Any
    ) -> httpx2.Response:
        if (
            request.method == "GET"
            or request.headers.get("mcp-method") == "subscriptions/listen"
        ):
            patience: Mapping[str, Any] = request.extensions.get("timeout", {})
            request.extensions = {
                **request.extensions,
                "timeout": {**patience, "read": None},
            }
        if request.method != "POST":
            return await super().send(request, *args, **options)
        try:
            response = await super().send(request, *args, **options)
            if response.status_code >= 400:
                return await _judged(request, response)
        except (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.LocalProtocolError,
            httpx2.ProxyError,
        ) as error:
            return _failure(request, NEVER_SENT, f"cannot connect: {_text(error)}")
        except httpx2.TransportError as error:
            return _failure(request, BROKEN, f"broke off: {_text(error)}")
        return response


async def _judged(
    request: httpx2.Request, response: httpx2.Response
) -> httpx2.Response:
    """An answer of 400 and above: the server's own error, or what it means."""
    status = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
    if response.status_code == 404 and "mcp-session-id" in request.headers:
        await response.aclose()
        return _failure(request, NEVER_SENT, f"{status}: the session has ended")
    kind = response.headers.get("content-type", "").lower()
    if kind.startswith("application/json"):
        body = await response.aread()
        if _is_rpc_error(body):
            return response
    await response.aclose()
    code = response.status_code
    # A proxy may say 503 of a server that broke off; who is busy says for how long.
    not_run = code < 500 and code != _TIMED_OUT
    not_run = not_run or (code == _BUSY and "retry-after" in response.headers)
    return _failure(request, REFUSED if not_run else BROKEN, status)


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict)


def _failure(request: httpx2.Request, code: int, text: str) -> httpx2.Response:
    error = {"code": code, "message": text}
    return httpx2.Response(
        503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request
    )


def _text(error: Exception) -> str:
    if isinstance(error, httpx2.LocalProtocolError):
        return "a header is not legal"  # its text would show the header (A39)
    return str(error) or type(error).__name__
