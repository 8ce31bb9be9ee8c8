"""Schemas that are hard to parse, to compile or to check, and a value for each.

Each is made to cost a validator much more than it costs a server to write; the value is
the one that takes longest to check. A schema is written as text, because some are
nested deeper than Python's own encoder goes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_ALMOST = "a" * 40 + "!"
_NOWHERE = "http://127.0.0.1:9/schema"


def _of(schema: Any) -> str:
    """Return the schema of an object whose ``a`` has this schema."""
    return json.dumps({"type": "object", "properties": {"a": schema}})


def _doubling(word: str, leaf: dict[str, Any], levels: int = 28) -> str:
    """Return a schema in which each definition uses the one below it twice."""
    below: dict[str, Any] = {"d0": leaf}
    for level in range(1, levels):
        one = {"$ref": f"#/$defs/d{level - 1}"}
        below[f"d{level}"] = {word: [one, one]}
    whole = {"$defs": below, "type": "object"}
    return json.dumps(
        {**whole, "properties": {"a": {"$ref": f"#/$defs/d{levels - 1}"}}}
    )


def _cycle(*steps: str) -> str:
    ring = {
        name: {"$ref": f"#/$defs/{following}"}
        for name, following in zip(steps, (*steps[1:], steps[0]), strict=True)
    }
    first = {"$ref": f"#/$defs/{steps[0]}"}
    return json.dumps({"$defs": ring, "type": "object", "properties": {"a": first}})


def _nested(before: str, after: str, levels: int) -> str:
    inner = before * levels + "{}" + after * levels
    return f'{{"type": "object", "properties": {{"a": {inner}}}}}'


def _dynamic() -> str:
    tree: dict[str, Any] = {
        "$dynamicAnchor": "node",
        "anyOf": [{"items": {"$dynamicRef": "#node"}}] * 8,
    }
    return json.dumps(
        {
            "type": "object",
            "$defs": {"tree": tree},
            "properties": {"a": {"$ref": "#/$defs/tree"}},
        }
    )


def _unevaluated() -> str:
    branch = {"properties": {f"p{number}": True for number in range(300)}}
    schema = {"anyOf": [branch] * 300, "unevaluatedProperties": False}
    return _of(schema)


def _leaf_list(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


SCHEMAS: dict[str, tuple[Callable[[], str], Callable[[], Any]]] = {
    "pattern": (
        lambda: _of({"type": "string", "pattern": "^(a+)+$"}),
        lambda: _ALMOST,
    ),
    "lookahead": (
        lambda: _of({"type": "string", "pattern": "^(?=(a+)+b)(a|aa)+$"}),
        lambda: _ALMOST,
    ),
    "backreference": (
        lambda: _of({"type": "string", "pattern": "^(a*)*\\1b$"}),
        lambda: _ALMOST,
    ),
    "pattern_names": (
        lambda: _of({"patternProperties": {"^(a+)+$": {}}}),
        lambda: {_ALMOST: 1},
    ),
    "repetition": (
        lambda: _of({"type": "string", "pattern": "((a{1,300}){1,300}){1,300}"}),
        lambda: _ALMOST,
    ),
    "any_of": (lambda: _doubling("anyOf", {"type": "integer"}), lambda: "x"),
    "all_of": (lambda: _doubling("allOf", {"type": "string"}), lambda: "x"),
    "one_of": (lambda: _doubling("oneOf", {"type": "string"}), lambda: "x"),
    "unique_items": (
        lambda: _of({"type": "array", "uniqueItems": True}),
        lambda: [[number] for number in range(5_000)],
    ),
    "circle": (lambda: _cycle("x", "y", "z"), lambda: 1),
    "circle_of_one": (lambda: _cycle("x"), lambda: 1),
    "properties": (
        lambda: json.dumps(
            {
                "type": "object",
                "properties": {f"p{n}": {"type": "string"} for n in range(50_000)},
            }
        ),
        lambda: 1,
    ),
    "dependent": (
        lambda: json.dumps(
            {
                "type": "object",
                "dependentSchemas": {f"p{n}": {} for n in range(100_000)},
            }
        ),
        lambda: 1,
    ),
    "required": (
        lambda: json.dumps(
            {"type": "object", "required": [f"p{n}" for n in range(100_000)]}
        ),
        lambda: 1,
    ),
    "large": (
        lambda: _of({"description": "x" * 1_600_000}),
        lambda: 1,
    ),
    "deep": (
        lambda: _nested('{"properties": {"a": ', "}}", 5_000),
        lambda: {"a": {"a": 1}},
    ),
    "negations": (lambda: _nested('{"not": ', "}", 5_000), lambda: 1),
    "dynamic": (_dynamic, lambda: _leaf_list(60)),
    "enum": (lambda: _of({"enum": list(range(200_000))}), lambda: -1),
    "const": (
        lambda: _of({"const": [[number] for number in range(20_000)]}),
        lambda: [[number] for number in range(5_000)],
    ),
    "multiple_of": (lambda: _of({"multipleOf": 1e-300}), lambda: 1e308),
    "remote": (lambda: _of({"$ref": _NOWHERE}), lambda: 1),
    "file": (lambda: _of({"$ref": "file:///etc/hostname"}), lambda: 1),
    "idents": (
        lambda: json.dumps(
            {
                "$schema": _NOWHERE,
                "$id": "file:///etc/",
                "type": "object",
                "properties": {"a": {"$id": "hostname", "$ref": "passwd"}},
            }
        ),
        lambda: 1,
    ),
    "prefix": (
        lambda: _of({"prefixItems": [{"type": "integer"}] * 50_000}),
        lambda: list(range(5_000)),
    ),
    "unevaluated": (
        _unevaluated,
        lambda: {f"q{number}": 1 for number in range(2_000)},
    ),
}
"""By kind: a JSON Schema as text, and what ``a`` is to be."""


def value_of(kind: str) -> dict[str, Any]:
    """Return the object that takes longest to check."""
    return {"a": SCHEMAS[kind][1]()}
