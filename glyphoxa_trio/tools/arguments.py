"""Arguments as models write them: from JSON text to plain data, within bounds.

A model's text is limited in bytes and in depth before it is read any further. Whatever
JSON leaves open (duplicate keys, NaN, half of a surrogate pair) is refused here, so
that no handler has to consider it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from glyphoxa_trio.errors import GlyphoxaError

# A file of a megabyte, with its quotes and line breaks escaped. Smaller limits are for
# each tool to set.
MAX_BYTES: Final = 2 * 1024 * 1024
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 32 * 1024
_AS_THEY_ARE: Final = frozenset({str, int, bool, type(None)})
_LARGEST_WHOLE: Final = 2.0**63
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TOO_DEEP: Final = f"arguments are nested more than {MAX_DEPTH} levels deep"


class InvalidArguments(GlyphoxaError):
    """The model must write its arguments again; the message says how."""


def load(text: str) -> dict[str, Any]:
    """Return the object in ``text``. Empty text is no arguments; 5.0 becomes 5.

    Raises:
      InvalidArguments: the message says what is wrong, and where.
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
