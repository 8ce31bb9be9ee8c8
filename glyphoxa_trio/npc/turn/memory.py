"""What one NPC keeps of its conversation from turn to turn. No trio."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from glyphoxa_trio.host import Shelf
from glyphoxa_trio.npc.conversation import Conversation, Exchange
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, NpcId, SessionKey
from glyphoxa_trio.npc.opening import Opening
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import Tier


@attrs.define(eq=False)
class Memory:
    """The history, and what the next turn has to know besides.

    Args:
      settings: as they are now; those that are ``coming`` hold from the next turn on.
      call_id: of this conversation, for templates.
      session: whose it is.

    ``late`` are results of calls that went on after their turns; the next turn tells
    them. ``pending`` are calls that are not told yet; see `Caller`. ``shelf`` has the
    tools that were loaded.
    """

    settings: SessionSettings
    _call_id: str = "session"
    session: SessionKey = DEFAULT_SESSION
    id: NpcId = attrs.field(init=False)
    opening: Opening = attrs.field(init=False)
    conversation: Conversation = attrs.field(init=False)
    shelf: Shelf = attrs.field(factory=Shelf, init=False)
    late: list[Outcome] = attrs.field(factory=list, init=False)
    pending: dict[tuple[str, str], ToolCall] = attrs.field(factory=dict, init=False)
    coming: SessionSettings | None = attrs.field(default=None, init=False)
    turns: int = attrs.field(default=0, init=False)
    _fallbacks: int = attrs.field(default=0, init=False)
    _elevation: tuple[Tier, float] | None = attrs.field(default=None, init=False)
    _stale: bool = attrs.field(default=False, init=False)
    _superseded: list[Exchange] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        settings = self.settings
        self.id = self.session.npc(settings.npc.name)
        self.opening = Opening(
            settings.npc, settings.template_defaults, self._call_id, settings.scene
        )
        self.conversation = Conversation((), settings.turn.history)
        self._open()

    def catch_up(self) -> bool:
        """Between two turns: go by the settings that are ``coming``, and by what was
        said of prompt and greeting. Whether the prompt may be another one now."""
        if (settings := self.coming) is not None:
            self._become(settings)
        elif not self._stale:
            return False
        self._open()
        return True

    def go_over_to(self, settings: SessionSettings) -> None:
        """Be configured so from the next turn on."""
        self.coming = settings

    def situate(self, context: tuple[str, ...]) -> None:
        """This holds where it is, from the next turn on."""
        self.opening.situate(context)
        self._stale = True

    def introduce(self, values: Mapping[str, object]) -> None:
        """Put these into prompt and greeting, from the next turn on."""
        self.opening.introduce(values)
        self._stale = True

    def greet(self) -> str:
        """The greeting, which is being said now and not before the conversation."""
        self._stale = True
        return self.opening.greet()

    def _become(self, settings: SessionSettings) -> None:
        before, self.settings, self.coming = self.settings, settings, None
        self.opening.become(
            settings.npc, settings.template_defaults, begun=self.turns > 0
        )
        # What an embedder has told of the scene counts until a reload says otherwise.
        if settings.scene != before.scene:
            self.opening.situate(settings.scene)

    def _open(self) -> None:
        self._stale = False
        self.conversation.begin_with(
            *self.opening.messages(),
            limit=self.settings.turn.history,
            most_overheard=self.settings.overheard,
        )

    def number(self) -> int:
        """Of the next turn."""
        self.turns += 1
        return self.turns

    def elevate(self, tier: Tier, *, until: float) -> None:
        self._elevation = tier, until

    def ceiling(self, settings: SessionSettings, now: float) -> Tier:
        """The slowest tier that may be used now; an elevation only raises it."""
        own = settings.npc.budget_tier
        if self._elevation is not None:
            tier, until = self._elevation
            if now < until:
                return max(tier, own)
        return own

    def fallback(self) -> str:
        """The next of the lines to say when there is nothing to say."""
        lines = self.settings.npc.fallback or self.settings.turn.fallback
        self._fallbacks += 1
        return lines[(self._fallbacks - 1) % len(lines)]

    def tell(self, exchange: Exchange) -> None:
        """This turn tells what was overheard, and what late calls came to: those may
        be made again."""
        exchange.tells(tuple(self.late))
        self.late.clear()
        told = [outcome.call for outcome in exchange.late]
        for key in [key for key, call in self.pending.items() if call in told]:
            del self.pending[key]
        self.conversation.tell_news(exchange)

    def add(self, exchange: Exchange, *, beside: bool = False) -> None:
        """Remember a turn that has ended.

        Args:
          beside: while another one runs, which was begun before and is told first.
        """
        if beside:
            self._superseded.append(exchange)
            del self._superseded[: -self.settings.turn.history]
            return
        for ended in (exchange, *self._superseded):
            self.conversation.add(ended)
        self._superseded.clear()
