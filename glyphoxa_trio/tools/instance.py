"""Arguments that are generated from a schema, so that a tool can be probed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import chain, islice, product
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import attrs

from glyphoxa_trio.errors import GlyphoxaError

from .arguments import canonical, cut, load
from .looks import BUDGET
from .schema import ArgumentSchema
from .validators import Compiled, part_of, values_in

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_FORMATS: Final = {
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "date-time": "2000-01-01T00:00:00Z",
    "email": "a@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
# Keywords from which the type of a schema without one is guessed.
_HINTS: Final = {
    "object": {"properties", "required", "additionalProperties", "minProperties"},
    "array": {"items", "prefixItems", "minItems", "uniqueItems"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "multipleOf"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "boolean": set[str](),
    "null": set[str](),
}
# The cost of making a value, and of compiling a subschema, in visits of values.
_GUESS: Final = 500
_COMPILED: Final = 2_000
_LONGEST: Final = 2**16  # characters
_TRIES: Final = 16  # lengths of a string, steps of a number, pairs of branches


class _TooLong(Exception):
    """The generation has taken too many steps."""


class NoInstance(GlyphoxaError):
    """No arguments could be generated; the tool needs configured probe arguments."""


def minimal_instance(
    parameters: Mapping[str, Any], *, foreign: bool = False
) -> dict[str, Any]:
    """Return small arguments that the schema accepts, for probes.

    At every place, in this order: ``default``, ``examples``, ``const``, ``enum``, then
    the least value of its type. Patterns are met only if one letter or digit, repeated,
    meets them; those of a foreign schema are ignored.

    Raises:
      NoInstance: if no value that was tried is valid.
      BadSchema: see `ArgumentSchema.warm`.
    """
    checked = ArgumentSchema(parameters, foreign).compiled()
    try:
        maker = _Maker(checked)
        for guess in maker.valid(checked.schema, frozenset()):
            return load(canonical(guess))  # a copy, and within the bounds of a call
    except _TooLong:
        raise NoInstance("the schema takes too long to satisfy") from None
    except Exception as error:  # border: the schema is foreign
        said = f"{type(error).__name__}: {cut(str(error), 200)}"
        raise NoInstance(said) from error
    raise NoInstance("nothing that was tried satisfies the schema")


@attrs.define(eq=False)
class _Maker:
    """A generator of values for a schema: its own values first, then the least."""

    checked: Compiled
    left: int = BUDGET
    _validators: dict[int, tuple[Any, Validator]] = attrs.field(
        factory=dict, init=False
    )

    def valid(self, schema: Any, open_refs: frozenset[str]) -> Iterator[Any]:
        """Yield the generated values that the schema accepts."""
        if schema is False:
            return
        schema = {} if schema is True else schema
        for guess in self.guesses(schema, open_refs):
            if self._fits(schema, guess):
                yield guess

    def _fits(self, schema: Any, guess: Any) -> bool:
        work = self.checked.work
        if work is None:
            raise _TooLong
        self._spend(work * values_in(guess, BUDGET // work))
        if schema is self.checked.schema:
            return self.checked.validator.is_valid(guess)
        # The schema is kept beside its validator, so that its identity is not reused.
        known = self._validators.get(id(schema))
        if known is None:
            self._spend(_COMPILED)
            known = schema, part_of(self.checked, schema)
            self._validators[id(schema)] = known
        return known[1].is_valid(guess)

    def _spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooLong

    def guesses(
        self, schema: dict[str, Any], open_refs: frozenset[str]
    ) -> Iterator[Any]:
        self._spend(_GUESS)
        if "default" in schema:
            yield schema["default"]
        yield from schema.get("examples", ())
        if "const" in schema:
            yield schema["const"]
        elif "enum" in schema:
            yield from schema["enum"]
        elif "$ref" in schema:
            # A reference inside itself is left to other alternatives.
            reference, rest = schema["$ref"], _but(schema, "$ref")
            if reference not in open_refs:
                target = self._local(reference)
                yield from self.guesses(_merged(target, rest), open_refs | {reference})
        elif parts := schema.get("allOf"):
            merged = _but(schema, "allOf")
            for part in parts:
                merged = _merged(merged, part)
            yield from self.guesses(merged, open_refs)
        elif branches := schema.get("anyOf", schema.get("oneOf")):
            rest = _but(schema, "anyOf" if "anyOf" in schema else "oneOf")
            for branch in branches:
                if branch is not False:
                    yield from self.guesses(_merged(rest, branch), open_refs)
        else:
            for kind in _kinds(schema):
                yield from self._of(kind, schema, open_refs)

    def _of(
        self, kind: Any, schema: dict[str, Any], open_refs: frozenset[str]
    ) -> Iterator[Any]:
        match kind:
            case "object":
                yield from self._objects(schema, open_refs)
            case "array":
                yield from self._arrays(schema, open_refs)
            case "string":
                yield from _strings(schema)
            case "integer":
                yield from (n for n in _numbers(schema) if isinstance(n, int))
            case "number":
                yield from _numbers(schema)
            case "boolean":
                yield from (False, True)
            case "null":
                yield None

    def _objects(
        self, schema: dict[str, Any], open_refs: frozenset[str]
    ) -> Iterator[dict[str, Any]]:
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        made: dict[str, Any] = {}
        for name in schema.get("required", ()):
            for value in self.valid(properties.get(name, others), open_refs):
                made[name] = value
                break
            else:
                return
        for name in properties:
            if len(made) >= schema.get("minProperties", 0):
                break
            for value in islice(self.valid(properties[name], open_refs), 1):
                made.setdefault(name, value)
        yield made

    def _arrays(
        self, schema: dict[str, Any], open_refs: frozenset[str]
    ) -> Iterator[list[Any]]:
        items = schema.get("items", {})
        prefix = schema.get("prefixItems", items if isinstance(items, list) else [])
        rest = schema.get("additionalItems", {}) if isinstance(items, list) else items
        made: list[Any] = []
        seen: set[str] = set()
        while len(made) < schema.get("minItems", 0):
            place = prefix[len(made)] if len(made) < len(prefix) else rest
            for value in self.valid(place, open_refs):
                if not schema.get("uniqueItems") or canonical(value) not in seen:
                    seen.add(canonical(value))
                    made.append(value)
                    break
            else:
                return
        yield made

    def _local(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            return {}  # an anchor or a dialect: try any value, the check decides
        found = self.checked.schema
        for step in unquote(reference[1:]).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found[int(step) if isinstance(found, list) else step]
        return found


def _kinds(schema: dict[str, Any]) -> list[Any]:
    kind = schema.get("type")
    if kind is None:
        return sorted(
            ["string", "number", "boolean", "object", "array", "null"],
            key=lambda kind: _HINTS[kind].isdisjoint(schema),
        )
    return kind if isinstance(kind, list) else [kind]


def _strings(schema: dict[str, Any]) -> Iterator[str]:
    if (name := schema.get("format")) in _FORMATS:
        yield _FORMATS[name]
    least = schema.get("minLength", 0)
    if least > _LONGEST:
        return
    # Not the empty string first: many schemas accept it, but their tools do not.
    lengths = range(max(int(least), 1), max(int(least), 1) + _TRIES)
    letters = "aA01" if "pattern" in schema else "a"
    yield from (letter * length for length, letter in product(lengths, letters))
    yield ""
    if "pattern" in schema:
        yield schema["pattern"].removeprefix("^").removesuffix("$")


def _numbers(schema: dict[str, Any]) -> Iterator[float]:
    def bounds(*names: str) -> list[Fraction]:
        found = [schema[name] for name in names if name in schema]
        return [Fraction(n) for n in found if not isinstance(n, bool)]

    lowest = max(bounds("minimum", "exclusiveMinimum"), default=None)
    highest = min(bounds("maximum", "exclusiveMaximum"), default=None)
    step = next(iter(bounds("multipleOf")), Fraction(1))
    guesses = [Fraction(1), Fraction(0)]
    if lowest is not None:
        first = math.ceil(lowest / step)
        guesses += [(first + i) * step for i in range(_TRIES)]
        guesses += [lowest, (lowest + (lowest + 1 if highest is None else highest)) / 2]
    elif highest is not None:
        last = math.floor(highest / step)
        guesses += [(last - i) * step for i in range(_TRIES)] + [highest]
    else:
        guesses += [(2 + i) * step for i in range(_TRIES)]
    for guess in guesses:
        yield int(guess) if guess.denominator == 1 else float(guess)


def _but(schema: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}


def _merged(one: Any, other: Any) -> dict[str, Any]:
    """Join two schemas, as far as keywords can be joined; the check comes later."""
    one = one if isinstance(one, dict) else {}
    other = other if isinstance(other, dict) else {}
    joined = {**one, **other}
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        if key == "properties":
            both = {name: {"allOf": [a[name], b[name]]} for name in a.keys() & b.keys()}
            joined[key] = a | b | both
        elif key == "required" and isinstance(a, list):
            joined[key] = list(dict.fromkeys(chain(a, b)))
        elif key in ("anyOf", "oneOf"):
            pairs = islice(product(a, b), _TRIES)
            joined[key] = [{"allOf": list(pair)} for pair in pairs]
        elif key == "allOf":
            joined[key] = [*a, *b]
        elif key == "enum":
            joined[key] = [value for value in a if value in b]
        elif key.startswith(("min", "exclusiveMin")):
            joined[key] = max(a, b)
        elif key.startswith(("max", "exclusiveMax")):
            joined[key] = min(a, b)
        elif key == "type":
            joined[key] = [kind for kind in _kinds(one) if kind in _kinds(other)] or b
    return joined
