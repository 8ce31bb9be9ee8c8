"""The number of times a JSON schema can visit one value, counted before a check.

References can multiply without end: sixty definitions of two references each visit a
value 2**60 times, for which there is no time. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

# The limit of visits to values in one check, all together: about 20 ns each.
BUDGET: Final = 250_000
DEEPEST: Final = 64  # levels of a value, and of a schema

CURRENT: Final = "Draft202012Validator"
DIALECTS: Final[Mapping[str, str]] = {
    "https://json-schema.org/draft/2020-12/schema": CURRENT,
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
_OF_A_DIALECT: Final = 100  # most visits of one value by a schema of schemas

# Keywords with subschemas: for the value itself, and for the values in it.
_SAME: Final = ("not", "if", "then", "else")
SAME_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME_MAPS: Final = ("dependentSchemas", "dependencies")
_INSIDE: Final = (
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "additionalItems",
    "unevaluatedItems",
    "items",
)
INSIDE_LISTS: Final = ("items", "prefixItems")
_INSIDE_MAPS: Final = ("properties", "patternProperties")
_DEFINITIONS: Final = ("$defs", "definitions")
MAPS: Final = frozenset((*_SAME_MAPS, *_INSIDE_MAPS, *_DEFINITIONS))
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

_MOST_STEPS: Final = 20_000  # steps of counting


class TooMuchWork(Exception):
    """The schema may visit a value more often than there is time for."""


def most_looks(schema: Any) -> int:
    """Return the most visits of one value by a schema.

    Raises:
      TooMuchWork: if it is more than a check may cost.
      LookupError: for a reference that leads out of the schema, or to itself.
    """
    return _Visits(schema).most()


def subschemas(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield the subschemas of a schema, each with the keyword that holds it."""
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key in (*_SAME, *_INSIDE) and isinstance(value, dict | bool):
            yield key, value
        elif key in (*SAME_LISTS, *INSIDE_LISTS) and isinstance(value, list):
            yield from ((key, inner) for inner in value)
        elif key in MAPS and isinstance(value, dict):
            for inner in value.values():
                if isinstance(inner, dict | bool):  # not a list of names
                    yield key, inner


@attrs.define(eq=False)
class _Subschema:
    """A subschema: its own cost, and the subschemas that it applies.

    A keyword such as `allOf` applies to the same value, one such as `contains` to each
    value inside of it, and of `properties` each of those has one subschema.
    """

    weight: int
    same: list[_Subschema] = attrs.field(factory=list)
    inside: list[_Subschema] = attrs.field(factory=list)
    one_of: list[_Subschema] = attrs.field(factory=list)
    looks: int = 0  # visits of a value on the level that is counted …
    above: int = 0  # … and on the level above it

    def count(self, top: bool) -> None:
        found = self.weight if top else 0
        for place in self.same:
            found += place.looks
        if not top:
            for place in self.inside:
                found += place.above
            found += max((place.above for place in self.one_of), default=0)
        self.looks = min(found, BUDGET + 1)


@attrs.define(eq=False)
class _Visits:
    """The count of visits of one value by a schema, level by level."""

    root: Any
    _places: dict[int, _Subschema] = attrs.field(factory=dict, init=False)
    _plainly: _Subschema = attrs.field(
        factory=lambda: _Subschema(1), init=False
    )  # true, false
    _ordered: list[_Subschema] = attrs.field(init=False)
    _below: list[tuple[list[_Subschema], Any]] = attrs.field(factory=list, init=False)
    _open: set[int] = attrs.field(factory=set, init=False)
    _resources: dict[int, Any] = attrs.field(factory=dict, init=False)
    _anchors: dict[str, list[Any]] = attrs.field(factory=dict, init=False)
    _named: list[Any] = attrs.field(factory=list, init=False)

    @_ordered.default
    def _first(self) -> list[_Subschema]:
        return [self._plainly]

    def most(self) -> int:
        """Return the largest count of all levels.

        Raises:
          TooMuchWork: if it is more than a check may cost.
          LookupError: for a reference that leads out of the schema, or to itself.
        """
        self._survey(self.root, self.root)
        root = self._place(self.root)
        while self._below:
            kind, schema = self._below.pop()
            kind.append(self._place(schema))
        edges = sum(
            1 + len(x.same) + len(x.inside) + len(x.one_of) for x in self._ordered
        )
        most = 0
        for level in range(DEEPEST + 1):
            for place in self._ordered:
                place.count(top=level == 0)
            most = max(most, root.looks)
            if most > BUDGET or edges * level > _MOST_STEPS:
                raise TooMuchWork
            if root.looks == 0 or all(x.looks == x.above for x in self._ordered):
                break  # and so on all levels below
            for place in self._ordered:
                place.above = place.looks
        return most

    def _place(self, schema: Any) -> _Subschema:
        """Return the node of a subschema, after those that it applies itself."""
        key = id(schema)
        if key in self._open:
            raise LookupError("a reference in it leads back to itself, without end")
        if not isinstance(schema, dict):
            return self._plainly
        if key in self._places:
            return self._places[key]
        lists = (x for x in schema.values() if isinstance(x, list | dict))
        weight = 1 + len(schema) + sum(len(x) for x in lists) // 8
        place = _Subschema(weight)
        self._open.add(key)
        for keyword, inner in subschemas(schema):
            if keyword in _SAME or keyword in SAME_LISTS or keyword in _SAME_MAPS:
                place.same.append(self._place(inner))
            elif keyword in ("properties", "additionalProperties", *INSIDE_LISTS):
                self._below.append((place.one_of, inner))
            elif keyword not in _DEFINITIONS:
                self._below.append((place.inside, inner))
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if not isinstance(reference, str):
                continue
            if reference.partition("#")[0] in DIALECTS:
                place.weight += _OF_A_DIALECT
                continue
            for target in self._targets(reference, schema):
                place.same.append(self._place(target))
        self._open.discard(key)
        self._places[key] = place
        self._ordered.append(place)
        return place

    def _survey(self, schema: Any, resource: Any) -> None:
        """Note the targets that references may have."""
        if not isinstance(schema, dict):
            return
        for keyword in ("$id", "id"):
            name = schema.get(keyword)
            if isinstance(name, str) and schema is not self.root:
                if name.startswith("#"):
                    self._anchors.setdefault(name[1:], []).append(schema)
                else:
                    self._named.append(schema)
                    resource = schema
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = schema.get(keyword)
            if isinstance(name, str):
                self._anchors.setdefault(name, []).append(schema)
        self._resources[id(schema)] = resource
        for _, inner in subschemas(schema):
            self._survey(inner, resource)

    def _targets(self, reference: str, schema: Any) -> list[Any]:
        """Return the targets of a reference: with names, any schema that has one."""
        address, _, place = reference.partition("#")
        resource = self._resources.get(id(schema), self.root)
        own = self.root.get("$id", "") if isinstance(self.root, dict) else ""
        if address and address != own:
            if place or not self._named:
                raise LookupError(
                    f"Unresolvable: {reference!r} leads out of the schema"
                )
            return self._named
        if address:
            resource = self.root
        if place and not place.startswith("/"):
            if place not in self._anchors:
                raise LookupError(f"Unresolvable: there is no {reference!r}")
            return self._anchors[place]
        return [_at(resource, place)]


def _at(schema: Any, pointer: str) -> Any:
    """Return the part of a schema that a JSON pointer refers to."""
    from urllib.parse import unquote

    found = schema
    for step in unquote(pointer).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(step) if isinstance(found, list) else step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise LookupError(f"Unresolvable: there is no {pointer!r}") from None
    return found
