"""Foreign JSON schemas, compiled by `jsonschema-rs`, within bounds.

The library is fast and cannot be interrupted, so its input is measured first: the size
of a schema, and the visits of one value in it, which references may multiply without
end. References stay inside the schema, and nothing is ever fetched. The library is
imported on first use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from .looks import (
    CURRENT,
    DEEPEST,
    DIALECTS,
    INSIDE_LISTS,
    MAPS,
    SAME_LISTS,
    TooMuchWork,
    most_looks,
)

if TYPE_CHECKING:
    from jsonschema_rs import Validator

MOST_BYTES: Final = 64 * 1024  # of a schema, as JSON
MOST_VALUES: Final = 3_000

_WHOLE: Final = "urn:glyphoxa:whole"
_VALUES: Final = ("const", "default", "enum", "examples")  # these hold no schemas
_BACKTRACKS: Final = 10_000  # steps of a regular expression of ours


class SchemaTooLarge(ValueError):
    """A schema exceeds a bound; the text says which."""


@attrs.frozen
class Compiled:
    """A sound schema, compiled.

    Args:
      kind: the library's class for its dialect.
      schema: the schema that was compiled: without dialects, and if it is foreign,
        without regular expressions.
      work: the most visits of one value; None if that is more than a check may cost.
    """

    kind: type[Validator]
    validator: Validator
    schema: Any
    work: int | None


def compiled(parameters: Any, *, foreign: bool) -> Compiled:
    """Compile a schema.

    Args:
      foreign: the schema is a server's. Its regular expressions are left to that
        server: they may be in another language's dialect.

    Raises:
      SchemaTooLarge: for more than 64 KiB, 3,000 values or 64 levels.
      Exception: the library's, or ours: the schema is not sound.
    """
    text = as_text(parameters)
    if len(text) > MOST_BYTES:
        raise SchemaTooLarge(f"it has {len(text)} bytes, at most {MOST_BYTES} are read")
    schema = _Copy(foreign).of(json.loads(text))
    name = parameters.get("$schema") if isinstance(parameters, Mapping) else None
    try:
        work: int | None = most_looks(schema)
    except TooMuchWork:
        work = None
    kind = _kind(name)
    return Compiled(kind, _built(kind, schema), schema, work)


def part_of(whole: Compiled, part: Any) -> Validator:
    """Return a validator for a subschema whose references lead into the whole.

    Raises:
      Exception: the library's.
    """
    import jsonschema_rs

    registry = jsonschema_rs.Registry([(_WHOLE, whole.schema)])
    return _built(whole.kind, _leading(part), registry=registry)


def values_in(value: Any, most: int) -> int:
    """Return the number of values in this one, with itself; ``most`` + 1 if more."""
    found = 0
    waiting = [value]
    while waiting and found <= most:
        found += 1
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return found if not waiting else most + 1


def as_text(schema: Any) -> str:
    """Return the schema as JSON."""
    return json.dumps(schema, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _kind(dialect: object) -> type[Validator]:
    import jsonschema_rs

    known = dialect.rstrip("#") if isinstance(dialect, str) else ""
    found: type[Validator] = getattr(jsonschema_rs, DIALECTS.get(known, CURRENT))
    return found


def _built(kind: type[Validator], schema: Any, **more: Any) -> Validator:
    import jsonschema_rs

    return kind(
        schema,
        mask="it",  # instead of the whole value, in each error's text
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
        offline=True,
        **more,
    )


def _leading(schema: Any) -> Any:
    """Return a copy whose references lead into the whole schema."""
    if isinstance(schema, dict):
        copy = {key: _leading(value) for key, value in schema.items()}
        reference = copy.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            copy["$ref"] = f"{_WHOLE}{reference}"
        return copy
    if isinstance(schema, list):
        return [_leading(value) for value in schema]
    return schema


@attrs.define
class _Copy:
    """The copying of a schema, without keywords to ignore, its values counted."""

    foreign: bool
    counted: int = 0

    def of(self, schema: Any, depth: int = 0) -> Any:
        """Return a copy without dialects, which would change the rules further in."""
        if not isinstance(schema, dict):
            return self._plain(schema, depth)
        self._count(depth)
        copy: dict[str, Any] = {}
        for key, value in schema.items():
            if key == "$schema" and isinstance(value, str):
                continue
            if self.foreign and self._left_to_the_server(key, schema):
                continue
            if key in _VALUES:
                copy[key] = self._plain(value, depth + 1)
            elif isinstance(value, dict) and key in MAPS:
                copy[key] = self._named(value, depth)
            elif isinstance(value, dict):
                copy[key] = self.of(value, depth + 1)
            elif isinstance(value, list) and key in (*SAME_LISTS, *INSIDE_LISTS):
                self._count(depth)
                copy[key] = [self.of(inner, depth + 1) for inner in value]
            else:
                copy[key] = self._plain(value, depth + 1)
        return copy

    def _left_to_the_server(self, key: str, schema: dict[str, Any]) -> bool:
        """Return True if a keyword is, or depends on, a regular expression."""
        if key == "additionalProperties":
            return "patternProperties" in schema
        return key in ("pattern", "patternProperties", "unevaluatedProperties")

    def _named(self, schemas: dict[str, Any], depth: int) -> dict[str, Any]:
        self._count(depth)
        return {name: self.of(value, depth + 1) for name, value in schemas.items()}

    def _plain(self, value: Any, depth: int) -> Any:
        self._count(depth)
        if isinstance(value, dict):
            return {name: self._plain(x, depth + 1) for name, x in value.items()}
        if isinstance(value, list):
            return [self._plain(inner, depth + 1) for inner in value]
        return value

    def _count(self, depth: int) -> None:
        self.counted += 1
        if self.counted > MOST_VALUES:
            raise SchemaTooLarge(f"it has more than {MOST_VALUES} values")
        if depth > DEEPEST:
            raise SchemaTooLarge(f"it is nested more than {DEEPEST} levels deep")
