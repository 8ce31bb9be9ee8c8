"""The state of one turn: what its engine works with, and what the turn leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

import trio

from glyphoxa_trio.config.model import TurnConfig
from glyphoxa_trio.host import CallsOfTurn, ToolHost, VisibleTools
from glyphoxa_trio.npc.clock import Clock
from glyphoxa_trio.npc.conversation import Exchange, Round
from glyphoxa_trio.npc.events import (
    Fallback,
    FellBack,
    LateResult,
    ModelFailed,
    ModelSwitched,
    Sentence,
    TextDelta,
    Timings,
    ToolsShown,
    TurnEvent,
)
from glyphoxa_trio.npc.filler import Fillers
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.npc.turn.speculation import Speculation
from glyphoxa_trio.providers.llm import LLM, LLMError, Switched, Usage
from glyphoxa_trio.tools.definition import OnInterrupt
from glyphoxa_trio.tools.gate import Grant, Reason
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import Tier

from .output import TurnOutput

Approve = Callable[[Sequence[ToolCall]], Awaitable[frozenset[str]]]


@attrs.define(eq=False, kw_only=True)
class TurnState:
    """One running turn.

    Args:
      settings: the settings when the turn began. What is taken away meanwhile is
        removed from ``grant`` and ``tier`` at once.
      host: runs tools.
      llm: the model.
      memory: the NPC's memory.
      output: delivers the events.
      exchange: what is remembered of the turn.
      tier: the tier of the turn.
      selected: the tier that the words call for, within the ceiling; it differs from
        ``tier`` if the engine does not go by words.
      grant: what the turn may use.
      tool_clock, model_clock: the time spent on tools and on models.
      approve: returns the ids of those calls that the DM approves; takes its own time.
      spent: called with the usage of each response that this turn has requested.
      nursery: the session's, for work that the turn does not wait for. Tasks in it must
        not fail.
      fillers: what is said while the turn waits for tools; None means nothing.
      speculation: what was begun of this turn before its words were final.

    ``opener``: what a fast model has said of the answer. ``first_text_at``: when the
    first words came. ``error``: the failure of the model. ``calls``: what its
    rounds of calls have in common.
    """

    settings: SessionSettings
    host: ToolHost
    llm: LLM
    memory: NpcMemory
    output: TurnOutput
    exchange: Exchange
    tier: Tier
    selected: Tier
    grant: Grant
    tool_clock: Clock
    model_clock: Clock
    nursery: trio.Nursery
    approve: Approve
    spent: Callable[[Usage], None]
    fillers: Fillers | None = None
    speculation: Speculation | None = None
    opener: str = attrs.field(default="", init=False)
    first_text_at: float | None = attrs.field(default=None, init=False)
    error: LLMError | None = attrs.field(default=None, init=False)
    calls: CallsOfTurn = attrs.field(factory=CallsOfTurn, init=False)

    @property
    def of(self) -> Mapping[str, Any]:
        """The fields that identify the turn in each of its events."""
        return self.output.of

    @property
    def config(self) -> TurnConfig:
        """The limits of the turn."""
        return self.settings.turn

    async def emit(self, event: TurnEvent) -> None:
        """Deliver an event; wait while the listener is slow."""
        await self.output.emit(event)

    async def voiced(self, round_: Round, index: int, sentence: str) -> None:
        """Deliver a sentence that the model speaks itself."""
        round_.sentences.append(sentence)
        event = Sentence(**self.of, text=sentence, round=index)
        await self.output.emit(event, voiced=True)

    def post(self, event: TurnEvent) -> None:
        """Deliver an event without waiting."""
        self.output.post(event)

    def narrow(self, grant: Grant, ceiling: Tier) -> None:
        """Reduce the turn's rights to what its NPC still has."""
        # Of several reductions in one turn the last one counts, with the original
        # grant.
        began_with = self.grant.also or self.grant
        self.grant = attrs.evolve(grant, also=began_with)
        self.tier = min(self.tier, ceiling)

    def without_fillers(self) -> None:
        """Say no fillers in this turn."""
        self.fillers = None

    def opened_with(self, text: str) -> None:
        """Record what a fast model has said of the answer."""
        self.opener = text
        self.text_begins()

    async def fail(self, error: LLMError) -> None:
        """Record that the model has failed, and deliver the event."""
        self.error = error
        await self.emit(self.model_failed(error))

    def text_begins(self) -> None:
        """Record when the first words of the answer came."""
        if self.first_text_at is None:
            self.first_text_at = trio.current_time()

    def keep_late(self, outcome: Outcome) -> None:
        """Keep the outcome of a call that outlasted the turn, for the next turn."""
        listing = self.host.snapshot.by_key.get(outcome.tool or "")
        policy = None if listing is None else listing.definition.interruption
        self.memory.keep_late(outcome)
        self.output.publish(
            LateResult(
                **self.of,
                outcome=outcome,
                speak=policy is OnInterrupt.FINISH_AND_SPEAK,
            )
        )

    async def write(self, text: str) -> None:
        """Deliver a piece of the answer."""
        await self.emit(TextDelta(**self.of, text=text))

    async def say(self, round_: Round, index: int, sentence: str) -> None:
        """Deliver a sentence whose pieces were written before."""
        round_.sentences.append(sentence)
        await self._said(sentence, index)

    async def say_at_once(self, round_: Round, index: int, sentence: str) -> None:
        """Write a sentence, and deliver it."""
        round_.sentences.append(sentence)
        await self.write(sentence)
        await self._said(sentence, index)

    def unsay(self, round_: Round, index: int, *, since: int) -> None:
        """Forget the round's sentences from that place on: they were a thought.

        What was said stays said; what waits to be spoken is not.
        """
        round_.unsay(since)
        self.output.unsay(index, since)

    async def _said(self, sentence: str, index: int) -> None:
        await self.emit(Sentence(**self.of, text=sentence, round=index))

    async def tell_shown(
        self,
        view: VisibleTools,
        index: int,
        *,
        remaining: float,
        forbidden: bool = False,
    ) -> None:
        """Announce the tools that the model may call, and why others are hidden."""
        unlisted = self.host.unlisted(self.output.id.npc)
        await self.emit(
            ToolsShown(
                **self.of,
                round=index,
                shown=tuple(listing.exposed for listing in view.shown),
                hidden=tuple(
                    (listing.exposed, no)
                    for listing, no in view.hidden
                    if no.reason is not Reason.NOT_GRANTED
                )
                + tuple((x.pattern, x.refusal) for x in unlisted),
                remaining=remaining,
                forbidden=forbidden,
                deferred=tuple(listing.exposed for listing in view.deferred),
            )
        )

    def model_failed(self, error: LLMError, *, which: str = "") -> ModelFailed:
        """Return the event of a failure. ``which`` names a model not the turn's."""
        return ModelFailed(**self.of, kind=error.kind, detail=which + error.detail)

    def switched(self, event: Switched) -> None:
        """Report that another model answers."""
        self.post(ModelSwitched(**self.of, **attrs.asdict(event)))

    async def fall_back(self, round_: Round, index: int, reason: Fallback) -> None:
        """Say a line of the configuration, because there is no answer."""
        await self.emit(FellBack(**self.of, reason=reason))
        await self.say_at_once(round_, index, self.memory.fallback())

    def why_nothing(self, round_: Round, *, last: bool) -> Fallback:
        """Return why there is no answer, though no model has failed."""
        outcomes = self.exchange.outcomes
        if round_.outcomes and last:
            return Fallback.ROUNDS_EXHAUSTED
        if outcomes and not any(outcome.ok for outcome in outcomes):
            return Fallback.TOOLS_FAILED
        return Fallback.EMPTY_ANSWER


def timings_of(turn: TurnState | None, began: float, now: float) -> Timings:
    """Return the timings of a turn that ends now.

    ``turn`` is None if it ended before it was prepared.
    """
    if turn is None:
        return Timings(model=0.0, tools=0.0, total=now - began)
    first = turn.first_text_at
    return Timings(
        model=turn.model_clock.spent(now),
        tools=turn.tool_clock.spent(now),
        total=now - began,
        first_text=None if first is None else first - began,
        head_start=0.0 if turn.speculation is None else turn.speculation.head_start,
    )
