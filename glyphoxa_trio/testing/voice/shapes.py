"""The allowed forms of messages: small checks that make up tables of fields.

A `Shape` takes a value and its path, and returns the value as the server reads it. A
value that does not fit raises `ShapeMismatch`, which says where, and in which way: the
vendors have a different answer to each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

Shape = Callable[[Any, str], Any]
Kind = Literal["unknown", "missing", "type", "value", "length"]


class ShapeMismatch(Exception):
    """A value that does not fit. ``path`` is its place; empty is the message."""

    def __init__(self, kind: Kind, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.kind = kind
        self.path = path
        self.detail = detail


def anything(value: Any, path: str) -> Any:
    return value


def text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise ShapeMismatch("type", path, f"expected a string, got {_what(value)}")
    return value


def flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise ShapeMismatch("type", path, f"expected a boolean, got {_what(value)}")
    return value


def mapping(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ShapeMismatch("type", path, f"expected an object, got {_what(value)}")
    return value


def number(low: float | None = None, high: float | None = None) -> Shape:
    def check(value: Any, path: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ShapeMismatch("type", path, f"expected a number, got {_what(value)}")
        if (low is not None and value < low) or (high is not None and value > high):
            raise ShapeMismatch(
                "value", path, f"{value} is not within {low} and {high}"
            )
        return value

    return check


def whole(low: int | None = None, high: int | None = None) -> Shape:
    within = number(low, high)

    def check(value: Any, path: str) -> int:
        if isinstance(value, float):
            raise ShapeMismatch("type", path, "expected an integer, got a number")
        found: int = within(value, path)
        return found

    return check


def one_of(*values: Any) -> Shape:
    def check(value: Any, path: str) -> Any:
        if value not in values:
            raise ShapeMismatch("value", path, f"{value!r} is not one of {values}")
        return value

    return check


def pattern(expression: str) -> Shape:
    compiled = re.compile(expression)

    def check(value: Any, path: str) -> str:
        if not compiled.fullmatch(text(value, path)):
            raise ShapeMismatch("value", path, f"{value!r} does not match {expression}")
        found: str = value
        return found

    return check


def many(shape: Shape, *, most: int | None = None) -> Shape:
    def check(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise ShapeMismatch("type", path, f"expected an array, got {_what(value)}")
        if most is not None and len(value) > most:
            raise ShapeMismatch(
                "length", path, f"at most {most} entries, got {len(value)}"
            )
        return [shape(each, f"{path}[{i}]") for i, each in enumerate(value)]

    return check


def values(shape: Shape) -> Shape:
    """Return the shape of an object with any names."""

    def check(value: Any, path: str) -> dict[str, Any]:
        found = mapping(value, path)
        return {k: shape(v, f"{path}.{k}") for k, v in found.items()}

    return check


def nullable(shape: Shape) -> Shape:
    return lambda value, path: None if value is None else shape(value, path)


def either(*shapes: Shape) -> Shape:
    """Return a shape that tries several; the last one's error counts."""

    def check(value: Any, path: str) -> Any:
        for shape in shapes[:-1]:
            try:
                return shape(value, path)
            except ShapeMismatch:
                continue
        return shapes[-1](value, path)

    return check


def fields(
    table: Mapping[str, Shape],
    *,
    required: Collection[str] = (),
    proto: bool = False,
) -> Shape:
    """Return the shape of an object with these names and no others.

    ``proto``: each name may also be written with underscores, and null counts as
    absent, as in the JSON of protocol buffers. The result has the table's names.
    """
    names = {name: name for name in table}
    if proto:
        names |= {_underscored(name): name for name in table}

    def check(value: Any, path: str) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for key, each in mapping(value, path).items():
            name = names.get(key)
            inside = f"{path}.{key}" if path else key
            if name is None:
                raise ShapeMismatch("unknown", inside, f"unknown field {key!r}")
            if not (proto and each is None):
                read[name] = table[name](each, inside)
        for name in required:
            if name not in read:
                inside = f"{path}.{name}" if path else name
                raise ShapeMismatch("missing", inside, "is required")
        return read

    return check


def by(key: str, shapes: Mapping[str, Shape]) -> Shape:
    """Return the shape of an object that is chosen by one of its fields."""

    def check(value: Any, path: str) -> Any:
        inside = f"{path}.{key}" if path else key
        if key not in mapping(value, path):
            raise ShapeMismatch("missing", inside, "is required")
        if not isinstance(value[key], str) or value[key] not in shapes:
            known = ", ".join(shapes)
            raise ShapeMismatch(
                "value", inside, f"{value[key]!r} is not one of {known}"
            )
        return shapes[value[key]](value, path)

    return check


def _underscored(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _what(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")
