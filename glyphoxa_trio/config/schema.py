"""The JSON Schema of a configuration, for editors, derived from the classes.

It refuses what the loader refuses by type, choice or unknown key, and accepts all that
the loader accepts. What contradicts what only the loader knows. A text may come from a
variable, so where a choice is wanted, any text with ``${`` in it fits.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.hedging import a_share
from glyphoxa_trio.tools.tier import Tier

from .fields import NotEmpty, Unit, above_zero, not_empty, not_negative
from .layout import CommandLine, layout, may_be_bare
from .model import Config
from .overrides import ToolOverride
from .servers import ServerSpec, Transport

Schema = dict[str, Any]

_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_SPOKEN: Final = re.compile(r"\S")
_VARIABLE: Final[Schema] = {"type": "string", "pattern": r"\$\{"}
_NOTHING: Final[Schema] = {"type": "null"}
_ALSO: Final[Mapping[type, tuple[str, ...]]] = {Transport: ("http",)}
_NOTE: Final = re.compile(r" *# (.*)")
_KEY: Final = re.compile(r"( *)(- )?#?([\w.]+):(.*)")


def schema_of_config(reference: str = "") -> Schema:
    """Return the schema of a configuration file.

    Args:
      reference: the text of a YAML file whose comments describe each key.
    """
    made = _SchemaBuilder(_descriptions(reference))
    root = made.of(Config)
    return {
        "$schema": _DIALECT,
        "title": "glyphoxa configuration",
        **root,
        "definitions": made.definitions,
    }


@attrs.define(eq=False)
class _SchemaBuilder:
    """Makes the schema of each class once, as a definition."""

    descriptions: Mapping[tuple[type, str], str]
    definitions: dict[str, Schema] = attrs.field(factory=dict, init=False)

    def of(self, kind: Any) -> Schema:
        """Return the schema of a type of the model."""
        if kind == Mapping[str, ToolOverride]:
            return _any_of(self._mapping(kind), _list(self._named(ToolOverride)))
        if kind == tuple[ServerSpec, ...]:
            without = self._without_name(ServerSpec)
            return _any_of(_list(self.of(ServerSpec)), _map(without))
        match get_origin(kind):
            case origin if origin in (Union, UnionType):
                given = next(x for x in get_args(kind) if x is not NoneType)
                return _any_of(self.of(given), _NOTHING)
            case origin if origin is Annotated:
                return self._marked(kind)
            case origin if origin is tuple:
                return _list(self.of(get_args(kind)[0]))
            case origin if origin is Mapping:
                return self._mapping(kind)
        if kind is Any:
            return {}
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if issubclass(kind, Enum):
            return self._choice(kind)
        return self._object(kind)

    def _marked(self, kind: Any) -> Schema:
        match kind.__metadata__[0]:
            case Unit():
                return {"type": "number", "minimum": 0}
            case CommandLine():
                words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
                return _any_of({"type": "string", "pattern": _SPOKEN.pattern}, words)
            case NotEmpty():
                return {"type": "string", "pattern": _SPOKEN.pattern}
        return self.of(get_args(kind)[0])

    def _choice(self, kind: type[Enum]) -> Schema:
        names = [*map(str, kind), *_ALSO.get(kind, ())]
        if kind is not Tier:
            return _any_of({"enum": names}, _VARIABLE)
        # Upper case and spaces around it fit, too.
        any_case = "|".join(
            "".join(f"[{x}{x.upper()}]" for x in name) for name in names
        )
        spelt = {"type": "string", "pattern": rf"^\s*({any_case})\s*$"}
        return _any_of({"enum": names}, spelt, _VARIABLE)

    def _mapping(self, kind: Any) -> Schema:
        return _map(self.of(get_args(kind)[1]))

    def _object(self, kind: type) -> Schema:
        name = kind.__name__
        if name not in self.definitions:
            self.definitions[name] = {}  # a class may hold itself
            self.definitions[name] = self._class(kind)
        return {"$ref": f"#/definitions/{name}"}

    def _class(self, kind: type) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for name, key in layout(kind).items():
            schema = self.of(key.kind)
            if key.field is not None:
                schema = _bounded(schema, key.field.validator)
                if key.field.default is attrs.NOTHING:
                    required.append(name)
                elif (default := _default(key.field)) is not None:
                    schema = {**schema, "default": default}
            if may_be_bare(key.kind) and name not in required:
                schema = _any_of(schema, _NOTHING)
            note = self.descriptions.get((kind, name))
            properties[name] = {"description": note, **schema} if note else schema
        told = (inspect.getdoc(kind) or "").partition("\n\n")[0]
        return {
            "type": "object",
            "description": " ".join(told.replace("`", "").split()),
            "properties": properties,
            "additionalProperties": False,
            **({"required": required} if required else {}),
        }

    def _without_name(self, kind: type) -> Schema:
        """Return the schema of an entry that has its name in its key."""
        whole = self._class(kind)
        others = {k: x for k, x in whole["properties"].items() if k != "name"}
        required = [x for x in whole.get("required", ()) if x != "name"]
        entry = {**whole, "properties": others, "required": required}
        return self._define(f"{kind.__name__}ByName", entry)

    def _named(self, kind: type) -> Schema:
        """Return the schema of an entry that has a name beside its other keys."""
        whole = self._class(kind)
        name = {"type": "string", "pattern": _SPOKEN.pattern}
        entry = {
            **whole,
            "properties": {"name": name, **whole["properties"]},
            "required": ["name"],
        }
        return self._define(f"{kind.__name__}WithName", entry)

    def _define(self, name: str, schema: Schema) -> Schema:
        self.definitions[name] = schema
        return {"$ref": f"#/definitions/{name}"}


_PLAIN: Final[Mapping[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Secret: {"type": "string"},
    Path: {"type": "string", "pattern": "^[^~]"},
}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(items: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": items,
        "propertyNames": {"minLength": 1},
    }


def _any_of(*schemas: Schema) -> Schema:
    """Return the schema of what fits one of them, without nesting."""
    flat: list[Schema] = []
    for schema in schemas:
        for one in schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]:
            if one not in flat:
                flat.append(one)
    return {"anyOf": flat}


def _bounded(schema: Schema, validator: Any) -> Schema:
    """Add the limits that a validator of a field sets."""
    bounds: Schema = {}
    for one in _validators(validator):
        if one is above_zero:
            bounds = {"exclusiveMinimum": 0}
        elif one is a_share:
            bounds = {"exclusiveMinimum": 0, "maximum": 1}
        elif one is not_negative:
            bounds = {"minimum": 0}
        elif one is not_empty:
            bounds = {"minItems": 1} if schema.get("type") == "array" else {}
            bounds = bounds or {"pattern": _SPOKEN.pattern}
    if bounds and "anyOf" in schema:  # of an optional field
        return {
            "anyOf": [x if x == _NOTHING else {**x, **bounds} for x in schema["anyOf"]]
        }
    return {**schema, **bounds}


def _validators(validator: Any) -> Iterator[Any]:
    """Yield the validators that an attrs validator is made of."""
    inner = getattr(validator, "validator", None)
    several = getattr(validator, "_validators", ())
    if inner is None and not several:
        yield validator
    for one in (*several, *([inner] if inner is not None else ())):
        yield from _validators(one)


def _default(field: attrs.Attribute[Any]) -> Any:
    """Return the default as a file has it, of fields of which that is plain."""
    value = field.default
    if isinstance(value, Tier):
        return str(value)
    if isinstance(value, (bool, Enum)):
        return value.value if isinstance(value, Enum) else value
    return None


# descriptions, from a file that explains each key


def _descriptions(text: str) -> dict[tuple[type, str], str]:
    """Return the comment above, or beside, the first occurrence of each key."""
    found: dict[tuple[type, str], str] = {}
    stack: list[tuple[int, str]] = []  # how far keys are indented, and their names
    notes: list[str] = []
    for line in text.splitlines():
        if note := _NOTE.fullmatch(line):
            notes.append(note[1].strip())
            continue
        key = _KEY.match(line)
        if key is None:
            if not line.strip() or line.strip() == "#":
                notes = []
            continue
        indent = len(key[1]) + len(key[2] or "")
        while stack and stack[-1][0] >= indent:
            stack.pop()
        stack.append((indent, key[3]))
        beside = key[4].rpartition(" # ")[2] if " # " in key[4] else ""
        told = " ".join(notes) or beside.strip()
        notes = []
        place = _place([name for _, name in stack])
        if place is not None and told and not told.startswith("---"):
            found.setdefault(place, re.sub(r"^-+ ", "", told))
    return found


def _place(path: list[str]) -> tuple[type, str] | None:
    """Return the class that a key at this path belongs to, and the key."""
    kind: Any = Config
    for at, name in enumerate(path):
        kind = _inner(kind)
        if get_origin(kind) is Mapping:
            kind = get_args(kind)[1]
            continue
        if not attrs.has(kind) or name not in layout(kind):
            return None
        if at == len(path) - 1:
            return kind, name
        kind = layout(kind)[name].kind
    return None


def _inner(kind: Any) -> Any:
    """Return ``X`` of ``X | None`` and of a list of ``X``."""
    while True:
        if get_origin(kind) in (Union, UnionType):
            kind = next(x for x in get_args(kind) if x is not NoneType)
        elif get_origin(kind) is tuple:
            kind = get_args(kind)[0]
        else:
            return kind
