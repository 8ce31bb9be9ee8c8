"""What one NPC keeps of its conversation from turn to turn. Pure.

It outlives the actor's lives, and goes through a `NpcSnapshot` to another actor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from glyphoxa_trio.host import LoadedTools
from glyphoxa_trio.npc.conversation import Conversation, Exchange
from glyphoxa_trio.npc.filler import Fillers
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, NpcId, SessionKey
from glyphoxa_trio.npc.opening import Opening
from glyphoxa_trio.npc.selection import Chosen
from glyphoxa_trio.npc.snapshot import NpcSnapshot
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.tools.outcome import Effect, Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

_NOBODY_KNOWS: Final = (
    "It was still going on when this conversation was set aside, and nobody knows what"
    " came of it."
)


def _at_rest() -> bool:
    return True


@attrs.define(eq=False)
class NpcMemory:
    """The history, and what the next turn has to know besides.

    Args:
      settings: as they are now; those that are ``coming`` hold from the next turn on.
      call_id: of this conversation, for templates.
      session: whose it is.

    ``late`` are results of calls that went on after their turns; the next turn tells
    them. ``left`` are those that still do, with their tools. ``pending`` are calls that
    are not told yet; see `Caller`. ``shelf`` has the tools that were loaded; ``chosen``
    says which tiers were.
    """

    settings: SessionSettings
    _call_id: str = "session"
    session: SessionKey = DEFAULT_SESSION
    id: NpcId = attrs.field(init=False)
    opening: Opening = attrs.field(init=False)
    conversation: Conversation = attrs.field(init=False)
    shelf: LoadedTools = attrs.field(factory=LoadedTools, init=False)
    fillers: Fillers = attrs.field(init=False)
    chosen: Chosen = attrs.field(default=Chosen(), init=False)
    late: list[Outcome] = attrs.field(factory=list, init=False)
    left: list[tuple[ToolCall, str]] = attrs.field(factory=list, init=False)
    pending: dict[tuple[str, str], ToolCall] = attrs.field(factory=dict, init=False)
    coming: SessionSettings | None = attrs.field(default=None, init=False)
    turns: int = attrs.field(default=0, init=False)
    _fallbacks: int = attrs.field(default=0, init=False)
    _elevation: tuple[Tier, float] | None = attrs.field(default=None, init=False)
    _stale: bool = attrs.field(default=False, init=False)
    _superseded: list[Exchange] = attrs.field(factory=list, init=False)
    _told: tuple[Outcome, ...] = attrs.field(default=(), init=False)  # in this turn
    _idle: Callable[[], bool] = attrs.field(default=_at_rest, init=False)

    def __attrs_post_init__(self) -> None:
        settings = self.settings
        self.id = self.session.npc(settings.npc.name)
        self.opening = Opening(
            settings.npc, settings.template_defaults, self._call_id, settings.scene
        )
        self.conversation = Conversation((), settings.turn.history)
        self.fillers = Fillers(settings.filler)
        self._open()

    @property
    def idle(self) -> bool:
        """Whether nothing goes on that this will have to know of."""
        return self._idle() and self.coming is None and not self.left

    def lives(self, idle: Callable[[], bool]) -> None:
        """An actor goes by this from now on, which says whether it is ``idle``."""
        self._idle = idle

    def restore(self, kept: NpcSnapshot) -> None:
        """Be as it was then, before the first turn."""
        self.turns, self._fallbacks = kept.turns, kept.fallbacks
        self.opening.restore(kept.opening)
        self._open()
        self.conversation.restore(kept.history, kept.overheard)
        self.late.extend(kept.late)
        self.shelf.restore(kept.loaded, kept.used, kept.wanted)
        self.fillers.go_on_after(kept.fillers)
        self._elevation, self.chosen = kept.elevation, kept.chosen

    def snapshot(self) -> NpcSnapshot:
        """What is kept of it; of what it costs it knows nothing."""
        lost = [
            Outcome(
                call=call,
                tool=key,
                status=Status.PENDING,
                effect=Effect.UNKNOWN,
                message=_NOBODY_KNOWS,
            )
            for call, key in self.left
        ]
        loaded, used, wanted = self.shelf.snapshot()
        beside = (exchange.snapshot() for exchange in self._superseded)
        return NpcSnapshot(
            turns=self.turns,
            opening=self.opening.snapshot(self.settings.scene),
            history=(*self.conversation.snapshot(), *beside),
            overheard=self.conversation.untold,
            late=tuple(
                attrs.evolve(outcome, media=())
                for outcome in (*self._told, *self.late, *lost)
            ),
            loaded=loaded,
            used=used,
            wanted=wanted,
            elevation=self._elevation,
            chosen=self.chosen,
            fallbacks=self._fallbacks,
            fillers=self.fillers.said,
        )

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

    def set_scene(self, context: tuple[str, ...]) -> None:
        """This holds where it is, from the next turn on."""
        self.opening.set_scene(context)
        self._stale = True

    def set_variables(self, values: Mapping[str, str | None]) -> None:
        """Put these into prompt and greeting, from the next turn on."""
        self.opening.set_variables(values)
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
            self.opening.set_scene(settings.scene)

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

    def choose(self, tier: Tier, now: float) -> None:
        """A turn of this tier begins now."""
        self.chosen = self.chosen.then(tier, now)

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

    def leave(self, call: ToolCall, tool: str) -> None:
        """This call goes on after its turn."""
        self.left.append((call, tool))

    def keep_late(self, outcome: Outcome) -> None:
        """One of those has ended: the next turn tells."""
        self.left = [x for x in self.left if x[0] is not outcome.call]
        self.late.append(outcome)

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The lines to say when there is nothing to say."""
        return self.settings.npc.fallback or self.settings.turn.fallback

    def fallback(self) -> str:
        """The next of the lines to say when there is nothing to say."""
        lines = self.fallbacks
        self._fallbacks += 1
        return lines[(self._fallbacks - 1) % len(lines)]

    def tell(self, exchange: Exchange, *, settles: bool) -> None:
        """This turn tells what was overheard, and what late calls came to. If that
        ``settles`` them, those may be made again."""
        self._told = tuple(self.late)
        exchange.tells(self._told)
        self.late.clear()
        told = [outcome.call for outcome in exchange.late] if settles else []
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
        self._told = ()
        for ended in (exchange, *self._superseded):
            self.conversation.add(ended)
        self._superseded.clear()
