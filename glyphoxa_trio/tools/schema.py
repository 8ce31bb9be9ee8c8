"""A tool's JSON schema, compiled once, and the check of a model's arguments.

Schemas come from external servers, so the size of a schema and the work of one check
are bounded, references are followed only inside the schema, and nothing is ever
fetched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError

from .arguments import InvalidArguments, cut, load, shown
from .looks import BUDGET
from .loose_arguments import fitted
from .validators import Compiled, as_text, compiled, values_in

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

MAX_PROBLEMS: Final = 5
MAX_MESSAGE: Final = 600

_FEW: Final = (
    5_000  # visits of values: up to so many, finding all problems takes a millisecond
)
_TOO_MUCH: Final = "$: too much to check, send less"


# The errors of schemas that were seen, by digest; None is no error. A server's list is
# read again at each start and at each change, and mostly has not changed.
_seen: dict[bytes, str | None] = {}
_MOST_SEEN: Final = 4_096


class BadSchema(GlyphoxaError):
    """The schema itself is broken: the author of the tool must act."""


@attrs.define(eq=False)
class ArgumentSchema:
    """The schema of one tool's arguments, compiled once.

    Args:
      parameters: a JSON schema; draft 2020-12 unless ``$schema`` says otherwise.
      foreign: the schema is a server's. Its regular expressions are left to that
        server: they may be in another language's dialect.
    """

    parameters: Mapping[str, Any]
    foreign: bool = False
    _compiled: Compiled | None = attrs.field(default=None, init=False)

    def warm(self) -> None:
        """Check now, and not at the first call, that the schema is sound. For one that
        was seen before this costs as much as serialising it.

        Raises:
          BadSchema: if it is invalid or too large, or has a dangling reference.
        """
        key = _digest(self.parameters, self.foreign)
        if key in _seen:
            wrong = _seen[key]
            if wrong is not None:
                raise BadSchema(wrong)
            return
        while len(_seen) >= _MOST_SEEN:
            del _seen[next(iter(_seen))]
        try:
            self.compiled()
        except BadSchema as error:
            _seen[key] = str(error)
            raise
        _seen[key] = None

    def compiled(self) -> Compiled:
        """Return the compiled schema.

        Raises:
          BadSchema: see `warm`.
        """
        if self._compiled is None:
            self._compiled = sound(self.parameters, foreign=self.foreign)
        return self._compiled

    def parse(self, text: str) -> dict[str, Any]:
        """Return the arguments in ``text``. Empty text is no arguments; 5.0 becomes 5.

        A number as text is a number where the schema asks for one, and so on
        (`loose_arguments.fitted`).

        Raises:
          InvalidArguments: with every problem and its place, up to five; of a large
            text only the first.
          BadSchema: see `warm`.
        """
        arguments = load(text)
        # There is at most one value per character.
        problem = problem_of(self.compiled(), arguments, most_values=1 + len(text))
        if problem is None:
            return arguments
        repaired = fitted(arguments, self.parameters)
        if repaired == arguments:
            raise InvalidArguments(problem)
        try:  # what was quoted in a text has the limits of all arguments
            repaired = load(json.dumps(repaired))
        except (InvalidArguments, ValueError, RecursionError):
            raise InvalidArguments(problem) from None
        if problem_of(self.compiled(), repaired) is not None:
            raise InvalidArguments(problem)
        return repaired


def sound(schema: Any, *, foreign: bool) -> Compiled:
    """Compile a schema.

    Raises:
      BadSchema: if it is invalid or too large, or has a dangling reference.
    """
    try:
        return compiled(schema, foreign=foreign)
    except BaseException as error:  # border: the schema is foreign
        if not _of_the_schema(error):
            raise
        raise BadSchema(_said(error)) from error


def _digest(schema: Any, foreign: bool) -> bytes:
    """Return a digest by which schemas are told apart.

    Raises:
      BadSchema: if it cannot be serialised.
    """
    try:
        text = as_text([schema, foreign])
    except (TypeError, ValueError, RecursionError) as error:
        raise BadSchema(_said(error)) from error
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def problem_of(
    checked: Compiled,
    value: Any,
    *,
    most_values: int | None = None,
    too_much: str | None = _TOO_MUCH,
) -> str | None:
    """Return the errors in a value, with their places; None if it fits.

    Args:
      most_values: an upper bound of the values in this one, if it is known.
      too_much: the answer if the check would take too much work.
    """
    work = checked.work
    if work is None:
        return too_much
    if most_values is None or most_values * work > BUDGET:
        most_values = values_in(value, BUDGET // work)
        if most_values * work > BUDGET:
            return too_much
    try:
        if checked.validator.is_valid(value):
            return None
        return _problems(checked, value, most_values * work)
    except BaseException as error:  # border: the schema is foreign
        if not _of_the_schema(error):
            raise
        return cut(f"$: cannot be checked: {_said(error)}", MAX_MESSAGE)


def _problems(checked: Compiled, value: Any, work: int) -> str:
    from jsonschema_rs import ValidationError

    # The library makes all errors at once, even if only one is read.
    errors: Iterable[ValidationError]
    if work <= _FEW:
        errors = checked.validator.iter_errors(value)
    else:
        try:
            checked.validator.validate(value)
        except ValidationError as error:
            errors = (error,)
    lines: dict[str, None] = {}
    for line in _lines(errors, checked.schema):
        lines[line] = None
        if len(lines) > MAX_PROBLEMS:
            break
    more = "; and more" if len(lines) > MAX_PROBLEMS else ""
    said = "; ".join(islice(lines, MAX_PROBLEMS))
    return cut(said, MAX_MESSAGE - len(more)) + more


def _of_the_schema(error: BaseException) -> bool:
    """Return True if the schema caused it; a panic of the library is no Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


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


