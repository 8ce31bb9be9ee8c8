"""Reduce a JSON schema to what Gemini accepts: fewer keywords, and no unknown one.

One unknown keyword closes the socket with 1007, so what cannot be expressed is left
out; arguments are still validated against the original schema. A reduced schema is made
of nodes of two forms: ``{"anyOf": [...]}`` alone, or one type with the keywords of that
type. Reducing it again changes nothing.

* References inside the schema are replaced by their target. A reference to a schema
  that contains it becomes only its type.
* ``allOf`` is joined. ``oneOf`` becomes ``anyOf``. Beside a type they are left out,
  except that an object may have the properties of any of them.
* ``const`` becomes an ``enum``; a null among types, forms or values becomes
  ``nullable``.
* Only strings have an ``enum``; the allowed values of numbers go into the description.
* A schema that allows anything becomes a string, an array of anything an array of
  strings. Gemini refuses an object without properties, so it gets an example property.
* Properties with names that Gemini refuses, and whatever exceeds the limits, are
  dropped.

Any JSON is accepted as input: a keyword with a value of the wrong type is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from .flat import NODE, Flattener, Node, forms_of
from .joining import kinds_of, values_of
from .keywords import (
    counts,
    cut,
    description,
    is_null,
    may_be_null,
    of_number,
    of_string,
    text_of,
)
from .uniting import choice, united
from .values import listed, mapping

MAX_DEPTH: Final = 8  # of nested objects, arrays and forms
MAX_CHARACTERS: Final = 24_000  # approximately, of the whole schema

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_EXAMPLE: Final = {"type": "STRING", "description": "One of any fields."}


def reduced(parameters: Mapping[str, Any]) -> Node | None:
    """Return the schema of a function's parameters; None if there are none."""
    root = _Reducer(parameters, MAX_CHARACTERS).node(parameters, 0, frozenset({"#"}))
    if root is None or not root.get("properties"):
        return None
    root.pop("nullable", None)
    return root


@attrs.define(eq=False)
class _Reducer(Flattener):
    """One reduction: the root schema for references, and the budget that is left."""

    def node(self, schema: Any, depth: int, refs: frozenset[str]) -> Node | None:
        """Reduce a schema. None if nothing fits the schema, or the budget is used up.

        ``refs`` are the references that contain it.
        """
        if schema is False or self.left <= 0:
            return None
        self.left -= NODE
        flat, refs = self.flat(mapping(schema), refs)
        if depth == 0:
            flat["type"] = "object"  # parameters are always an object
        if depth > MAX_DEPTH:
            return _leaf(next(iter(kinds_of(flat)), "STRING"))
        if forms := forms_of(flat):
            return self._forms(flat, forms, depth, refs)
        return self._typed(flat, depth, refs)

    def _forms(
        self, base: Node, forms: list[Any], depth: int, refs: frozenset[str]
    ) -> Node:
        """Reduce a schema of several forms, with the keywords beside them."""
        kinds = kinds_of(base)
        if kinds == ["OBJECT"]:
            objects, refs = self.objects(forms, refs)
            said = f"{text_of(base.get('description'))} {choice(base, objects)}"
            whole = united(base, objects) | {"description": said}
            return self._typed(whole, depth, refs)
        if kinds:
            return self._typed(base, depth, refs)
        text = text_of(base.get("description"))
        nullable = may_be_null(base)
        self.left -= len(text) + NODE
        nodes: list[Node] = []
        for form in forms:
            if is_null(form):
                nullable = True
            elif (one := self.node(form, depth + 1, refs)) is not None:
                nodes += one.get("anyOf", [one])
            elif self.left <= 0:
                break
        first: Node = dict(nodes[0]) if nodes else {"type": "STRING"}
        if text:
            first["description"] = cut(f"{text} {first.get('description', '')}")
        if nullable:
            first["nullable"] = True
        return _one_of([first, *nodes[1:]])

    def _typed(self, flat: Node, depth: int, refs: frozenset[str]) -> Node:
        """Reduce a schema without forms: one type, or one form for each type."""
        kinds = kinds_of(flat) or ["STRING"]
        if len(kinds) == 1:
            return self._of(kinds[0], flat, depth, refs)
        flat["nullable"] = may_be_null(flat)
        nodes: list[Node] = []
        for kind in kinds:
            self.left -= NODE
            nodes.append(self._of(kind, flat | {"type": kind}, depth + 1, refs))
            flat = flat | {"nullable": False, "description": ""}
        return _one_of(nodes)

    def _of(self, kind: str, flat: Node, depth: int, refs: frozenset[str]) -> Node:
        """Reduce a schema of one type."""
        if depth > MAX_DEPTH:
            return _leaf(kind)
        node: Node = {"type": kind}
        if said := description(kind, flat):
            node["description"] = said
        if may_be_null(flat):
            node["nullable"] = True
        match kind:
            case "STRING":
                node |= of_string(flat)
            case "INTEGER" | "NUMBER":
                node |= of_number(kind, flat)
            case "BOOLEAN" if isinstance(flat.get("default"), bool):
                node["default"] = flat["default"]
        self.left -= sum(len(str(part)) for part in node.values())
        self.left -= len(values_of(flat))  # a share for reading them
        if kind == "ARRAY":
            items = self.node(_items(flat), depth + 1, refs)
            node |= {"items": items or {"type": "STRING"}}
            node |= counts(flat, "minItems", "maxItems")
        elif kind == "OBJECT":
            node |= self._properties(flat, depth, refs)
        return node

    def _properties(self, flat: Node, depth: int, refs: frozenset[str]) -> Node:
        """Reduce the properties of an object."""
        properties: Node = {}
        for name, schema in mapping(flat.get("properties")).items():
            if self.left <= 0:
                break
            if _NAME.fullmatch(name):
                node = self.node(schema, depth + 1, refs)
                if node is not None:
                    self.left -= len(name)
                    properties[name] = node
        if not properties and depth > 0:
            example = self.node(_EXAMPLE, depth + 1, refs)
            self.left -= len("example")
            properties["example"] = example or _EXAMPLE
        return _object(properties, listed(flat.get("required")))


def _leaf(kind: str) -> Node:
    """Return the node for a schema that is nested too deep."""
    return {"type": "STRING" if kind in ("ARRAY", "OBJECT") else kind}


def _one_of(nodes: Iterable[Node]) -> Node:
    """Return one node, or the different ones as forms."""
    unique: list[Node] = []
    for node in nodes:
        if node not in unique:
            unique.append(node)
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def _object(properties: Node, required: Iterable[Any]) -> Node:
    """Return the keywords of an object."""
    names = (name for name in required if isinstance(name, str))
    known = list(dict.fromkeys(name for name in names if name in properties))
    node: Node = {"properties": properties} if properties else {}
    return node | ({"required": known} if known else {})


def _items(flat: Node) -> Any:
    """Return the schema of every entry of an array."""
    items = flat.get("items")
    if isinstance(items, Mapping):
        return items
    each = listed(items) or listed(flat.get("prefixItems"))
    return {"anyOf": each} if each else {}
