"""Repair arguments that are almost JSON, if nothing is lost by it. No I/O.

Models write an object in a fence or in quotes of its own, with single quotes, bare keys
or a comma too many; or a number as text, or one value where the schema has a list. Each
of them can mean one thing only, so it is taken for that. Whatever may mean two things,
or lost something on its way, is left for the model to write again.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

MOST_REPAIRED: Final = 64 * 1024  # characters; beyond that a text is not looked at
DEEPEST: Final = 32
MOST_LOOKS: Final = 4_000  # at parts of a schema, of one value
_REFERENCES: Final = 8  # that lead to one another
_LAYERS: Final = 3  # times that a text may be quoted as JSON once more

_FENCED: Final = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
_NUMBER: Final = re.compile(
    r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?"
)
# Escapes that mean the same in JSON and in Python.
_OTHER_ESCAPE: Final = re.compile(r"\\(?![nrtbf\"'\\u])")
_NAMES: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}


def almost_json(text: str) -> Any:
    """Return the value that a text means that is not quite JSON.

    Raises:
      ValueError: if that is not sure.
    """
    for _ in range(_LAYERS):
        text = text.strip()
        if len(text) > MOST_REPAIRED:
            break
        if fenced := _FENCED.fullmatch(text):
            text = fenced[1]
        try:
            value = _LENIENT.decode(text)
        except (ValueError, RecursionError):
            value = _python(text)
        if not isinstance(value, str):
            return {} if value is None else value  # no arguments
        if not value.strip():
            return {}
        text = value
    raise ValueError("no object")


def _python(text: str) -> Any:
    """Read a text as a literal of Python, or of JavaScript."""
    if not text.startswith(("{", "[")) or _OTHER_ESCAPE.search(text):
        raise ValueError("no object")
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("no object") from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(None | bool() | int() | float() | str() as value):
            return value
        case ast.Name(name) if name in _NAMES:
            return _NAMES[name]
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
        case ast.List(rows):
            return [_value(row) for row in rows]
        case ast.Dict(keys, values):
            return _once(
                [(_key(x), _value(y)) for x, y in zip(keys, values, strict=True)]
            )
    raise ValueError("no value of JSON")


def _key(node: ast.expr | None) -> str:
    match node:
        case ast.Constant(str() as name) | ast.Name(name):
            return name
    raise ValueError("no key of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


# Takes line breaks in strings.
_LENIENT: Final = json.JSONDecoder(strict=False, object_pairs_hook=_once)


def fitted(value: Any, schema: Any) -> Any:
    """Return the value in the types that its schema asks for, where that is sure.

    Numbers, true and false may be written as text; a list or an object as JSON text; a
    list of one as its entry; an optional field as null. A schema
    whose references would take too long to follow changes nothing.
    """
    try:
        return _Fitting(schema).of(value, schema)
    except _TooMuchWork:
        return value


class _TooMuchWork(Exception):
    """More parts of a schema were looked at than may be."""


@attrs.define
class _Fitting:
    """The fitting of one value to a schema, whose references lead into ``root``."""

    root: Any
    looks: int = 0

    def of(self, value: Any, schema: Any, depth: int = 0) -> Any:
        """Return the value as this part of the schema asks for it."""
        schema = self._part(schema)
        if depth > DEEPEST or not isinstance(schema, Mapping):
            return value
        choices = [x for key in ("anyOf", "oneOf") for x in _rows(schema.get(key))]
        types = self._types(schema, choices)
        if types and not _is_one_of(value, types):
            return self._converted(value, types, schema, depth)
        for part in [*_rows(schema.get("allOf")), *choices]:
            value = self.of(value, part, depth + 1)
        if isinstance(value, dict):
            return self._object(value, schema, depth)
        items = schema.get("items")
        if isinstance(value, list) and isinstance(items, Mapping):
            return [self.of(row, items, depth + 1) for row in value]
        return value

    def _object(
        self, value: dict[str, Any], schema: Mapping[str, Any], depth: int
    ) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required = _rows(schema.get("required"))
        fields: dict[str, Any] = {}
        for name, given in value.items():
            part = properties.get(name, schema.get("additionalProperties"))
            field = self.of(given, part, depth + 1)
            optional = name in properties and name not in required
            if field is None and optional and not self._may_be_null(part):
                continue
            fields[name] = field
        return fields

    def _may_be_null(self, schema: Any) -> bool:
        schema = self._part(schema)
        if not isinstance(schema, Mapping):
            return True
        types = self._types(schema, _rows(schema.get("anyOf")))
        return not types or "null" in types

    def _converted(
        self, value: Any, types: frozenset[str], schema: Mapping[str, Any], depth: int
    ) -> Any:
        """Return a value in one of the types, or as it is."""
        if isinstance(value, str):
            text = value.strip()
            if types & {"integer", "number"} and _NUMBER.fullmatch(text):
                number = json.loads(text)
                if isinstance(number, float) and number.is_integer():
                    number = int(number)
                if isinstance(number, int) or "number" in types:
                    return number
            if "boolean" in types and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if "null" in types and text.lower() == "null":
                return None
            if types & {"array", "object"} and text[:1] in ("{", "["):
                try:
                    inner = json.loads(text)
                except (ValueError, RecursionError):
                    return value
                if _is_one_of(inner, types):
                    return self.of(inner, schema, depth + 1)
        if "array" in types and value is not None and not isinstance(value, list):
            return self.of([value], schema, depth + 1)
        return value

    def _types(self, schema: Mapping[str, Any], choices: list[Any]) -> frozenset[str]:
        """Return the types that a schema accepts; none if it accepts any."""
        given = schema.get("type")
        if isinstance(given, str):
            return frozenset({given})
        if isinstance(given, list):
            return frozenset(x for x in given if isinstance(x, str))
        found: set[str] = set()
        for choice in choices:
            part = self._part(choice)
            inner = self._types(part, []) if isinstance(part, Mapping) else frozenset()
            if not inner:
                return frozenset()
            found |= inner
        return frozenset(found)

    def _part(self, schema: Any) -> Any:
        """Return the part of the root to which a schema refers, or the schema."""
        for _ in range(_REFERENCES):
            self.looks += 1
            if self.looks > MOST_LOOKS:
                raise _TooMuchWork
            target = schema.get("$ref") if isinstance(schema, Mapping) else None
            if not isinstance(target, str) or not target.startswith("#/"):
                return schema
            schema = self.root
            for name in target[2:].split("/"):
                name = name.replace("~1", "/").replace("~0", "~")
                schema = schema.get(name) if isinstance(schema, Mapping) else None
        return None


def _is_one_of(value: Any, types: frozenset[str]) -> bool:
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return bool(types & {"integer", "number"})
        case float():
            return "number" in types
        case str():
            return "string" in types
        case list():
            return "array" in types
    return "object" in types


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
