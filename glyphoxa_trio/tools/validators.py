"""Validators for JSON schemas that somebody else wrote.

Sound or refused, without references that lead away, and every keyword charged to
the meter of its check. ``jsonschema`` is imported on first use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import attrs

from .arguments import canonical
from .plain import Plain, plain

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_Keyword = Callable[[Any, Any, Any, Any], Any]


class OutOfBudget(Exception):
    """The check in progress costs too much. Never leaves this room."""


@attrs.define(eq=False)
class Meter:
    """What the check in progress has left.

    It travels as the validator's format checker, the one thing of ours that
    ``jsonschema`` hands on to the validators of subschemas; it checks no formats,
    as the standard has it by default. So one class of validators serves all
    schemas of a dialect: making one costs as much as compiling two.
    """

    left: int = 0

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise OutOfBudget

    def check(self, instance: Any, format: Any) -> None:  # noqa: A002 its name there
        pass


# A list is read when a server starts, when it changes, and from what is remembered:
# mostly the same schemas, and checking one costs 2 ms.
@lru_cache(maxsize=4096)
def checked(text: str, foreign: bool) -> tuple[type[Validator], Any, Plain | None]:
    """The class of validators for a sound schema, and the schema without dialects.

    And what tells that arguments fit without a validator, if it is plain.
    """
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import (  # type: ignore[import-untyped]
        REGISTRY,  # published without types
    )
    from referencing.jsonschema import specification_with

    parameters = json.loads(text)
    # A `$schema` further in would swap our class for a stock one.
    schema = _without_dialects(parameters)
    base = validator_for(parameters, default=Draft202012Validator)
    # Foreign regular expressions may well be another language's.
    formats = None if foreign else base.FORMAT_CHECKER
    cast(Any, base).check_schema(schema, format_checker=formats)
    dialect = base.META_SCHEMA["$schema"]
    resource = specification_with(dialect).create_resource(schema)
    _check_references(resource, REGISTRY.resolver_with_root(resource))
    return _bounded(base, foreign), schema, plain(schema, dialect, foreign=foreign)


@lru_cache(maxsize=16)  # the dialects there are, twice
def _bounded(base: type[Validator], foreign: bool) -> type[Validator]:
    """The dialect, with every keyword charged to the meter of its check."""
    from jsonschema.validators import extend

    keywords = dict(base.VALIDATORS) | {"uniqueItems": _unique_items}
    if foreign:
        keywords |= {
            "pattern": _unchecked,
            "patternProperties": _unchecked,
            "additionalProperties": _unless_patterns(keywords["additionalProperties"]),
            "unevaluatedProperties": _unchecked,
        }
    counted = {name: _counted(check) for name, check in keywords.items()}
    bounded: type[Validator] = cast(Any, extend)(base, counted)
    return bounded


def _counted(check: _Keyword) -> _Keyword:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        length = len(value) if isinstance(value, (list, dict)) else 0
        validator.format_checker.spend(1 + length // 8)
        return check(validator, value, instance, schema)

    return counted


def as_text(schema: Any) -> str:
    """The schema as JSON: two that say the same are one to check."""
    return json.dumps(schema, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _unchecked(validator: Any, value: Any, instance: Any, schema: Any) -> None:
    """Left to the server."""


def _unless_patterns(check: _Keyword) -> _Keyword:
    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if "patternProperties" in schema:  # cannot tell what is additional
            return None
        return check(validator, value, instance, schema)

    return additional


def _unique_items(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    """As the standard has it, but never quadratic."""
    from jsonschema.exceptions import ValidationError

    if not (value and isinstance(instance, list)):
        return
    if len({canonical(item) for item in instance}) < len(instance):
        yield ValidationError("has items that are the same")


def _without_dialects(schema: Any) -> Any:
    """A plain copy that names no dialect; a property may still be so called."""
    if isinstance(schema, Mapping):
        return {
            key: _without_dialects(value)
            for key, value in schema.items()
            if not (key == "$schema" and isinstance(value, str))
        }
    if isinstance(schema, list | tuple):
        return [_without_dialects(value) for value in schema]
    return schema


def _check_references(resource: Any, resolver: Any) -> None:
    if isinstance(resource.contents, dict):
        reference = resource.contents.get("$ref")
        if isinstance(reference, str):
            resolver.lookup(reference)
    for inner in resource.subresources():
        _check_references(inner, resolver.in_subresource(inner))
