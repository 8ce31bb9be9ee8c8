"""Every tool that a runtime had, as the judges have to know it."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from glyphoxa_trio.host.catalogue import Snapshot
from glyphoxa_trio.npc import ToolsShown
from glyphoxa_trio.tools.definition import Tool, ToolDefinition


@attrs.define(eq=False)
class OfferedTools:
    """By key: as a tool was described ``first``, all its ``definitions``, and the
    name that models see (``exposed``)."""

    first: dict[str, ToolDefinition] = attrs.field(factory=dict, init=False)
    definitions: dict[str, list[ToolDefinition]] = attrs.field(factory=dict, init=False)
    exposed: dict[str, str] = attrs.field(factory=dict, init=False)
    _hidden: set[str] = attrs.field(factory=set, init=False)

    def heard(self, played: Callable[[Tool], Tool] | None) -> Callable[[Tool], Tool]:
        """A stand-in for tools that notes each one of them."""

        def stand_in(tool: Tool) -> Tool:
            self.first.setdefault(tool.key, tool.definition)
            self.definitions.setdefault(tool.key, []).append(tool.definition)
            return tool if played is None else played(tool)

        return stand_in

    def look(self, snapshot: Snapshot) -> None:
        """Note the names that hold now."""
        for listing in snapshot.listings:
            self.exposed[listing.key] = listing.exposed

    def shown(self, event: ToolsShown) -> None:
        self._hidden.update(name for name, _ in event.hidden)

    def may_be_tried(self, snapshot: Snapshot, key: str | None) -> bool:
        """True if calls of the tool may have been on trial: its latency is unknown, or
        it was hidden and is on its way back."""
        listing = snapshot.by_key.get(key or "")
        return listing is not None and (
            listing.definition.estimated_duration is None
            or listing.exposed in self._hidden
        )
