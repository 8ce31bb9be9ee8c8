"""What an HTTP answer means for the call that got it, said as a JSON-RPC error.

Three questions decide: was the request run, is the session still good, and when
may it be tried again. Status codes alone do not answer them: a proxy may say 503
of a server that broke off, a server may say 200 with a page to log in.
"""

from __future__ import annotations

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

# Outside of every range that JSON-RPC or MCP gives a meaning.
NEVER_SENT: Final = -33001  # there is no server
FORGOTTEN: Final = -33005  # there is, and it has forgotten our session
REFUSED: Final = -33002  # it answered, and did not run the request
BROKEN: Final = -33003  # it may have run the request
BUSY: Final = -33004  # it did not run it now, and will later

_RETRY_AFTER: Final = "retry_after"  # in the data of BUSY: seconds, or None

_CUT: Final = 200
_CLOSED: Final = -32000  # MCP's CONNECTION_CLOSED, and a server's own first code
_TIMED_OUT: Final = 408
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_KEEPS_METHOD: Final = (307, 308)

# How servers say that they have forgotten a session, when they do not say 404.
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
    """The answer to a POST, or a JSON-RPC error that says what it means.

    Whatever its size was, what is returned may be read on the loop.

    Raises:
      httpx2.TransportError: if it breaks off before its end.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    status, line = response.status_code, clean(_line(response))
    if kind == "text/event-stream" and status < 300:
        # The SDK reads it, and resumes it where that is possible.
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
    if not bounds.is_small(large):
        if asked is not None and status < 400:
            return await _small(request, response, large, condenser, asked)
        large.clear()  # nobody waits for it, or its status says enough
    body = bytes(large)
    if status >= 400:
        return _refusal(request, response, body, line, clean)
    if not is_json:
        kind = kind if re.fullmatch(r"[\w.+/-]{1,80}", kind) else "nothing"
        return failure(request, BROKEN, f"{line}, with {kind} for an answer")
    message = read(body)
    if isinstance(message, str):
        if _parsed(body) is None:
            return failure(request, BROKEN, "its answer is no JSON, or not all of it")
        return failure(request, PARSE_ERROR, f"its answer is not usable: {message}")
    return _read(request, response, body)


async def _small(
    request: httpx2.Request,
    response: httpx2.Response,
    body: bytearray,
    condenser: Condenser,
    asked: PendingRequest,
) -> httpx2.Response:
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
    """The same stream, each of its events small enough for the loop."""
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
    """An answer of 400 and above: the server's own error, or what it means."""
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
        # A proxy may say 503 of a server that broke off; who is busy says how long.
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
            # TypeScript servers say it of what they refuse; for the SDK it is the
            # end of a stream, and for a call an effect that nobody knows.
            said = clean(str(error.get("message")))[:_CUT]
            return failure(request, REFUSED, f"{line}: {said}")
        return _read(request, response, body)
    return failure(request, REFUSED if not_run else BROKEN, line)


def failure(
    request: httpx2.Request, code: int, text: str, data: Any = None
) -> httpx2.Response:
    """An answer that no server gave: a JSON-RPC error with one of our codes."""
    error = {"code": code, "message": text} | ({} if data is None else {"data": data})
    return httpx2.Response(
        503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request
    )


def retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds from now, of a ``Retry-After`` in seconds or as a date.

    A date is compared with the server's own ``Date``: its clock need not be ours.
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
    except (ValueError, TypeError):  # also a date without its zone
        return None


def wait_of(data: object) -> float | None:
    """Seconds to wait, from the data of a BUSY; None if the server did not say."""
    wait = data.get(_RETRY_AFTER) if isinstance(data, dict) else None
    return wait if isinstance(wait, float) else None


async def whole(response: httpx2.Response, largest: int) -> bytes | None:
    """The body of an answer, or None if it is longer than so many bytes."""
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
    """The same answer, with its body already here."""
    return httpx2.Response(
        response.status_code,
        headers=_headers(response),
        content=body,
        request=request,
    )


def _headers(response: httpx2.Response) -> list[tuple[str, str]]:
    """All but those that are about how the body came."""
    came = ("content-encoding", "content-length", "transfer-encoding")
    return [
        (name, value)
        for name, value in response.headers.multi_items()
        if name not in came
    ]


def _leads_away(request: httpx2.Request, response: httpx2.Response) -> str | None:
    """Why the SDK will not follow a redirect; None if it will."""
    follow = response.next_request
    if follow is None:
        return "it redirects to no address"
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
    """Whether a POST was a request, not a notification or an answer of ours."""
    message = _parsed(await request.aread())
    return isinstance(message, dict) and "id" in message and "method" in message


def _parsed(body: bytes) -> Any:
    """The JSON in ``body``; None if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _line(response: httpx2.Response) -> str:
    return f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
