"""Translate an HTTP response into the result of a call, or into a JSON-RPC error.

Three questions decide which error it is: was the request run, is the session still
good, and when may the call be retried. Status codes alone do not answer them: a proxy
sends 503 for a server that broke off, and a server may send 200 with a login page.
"""

from __future__ import annotations

import codecs
import json
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx2
from mcp_types import PARSE_ERROR

import trio

from glyphoxa_trio.quiet import Clean

from . import bounds
from .condensing import Condenser, Unasked
from .discovery import challenge_of
from .streams import (
    EventStream,
    Open,
    PendingRequest,
    TooMuch,
    gathered,
    read,
    small_answer,
    unpacked,
)

# The codes of our own errors. They lie outside of every range to which JSON-RPC or MCP
# gives a meaning.
NEVER_SENT: Final = -33001  # the server was not reached
FORGOTTEN: Final = -33005  # the server was reached, and has forgotten our session
REFUSED: Final = -33002  # the server answered, and did not run the request
BROKEN: Final = -33003  # the server may have run the request
# The server did not run the request now; it may be sent again later.
BUSY: Final = -33004

_RETRY_AFTER: Final = "retry_after"  # in the data of BUSY: seconds to wait, or None

_CUT: Final = 200
# MCP's CONNECTION_CLOSED; servers also use it as the first code of their own.
_CLOSED: Final = -32000
_TIMED_OUT: Final = 408
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_KEEPS_METHOD: Final = (307, 308)

# The phrases by which servers say that they have forgotten a session, when they do not
# send 404.
_FORGOTTEN: Final = re.compile(
    r"no (valid )?session|session\b.{0,40}\b(not found|expired|terminated|ended|closed"
    r"|invalid|unknown)|(unknown|invalid|expired) session|not initialized",
    re.IGNORECASE,
)


