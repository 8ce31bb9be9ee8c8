"""Settings of tools that the operator knows better than their authors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.definition import OnInterrupt, Schedule, ToolDefinition
from glyphoxa_trio.tools.naming import NO_NAME, is_exposed_name
from glyphoxa_trio.tools.tier import Tier

from .fields import InMs, InSeconds, Text, above_zero, if_given, not_negative


def _exposable(_: Any, __: attrs.Attribute[Any], value: str) -> None:
    if not is_exposed_name(value):
        raise ValueError(NO_NAME)


# What opens a door that hints of a server do not, each with the value that opens none.
_OPENS: Final[Mapping[str, bool | None]] = {
    "probe": None,  # arguments that it may be called with, unasked
    "expose_as": None,  # a name that NPCs may have been granted
    "read_only": False,
    "open_world": True,
    "idempotent": False,
}


@attrs.frozen(kw_only=True)
class ToolOverride:
    """Settings of a tool that the operator knows better than its author; None keeps the
    author's.

    ``probe`` holds arguments that calibration may call the tool with at any time,
    whatever the tool does with them. ``read_only`` and ``open_world`` overrule what
    a server says of its tool.
    """

    description: str | None = None
    expose_as: str | None = attrs.field(default=None, validator=if_given(_exposable))
    estimated_duration: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    max_duration: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    min_tier: Tier | None = None
    read_only: bool | None = None
    open_world: bool | None = None
    idempotent: bool | None = None
    cacheable: InSeconds | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    on_interrupt: OnInterrupt | None = None
    schedule: Schedule | None = None
    speech_field: str | None = None
    speech_template: str | None = None
    slow_response_threshold: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    slow_response_message: Text | None = None
    category: Text | None = None
    probe: Mapping[str, Any] | None = None

    def applied_to(self, definition: ToolDefinition) -> ToolDefinition:
        """Return the definition with the values stated here in place of its own.

        Raises:
          ValueError: if the two contradict each other, such as a cacheable tool
            that is neither read-only nor idempotent.
        """
        stated = {
            field.name: value
            for field in attrs.fields(ToolOverride)
            if (value := getattr(self, field.name)) is not None
        }
        return attrs.evolve(definition, **stated)

    def of_somebody_else(self) -> tuple[ToolOverride, tuple[str, ...]]:
        """Return the part that an author other than the operator may state, and the
        keys of the rest. Keys that make a tool stricter are always in the first
        part."""
        opens = tuple(
            key
            for key, shut in _OPENS.items()
            if getattr(self, key) is not None and getattr(self, key) is not shut
        )
        return attrs.evolve(self, **dict.fromkeys(opens)), opens
