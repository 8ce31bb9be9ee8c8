"""A tool's JSON schema, compiled once and held against what models write.

Schemas come from other people's servers, so the work of one check is bounded,
references are followed only inside the schema, and nothing is ever fetched.
``jsonschema`` is imported on first use: it costs more than this whole package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from glyphoxa_trio.errors import GlyphoxaError

from .arguments import InvalidArguments, canonical, cut, load, shown

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_PROBLEMS: Final = 5
MAX_MESSAGE: Final = 600

# Steps of one check: a keyword costs one, and one more for every eight entries
# it goes through. References that double would otherwise never end; so it takes
# 0.1 s at worst, and some thousands of small objects still fit.
_BUDGET: Final = 20_000

_Keyword = Callable[[Any, Any, Any, Any], Any]


class BadSchema(GlyphoxaError):
    """The schema itself is broken: whoever wrote the tool must act."""


class OutOfBudget(Exception):
    """The check in progress costs too much. Never leaves this room."""


@attrs.define(eq=False)
class _Meter:
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


@attrs.define(eq=False)
class ArgumentSchema:
    """The schema of one tool's arguments, compiled once.

    Args:
      parameters: a JSON schema; draft 2020-12 unless ``$schema`` says otherwise.
      foreign: the schema is somebody else's. Its regular expressions are left
        to the server that wrote them: one that backtracks would stop the
        whole process, and no deadline could help.
    """

    parameters: Mapping[str, Any]
    foreign: bool = False
    _compiled: Validator | None = attrs.field(default=None, init=False)
    _meter: _Meter = attrs.field(factory=_Meter, init=False)

    def warm(self) -> None:
        """Compile now, some milliseconds, instead of at the first call.

        Raises:
          BadSchema: if the schema is invalid, or a reference leads nowhere.
        """
        self.validator()

    def validator(self) -> Validator:
        """The compiled schema, with all its budget for one check.

        Raises:
          BadSchema: see `warm`.
        """
        compiled = self._compiled
        if compiled is None:
            try:
                compiled = self._compiled = self._compile()
            except Exception as error:  # border: the schema is other people's
                raise BadSchema(_said(error)) from error
        self._meter.left = _BUDGET
        return compiled

    def spend(self, steps: int) -> None:
        """Charge the check in progress.

        Raises:
          OutOfBudget: if it has cost too much.
        """
        self._meter.spend(steps)

    def parse(self, text: str) -> dict[str, Any]:
        """The arguments in ``text``. Empty text is no arguments; 5.0 becomes 5.

        Raises:
          InvalidArguments: naming every problem and its place, up to five.
          BadSchema: see `warm`; or the schema's references never end.
        """
        arguments = load(text)
        validator = self.validator()
        lines: dict[str, None] = {}
        try:
            for error in validator.iter_errors(arguments):
                lines[_describe(error)] = None
                if len(lines) > MAX_PROBLEMS:
                    break
        except OutOfBudget:
            raise InvalidArguments("$: too much to check, send less") from None
        except Exception as error:  # border: the schema is other people's
            raise BadSchema(_said(error)) from error
        if lines:
            more = "; and more" if len(lines) > MAX_PROBLEMS else ""
            said = "; ".join(islice(lines, MAX_PROBLEMS))
            raise InvalidArguments(cut(said, MAX_MESSAGE - len(more)) + more)
        return arguments

    def _compile(self) -> Validator:
        from jsonschema_specifications import (  # type: ignore[import-untyped]
            REGISTRY,  # published without types
        )

        kind, schema = _checked(_text(self.parameters), self.foreign)
        compiled: Validator = cast(Any, kind)(
            schema, registry=REGISTRY, format_checker=self._meter
        )
        return compiled


# A list is read when a server starts, when it changes, and from what is remembered:
# mostly the same schemas, and checking one costs 2 ms.
@lru_cache(maxsize=4096)
def _checked(text: str, foreign: bool) -> tuple[type[Validator], Any]:
    """The class of validators for a sound schema, and the schema without dialects."""
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    parameters = json.loads(text)
    # A `$schema` further in would swap our class for a stock one.
    schema = _without_dialects(parameters)
    base = validator_for(parameters, default=Draft202012Validator)
    # Foreign regular expressions may well be another language's.
    formats = None if foreign else base.FORMAT_CHECKER
    cast(Any, base).check_schema(schema, format_checker=formats)
    dialect = specification_with(base.META_SCHEMA["$schema"])
    resource = dialect.create_resource(schema)
    _check_references(resource, REGISTRY.resolver_with_root(resource))
    return _bounded(base, foreign), schema


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


def _text(schema: Any) -> str:
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


_PHRASES: Final = {
    "minimum": "is less than the minimum of",
    "maximum": "is greater than the maximum of",
    "exclusiveMinimum": "is not greater than",
    "exclusiveMaximum": "is not less than",
    "multipleOf": "is not a multiple of",
    "minLength": "has fewer characters than",
    "maxLength": "has more characters than",
    "minItems": "has fewer items than",
    "maxItems": "has more items than",
    "minProperties": "has fewer fields than",
    "maxProperties": "has more fields than",
    "pattern": "does not match",
    "const": "is not",
}


def _describe(problem: Any) -> str:
    from jsonschema.exceptions import best_match

    error = best_match([problem])  # of alternatives, the one that fits best
    return cut(f"{_place(error)}: {_reason(error)}", 200)


def _reason(error: Any) -> str:
    value, wanted = error.instance, error.validator_value
    match error.validator:
        case "required" if isinstance(wanted, list):
            return f"missing {_list(name for name in wanted if name not in value)}"
        case "additionalProperties" if "patternProperties" not in error.schema:
            known = error.schema.get("properties", {})
            unknown = _list(name for name in value if name not in known)
            return f"unknown {unknown}; known: {_list(known) or 'none'}"
        case "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            return f"expected {' or '.join(map(str, names))}, got {shown(value)}"
        case "enum":
            return f"{shown(value)} is not one of {_list(wanted)}"
        case "anyOf" | "oneOf" if error.context:
            return f"{shown(value)} fits none of the allowed forms"
        case str(keyword) if keyword in _PHRASES:
            return f"{shown(value)} {_PHRASES[keyword]} {shown(wanted)}"
        case None:  # a schema that is `false`
            return f"{shown(value)} is not allowed"
    return str(error.message)


def _place(error: Any) -> str:
    return "$" + "".join(
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if step.isidentifier()
        else f"[{shown(step)}]"
        for step in error.absolute_path
    )


def _list(values: Any) -> str:
    some = [shown(value) for value in islice(values, 13)]
    return ", ".join([*some[:12], "…"] if len(some) > 12 else some)


def _said(error: Exception) -> str:
    message = getattr(error, "message", str(error))
    return f"{type(error).__name__}: {cut(str(message), 200)}"
