"""The request to an image server, and the interpretation of its answer. Pure.

The server's own words are quoted on one line, shortened, and without the key.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.builtin.web.retrying import patience, waiting
from glyphoxa_trio.secret import Mask, Secret
from glyphoxa_trio.tools.definition import AnswerUnusable, ToolError, ToolUnavailable

from .picture import MAX_BYTES

# bytes of a JSON answer with an image in it
MAX_ANSWER: Final = MAX_BYTES * 4 // 3 + 64 * 1024
# some models refuse this field, and send the data without it
FORMAT: Final = "response_format"
_MAX_WORDS: Final = 300  # characters quoted from the server


@attrs.frozen
class At:
    """The address of an image that the server did not send itself."""

    url: str


def question(prompt: str, *, model: str | None, size: str, ask_data: bool) -> bytes:
    body: dict[str, Any] = {"prompt": prompt, "n": 1, "size": size}
    if model:
        body["model"] = model
    if ask_data:
        body[FORMAT] = "b64_json"
    return json.dumps(body).encode("ascii")


def refuses_format(status: int, body: bytes) -> bool:
    return status in (400, 422) and FORMAT.encode() in body


def image_in(
    status: int, headers: Mapping[str, str], body: bytes, key: Secret | None
) -> bytes | At:
    """Return the image in an answer, or its address.

    Args:
      headers: with their names in lower case.

    Raises:
      ToolUnavailable: if the server cannot draw anything at the moment.
      ToolError: if it does not draw this.
    """
    answer = _parsed(body)
    if status != 200:
        raise _refusal(status, headers, answer, body, key)
    if len(body) > MAX_ANSWER:
        raise AnswerUnusable("the image server's answer is too long")
    try:
        first = answer["data"][0]  # type: ignore[index]
        encoded, url = first.get("b64_json"), first.get("url")
    except (LookupError, TypeError, AttributeError):
        words = _quoted(_words(answer) or body.decode("utf-8", "replace"), key)
        raise AnswerUnusable(
            f"the answer has no image, but: {words or 'nothing'}"
        ) from None
    if isinstance(encoded, str) and encoded:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise AnswerUnusable("the image in the answer cannot be decoded") from None
    if isinstance(url, str) and url:
        return At(url)
    raise AnswerUnusable("the answer has no image")


def _refusal(
    status: int,
    headers: Mapping[str, str],
    answer: object,
    body: bytes,
    key: Secret | None,
) -> ToolError | ToolUnavailable:
    words = _quoted(_words(answer) or body.decode("utf-8", "replace"), key)
    said = f": {words}" if words else ""
    if status in (401, 403):
        return ToolUnavailable(f"the image server refuses the key{said}")
    if status in (404, 405):
        return ToolUnavailable(f"the image server has no such model or address{said}")
    if status in (402, 429):
        wait = waiting(patience(headers)) or "later"
        return ToolUnavailable(f"the image server asks to come back {wait}{said}")
    if 300 <= status < 400:
        return ToolUnavailable("the image server redirects; give its new address")
    if status >= 500:
        return ToolUnavailable(f"the image server fails ({status}){said}")
    return ToolError(f"the image server refuses to draw this{said}")


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body) if len(body) <= MAX_ANSWER else None
    except (ValueError, RecursionError):
        return None


def _words(answer: object) -> str:
    """Return the message of an error, from wherever the server puts it."""
    for _ in range(3):
        if not isinstance(answer, dict):
            break
        known = (answer.get(name) for name in ("error", "message", "detail"))
        answer = next((value for value in known if value), None)
    return answer if isinstance(answer, str) else ""


def _quoted(text: str, key: Secret | None) -> str:
    text = Mask.around(key).text(text)[: 10 * _MAX_WORDS]
    text = "".join(mark if mark.isprintable() else " " for mark in text)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_WORDS else text[: _MAX_WORDS - 1] + "…"
