"""What an engine works with in one turn, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

import trio

from glyphoxa_trio.config.model import TurnConfig
from glyphoxa_trio.host import ToolHost, VisibleTools
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
    """One turn that runs.

    Args:
      settings: as they were when it began. What is taken away meanwhile is gone from
        ``grant`` and ``tier`` at once.
      approve: which of these calls somebody says yes to; takes its own time.
      selected: what its words call for, within the ceiling. ``tier`` is another one if
        the engine does not go by words.
      spent: told what each response took that this turn has asked for.
      nursery: the session's, for what the turn does not wait for. It must not fail.
      fillers: what is said while tools are waited for; None is nothing.
      speculation: what was begun of this turn before its words were said.

    ``opener`` is what a fast model has said of the answer, ``first_text_at`` when its
    first words came, ``unknown_effects`` as in `Caller`.
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
    unknown_effects: set[tuple[str, str]] = attrs.field(factory=set, init=False)

    @property
    def of(self) -> Mapping[str, Any]:
        """What each event says of whose it is."""
        return self.output.of

    @property
    def config(self) -> TurnConfig:
        return self.settings.turn

    async def emit(self, event: TurnEvent) -> None:
        await self.output.emit(event)

    async def voiced(self, round_: Round, index: int, sentence: str) -> None:
        """Hand on a sentence that its model says by itself."""
        round_.sentences.append(sentence)
        event = Sentence(**self.of, text=sentence, round=index)
        await self.output.emit(event, voiced=True)

    def post(self, event: TurnEvent) -> None:
        self.output.post(event)

    def narrow(self, grant: Grant, ceiling: Tier) -> None:
        """Leave it what it has, as far as its NPC still has it."""
        # Of several in one turn the last one counts, beside what it began with.
        began_with = self.grant.also or self.grant
        self.grant = attrs.evolve(grant, also=began_with)
        self.tier = min(self.tier, ceiling)

    def without_fillers(self) -> None:
        self.fillers = None

    def opened_with(self, text: str) -> None:
        """A fast model has said this much of the answer."""
        self.opener = text
        self.text_begins()

    async def fail(self, error: LLMError) -> None:
        """Its model has failed."""
        self.error = error
        await self.emit(self.model_failed(error))

    def text_begins(self) -> None:
        """Note when the first words of the answer came."""
        if self.first_text_at is None:
            self.first_text_at = trio.current_time()

    def keep_late(self, outcome: Outcome) -> None:
        """A call went on after its turn's time, and has ended: the next turn tells."""
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
        """Hand on a piece of the answer."""
        await self.emit(TextDelta(**self.of, text=text))

    async def say(self, round_: Round, index: int, sentence: str) -> None:
        """Hand on a sentence whose pieces were written before."""
        round_.sentences.append(sentence)
        await self._said(sentence, index)

    async def say_at_once(self, round_: Round, index: int, sentence: str) -> None:
        """Write a sentence, and say it."""
        round_.sentences.append(sentence)
        await self.write(sentence)
        await self._said(sentence, index)

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
        """Say which tools the model of this round may call, and why not the others."""
        await self.emit(
            ToolsShown(
                **self.of,
                round=index,
                shown=tuple(listing.exposed for listing in view.shown),
                hidden=tuple(
                    (listing.exposed, no)
                    for listing, no in view.hidden
                    if no.reason is not Reason.NOT_GRANTED
                ),
                remaining=remaining,
                forbidden=forbidden,
                deferred=tuple(listing.exposed for listing in view.deferred),
            )
        )

    def model_failed(self, error: LLMError, *, which: str = "") -> ModelFailed:
        """The event of it; ``which`` model it was, if not the one of the turn."""
        return ModelFailed(**self.of, kind=error.kind, detail=which + error.detail)

    def switched(self, event: Switched) -> None:
        """Another model answers."""
        self.post(ModelSwitched(**self.of, **attrs.asdict(event)))

    async def fall_back(self, round_: Round, index: int, reason: Fallback) -> None:
        """Say a line of the configuration, because there is nothing else to say."""
        await self.emit(FellBack(**self.of, reason=reason))
        await self.say_at_once(round_, index, self.memory.fallback())

    def why_nothing(self, round_: Round, *, last: bool) -> Fallback:
        """Why there is nothing to say, though no model has failed."""
        outcomes = self.exchange.outcomes
        if round_.outcomes and last:
            return Fallback.ROUNDS_EXHAUSTED
        if outcomes and not any(outcome.ok for outcome in outcomes):
            return Fallback.TOOLS_FAILED
        return Fallback.EMPTY_ANSWER


def timings_of(turn: TurnState | None, began: float, now: float) -> Timings:
    """Of a turn that ends now; None is one that did not get as far."""
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
