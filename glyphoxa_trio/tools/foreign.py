"""What a handler of this process returns, as a result that is ours. Pure.

What it returns may be anything: an object that fails when it is compared, a mapping
that has no end, a list that holds itself. So it is copied once, where the tool's own
time pays for it, by the methods of the types that JSON has and by no method of its own.
Nothing of the tool's is kept: what it changes later changes no result.

    result("two coins").text                      == ("two coins",)
    result({"gold": (1, 2), 3: None}).structured  == {"gold": [1, 2], "3": None}
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import attrs

from .outcome import Media, ToolResult

# A result may have so much at all. What a model is told of it is much less.
MOST_VALUES: Final = 200_000
MOST_BYTES: Final = 16 << 20
MOST_LAYERS: Final = 100
_MOST_BITS: Final = 14_000  # of a whole number: more digits than this are no number


def result(value: object) -> ToolResult:
    """What a handler returned, as `ToolResult.of` reads it, copied and bounded.

    Raises:
      TypeError: if it cannot be written as JSON.
      ValueError: the same, or it is too much; naming the bound.
    """
    kind = type(value)
    if value is None:
        return ToolResult()
    if issubclass(kind, str):
        return ToolResult(text=(_Copying().text(value),))
    if not issubclass(kind, ToolResult):
        return ToolResult(structured=_Copying().copy(value, 0))
    given: Any = value
    copying = _Copying()
    return ToolResult(
        text=tuple(map(copying.text, _tuple(given.text))),
        structured=copying.copy(given.structured, 0),
        is_error=given.is_error is True,
        media=tuple(map(copying.media, _tuple(given.media))),
        links=tuple(map(copying.text, _tuple(given.links))),
    )


def makes_results(handler: Any) -> Any:
    """Mark a handler whose results are copied by `result` already."""
    handler.makes_results = True
    return handler


def received(handler: Any, value: Any) -> ToolResult:
    """What ``handler`` returned, as ours; copied, unless that is done."""
    made = getattr(handler, "makes_results", False) is True
    return value if made and type(value) is ToolResult else result(value)


@attrs.define
class _Copying:
    """One value on its way, and how much of it came by."""

    values: int = 0
    bytes: int = 0

    def text(self, value: Any) -> str:
        if not issubclass(type(value), str):
            raise TypeError(f"a text of a result cannot be {type(value).__name__}")
        self._take(str.__len__(value))
        return value if type(value) is str else str.__str__(value)

    def media(self, value: Any) -> Media:
        if type(value) is not Media or type(value.data) is not bytes:
            raise TypeError(f"a medium of a result cannot be {type(value).__name__}")
        self._take(len(value.data))
        return Media(self.text(value.mime), value.data)

    def copy(self, value: Any, layer: int) -> Any:
        """The same in plain dicts, lists, texts and numbers."""
        kind = type(value)
        if value is None or kind is bool:
            self._take(1)
            return value
        if issubclass(kind, str):
            return self.text(value)
        if issubclass(kind, int):
            self._take(8)
            if int.bit_length(value) > _MOST_BITS:
                raise ValueError("a whole number in the result has too many digits")
            return int.__int__(value)
        if issubclass(kind, float):
            self._take(8)
            number = float.__float__(value)
            if not math.isfinite(number):
                raise ValueError(f"{number} in the result is not JSON")
            return number
        if layer >= MOST_LAYERS:
            raise ValueError(
                f"the result has more than {MOST_LAYERS} layers, or holds itself"
            )
        if issubclass(kind, dict):
            return {
                self._key(key): self.copy(inner, layer + 1)
                for key, inner in dict.items(value)
            }
        if issubclass(kind, list):
            return [self.copy(inner, layer + 1) for inner in list.__iter__(value)]
        if issubclass(kind, tuple):
            return [self.copy(inner, layer + 1) for inner in tuple.__iter__(value)]
        raise TypeError(f"Object of type {kind.__name__} is not JSON serializable")

    def _key(self, key: Any) -> str:
        """As `json.dumps` writes it."""
        if type(key) is str:
            self._take(len(key))
            return key
        plain = self.copy(key, MOST_LAYERS - 1)
        if type(plain) is list or type(plain) is dict:
            raise TypeError(f"a key of the result cannot be {type(key).__name__}")
        return plain if type(plain) is str else json.dumps(plain)

    def _take(self, size: int) -> None:
        self.values += 1
        self.bytes += size
        if self.values > MOST_VALUES:
            raise ValueError(f"the result has more than {MOST_VALUES} values")
        if self.bytes > MOST_BYTES:
            raise ValueError(f"the result has more than {MOST_BYTES >> 20} MiB")


def _tuple(value: Any) -> tuple[Any, ...]:
    if type(value) is tuple:
        return value
    if type(value) is list:
        return tuple(value)
    raise TypeError(f"the parts of a result cannot be {type(value).__name__}")
