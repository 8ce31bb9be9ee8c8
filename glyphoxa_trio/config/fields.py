"""How a key of the file becomes a field: units in its name, ranges, emptiness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import attrs

from glyphoxa_trio.units import seconds


@attrs.frozen
class Unit:
    """How the file writes a duration: the end of its key, and the conversion."""

    suffix: str
    in_seconds: Callable[[float], float]


def of_minutes(minutes: float) -> float:
    return minutes * 60


def of_hours(hours: float) -> float:
    return hours * 3600


class NotEmpty:
    """Marks a text that means nothing when it is empty."""


InMs = Annotated[float, Unit("_ms", seconds)]
InSeconds = Annotated[float, Unit("_seconds", float)]
InMinutes = Annotated[float, Unit("_minutes", of_minutes)]
InHours = Annotated[float, Unit("_hours", of_hours)]
Text = Annotated[str, NotEmpty()]


def above_zero(_: Any, __: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError("must be more than 0")


def not_negative(_: Any, __: attrs.Attribute[Any], value: float) -> None:
    if not value >= 0:
        raise ValueError("must not be negative")


def not_empty(_: Any, __: attrs.Attribute[Any], value: str | tuple[str, ...]) -> None:
    if not value or (isinstance(value, str) and not value.strip()):
        raise ValueError("must not be empty")


if_given: Final = attrs.validators.optional
