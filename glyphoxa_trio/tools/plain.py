"""Plain schemas: those whose arguments can be told to fit without `jsonschema`.

Most tools have one: an object with typed fields, some of them required, some within
bounds. `jsonschema` makes a validator for every value it meets, which costs ten
times what the rest of a look at the arguments does, on every call.

What is said here is only "fits for certain". Whatever is not, and every schema with
a keyword that is not below, goes to `jsonschema`, which alone finds words for what is
wrong. So a mistake here could let something through, but never refuse it: a test
holds both against each other, and this file has to stay small.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

import attrs

Fits = Callable[[Any], bool]

DIALECTS: Final = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
    }
)

# They say nothing of what fits: a format is not checked, and without a reference
# nothing leads to a definition.
_NOTES: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "format",
        "$defs",
        "definitions",
    }
)
# Of values as `arguments.load` makes them, where 5.0 is the integer 5.
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
_NUMBERS: Final = frozenset({int, float})  # by exact type: True is none
_SCALARS: Final = frozenset({str, int, float, type(None)})
_OF_OBJECTS: Final = frozenset({"properties", "required", "additionalProperties"})


class _NotPlain(Exception):
    """Something that only `jsonschema` knows."""


@attrs.frozen
class Plain:
    """What tells that arguments fit.

    Args:
      fits: given what `arguments.load` made; False is "ask `jsonschema`".
      work: the most that `jsonschema` is charged for one value in them.
    """

    fits: Fits
    work: int


def plain(schema: Any, dialect: str, *, foreign: bool) -> Plain | None:
    """The checker of a sound schema; None if it is not plain.

    Args:
      foreign: its regular expressions are not ours to check.
    """
    if dialect not in DIALECTS:
        return None
    making = _Making(foreign)
    try:
        fits = making.subschema(schema)
    except _NotPlain:
        return None
    return Plain(fits or _anything, making.work)


@attrs.define
class _Making:
    """One schema on its way to a checker."""

    foreign: bool
    work: int = 1

    def subschema(self, schema: Any) -> Fits | None:
        """What tells that a value fits; None if every value does."""
        read = self._read(schema)
        if len(set(read.inside)) < len(read.inside):
            # What is in a value would be checked twice, and so on further in.
            raise _NotPlain
        self.work = max(self.work, read.charge)
        return _all(read.tests)

    def _read(self, schema: Any) -> _Read:
        read = _Read()
        if isinstance(schema, bool):
            if not schema:
                read.tests.append(_nothing)
            return read
        for keyword, wanted in schema.items():
            length = len(wanted) if isinstance(wanted, list | dict) else 0
            read.charge += 1 + length // 8
            if keyword in _TESTS:
                read.tests.append(_TESTS[keyword](wanted))
            elif keyword == "items":
                read.tests.append(self._array(wanted))
                read.inside.append(list)
            elif keyword == "anyOf":
                options = [self._read(option) for option in wanted]
                read.tests.append(_any([_all(option.tests) for option in options]))
                for option in options:
                    read.charge += option.charge
                    read.inside += option.inside
            elif not (
                keyword in _OF_OBJECTS
                or keyword in _NOTES
                or (keyword == "pattern" and self.foreign)
            ):
                raise _NotPlain
        if not _OF_OBJECTS.isdisjoint(schema):
            read.tests.append(self._object(schema))
            read.inside.append(dict)
        return read

    def _array(self, items: Any) -> Fits:
        if isinstance(items, list):
            raise _NotPlain
        inner = self.subschema(items)

        def fits(value: Any) -> bool:
            return inner is None or type(value) is not list or all(map(inner, value))

        return fits

    def _object(self, schema: Mapping[str, Any]) -> Fits:
        required = tuple(schema.get("required", ()))
        known = {
            name: self.subschema(inner)
            for name, inner in schema.get("properties", {}).items()
        }
        other = self.subschema(schema.get("additionalProperties", True))

        def fits(value: Any) -> bool:
            if type(value) is not dict:
                return True
            for name in required:
                if name not in value:
                    return False
            for name, entry in value.items():
                inner = known.get(name, other)
                if inner is not None and not inner(entry):
                    return False
            return True

        return fits


@attrs.define
class _Read:
    """One subschema: its tests, their charge, and the kinds of values looked into."""

    tests: list[Fits] = attrs.field(factory=list)
    charge: int = 0
    inside: list[type] = attrs.field(factory=list)


def _anything(value: Any) -> bool:
    return True


def _nothing(value: Any) -> bool:
    return False


def _all(tests: list[Fits]) -> Fits | None:
    return reduce(_both, tests) if tests else None


def _both(first: Fits, second: Fits) -> Fits:
    return lambda value: first(value) and second(value)


def _any(options: list[Fits | None]) -> Fits:
    tests = [test or _anything for test in options]
    return lambda value: any(test(value) for test in tests)


def _type(wanted: str | list[str]) -> Fits:
    names = [wanted] if isinstance(wanted, str) else wanted
    kinds = frozenset(kind for name in names for kind in _TYPES[name])
    return lambda value: type(value) in kinds


def _among(wanted: list[Any]) -> Fits:
    """One of these scalars; whether true is among them, `jsonschema` knows."""
    allowed = frozenset(one for one in wanted if type(one) in _SCALARS)
    return lambda value: type(value) in _SCALARS and value in allowed


def _bound(kinds: frozenset[type], holds: Callable[[Any, Any], bool]) -> Any:
    return lambda bound: lambda value: type(value) not in kinds or holds(value, bound)


_TESTS: Final[Mapping[str, Callable[[Any], Fits]]] = {
    "type": _type,
    "enum": _among,
    "const": lambda wanted: _among([wanted]),
    "minimum": _bound(_NUMBERS, operator.ge),
    "maximum": _bound(_NUMBERS, operator.le),
    "exclusiveMinimum": _bound(_NUMBERS, operator.gt),
    "exclusiveMaximum": _bound(_NUMBERS, operator.lt),
    "minLength": _bound(frozenset({str}), lambda value, least: len(value) >= least),
    "maxLength": _bound(frozenset({str}), lambda value, most: len(value) <= most),
    "minItems": _bound(frozenset({list}), lambda value, least: len(value) >= least),
    "maxItems": _bound(frozenset({list}), lambda value, most: len(value) <= most),
    "minProperties": _bound(
        frozenset({dict}), lambda value, least: len(value) >= least
    ),
    "maxProperties": _bound(frozenset({dict}), lambda value, most: len(value) <= most),
}
