"""Tools as all vendors of models but Google take them: JSON Schema in plain words.

The vendors say little about what they refuse, so this is what they have in common:

* The root is an object with ``properties``, and no union (OpenAI, Anthropic).
* There are no references and no ``allOf``; ``oneOf`` becomes ``anyOf`` (models of
  OpenAI and of others at OpenRouter).
* A property's name has 1 to 64 letters, digits, ``_``, ``.`` or ``-`` (Anthropic).
* An array says what its entries are (OpenAI), and a schema says its type (llama.cpp).
* There are no expressions, and no counts of characters or entries: llama.cpp cannot
  make a grammar of large ones, and xAI takes none.
* A keyword with a value of the wrong type is left out (OpenAI), and so are numbers that
  not every server can read.

What is left out is said in words where a model can use it. Arguments that fit the
original schema fit the plain one, which allows more; but an object of several forms
gets the properties of all of them, also where a form says nothing about another's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.payloads import well_formed

from .flat import NODE, Flattener, Node, forms_of
from .joining import values_of
from .uniting import MAX_SAID, choice, cut_to, different, united
from .values import is_number, listed, mapping

MAX_DEPTH: Final = 16  # of nested objects, arrays and forms
MAX_CHARACTERS: Final = 100_000  # approximately, of the whole schema

TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
FORMATS: Final = frozenset(
    {"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6"}
    | {"uuid"}
)
"""The formats that OpenAI documents; local servers ignore those they do not know."""

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_COUNTS: Final = {
    "minLength": "Characters: {} or more.",
    "maxLength": "Characters: {} at most.",
    "minItems": "Entries: {} or more.",
    "maxItems": "Entries: {} at most.",
}
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
# Keywords that a model may obey if it is shown them.
_TELLING: Final = (
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "prefixItems",
    "contains",
)


def reduced_plainly(parameters: Mapping[str, Any]) -> tuple[Node, str]:
    """Return the schema of a tool's parameters, and what it has lost in words."""
    return _Reduction(parameters, MAX_CHARACTERS).root_node()


