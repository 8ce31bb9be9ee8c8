"""Read JSON of other programs by field, and write JSON that all of them can read.

Whatever breaks the protocol raises an `LLMError` that quotes it, without the secret.
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
# Characters, for all calls of a response together: one may write a file of a megabyte.
MAX_ARGUMENTS: Final = 2 * 1024 * 1024


@attrs.frozen
class Payloads:
    """The reader of a server's JSON. ``secret`` is removed from the text of errors.

    All methods raise `LLMError` for values of another type.
    """

    secret: Secret | None = None

    def parsed(self, data: str) -> dict[str, Any]:
        """Parse a JSON object.

        Raises:
          LLMError: if it is none.
        """
        try:
            return self.as_object(json.loads(data), "a chunk")
        except (ValueError, RecursionError):
            raise self.malformed(f"not JSON: {data}") from None

    def as_object(self, value: object, what: str) -> dict[str, Any]:
        """Return ``value`` as an object; ``what`` names it in an error."""
        if isinstance(value, dict):
            return value
        raise self.malformed(f"{what} is not an object")

    def as_list(self, value: object, what: str) -> list[Any]:
        """Return ``value`` as a list, which is empty for None."""
        if value is None or isinstance(value, list):
            return value or []
        raise self.malformed(f"{what} is not a list")

    def bounded(self, calls: int, arguments: int) -> None:
        """Check that an answer has a plausible number and size of calls.

        Raises:
          LLMError: if it has not.
        """
        if calls > MAX_CALLS:
            raise self.malformed(f"more than {MAX_CALLS} calls in one answer")
        if arguments > MAX_ARGUMENTS:
            raise self.malformed(f"more than {MAX_ARGUMENTS} characters of arguments")

    def malformed(self, detail: str) -> LLMError:
        """Return an error about data that breaks the protocol."""
        return LLMError(ErrorKind.MALFORMED, excerpt(detail, self.secret))


def is_whole(arguments: str) -> bool:
    """Return whether a text is a complete JSON object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def string(value: object) -> str:
    """Return ``value`` as well-formed text; empty if it is no text."""
    return well_formed(value) if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return ``value`` as a count; 0 if it is none."""
    return value if type(value) is int and value >= 0 else 0


def well_formed(text: str) -> str:
    """Return ``text`` with surrogate pairs joined and lone surrogates replaced.

    JSON can express a lone surrogate, with which no later request could be encoded.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encoded(body: Mapping[str, Any]) -> bytes:
    """Encode ``body`` as JSON in ASCII, so that a lone surrogate cannot break it."""
    return json.dumps(body, default=dict).encode("ascii")


def refused_fields(
    body: Mapping[str, Any], error: str, dispensable: Collection[str]
) -> frozenset[str]:
    """Return the dispensable fields of ``body`` that an error names."""
    return frozenset(name for name in dispensable if name in body and name in error)


def safe_name(name: str) -> str:
    """Return a name that every server accepts.

    A malformed name of an earlier answer must not make every later request fail.
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"
