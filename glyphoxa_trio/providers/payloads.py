"""JSON that another program wrote, read by name; and ours, written so that all read it.

What is not the protocol is an `LLMError` that quotes it, without the secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.secret import Secret

from .failures import excerpt
from .llm import ErrorKind, LLMError

MAX_CALLS: Final = 64
# Characters, all calls of a response together: one may write a file of a megabyte.
MAX_ARGUMENTS: Final = 2 * 1024 * 1024


@attrs.frozen
class Payloads:
    """Takes apart what a server sent. ``secret`` is in no error's words."""

    secret: Secret | None = None

    def parsed(self, data: str) -> dict[str, Any]:
        """Raises `LLMError` for what is no JSON object, as all methods do."""
        try:
            return self.as_object(json.loads(data), "a chunk")
        except (ValueError, RecursionError):
            raise self.malformed(f"not JSON: {data}") from None

    def as_object(self, value: object, what: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        raise self.malformed(f"{what} is not an object")

    def as_list(self, value: object, what: str) -> list[Any]:
        if value is None or isinstance(value, list):
            return value or []
        raise self.malformed(f"{what} is not a list")

    def bounded(self, calls: int, arguments: int) -> None:
        """Raises if an answer has more calls, or longer ones, than anybody makes."""
        if calls > MAX_CALLS:
            raise self.malformed(f"more than {MAX_CALLS} calls in one answer")
        if arguments > MAX_ARGUMENTS:
            raise self.malformed(f"more than {MAX_ARGUMENTS} characters of arguments")

    def malformed(self, detail: str) -> LLMError:
        return LLMError(ErrorKind.MALFORMED, excerpt(detail, self.secret))


def is_whole(arguments: str) -> bool:
    """Whether this is a JSON object, closed."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def string(value: object) -> str:
    return well_formed(value) if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if type(value) is int and value >= 0 else 0


def well_formed(text: str) -> str:
    """``text`` with surrogate pairs joined and lone halves replaced.

    JSON may spell half a character; no later request could be encoded with it.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encoded(body: Mapping[str, Any]) -> bytes:
    """``body`` as JSON in ASCII, so that no half of a character can break it."""
    return json.dumps(body, default=dict).encode("ascii")


def refused_fields(
    body: Mapping[str, Any], error: str, dispensable: Collection[str]
) -> frozenset[str]:
    """Which fields of ``body`` an error names that we can do without."""
    return frozenset(name for name in dispensable if name in body and name in error)


def safe_name(name: str) -> str:
    """What a model once said oddly must not poison every later request."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"