def _lines(errors: Iterable[ValidationError], schema: Any) -> Iterator[str]:
    """Yield each error in words; all missing fields of one place are one error."""
    missing: dict[str, list[str]] = {}
    for error in errors:
        error = _closest(error)
        place = _place(error.instance_path)
        if error.kind.name == "required":
            missing.setdefault(place, []).append(error.kind.value)
        else:
            yield cut(f"{place}: {_reason(error, schema)}", 200)
    for place, names in missing.items():
        yield cut(f"{place}: missing {_list(names)}", 200)


def _closest(error: ValidationError) -> ValidationError:
    """Return the error of the alternative that fits best, if there is just one."""
    while error.kind.name in ("anyOf", "oneOf"):
        tried = [found for found in error.kind.value if found]
        # A value of another type was not meant for that alternative.
        near = [found for found in tried if not _another_type(found[0], error)]
        if len(near) != 1:
            break
        error = near[0][0]
    return error


def _another_type(inner: ValidationError, outer: ValidationError) -> bool:
    return inner.kind.name in ("type", "falseSchema", "const") and len(
        inner.instance_path
    ) == len(outer.instance_path)


def _reason(error: ValidationError, schema: Any) -> str:
    value = error.instance
    path = error.schema_path
    holder = _found(schema, path[:-1])
    keyword = str(path[-1]) if path else ""
    wanted = holder.get(keyword)
    match error.kind.name:
        case "additionalProperties":
            known = holder.get("properties", {})
            unknown = _list(error.kind.value)
            return f"unknown {unknown}; known: {_list(known) or 'none'}"
        case "type":
            names = wanted if isinstance(wanted, list) else error.kind.value
            return f"expected {' or '.join(map(str, names))}, got {shown(value)}"
        case "enum":
            return f"{shown(value)} is not one of {_list(error.kind.value)}"
        case "anyOf" | "oneOf":
            return f"{shown(value)} fits none of the allowed forms"
        case "falseSchema":
            return f"{shown(value)} is not allowed"
        case "uniqueItems":
            return "has items that are the same"
        case "not":
            form = cut(as_text(wanted), 60)
            return f"{shown(value)} should not be valid under {form}"
        case "propertyNames":
            return f"a field's name is not allowed: {error.message}"
    if keyword in _PHRASES and wanted is not None:
        return f"{shown(value)} {_PHRASES[keyword]} {shown(wanted)}"
    return f"{shown(value)}: {error.message}"


def _found(schema: Any, path: Sequence[str | int]) -> Mapping[str, Any]:
    """Return the subschema at a place, or an empty one."""
    for step in path:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            return {}
    return schema if isinstance(schema, dict) else {}


def _place(path: Iterable[str | int]) -> str:
    return "$" + "".join(
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if step.isidentifier()
        else f"[{shown(step)}]"
        for step in path
    )


def _list(values: Any) -> str:
    some = [shown(value) for value in islice(values, 13)]
    return ", ".join([*some[:12], "…"] if len(some) > 12 else some)


def _said(error: BaseException) -> str:
    message = getattr(error, "message", str(error))
    return f"{type(error).__name__}: {cut(str(message), 200)}"
