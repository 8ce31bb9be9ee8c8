"""A tool's JSON schema, compiled once and held against what models write.

Schemas come from other people's servers, so the work of one check is bounded,
references are followed only inside the schema, and nothing is ever fetched.
``jsonschema`` is imported on first use: it costs more than this whole package.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from glyphoxa_trio.errors import GlyphoxaError

from .arguments import InvalidArguments, cut, load, shown
from .plain import Plain
from .validators import Meter, OutOfBudget, as_text, checked

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_PROBLEMS: Final = 5
MAX_MESSAGE: Final = 600

# Steps of one check: a keyword costs one, and one more for every eight entries
# it goes through. References that double would otherwise never end; so it takes
# 0.1 s at worst, and some thousands of small objects still fit.
_BUDGET: Final = 20_000


class BadSchema(GlyphoxaError):
    """The schema itself is broken: whoever wrote the tool must act."""


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
    _plain: Plain | None = attrs.field(default=None, init=False)
    _meter: Meter = attrs.field(factory=Meter, init=False)

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
        plain = self._plain
        if (
            plain is not None
            # There is at most one value a character, so this stays in the budget.
            and (1 + len(text)) * plain.work <= _BUDGET
            and plain.fits(arguments)
        ):
            return arguments
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

        kind, schema, self._plain = checked(as_text(self.parameters), self.foreign)
        compiled: Validator = cast(Any, kind)(
            schema, registry=REGISTRY, format_checker=self._meter
        )
        return compiled


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
