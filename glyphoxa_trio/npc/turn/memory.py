"""The memory of one NPC, which it keeps from turn to turn. Pure.

A memory outlives restarts of the session's actor, and moves to another actor by an
`NpcSnapshot`.
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
    "It was still running when this conversation was suspended; its outcome is unknown."
)


def _at_rest() -> bool:
    return True


@attrs.define(eq=False)
class NpcMemory:
    """The history of one NPC, and everything else that its next turn must know.

    Args:
      settings: the current settings; ``coming`` are the settings from the next turn on.
      call_id: the id of this conversation, for templates.
      session: the session that it belongs to.

    ``late``: the results of calls that continued after their turns, for the next turn
    to tell. ``left``: the calls that still run, with their tools. ``pending``: the
    calls that are not told yet; see `Caller`. ``shelf``: the loaded tools. ``chosen``:
    the tiers that were chosen before.
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
        """True if nothing is in progress that this memory will have to record."""
        return self._idle() and self.coming is None and not self.left

    def lives(self, idle: Callable[[], bool]) -> None:
        """Serve this actor, whose ``idle`` returns True while it has nothing to do."""
        self._idle = idle

    def restore(self, kept: NpcSnapshot) -> None:
        """Take over a snapshot, before the first turn."""
        self.turns, self._fallbacks = kept.turns, kept.fallbacks
        self.opening.restore(kept.opening)
        self._open()
        self.conversation.restore(kept.history, kept.overheard)
        self.late.extend(kept.late)
        self.shelf.restore(kept.loaded, kept.used, kept.wanted)
        self.fillers.go_on_after(kept.fillers)
        self._elevation, self.chosen = kept.elevation, kept.chosen

    def snapshot(self) -> NpcSnapshot:
        """Return a snapshot of everything but costs, which are kept elsewhere."""
        beside = (exchange.snapshot() for exchange in self._superseded)
        history = (*self.conversation.snapshot(), *beside)
        return attrs.evolve(self.without_history(), history=history)

    def without_history(self) -> NpcSnapshot:
        """Return a `snapshot` without the turns that have ended."""
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
        return NpcSnapshot(
            turns=self.turns,
            opening=self.opening.snapshot(self.settings.scene),
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
        """Apply the coming settings and the changed values of prompt and greeting.

        Called between two turns. Return True if the prompt may have changed.
        """
        if (settings := self.coming) is not None:
            self._become(settings)
        elif not self._stale:
            return False
        self._open()
        return True

    def go_over_to(self, settings: SessionSettings) -> None:
        """Use these settings from the next turn on."""
        self.coming = settings

    def set_scene(self, context: tuple[str, ...]) -> None:
        """Set the facts of the scene, from the next turn on."""
        self.opening.set_scene(context)
        self._stale = True

    def set_variables(self, values: Mapping[str, str | None]) -> None:
        """Set template variables of prompt and greeting, from the next turn on."""
        self.opening.set_variables(values)
        self._stale = True

    def greet(self) -> str:
        """Return the greeting, which is said now instead of before the conversation."""
        self._stale = True
        return self.opening.greet()

    def _become(self, settings: SessionSettings) -> None:
        before, self.settings, self.coming = self.settings, settings, None
        self.opening.become(
            settings.npc, settings.template_defaults, begun=self.turns > 0
        )
        # The embedder's facts about the scene hold until a reload changes the
        # configured ones.
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
        """Return the number of the next turn."""
        self.turns += 1
        return self.turns

    def choose(self, tier: Tier, now: float) -> None:
        """Record that a turn of this tier begins now."""
        self.chosen = self.chosen.then(tier, now)

    def elevate(self, tier: Tier, *, until: float) -> None:
        """Raise the ceiling to ``tier`` until that time on trio's clock."""
        self._elevation = tier, until

    def ceiling(self, settings: SessionSettings, now: float) -> Tier:
        """Return the slowest tier that may be used now; an elevation only raises it."""
        own = settings.npc.budget_tier
        if self._elevation is not None:
            tier, until = self._elevation
            if now < until:
                return max(tier, own)
        return own

    def leave(self, call: ToolCall, tool: str) -> None:
        """Record that this call continues after its turn."""
        self.left.append((call, tool))

    def keep_late(self, outcome: Outcome) -> None:
        """Keep the outcome of such a call for the next turn to tell."""
        self.left = [x for x in self.left if x[0] is not outcome.call]
        self.late.append(outcome)

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The lines to say when there is no answer."""
        return self.settings.npc.fallback or self.settings.turn.fallback

    def fallback(self) -> str:
        """Return the next of the lines to say when there is no answer."""
        lines = self.fallbacks
        self._fallbacks += 1
        return lines[(self._fallbacks - 1) % len(lines)]

    def tell(self, exchange: Exchange, *, settles: bool) -> None:
        """Have this turn tell what was overheard and the outcomes of late calls.

        If that ``settles`` the calls, the model may make them again.
        """
        self._told = tuple(self.late)
        exchange.late = self._told
        self.late.clear()
        told = [outcome.call for outcome in exchange.late] if settles else []
        for key in [key for key, call in self.pending.items() if call in told]:
            del self.pending[key]
        self.conversation.tell_news(exchange)

    def add(self, exchange: Exchange, *, beside: bool = False) -> list[Exchange]:
        """Remember a turn that has ended, and return what the history has more now.

        Args:
          exchange: the turn.
          beside: whether another turn is still running, which began before this one and
            comes first in the history.
        """
        if beside:
            self._superseded.append(exchange)
            del self._superseded[: -self.settings.turn.history]
            return []
        self._told = ()
        added, self._superseded = [exchange, *self._superseded], []
        for ended in added:
            self.conversation.add(ended)
        return added
