"""What goes wrong at a model server, as `LLMError`: one table per source.

The server's own words are quoted, on one line, without the key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Final

from glyphoxa_trio.providers.abilities import kind_of_refusal
from glyphoxa_trio.providers.llm import ErrorKind, LLMError
from glyphoxa_trio.quiet import cleaned
from glyphoxa_trio.secret import Mask, Secret

MAX_EXCERPT: Final = 300  # characters

_BY_STATUS: Final[Mapping[int, ErrorKind]] = {
    401: ErrorKind.AUTHENTICATION,
    402: ErrorKind.RATE_LIMITED,  # the account is used up
    403: ErrorKind.AUTHENTICATION,
    404: ErrorKind.NOT_FOUND,
    405: ErrorKind.NOT_FOUND,
    408: ErrorKind.OVERLOADED,
    409: ErrorKind.OVERLOADED,
    410: ErrorKind.NOT_FOUND,
    429: ErrorKind.RATE_LIMITED,
}

# Inside a stream there is no status, but a type or a code in words.
_BY_WORD: Final = (
    ("auth", ErrorKind.AUTHENTICATION),
    ("billing", ErrorKind.RATE_LIMITED),
    ("permission", ErrorKind.AUTHENTICATION),
    ("rate_limit", ErrorKind.RATE_LIMITED),
    ("quota", ErrorKind.RATE_LIMITED),
    ("not_found", ErrorKind.NOT_FOUND),
    ("invalid", ErrorKind.BAD_REQUEST),
    ("context_length", ErrorKind.CONTEXT_FULL),
    ("too_large", ErrorKind.BAD_REQUEST),
    ("overloaded", ErrorKind.OVERLOADED),
    ("unavailable", ErrorKind.OVERLOADED),
    ("timeout", ErrorKind.OVERLOADED),
    ("api_error", ErrorKind.OVERLOADED),
)


def kind_of_status(status: int) -> ErrorKind:
    """Who must act on an answer that is not the stream we asked for."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status < 300:
        return ErrorKind.MALFORMED
    if status < 400:
        return ErrorKind.NOT_FOUND  # redirects are not followed
    return ErrorKind.BAD_REQUEST if status < 500 else ErrorKind.OVERLOADED


def status_error(
    status: int, headers: Mapping[str, str], body: str, secret: Secret | None = None
) -> LLMError:
    """The error of an HTTP answer. Names in ``headers`` are in lower case."""
    parsed = _parsed(body)
    kind = kind_of_status(status)
    if status < 300 and isinstance(parsed, dict) and parsed.get("error"):
        return stream_error(parsed["error"], secret)
    if 300 <= status < 400:
        words = "the server redirects; give the address it redirects to"
    elif status < 300:
        words = excerpt(f"not an event stream, but: {_page(body) or body}", secret)
        if _page(body):
            kind = ErrorKind.NOT_FOUND
    else:
        said = _words(parsed) or _page(body) or body
        words = excerpt(said, secret) or "no explanation"
        kind = kind_of_refusal(kind, body)
    return LLMError(
        kind,
        f"HTTP {status}: {words}",
        retry_after=_retry_after(headers),
        status=status,
    )


def stream_error(error: object, secret: Secret | None = None) -> LLMError:
    """The error that a server sent in the middle of an answer."""
    fields = error if isinstance(error, dict) else {}
    code = str(fields.get("code", ""))
    named = f"{fields.get('type', '')} {code}".strip().lower()
    kind = next((kind for word, kind in _BY_WORD if word in named), None)
    if re.fullmatch(r"[45]\d\d", code):
        kind = kind_of_status(int(code))
    words = excerpt(_words(error) or named, secret) or "no explanation"
    kind = kind_of_refusal(kind or ErrorKind.INTERRUPTED, f"{named} {words}")
    return LLMError(kind, words)


def status_of(body: str) -> int | None:
    """The status that an error in the body of a good answer speaks of; 400 if it does
    not say. None if the body is no error."""
    parsed = _parsed(body)
    error = parsed.get("error") if isinstance(parsed, dict) else None
    if not error:
        return None
    code = str(error.get("code", "")) if isinstance(error, dict) else ""
    return int(code) if re.fullmatch(r"[45]\d\d", code) else 400


def excerpt(text: str, secret: Secret | None = None) -> str:
    """``text`` on one line, cut, without control characters or the secret, or any
    other that the runtime has."""
    if secret is not None:  # our own is hidden however short it is
        text = text.replace(secret.reveal(), str(secret))
    text = cleaned(Mask.around(secret).text(text))[: 10 * MAX_EXCERPT]
    text = "".join(mark if mark.isprintable() else " " for mark in text)
    text = " ".join(text.split())
    return text if len(text) <= MAX_EXCERPT else text[: MAX_EXCERPT - 1] + "…"


def _page(body: str) -> str:
    """A web page in a few words: nobody reads its source. Empty if it is none."""
    if not re.match(
        r"\ufeff?\s*<(?:!doctype\s+html|html|head|body)\b", body, re.IGNORECASE
    ):
        return ""
    title = re.search(r"<(title|h1)\b[^>]{0,200}>([^<]{1,200})</", body, re.IGNORECASE)
    return "a web page" + (f" ({unescape(title[2]).strip()!r})" if title else "")


def _parsed(body: str) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _words(error: object) -> str:
    """The message of an error, wherever the server keeps it."""
    for _ in range(4):
        if isinstance(error, list) and error:
            error = error[0]  # Gemini sends a list of one
            continue
        if not isinstance(error, dict):
            break
        known = (error.get(key) for key in ("error", "message", "detail"))
        error = next((value for value in known if value), None)
    return error if isinstance(error, str) else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, as the server says. A date is read by its own clock."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            now = parsedate_to_datetime(headers.get("date", ""))
            seconds = max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
