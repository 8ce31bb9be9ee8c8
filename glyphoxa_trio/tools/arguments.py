"""Arguments as models write them: from JSON text to plain data, within bounds.

A model's text is limited in bytes and in depth before it is read any further. Whatever
JSON leaves open (duplicate keys, NaN, half of a surrogate pair) is refused here, so
that no handler has to consider it. What is almost JSON is repaired if nothing is lost
(`loose_arguments`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from glyphoxa_trio.errors import GlyphoxaError

from .loose_arguments import almost_json

# A file of a megabyte, with its quotes and line breaks escaped. Smaller limits are for
# each tool to set.
MAX_BYTES: Final = 2 * 1024 * 1024
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 32 * 1024
_QUOTED: Final = 2_000  # characters of arguments that are quoted to the model
_AS_THEY_ARE: Final = frozenset({str, int, bool, type(None)})
_LARGEST_WHOLE: Final = 2.0**63
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TOO_DEEP: Final = f"arguments are nested more than {MAX_DEPTH} levels deep"


class InvalidArguments(GlyphoxaError):
    """The model must write its arguments again; the message says how."""


def load(text: str) -> dict[str, Any]:
    """Return the object in ``text``. Empty text is no arguments; 5.0 becomes 5.

    A text that is almost JSON is read as what it means: in a fence, in quotes of its
    own, with single quotes, with bare keys.

    Raises:
      InvalidArguments: the message says what is wrong, and where.
    """
    try:
        return _strict(text)
    except InvalidArguments as error:
        # What is wrong is said of the text itself, not of a repair of it.
        with suppress(ValueError, InvalidArguments):
            return _strict(json.dumps(almost_json(text)))
        raise error from None


def text_of(arguments: str) -> str:
    """Return a model's arguments as a JSON object that any server takes back.

    They are unchanged if they are one, and repaired if they mean one. Otherwise the
    object quotes them, so that the model sees what it wrote.
    """
    try:
        _strict(arguments)
    except InvalidArguments:
        try:
            return json.dumps(load(arguments))
        except InvalidArguments:
            return json.dumps({"invalid_arguments": cut(arguments, _QUOTED)})
    return arguments if arguments.strip() else "{}"


def as_object(arguments: str) -> dict[str, Any]:
    """Return the object of `text_of`."""
    value: dict[str, Any] = json.loads(text_of(arguments))
    return value


def _strict(text: str) -> dict[str, Any]:
    """Return the object in a text that is JSON.

    Raises:
      InvalidArguments: if it is not, or is larger than a call may be.
    """
    if len(text) > MAX_BYTES or (
        not text.isascii() and len(text.encode(errors="surrogatepass")) > MAX_BYTES
    ):
        raise InvalidArguments(f"arguments are larger than {MAX_BYTES} bytes")
    if len(text) > MAX_VALUES and _has_many_values(text):
        raise InvalidArguments(f"arguments have more than {MAX_VALUES} values")
    if not text.strip():
        return {}
    try:
        value = _DECODER.decode(text)
        if not text.isascii() or "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        near = json.dumps(text[error.pos : error.pos + 20])
        raise InvalidArguments(
            f"not valid JSON: {error.msg} at line {error.lineno},"
            f" column {error.colno}, near {near}"
        ) from None
    except UnicodeEncodeError:
        raise InvalidArguments("a string holds half of a surrogate pair") from None
    except RecursionError:
        raise InvalidArguments(_TOO_DEEP) from None
    except ValueError:  # more digits than Python converts
        raise InvalidArguments("a number has too many digits") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"$: expected an object, got {shown(value)}")
    if text.count("{") + text.count("[") <= MAX_DEPTH:  # the usual case
        return value
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for container in level for inner in _containers(container)]
        if not level:
            return value
    raise InvalidArguments(_TOO_DEEP)


def _has_many_values(text: str) -> bool:
    """Return True for more than `MAX_VALUES`, which cost more than their bytes."""
    if _marks(text) <= MAX_VALUES:
        return False
    strings = text.count('"') - text.count('\\"')
    return strings > 4 * MAX_VALUES or _marks(_STRING.sub('""', text)) > MAX_VALUES


def _marks(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


def _containers(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    entries = value.values() if isinstance(value, dict) else value
    return (entry for entry in entries if isinstance(entry, dict | list))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidArguments(f"the key {shown(key)} occurs twice in one object")
        found[key] = value
    return found


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise InvalidArguments(f"{cut(digits, 40)} is too large a number")
    # 1e300 stays a float: schemas tell whole numbers above 64 bits from floats.
    return _number(value) if abs(value) < _LARGEST_WHOLE else value


def _no_constant(name: str) -> Any:
    raise InvalidArguments(f"{name} is not a JSON value")


# Made once: given hooks, `json.loads` would make a decoder on every call.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_constant=_no_constant
)
_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False
)


def canonical(arguments: Any) -> str:
    """Return the one JSON text of these arguments, for caches and duplicates.

    Keys are sorted and numbers are compared by value: 1 and 1.0 are the same, true and
    1 are not.

    Raises:
      ValueError: for NaN and infinities, which JSON does not have.
      TypeError: for values that are not JSON.
    """
    if type(arguments) is not dict or not _AS_THEY_ARE.issuperset(
        map(type, arguments.values())
    ):
        arguments = _by_value(arguments)
    return _ENCODER.encode(arguments)


def _by_value(value: Any) -> Any:
    if type(value) in _AS_THEY_ARE:  # the usual case, before all the others
        return value
    match value:
        case float():
            return _number(value)
        case dict():
            return {key: _by_value(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_by_value(entry) for entry in value]
    return value


def _number(value: float) -> float:
    return int(value) if value.is_integer() else value


def shown(value: Any) -> str:
    """Return a value as JSON, cut short, for a message; of containers the kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = json.dumps(value, ensure_ascii=False)
    return cut(text.encode(errors="replace").decode(), 60)


def cut(text: str, length: int) -> str:
    """Return at most ``length`` characters of ``text``."""
    return text if len(text) <= length else text[: length - 1] + "…"
