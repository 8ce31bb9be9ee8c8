"""The way from a key of the file to a field: units in its name, ranges, emptiness;
and when a change of it takes effect.

Every key declares when, itself or by the section that it is in: the declaration of a
field holds for all fields below it. A reload follows it (`effects`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import attrs

from glyphoxa_trio.units import seconds


@attrs.frozen
class Unit:
    """The unit of a duration in the file: the end of its key, and the conversion."""

    suffix: str
    in_seconds: Callable[[float], float]


def of_minutes(minutes: float) -> float:
    return minutes * 60


def of_hours(hours: float) -> float:
    return hours * 3600


class TakesEffect(StrEnum):
    """When a change of a key takes effect in a program that runs and reloads."""

    LIVE = "live"  # from the next turn on, or sooner
    NEXT_START = "next start"
    OFF_AT_ONCE = "off at once"  # a switch; switching on waits for the next start


_DECLARED: Final = "takes effect"
LIVE: Final[Mapping[str, Any]] = {_DECLARED: TakesEffect.LIVE}
NEXT_START: Final[Mapping[str, Any]] = {_DECLARED: TakesEffect.NEXT_START}
OFF_AT_ONCE: Final[Mapping[str, Any]] = {_DECLARED: TakesEffect.OFF_AT_ONCE}


def declared(field: attrs.Attribute[Any]) -> TakesEffect | None:
    """Return the declaration of the field for itself and all fields below it; None if
    those declare it themselves."""
    found: TakesEffect | None = field.metadata.get(_DECLARED)
    return found


class NotEmpty:
    """Marks a text that means nothing when it is empty."""


InMs = Annotated[float, Unit("_ms", seconds)]
InSeconds = Annotated[float, Unit("_seconds", float)]
InMinutes = Annotated[float, Unit("_minutes", of_minutes)]
InHours = Annotated[float, Unit("_hours", of_hours)]
Text = Annotated[str, NotEmpty()]


def above_zero(self: Any, field: attrs.Attribute[Any], value: float) -> None:
    if not _number(self, field, value) > 0:
        raise _wrong(self, field, "must be more than 0")


def not_negative(self: Any, field: attrs.Attribute[Any], value: float) -> None:
    if not _number(self, field, value) >= 0:
        raise _wrong(self, field, "must not be negative")


def not_empty(
    self: Any, field: attrs.Attribute[Any], value: str | tuple[str, ...]
) -> None:
    if not value or (isinstance(value, str) and not value.strip()):
        raise _wrong(self, field, "must not be empty")


def _number(self: Any, field: attrs.Attribute[Any], value: Any) -> float:
    if not isinstance(value, (int, float)):
        raise _wrong(self, field, f"expected a number, got {type(value).__name__}")
    return value


def _wrong(self: Any, field: attrs.Attribute[Any], what: str) -> ValueError:
    """An error about a value, with the name of its field. ``self`` is None for the
    reader of a file, which says the place itself."""
    if self is None:
        return ValueError(what)
    return ValueError(f"{type(self).__name__}.{field.name} {what}")


if_given: Final = attrs.validators.optional
