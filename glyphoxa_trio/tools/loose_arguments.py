"""Repair arguments that are almost JSON, if nothing is lost by it. No I/O.

Models write an object in a fence or in quotes of its own, with single quotes, bare keys
or a comma too many; or a number as text, or one value where the schema has a list. Each
of them can mean one thing only, so it is taken for that. Whatever may mean two things,
or lost something on its way, is left for the model to write again.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import attrs

MOST_REPAIRED: Final = 64 * 1024  # characters; beyond that a text is not looked at
DEEPEST: Final = 32
MOST_LOOKS: Final = 4_000  # at parts of a schema, of one value
_REFERENCES: Final = 8  # that lead to one another
_LAYERS: Final = 3  # times that a text may be quoted as JSON once more

_LANGUAGE: Final = re.compile(r"\w*")  # after the beginning of a fence
_NUMBER: Final = re.compile(
    r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?"
)
# Escapes that mean the same in JSON and in Python.
_ESCAPES: Final = re.compile(r"\\(?:[nrtbf\"'\\u]|(?P<other>.|\Z))", re.DOTALL)
_SEVERAL: Final = re.compile(r"[,;\n]")  # in a text that may be a list of texts
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
        text = unfenced(text)
        if text.startswith("{}") and text[2:].lstrip().startswith("{"):
            text = text[2:].lstrip()  # no arguments yet, and then all of them
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
    if not text.startswith(("{", "[")):
        raise ValueError("no object")
    if any(x["other"] is not None for x in _ESCAPES.finditer(text)):
        raise ValueError("an escape that means something else")
    try:
        with warnings.catch_warnings(action="ignore"):  # of its style
            tree = ast.parse(_with_quoted_keys(text), mode="eval")
        return _value(tree.body)
    except (SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        raise ValueError("no object") from None


def _with_quoted_keys(text: str) -> str:
    """Return the text with quotes around bare keys, of which some are Python's words.

    Raises:
      ValueError: if Python would join two strings, or ignore a comment.
    """
    lines = text.split("\n")
    last = before = ""
    keys: list[tuple[int, int, str]] = []
    name: tuple[int, int, str] | None = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT):
            continue
        if token.type == tokenize.COMMENT:
            raise ValueError("a comment")
        kind = tokenize.tok_name[token.type]
        if kind == last == "STRING":
            raise ValueError("two strings without a comma")
        if token.string == ":" and name is not None:
            keys.append(name)
        name = None
        if token.type == tokenize.NAME and before in ("{", ","):
            name = (token.start[0] - 1, token.start[1], token.string)
        last, before = kind, token.string
    for row, column, word in reversed(keys):
        line = lines[row]
        end = column + len(word)
        lines[row] = f"{line[:column]}{json.dumps(word)}{line[end:]}"
    return "\n".join(lines)


def unfenced(text: str) -> str:
    """Return what stands in a fence of code; other text as it is."""
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return text
    return _LANGUAGE.sub("", text[3:-3], count=1).strip()


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(None | bool() | int() | float() | str() as value):
            return value
        case ast.Name(name) if name in _NAMES:
            return _NAMES[name]
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)) if (
            not isinstance(value, bool)
        ):
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

    def of(
        self, value: Any, schema: Any, depth: int = 0, *, entry: bool = False
    ) -> Any:
        """Return the value as this part of the schema asks for it.

        An entry of a list does not become a list: several may belong into one.
        """
        schema = self._part(schema)
        if depth > DEEPEST or not isinstance(schema, Mapping):
            return value
        choices = [x for key in ("anyOf", "oneOf") for x in _rows(schema.get(key))]
        types = self._types(schema, choices)
        if types and not _is_one_of(value, types):
            return self._converted(value, types, schema, depth, entry)
        for part in _rows(schema.get("allOf")):
            value = self.of(value, part, depth + 1)
        if choices:
            value = self._of_choices(value, choices, depth)
        if isinstance(value, dict):
            return self._object(value, schema, depth)
        items = schema.get("items")
        if isinstance(value, list) and isinstance(items, Mapping):
            return [self.of(row, items, depth + 1, entry=True) for row in value]
        return value

    def _of_choices(self, value: Any, choices: list[Any], depth: int) -> Any:
        """Return the value as those choices want it that it may have been meant for.

        It stays as it is if they do not agree.
        """
        taken = [x for x in choices if self._may_mean(value, x)]
        found = [self.of(value, x, depth + 1) for x in taken or choices]
        wanted = found if taken else [x for x in found if x != value]
        agree = wanted and all(x == wanted[0] for x in wanted)
        return wanted[0] if agree else value

    def _may_mean(self, value: Any, choice: Any) -> bool:
        """Return whether a value already has the kind of a choice."""
        part = self._part(choice)
        if not isinstance(part, Mapping):
            return True
        if "const" in part or isinstance(part.get("enum"), list):
            return value in _constants(part)
        types = self._types(part, _rows(part.get("anyOf")) or _rows(part.get("oneOf")))
        if types and not _is_one_of(value, types):
            return False
        fields = part.get("properties")
        if not isinstance(value, dict) or not isinstance(fields, Mapping):
            return True
        if part.get("additionalProperties") is False and not value.keys() <= {*fields}:
            return False
        for name, given in value.items():
            field = self._part(fields.get(name))
            known = _constants(field) if isinstance(field, Mapping) else []
            if known and given not in known:
                return False
        return True

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
        self,
        value: Any,
        types: frozenset[str],
        schema: Mapping[str, Any],
        depth: int,
        entry: bool,
    ) -> Any:
        """Return a value in one of the types, or as it is."""
        if isinstance(value, str):
            text = value.strip()
            if types & {"integer", "number"} and _NUMBER.fullmatch(text):
                exact = Decimal(text)
                if exact == exact.to_integral_value():
                    return int(exact)
                if "number" in types and Decimal(repr(float(text))) == exact:
                    return float(text)
            if "boolean" in types and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if "null" in types and text.lower() == "null":
                return None
            if types & {"array", "object"} and text[:1] in ("{", "["):
                try:
                    inner = _LENIENT.decode(text)
                except (ValueError, RecursionError):
                    return value
                if _is_one_of(inner, types):
                    return self.of(inner, schema, depth + 1)
        several = isinstance(value, str) and (_SEVERAL.search(value) or not value)
        if "array" in types and not entry and not several and value is not None:
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


def _constants(schema: Mapping[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else _rows(schema.get("enum"))


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
