"""Convert the errors of a model server to `LLMError`: one table per source.

The server's own words are quoted, on one line, without the key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
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
    402: ErrorKind.RATE_LIMITED,  # the account has no credit left
    403: ErrorKind.AUTHENTICATION,
    404: ErrorKind.NOT_FOUND,
    405: ErrorKind.NOT_FOUND,
    408: ErrorKind.OVERLOADED,
    409: ErrorKind.OVERLOADED,
    410: ErrorKind.NOT_FOUND,
    429: ErrorKind.RATE_LIMITED,
}

# An error inside a stream has no status, but a type or a code in words.
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


_KEY: Final = re.compile(
    r"\bkeys?\b|api_?key|credential|permission|unauthori[sz]ed|authenticat"
    r"|(?:access|auth|bearer|api)[ _]token",
    re.IGNORECASE,
)
_WRONG_KEY: Final = re.compile(
    r"API_KEY_(?:INVALID|EXPIRED)|(?:invalid|incorrect)[ _]api[ _]key"
    r"|api key (?:is )?(?:not valid|invalid|expired)",
    re.IGNORECASE,
)
# The places where refusals repeat the request: the names of such fields, and the text
# that comes before the repetition in a message (llama.cpp, vLLM).
_ECHOES: Final = frozenset(
    {"input", "ctx", "body", "messages", "request", "prompt", "flagged_input"}
)
_ECHO: Final = re.compile(r"; messages = |\binput_value=|['\"]input['\"]: ")


def kind_of_status(status: int) -> ErrorKind:
    """Return the kind of error for the status of a response that is not our stream."""
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
    """Return the error of an HTTP response. Names in ``headers`` are in lower case."""
    parsed = _parsed(body)
    kind = kind_of_status(status)
    if status < 300 and isinstance(parsed, dict) and parsed.get("error"):
        return stream_error(parsed["error"], secret)
    if 300 <= status < 400:
        words = "the server redirects; configure the address it redirects to"
    elif status < 300:
        words = excerpt(f"not an event stream, but: {_page(body) or body}", secret)
        if _page(body):
            kind = ErrorKind.NOT_FOUND
    else:
        words = excerpt(message_of(body), secret) or "no explanation"
        kind = _kind_of(status, refusal(body))
    return LLMError(
        kind,
        f"HTTP {status}: {words}",
        retry_after=_retry_after(headers),
        status=status,
    )


def stream_error(error: object, secret: Secret | None = None) -> LLMError:
    """Return the error that a server sent in the middle of an answer."""
    fields = error if isinstance(error, dict) else {}
    code = str(fields.get("code", ""))
    named = f"{fields.get('type', '')} {code}".strip().lower()
    kind = next((kind for word, kind in _BY_WORD if word in named), None)
    words = excerpt(_words(error) or named, secret) or "no explanation"
    said = f"{named} {words}"
    if re.fullmatch(r"[45]\d\d", code):
        return LLMError(_kind_of(int(code), said), words)
    return LLMError(kind_of_refusal(kind or ErrorKind.INTERRUPTED, said), words)


def status_of(body: str) -> int | None:
    """Return the status of an error in the body of a successful response.

    Returns 400 if the error names none, and None if the body is no error.
    """
    parsed = _parsed(body)
    error = parsed.get("error") if isinstance(parsed, dict) else None
    if not error:
        return None
    code = str(error.get("code", "")) if isinstance(error, dict) else ""
    return int(code) if re.fullmatch(r"[45]\d\d", code) else 400


def message_of(body: str) -> str:
    """Return the message of a refusal, for people."""
    return _words(_parsed(body)) or _page(body) or body


def refusal(body: str) -> str:
    """Return all words of a refusal, without what it repeats of the request.

    The repetition is not the server's words, and must not be judged as such.
    """
    parsed = _parsed(body)
    said = [body] if parsed is None else _said("", parsed, depth=8)
    return "\n".join(_ECHO.split(text, maxsplit=1)[0] for text in said)


def excerpt(text: str, secret: Secret | None = None) -> str:
    """Return ``text`` on one line, cut to `MAX_EXCERPT` characters.

    Control characters, ``secret`` and all other secrets of the runtime are removed.
    """
    if secret is not None:  # our own secret is hidden, however short it is
        text = text.replace(secret.reveal(), str(secret))
    text = cleaned(Mask.around(secret).text(text))[: 10 * MAX_EXCERPT]
    text = "".join(mark if mark.isprintable() else " " for mark in text)
    text = " ".join(text.split())
    return text if len(text) <= MAX_EXCERPT else text[: MAX_EXCERPT - 1] + "…"


def _page(body: str) -> str:
    """Describe a web page in a few words; empty if ``body`` is none."""
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
    """Return the message of an error, wherever the server keeps it."""
    for _ in range(4):
        if isinstance(error, list) and error:
            error = error[0]  # Gemini sends a list of one
            continue
        if not isinstance(error, dict):
            break
        known = (error.get(key) for key in ("error", "message", "detail"))
        error = next((value for value in known if value), None)
    return error if isinstance(error, str) else ""


def _said(key: str, value: object, *, depth: int) -> Iterator[str]:
    """Yield the texts of a refusal, with their keys, without repetitions."""
    # OpenRouter: the words of another server.
    if key == "raw" and isinstance(value, str):
        value = _parsed(value) or value
    if not depth:
        return
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in _ECHOES:
                yield from _said(name, each, depth=depth - 1)
    elif isinstance(value, list):
        for each in value:
            yield from _said(key, each, depth=depth - 1)
    elif value is not None:
        yield f"{key}: {value}"


def _kind_of(status: int, words: str) -> ErrorKind:
    """Return the kind of a refusal, which may say more than its status does."""
    kind = kind_of_status(status)
    if status == 403 and words.strip() and not _KEY.search(words):
        kind = ErrorKind.BAD_REQUEST  # refused for a region, or for what was said
    elif status == 400 and _WRONG_KEY.search(words):
        kind = ErrorKind.AUTHENTICATION  # Gemini
    return kind_of_refusal(kind, words)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, as the server says; None if it does not.

    A date is compared with the server's own clock.
    """
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
