"""The conversion of a handler's return value to a result of our own types. Pure.

A handler may return anything: an object that fails when it is compared, a mapping
without an end, a list that contains itself. So the value is copied once, at the expense
of the tool's own time, by the methods of the JSON types and by no method of its own.
No object of the tool is kept: a later change to it does not change the result.

    result("two coins").text                      == ("two coins",)
    result({"gold": (1, 2), 3: None}).structured  == {"gold": [1, 2], "3": None}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeVar

from .outcome import Media, ToolResult

H = TypeVar("H", bound=Callable[..., Any])

# The limits of a result. A model is told much less of it.
MOST_VALUES: Final = 200_000
MOST_BYTES: Final = 16 << 20
MOST_LAYERS: Final = 100
_COMMON: Final = 1 << 62  # smaller whole numbers need no check
_MOST_BITS: Final = 14_000  # of a whole number; a larger one is refused


def result(value: object) -> ToolResult:
    """Return a handler's value as `ToolResult.of` would, copied and bounded.

    Raises:
      TypeError: if it cannot be written as JSON.
      ValueError: likewise, or if it is too large; the message names the limit.
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


def makes_results(handler: H) -> H:
    """Mark a handler whose results are copied by `result` already."""
    handler.makes_results = True  # type: ignore[attr-defined]
    return handler


def makes(handler: Any) -> bool:
    """Return True if `makes_results` has marked the handler."""
    return getattr(handler, "makes_results", False) is True


def received(handler: Any, value: Any) -> ToolResult:
    """Return a handler's value as a result, copied unless the handler copied it."""
    return value if makes(handler) and type(value) is ToolResult else result(value)


class _Copying:
    """The copying of one value, with the counts of what it has copied."""

    __slots__ = ("bytes", "values")

    def __init__(self) -> None:
        self.values = self.bytes = 0

    def text(self, value: Any) -> str:
        if not issubclass(type(value), str):
            raise TypeError(f"a text of a result cannot be {type(value).__name__}")
        self.bytes += str.__len__(value)
        self._check()
        return value if type(value) is str else str.__str__(value)

    def media(self, value: Any) -> Media:
        if type(value) is not Media or type(value.data) is not bytes:
            raise TypeError(f"a medium of a result cannot be {type(value).__name__}")
        self.bytes += len(value.data)
        return Media(self.text(value.mime), value.data)

    def copy(self, value: Any, layer: int) -> Any:
        """Return a copy in plain dicts, lists, texts and numbers."""
        kind = type(value)
        if kind is str:
            self.bytes += len(value)
        elif kind is int:
            if not -_COMMON < value < _COMMON:
                return self._integer(value)
        elif kind is dict or kind is list:
            return self._inside(kind, value, layer)
        elif value is not None and kind is not bool:
            return self._other(kind, value, layer)
        return value

    def _inside(self, kind: type, value: Any, layer: int) -> Any:
        self.values += kind.__len__(value)  # type: ignore[attr-defined]
        if layer >= MOST_LAYERS:
            raise ValueError(
                f"the result has more than {MOST_LAYERS} layers, or holds itself"
            )
        self._check()
        copy, inner = self.copy, layer + 1
        copied: Any
        if kind is dict:
            key = self._key
            copied = {key(x): copy(y, inner) for x, y in dict.items(value)}
        else:
            copied = [copy(x, inner) for x in kind.__iter__(value)]  # type: ignore[attr-defined]
        self._check()
        return copied

    def _other(self, kind: type, value: Any, layer: int) -> Any:
        """Copy a value of a rarer type, or of a subclass."""
        if issubclass(kind, str):
            return self.text(value)
        if issubclass(kind, int):
            return self._integer(value)
        if issubclass(kind, float):
            number = float.__float__(value)
            if not math.isfinite(number):
                raise ValueError(f"{number} in the result is not JSON")
            return number
        if issubclass(kind, Enum) and layer < MOST_LAYERS:
            return self.copy(value._value_, layer + 1)  # as arguments are read
        for container in (dict, list, tuple):
            if issubclass(kind, container):
                return self._inside(container, value, layer)
        raise TypeError(f"Object of type {kind.__name__} is not JSON serializable")

    def _integer(self, value: int) -> int:
        if int.bit_length(value) > _MOST_BITS:
            raise ValueError("a whole number in the result has too many digits")
        return int.__int__(value)

    def _key(self, key: Any) -> str:
        """Return a key as `json.dumps` writes it."""
        if type(key) is str:
            self.bytes += len(key)
            return key
        plain = self.copy(key, MOST_LAYERS - 1)
        if type(plain) is list or type(plain) is dict:
            raise TypeError(f"a key of the result cannot be {type(key).__name__}")
        return plain if type(plain) is str else json.dumps(plain)

    def _check(self) -> None:
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