async def judged(
    request: httpx2.Request,
    response: httpx2.Response,
    clean: Clean,
    condenser: Condenser,
    opened: Open,
    asked: PendingRequest | None,
) -> httpx2.Response:
    """Return the response to a POST, or one with a JSON-RPC error that explains it.

    The result is always small enough to be parsed on the event loop, whatever the size
    of the original was.

    Raises:
      httpx2.TransportError: if the response breaks off before its end.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    status, line = response.status_code, clean(_line(response))
    if kind == "text/event-stream" and status < 300:
        # The SDK reads the stream, and resumes it where that is possible.
        return events(request, response, condenser, opened, asked)
    if response.has_redirect_location:
        away = _leads_away(request, response)
        if away is None:
            return response  # the SDK follows it
        await response.aclose()
        return failure(request, REFUSED, f"{line}: {clean(away)}")
    is_json = kind == "application/json"
    if not is_json and status < 400 and not await _wants_answer(request):
        return response
    try:
        large = await gathered(response, asked) if is_json else bytearray()
    except TooMuch as error:
        text = f"its answer is not usable: {error}"
        return failure(request, PARSE_ERROR if status < 400 else BROKEN, text)
    finally:
        await response.aclose()
    large = large.removeprefix(codecs.BOM_UTF8)
    if not bounds.is_small(large):
        if asked is not None and status < 400:
            return await _small(request, response, large, condenser, asked)
        large.clear()  # no request waits for it, or its status says enough
    body = bytes(large)
    if status >= 400:
        return _refusal(request, response, body, line, clean)
    if not is_json:
        kind = kind if re.fullmatch(r"[\w.+/-]{1,80}", kind) else "nothing"
        return failure(request, BROKEN, f"{line}, with {kind} instead of JSON")
    message = read(body)
    if isinstance(message, str):
        if _parsed(body) is None:
            return failure(request, BROKEN, "its answer is not JSON, or is incomplete")
        return failure(request, PARSE_ERROR, f"its answer is not usable: {message}")
    if b"[]" in body:  # which may have stood for an empty object
        body = json.dumps(message).encode()
    return _read(request, response, body)


async def _small(
    request: httpx2.Request,
    response: httpx2.Response,
    body: bytearray,
    condenser: Condenser,
    asked: PendingRequest,
) -> httpx2.Response:
    """Return a large response with a small body, condensed in a worker process."""
    try:
        message = await small_answer(condenser, asked, body)
    except Unasked:
        text = "its answer is not usable: it answers something else"
        return failure(request, PARSE_ERROR, text)
    return _read(request, response, json.dumps(message).encode())


def events(
    request: httpx2.Request,
    response: httpx2.Response,
    condenser: Condenser,
    opened: Open,
    asked: PendingRequest | None = None,
) -> httpx2.Response:
    """Return the same event stream, with each event small enough for the loop."""
    stream = EventStream(response, condenser, opened, asked)
    return httpx2.Response(
        response.status_code,
        headers=_headers(response),
        stream=stream,
        request=request,
    )


def _refusal(
    request: httpx2.Request,
    response: httpx2.Response,
    body: bytes,
    line: str,
    clean: Clean,
) -> httpx2.Response:
    """Return the error for a response of status 400 or above.

    The server's own JSON-RPC error is passed on if it sent one; otherwise the status
    decides which of our codes it gets.
    """
    status = response.status_code
    message = _parsed(body)
    error = message.get("error") if isinstance(message, dict) else None
    if "mcp-session-id" in request.headers:
        said = error.get("message") if isinstance(error, dict) else None
        if status in (404, 410) or (
            status < 500 and isinstance(said, str) and _FORGOTTEN.search(said)
        ):
            return failure(request, FORGOTTEN, f"{line}: the session has ended")
    if status == _TOO_MANY or (
        # A proxy also sends 503 for a server that broke off. A server that is busy says
        # how long to wait.
        status == _UNAVAILABLE and "retry-after" in response.headers
    ):
        wait = retry_after(response.headers)
        return failure(request, BUSY, line, data={_RETRY_AFTER: wait})
    if status in (401, 403, 407):
        challenge = challenge_of(response.headers.get("www-authenticate"))
        names = ("error", "error_description", "scope")
        why = ", ".join(challenge[name] for name in names if challenge.get(name))
        why = clean("".join(filter(str.isprintable, why)))[:_CUT]
        return failure(request, REFUSED, f"{line}: {why}" if why else line)
    not_run = status < 500 and status != _TIMED_OUT
    if isinstance(error, dict):
        if not_run and error.get("code") == _CLOSED:
            # TypeScript servers send this code for requests that they refuse. The SDK
            # would take it for a lost connection, and the effect of the call for
            # unknown.
            said = clean(str(error.get("message")))[:_CUT]
            return failure(request, REFUSED, f"{line}: {said}")
        return _read(request, response, body)
    return failure(request, REFUSED if not_run else BROKEN, line)


def failure(
    request: httpx2.Request, code: int, text: str, data: Any = None
) -> httpx2.Response:
    """Return a response of our own making: a JSON-RPC error with one of our codes."""
    error = {"code": code, "message": text} | ({} if data is None else {"data": data})
    return httpx2.Response(
        503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request
    )


def retry_after(headers: httpx2.Headers) -> float | None:
    """Return the seconds to wait of a ``Retry-After`` header.

    The header holds seconds or a date. A date is compared with the response's own
    ``Date`` header, because the server's clock may differ from ours. Returns None if
    the header is missing or cannot be read.
    """
    given = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}", given, re.ASCII):
        return float(given)
    try:
        until = parsedate_to_datetime(given)
        now = (
            parsedate_to_datetime(headers["date"])
            if "date" in headers
            else datetime.now(UTC)
        )
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError):  # also for a date without a time zone
        return None


def wait_of(data: object) -> float | None:
    """Return the seconds to wait from the data of a BUSY error; None if it has none."""
    wait = data.get(_RETRY_AFTER) if isinstance(data, dict) else None
    return wait if isinstance(wait, float) else None


async def whole(response: httpx2.Response, largest: int) -> bytes | None:
    """Return the body of a response, or None if it is longer than ``largest`` bytes."""
    body = bytearray()
    with trio.CancelScope() as enough:  # as in `gathered`
        async for piece in unpacked(response):
            body += piece
            if len(body) > largest:
                body.clear()
                enough.cancel()
    return None if enough.cancel_called else bytes(body)


def _read(
    request: httpx2.Request, response: httpx2.Response, body: bytes
) -> httpx2.Response:
    """Return the same response, with its body already read."""
    return httpx2.Response(
        response.status_code,
        headers=_headers(response),
        content=body,
        request=request,
    )


def _headers(response: httpx2.Response) -> list[tuple[str, str]]:
    """Return the headers, without those that describe how the body was transmitted."""
    came = ("content-encoding", "content-length", "transfer-encoding")
    return [
        (name, value)
        for name, value in response.headers.multi_items()
        if name not in came
    ]


def _leads_away(request: httpx2.Request, response: httpx2.Response) -> str | None:
    """Return why the SDK will not follow a redirect; None if it will."""
    follow = response.next_request
    if follow is None:
        return "it redirects without an address"
    here, there = request.url, follow.url
    upgraded = (here.scheme, there.scheme) == ("http", "https")
    stays = here.host == there.host and (
        (here.scheme, here.port) == (there.scheme, there.port)
        or (upgraded and here.port is there.port is None)
    )
    stays = stays and there.userinfo in (b"", here.userinfo)
    if stays and response.status_code in _KEEPS_METHOD:
        return None
    place = there.copy_with(userinfo=b"", query=None, fragment=None)
    return f"Redirect to {place} is not followed"


async def _wants_answer(request: httpx2.Request) -> bool:
    """Return whether a POST carries a request, not a notification or an answer."""
    message = _parsed(await request.aread())
    return isinstance(message, dict) and "id" in message and "method" in message


def _parsed(body: bytes) -> Any:
    """Return the JSON in ``body``; None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _line(response: httpx2.Response) -> str:
    """Return the status line, ``HTTP 404 Not Found``."""
    return f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
