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
    ("server_error", ErrorKind.OVERLOADED),
    ("internal", ErrorKind.OVERLOADED),
    ("exhausted", ErrorKind.RATE_LIMITED),
)
_QUOTED: Final = re.compile(
    r"failed to parse input at pos \d{1,9}: (.+)\Z"
    r"|error parsing tool call: raw='(.+)', err=",
    re.IGNORECASE | re.DOTALL,
)
# What servers say that name no kind.
_BUSY: Final = re.compile(
    r"overload|\bbusy\b|(?:at|no|over|out of) capacity|unavailable|try again"
    r"|high (?:demand|load|traffic)|is (?:still )?(?:loading|starting)|loading model"
    r"|queue is full",
    re.IGNORECASE,
)
_TOO_OFTEN: Final = re.compile(r"too many requests|rate[ _-]?limit", re.IGNORECASE)
# The keys under which an error is told where no answer is.
_TELLS: Final = re.compile(
    r"^err(?:ors?\b|or?_?(?:msg|message)|msg)|_(?:error|message|msg)$"
    r"|^(?:details?|message|msg|reason|title|description|failure)$",
    re.IGNORECASE,
)
_CODES: Final = ("code", "status_code", "status", "http_status")


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
    | {"failed_generation"}  # what the model wrote
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
    kind = kind_of_status(status)
    if status < 300 and (error := error_in(_parsed(body))) is not None:
        return stream_error(error, secret)
    if 300 <= status < 400:
        words = "the server redirects; configure the address it redirects to"
    elif status < 300:
        words = excerpt(f"not an event stream, but: {_page(body) or body}", secret)
        kind = ErrorKind.NOT_FOUND if _page(body) else _kind_by_words(body) or kind
    else:
        words = excerpt(message_of(body), secret) or "no explanation"
        kind = _kind_of(status, refusal(body))
    return LLMError(
        kind,
        f"HTTP {status}: {words}",
        retry_after=_retry_after(headers),
        status=status,
    )


def error_in(payload: object) -> object | None:
    """Return the error that a payload without an answer tells of, None for none.

    Servers write it as they like: as ``error``, ``detail`` or ``message``, as an object
    or its text alone, in a list, under a name of their own.
    """
    while isinstance(payload, list) and payload:
        payload = payload[0]
    match payload:
        case str() if payload.strip():
            return payload
        case {"error": dict() as error, **rest} if error:
            return {key: rest[key] for key in _CODES if key in rest} | error
        case {"error": str() as words, **rest} if words:
            return {**rest, "message": words}
        case {"error": [_, *_] as rows}:
            return error_in(rows)
        case {"x_groq": {"error": str() as words}} if words:
            return words
        case {"object": "error"} | {"type": "error"}:
            return payload
        case {"base_resp": {"status_code": code} as error} if code:  # MiniMax
            return {**error, "message": error.get("status_msg")}
        case dict() if not payload.get("choices"):
            for key, value in payload.items():
                if _TELLS.search(key) and _is_told(value):
                    return payload
    return None


def _is_told(value: object, depth: int = 8) -> bool:
    """Return whether a value tells anything, and is no message of a chat."""
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, dict) and "role" not in value:
        value = [*value.values()]
    inner = value if isinstance(value, list) and depth else ()
    return any(_is_told(x, depth - 1) for x in inner)


def stream_error(error: object, secret: Secret | None = None) -> LLMError:
    """Return the error that a server sent in the middle of an answer."""
    fields = error if isinstance(error, dict) else {}
    codes = [str(fields[key]) for key in _CODES if fields.get(key)]
    named = " ".join([str(fields.get("type", "")), *codes]).strip().lower()
    kind = next((kind for word, kind in _BY_WORD if word in named), None)
    told = _said("", error, depth=4) if _is_told(error) else ()
    text = _words(error) or named or " ".join(told)
    words = excerpt(text, secret) or "no explanation"
    said = f"{named} {words}"
    if status := next((x for x in codes if re.fullmatch(r"[45]\d\d", x)), ""):
        return LLMError(_kind_of(int(status), said), words)
    unnamed = re.fullmatch(r"[\d\s-]*|error", named) is not None
    kind = kind or (_kind_by_words(words) if unnamed else None) or ErrorKind.INTERRUPTED
    return LLMError(kind_of_refusal(kind, said), words)


def _kind_by_words(words: str) -> ErrorKind | None:
    """Return the kind of an error that has no code, if its words say that it passes."""
    if _TOO_OFTEN.search(words):
        return ErrorKind.RATE_LIMITED
    return ErrorKind.OVERLOADED if _BUSY.search(words) else None


# What an error in a stream would have been as the status of a response.
STATUS: Final = {
    ErrorKind.BAD_REQUEST: 400,
    ErrorKind.RATE_LIMITED: 429,
    ErrorKind.OVERLOADED: 503,
}


def status_of(body: str) -> int | None:
    """Return the status of an error in the body of a successful response.

    Returns 400 if the error names none, and None if the body is no error.
    """
    parsed = _parsed(body)
    error = error_in(body if parsed is None else parsed)
    if error is None or _page(body):
        return None
    fields = error if isinstance(error, dict) else {}
    codes = (str(fields.get(key)) for key in _CODES)
    if code := next((x for x in codes if re.fullmatch(r"[45]\d\d", x)), ""):
        return int(code)
    told = stream_error(error)
    by_words = _kind_by_words(told.detail) or told.kind
    return STATUS.get(told.kind) or STATUS.get(by_words, 400)


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


def written_by_model(body: str) -> str:
    """Return what the model wrote, if an error quotes it because it could not be read.

    The forms are of Groq, which has a field for it, and of llama.cpp and Ollama.
    """
    if "failed_generation" not in body and "ars" not in body:
        return ""
    left: list[tuple[str, object]] = [("", _parsed(body))]
    while left:
        key, value = left.pop()
        if isinstance(value, str):
            if key == "failed_generation":
                return value
            if key == "raw":
                left.append(("", _parsed(value)))
            elif match := _QUOTED.match(value):
                return match[1] or match[2]
        elif isinstance(value, dict):
            left += value.items()
        elif isinstance(value, list):
            left += (("", x) for x in value)
    return ""


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
        known = (error.get(key) for key in ("error", "message", "detail", "msg"))
        error = next((value for value in known if value and value is not True), None)
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
