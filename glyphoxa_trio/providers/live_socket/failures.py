"""Convert the end of a WebSocket to `LinkClosed`: one table per source.

A server's own words are quoted on one line, without the key; they say more than the
code, which vendors choose freely.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Final

from trio_websocket import ConnectionClosed

from glyphoxa_trio.certificates import CertificatesUnreadable
from glyphoxa_trio.providers.failures import excerpt, status_error
from glyphoxa_trio.providers.live_wire import RETRYABLE
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.secret import Secret

_BY_CODE: Final[Mapping[int, ErrorKind]] = {
    1000: ErrorKind.INTERRUPTED,
    1001: ErrorKind.INTERRUPTED,  # the server is going away: expired, or shut down
    1002: ErrorKind.MALFORMED,
    1003: ErrorKind.BAD_REQUEST,
    1005: ErrorKind.INTERRUPTED,  # closed without a code
    1006: ErrorKind.INTERRUPTED,  # broken, without a closing handshake
    1007: ErrorKind.BAD_REQUEST,  # Gemini's invalid argument
    1008: ErrorKind.BAD_REQUEST,  # policy
    1009: ErrorKind.BAD_REQUEST,  # a message is too large, for the server or for us
    1011: ErrorKind.OVERLOADED,
    1012: ErrorKind.OVERLOADED,  # the server restarts
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
    """Convert a close code. ``code`` None means a violation of the protocol."""
    kind = ErrorKind.MALFORMED if code is None else _BY_CODE.get(code)
    if code not in (1000, 1001):
        kind = _kind_by_words(reason or "") or kind
    kind = kind or ErrorKind.BAD_REQUEST
    words = excerpt(reason or "", secret)
    if code is None:
        detail = "the server violates the WebSocket protocol"
    elif code == 1006:
        detail = "the connection broke"
    else:
        detail = f"closed with {code}" + (f": {words}" if words else "")
    return LinkClosed(kind, detail, retryable=kind in RETRYABLE, code=code)


def on_closed(closed: ConnectionClosed, secret: Secret | None = None) -> LinkClosed:
    """Convert trio-websocket's error about a closed socket."""
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
    """Convert an HTTP response instead of the upgrade.

    Names in ``headers`` are in lower case.
    """
    if status < 300:
        detail = f"HTTP {status} instead of a WebSocket"
        return LinkClosed(ErrorKind.NOT_FOUND, detail, retryable=False)
    error = status_error(status, headers, body, secret)
    return LinkClosed(
        error.kind,
        error.detail,
        # After a 402 nothing works until the account is paid for.
        retryable=error.kind in RETRYABLE and status != 402,
        retry_after=error.retry_after,
    )


def on_dialling(error: Exception, place: str) -> LinkClosed:
    """Convert a failed connection to ``place``: no host, no server, or no trust."""
    if isinstance(error, CertificatesUnreadable):
        detail = excerpt(f"{place}: {error}")
        return LinkClosed(ErrorKind.UNREACHABLE, detail, retryable=False)
    cause = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        detail = f"{place}: its certificate is not valid: {cause.verify_message}"
        return LinkClosed(ErrorKind.UNREACHABLE, excerpt(detail), retryable=False)
    # Trio joins the errors of several attempts.
    while isinstance(cause.__cause__, OSError):
        cause = cause.__cause__
    words = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return LinkClosed(
        ErrorKind.UNREACHABLE, excerpt(f"{place}: {words}"), retryable=True
    )


def _kind_by_words(reason: str) -> ErrorKind | None:
    """Return the kind that a reason's words indicate."""
    for pattern, kind in _BY_WORD:
        if re.search(pattern, reason[:1000], re.IGNORECASE):
            return kind
    return None
