"""The choice of a turn's tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.selection import Selection, Situation
from glyphoxa_trio.npc.selector import Select
from glyphoxa_trio.npc.topics import NamedTools
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.settings import Services, SessionSettings
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.tier import Tier

# The selector answers in microseconds; if it does not, the tier is FAST.
SELECTOR_PATIENCE: Final = 0.05


@attrs.define(eq=False)
class Tiers:
    """Asks the selector for one session's turns, and limits them to the ceiling.

    Args:
      asking: returns how many utterances wait for an answer.
    """

    _services: Services
    _memory: NpcMemory
    _asking: Callable[[], int]
    _slow: tuple[int, Grant, NamedTools] | None = attrs.field(default=None, init=False)

    def ceiling(self, settings: SessionSettings) -> Tier:
        """Return the slowest tier that the NPC may use now."""
        return self._memory.ceiling(settings, trio.current_time())

    async def tier_of(
        self,
        text: str,
        settings: SessionSettings,
        *,
        override: Tier | None = None,
        commit: bool,
        beside: int = 0,
    ) -> tuple[Tier, Selection]:
        """Return the tier of these words within the ceiling, and the selection.

        Args:
          text: the words.
          settings: the NPC's settings.
          override: the DM's tier, if any.
          commit: whether the turn begins, so that later selections know of it.
          beside: how many more utterances wait in the scene.
        """
        selection = await self._select(text, settings, override, commit, beside)
        return min(self.ceiling(settings), selection.tier), selection

    async def _select(
        self,
        text: str,
        settings: SessionSettings,
        override: Tier | None,
        commit: bool,
        beside: int,
    ) -> Selection:
        npc = settings.npc
        if override is None and not npc.select_tier:
            return Selection(
                self.ceiling(settings), "select_tier is off: the slowest tier"
            )
        now, before = trio.current_time(), self._memory.chosen
        situation = Situation(
            text=text,
            npc=npc.name,
            tools=self._slow_tools(settings.grant),
            names=self._services.names(self._memory.session),
            override=override,
            queue_depth=beside + self._asking(),
            first_turn=not before.any,
            since_deep=None if before.deep_at is None else now - before.deep_at,
        )
        try:
            selection = await self._services.selector.ask(
                Select(situation), within=SELECTOR_PATIENCE
            )
        except GlyphoxaError as error:
            return Selection(Tier.FAST, f"the tier selector failed: {error}")
        if commit:
            self._memory.choose(selection.tier, now)
        return selection

    def _slow_tools(self, grant: Grant) -> NamedTools:
        """Return the tools that the NPC may use and that are too slow for a FAST turn.

        A player who asks for one of them by name gets a slower turn.
        """
        snapshot = self._services.host.snapshot
        if self._slow is None or self._slow[:2] != (snapshot.revision, grant):
            tools = tuple(
                (x.key, x.exposed, x.estimate.tier)
                for x in snapshot.listings
                if x.estimate.tier > Tier.FAST and grant.covers(x.definition, x.exposed)
            )
            self._slow = snapshot.revision, grant, NamedTools(tools)
        return self._slow[2]