@attrs.define(eq=False)
class _Reduction(Flattener):
    """One reduction: the root schema for references, and the budget that is left."""

    def outline(self, target: Mapping[str, Any]) -> Node:
        return {key: target.get(key) for key in ("type", "description")}

    def root_node(self) -> tuple[Node, str]:
        """Return the schema of the parameters, and what it has lost, in words."""
        flat, refs = self.flat(self.root, frozenset({"#"}))
        flat["type"] = "object"  # parameters are always an object
        said = [
            self._shown(key, flat.pop(key)) for key in ("enum", "const") if key in flat
        ]
        description = _text(flat.pop("description", None))
        node, more = self._one(flat, forms_of(flat), 0, refs)
        node = {"type": "object", "properties": {}} | node
        if description:
            node["description"] = description
        return node, _joined([*said, *more])

    def node(self, schema: Any, depth: int, refs: frozenset[str]) -> Node:
        """Reduce a schema, in which ``refs`` are the references that contain it."""
        self.left -= NODE
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH or self.left <= 0:
            return _anything()
        flat, refs = self.flat(schema, refs)
        node, said = self._one(flat, forms_of(flat), depth, refs)
        description = _joined([_text(flat.get("description")), *said])
        if description:
            node["description"] = description
            self.left -= len(description)
        return node

    def _one(
        self, flat: Node, forms: list[Any], depth: int, refs: frozenset[str]
    ) -> tuple[Node, list[str]]:
        """Reduce a flat schema without its description.

        The second value is what is lost, in words.
        """
        kinds = _types(flat)
        said: list[str] = []
        unites = kinds == ["object"] or (not kinds and "properties" in flat)
        if unites and not all(kinds or _is_of_object(form) for form in forms):
            unites = False
        if forms and unites:
            objects, refs = self.objects(forms, refs)
            said.append(choice(flat, objects))
            flat = united(flat, objects)
        node: Node = {}
        if kinds:
            node["type"] = kinds[0] if len(kinds) == 1 else kinds
        if title := _text(flat.get("title")):
            node["title"] = title
        if values := [x for x in _clean(values_of(flat)) if _is_one_of(x, kinds)]:
            names = {_type_of(value) for value in values}
            if not kinds and len(names) == 1:
                node["type"] = names.pop()
            node["enum"] = values
        if forms and not unites:
            node |= self._forms(forms, kinds, depth, refs)
        if not node.keys() & {"type", "enum", "anyOf"} and "properties" not in flat:
            node["type"] = [*TYPES]
        if isinstance(flat.get("properties"), Mapping) or "object" in kinds:
            node |= self._fields(flat, depth, refs, said)
        if "items" in flat or "array" in _types(node):
            node["items"] = self._items(flat, depth, refs)
        node |= _strings(flat, said)
        node |= _numbers(flat)
        if "default" in flat and (kept := _clean([flat["default"]])):
            node["default"] = kept[0]
        if examples := _clean(listed(flat.get("examples"))):
            node["examples"] = examples
        if flat.get("uniqueItems") is True:
            node["uniqueItems"] = True
        said += [self._shown(key, flat[key]) for key in _TELLING if key in flat]
        large = ("enum", "default", "examples")
        self.left -= sum(len(str(node[key])) for key in large if key in node)
        return node, said

    def _shown(self, key: str, value: Any) -> str:
        """Show a keyword that is left out."""
        if self.left <= 0:
            return ""
        try:
            text = json.dumps({key: value}, ensure_ascii=False, default=dict)
        except (TypeError, ValueError, RecursionError):
            return ""
        self.left -= len(text)
        return f"It must also fit {cut_to(well_formed(text), MAX_SAID)}."

    def _forms(
        self, forms: list[Any], kinds: list[str], depth: int, refs: frozenset[str]
    ) -> Node:
        """Reduce the forms of a schema; empty if one of them allows anything."""
        nodes: list[Node] = []
        for form in forms:
            if form is False:
                continue
            if self.left <= 0:
                return {}
            if kinds and isinstance(form, Mapping) and not form.keys() & _OF_A_TYPE:
                form = {**form, "type": kinds}
            nodes.append(self.node(form, depth + 1, refs))
        if not nodes or _anything() in nodes:
            return {}
        return {"anyOf": different(nodes)}

    def _fields(
        self, flat: Node, depth: int, refs: frozenset[str], said: list[str]
    ) -> Node:
        """Reduce the properties of an object."""
        properties: Node = {}
        lost: dict[str, None] = {}
        for name, schema in mapping(flat.get("properties")).items():
            if schema is False:
                continue
            if self.left <= 0 or not _KEY.fullmatch(name):
                lost[name] = None
                continue
            self.left -= len(name)
            properties[name] = self.node(schema, depth + 1, refs)
        names = [name for name in listed(flat.get("required")) if isinstance(name, str)]
        for name in dict.fromkeys(names):
            if name in properties or name in lost:
                continue
            if self.left > 0 and _KEY.fullmatch(name):
                properties[name] = self.node(True, depth + 1, refs)
            else:
                lost[name] = None
        node: Node = {}
        if properties or "properties" in flat:
            node["properties"] = properties
        if required := [name for name in dict.fromkeys(names) if name in properties]:
            node["required"] = required
        others = flat.get("additionalProperties")
        if not lost and "patternProperties" not in flat:
            if others is False:
                node["additionalProperties"] = False
            elif isinstance(others, Mapping) and others:
                node["additionalProperties"] = self.node(others, depth + 1, refs)
        needed = frozenset(names)
        said.append(_also("needs", [name for name in lost if name in needed]))
        said.append(_also("takes", [name for name in lost if name not in needed]))
        return node

    def _items(self, flat: Node, depth: int, refs: frozenset[str]) -> Node:
        """Return the schema of every entry of an array."""
        items = flat.get("items")
        first = listed(items) or listed(flat.get("prefixItems"))
        if isinstance(items, list | tuple):
            items = flat.get("additionalItems")
        most = flat.get("maxItems")
        complete = items is False or (is_number(most) and most <= len(first))
        if first and (complete or isinstance(items, Mapping)):
            each = first if complete else [*first, items]
            return self.node({"anyOf": each}, depth + 1, refs)
        if first or not isinstance(items, Mapping) or not items:
            return {}
        return self.node(items, depth + 1, refs)


