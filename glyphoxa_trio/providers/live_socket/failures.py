"""What the end of a WebSocket means, as `LinkClosed`: one table per source.

A server's own words are quoted on one line, without the key; they tell more than
a code, which vendors choose freely.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Final

from trio_websocket import ConnectionClosed

from glyphoxa_trio.providers.failures import excerpt, status_error
from glyphoxa_trio.providers.live_wire import RETRYABLE
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.secret import Secret

_BY_CODE: Final[Mapping[int, ErrorKind]] = {
    1000: ErrorKind.INTERRUPTED,
    1001: ErrorKind.INTERRUPTED,  # going away: expired, or shut down
    1002: ErrorKind.MALFORMED,
    1003: ErrorKind.BAD_REQUEST,
    1005: ErrorKind.INTERRUPTED,  # closed without a code
    1006: ErrorKind.INTERRUPTED,  # no closing at all
    1007: ErrorKind.BAD_REQUEST,  # invalid argument, says Gemini
    1008: ErrorKind.BAD_REQUEST,  # policy
    1009: ErrorKind.BAD_REQUEST,  # too large, for them or for us
    1011: ErrorKind.OVERLOADED,
    1012: ErrorKind.OVERLOADED,  # restarts
    1013: ErrorKind.OVERLOADED,  # try again later
    1014: ErrorKind.OVERLOADED,  # bad gateway
    3000: ErrorKind.AUTHENTICATION,
    3003: ErrorKind.AUTHENTICATION,
    3008: ErrorKind.INTERRUPTED,  # timeout
}

_BY_WORD: Final = (
    (r"quota|rate.?limit|resource.{0,12}exhausted|billing", ErrorKind.RATE_LIMITED),
    (
        r"api.?key|unauthori[sz]ed|unauthenticated|permission|credential",
        ErrorKind.AUTHENTICATION,
    ),
)


def on_close(
    code: int | None, reason: str | None, secret: Secret | None = None
) -> LinkClosed:
    """The server has closed, or the socket broke: ``code`` None says no more."""
    kind = ErrorKind.MALFORMED if code is None else _BY_CODE.get(code)
    if code not in (1000, 1001):
        kind = _kind_by_words(reason or "") or kind
    kind = kind or ErrorKind.BAD_REQUEST
    words = excerpt(reason or "", secret)
    if code is None:
        detail = "the server does not speak WebSocket correctly"
    elif code == 1006:
        detail = "the connection broke"
    else:
        detail = f"closed with {code}" + (f": {words}" if words else "")
    return LinkClosed(kind, detail, retryable=kind in RETRYABLE, code=code)


def on_closed(closed: ConnectionClosed, secret: Secret | None = None) -> LinkClosed:
    """The same, as trio-websocket says it."""
    reason = closed.reason
    if reason is None:
        return on_close(None, None)
    return on_close(reason.code, reason.reason, secret)


def on_rejection(
    status: int,
    headers: Mapping[str, str],
    body: str,
    secret: Secret | None = None,
) -> LinkClosed:
    """An HTTP answer in place of the upgrade. ``headers`` are in lower case."""
    if status < 300:
        detail = f"HTTP {status} in place of a WebSocket"
        return LinkClosed(ErrorKind.NOT_FOUND, detail, retryable=False)
    error = status_error(status, headers, body, secret)
    return LinkClosed(
        error.kind,
        error.detail,
        # A 402 says that nothing works until somebody has paid.
        retryable=error.kind in RETRYABLE and status != 402,
        retry_after=error.retry_after,
    )


def on_dialling(error: Exception, place: str) -> LinkClosed:
    """No connection to ``place``: no such host, nobody there, or not to be trusted."""
    cause = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        detail = f"{place}: its certificate does not hold: {cause.verify_message}"
        return LinkClosed(ErrorKind.UNREACHABLE, excerpt(detail), retryable=False)
    while isinstance(cause.__cause__, OSError):  # trio sums up several attempts
        cause = cause.__cause__
    words = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return LinkClosed(
        ErrorKind.UNREACHABLE, excerpt(f"{place}: {words}"), retryable=True
    )


def _kind_by_words(reason: str) -> ErrorKind | None:
    for pattern, kind in _BY_WORD:
        if re.search(pattern, reason[:1000], re.IGNORECASE):
            return kind
    return None