_OF_A_TYPE: Final = frozenset({"type", "$ref", "allOf", "anyOf", "oneOf", "enum"}) | {
    "const",
    "properties",
}


def _anything() -> Node:
    return {"type": [*TYPES], "items": {}}


def _types(flat: Node) -> list[str]:
    """Return the types that a schema names."""
    said = flat.get("type")
    names = [x.lower() for x in listed(said) or [said] if isinstance(x, str)]
    return [name for name in dict.fromkeys(names) if name in TYPES]


def _strings(flat: Node, said: list[str]) -> Node:
    """Return the keyword of strings; say what others say of them, and of arrays."""
    node: Node = {}
    for key in (key for key in _COUNTS if key in flat):
        count = flat[key]
        # None or more is no rule, and fewer than none is no count.
        if is_number(count) and count >= (1 if key.startswith("min") else 0):
            said.append(_COUNTS[key].format(math.floor(count)))
    form = _text(flat.get("format"))
    if form in FORMATS:
        node["format"] = form
    elif form:
        said.append(f"Format: {cut_to(form, MAX_SAID)}.")
    if text := _text(flat.get("pattern")):
        said.append(f"Pattern: {cut_to(text, MAX_SAID)}")
    return node


def _numbers(flat: Node) -> Node:
    """Return the keywords of numbers."""
    said = (key for key in _BOUNDS if key in flat and is_number(flat[key]))
    node: Node = {key: flat[key] for key in said}
    # In draft 4 of JSON Schema these say of the bound that it is exclusive.
    for bound, exclusive in (_BOUNDS[::2], _BOUNDS[1::2]):
        if flat.get(exclusive) is True and bound in node:
            node[exclusive] = node.pop(bound)
    step = flat.get("multipleOf")
    if is_number(step) and step > 0:
        node["multipleOf"] = step
    return node


def _clean(values: list[Any]) -> list[Any]:
    """Return the different values of which every server can read the JSON."""
    found: dict[str, Any] = {}
    for value in values:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # the same number, in JSON Schema
        try:
            text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=dict)
            text.encode()
        except (TypeError, ValueError, RecursionError):
            continue
        if all(map(is_number, _numbers_in(value))):
            found.setdefault(text, value)
    return list(found.values())


def _numbers_in(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            return
        case int() | float():
            yield value
        case Mapping():
            for each in value.values():
                yield from _numbers_in(each)
        case list() | tuple():
            for each in value:
                yield from _numbers_in(each)


def _is_one_of(value: Any, kinds: list[str]) -> bool:
    """Return whether a value has one of these types; no types are any type."""
    kind = _type_of(value)
    return not kinds or kind in kinds or (kind == "integer" and "number" in kinds)


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case float() if not value.is_integer():
            return "number"
        case int() | float():
            return "integer"
        case str():
            return "string"
        case None:
            return "null"
        case Mapping():
            return "object"
    return "array"


def _is_of_object(form: Any) -> bool:
    """Return whether a form only says which fields an object has."""
    known = {"required", "properties", "title", "description", "additionalProperties"}
    return isinstance(form, Mapping) and form.keys() <= known


def _also(verb: str, names: list[str]) -> str:
    """Say which fields cannot be shown; empty without any."""
    if not names:
        return ""
    shown = map(well_formed, names[:MAX_SAID])
    quoted = (json.dumps(name, ensure_ascii=False) for name in shown)
    return cut_to(f"It also {verb} {', '.join(quoted)}", MAX_SAID) + "."


def _text(value: Any) -> str:
    return well_formed(value).strip() if isinstance(value, str) else ""


def _joined(sentences: list[str]) -> str:
    return " ".join(filter(None, sentences))
