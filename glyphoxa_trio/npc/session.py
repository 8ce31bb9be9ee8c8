"""One NPC: the actor that owns its conversation and its turns.

One turn runs at a time, in this actor's nursery. The same speaker's new
utterance interrupts it; other speakers wait in a bounded queue (D12a). Whatever
goes wrong in a turn ends that turn, in an event; the session lives on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import Inbox, Ref, Request, Stream, Topic
from glyphoxa_trio.config.model import NpcConfig, TurnConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.providers.llm import LLM, Message
from glyphoxa_trio.tools.definition import OnInterrupt
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import Tier

from .conversation import Conversation, Exchange
from .engines import cascaded
from .events import (
    LateResult,
    Queued,
    Sentence,
    TierSelected,
    Timings,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from .prompt import system_prompt
from .selection import Selection
from .selector import Select
from .turn import Clock

# The selector answers in microseconds; if it does not, the tier is FAST (D2).
SELECTOR_PATIENCE = 0.05


class QueueFull(GlyphoxaError):
    """Too many speakers wait for this NPC already."""


@attrs.frozen(kw_only=True)
class ApprovalRequest:
    """Somebody must say yes before this external tool runs (D13a)."""

    npc: str
    call: ToolCall
    tool: str


Approver = Callable[[ApprovalRequest], Awaitable[bool]]


@attrs.define(eq=False)
class Utterance:
    """One thing said to an NPC, the turn that answers it, and who listens.

    ``scope`` belongs to the listener: leaving cancels the turn, also one that has
    not begun. ``begins`` is set when it does, ``ended`` when the turn has ended and
    is remembered. ``superseded``: its speaker went on before it began.
    """

    text: str
    speaker: str
    override: Tier | None = None
    stream: Stream[TurnEvent] = attrs.field(init=False)
    exchange: Exchange = attrs.field(init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    begins: trio.Event = attrs.field(factory=trio.Event, init=False)
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    superseded: bool = attrs.field(default=False, init=False)
    number: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.exchange = Exchange(self.speaker, self.text)
        self.stream = Stream(on_consumed=self._consumed)

    def _consumed(self, event: TurnEvent) -> None:
        if isinstance(event, Sentence):
            self.exchange.delivered(event.round)


@attrs.frozen
class Say(Request[None]):
    """Asked: answer this. The reply means that it runs or waits its turn."""

    utterance: Utterance


@attrs.frozen
class Elevate(Request[None]):
    """Asked: raise the NPC's ceiling to ``tier`` for so many seconds (D2)."""

    tier: Tier
    seconds: float


@attrs.frozen
class Interrupt(Request[bool]):
    """Asked: end the turn that is running, if one is."""


@attrs.define(eq=False, kw_only=True)
class NpcSession:
    """The actor's state; `run` is its body.

    Args:
      selector: asked for the tier of each utterance.
      events: told of everything that happens, whoever listens to the turn.
      approver: says yes or no to external tools; it has ``approval_timeout``
        seconds, outside the tool clock.
    """

    npc: NpcConfig
    config: TurnConfig
    grant: Grant
    llm: LLM
    host: ToolHost
    selector: Ref[Any]
    events: Topic[TurnEvent]
    approver: Approver | None = None
    approval_timeout: float = 30.0
    _conversation: Conversation = attrs.field(init=False)
    _current: Utterance | None = attrs.field(default=None, init=False)
    _waiting: deque[Utterance] = attrs.field(factory=deque, init=False)
    _elevation: tuple[Tier, float] | None = attrs.field(default=None, init=False)
    _late: list[Outcome] = attrs.field(factory=list, init=False)
    _turns: int = attrs.field(default=0, init=False)
    _fallbacks: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        opening = [Message(role="system", content=system_prompt(self.npc))]
        if self.npc.greeting:
            opening.append(Message(role="assistant", content=self.npc.greeting))
        self._conversation = Conversation(tuple(opening), self.config.history)

    async def run(self, inbox: Inbox[Any]) -> None:
        """Read the mailbox until stopped; then let the running turn end."""
        async with trio.open_nursery() as nursery:
            async for call in inbox:
                with call.answering():
                    match call.request:
                        case Say(utterance):
                            self._accept(utterance)
                            nursery.start_soon(self._live, utterance)
                            call.reply(None)
                        case Elevate(tier, seconds):
                            until = trio.current_time() + seconds
                            self._elevation = (tier, until)
                            call.reply(None)
                        case Interrupt():
                            running = self._current
                            if running is not None:
                                running.scope.cancel("interrupted")
                            call.reply(running is not None)

    @property
    def ceiling(self) -> Tier:
        """The slowest tier this NPC may use now; an elevation only raises it."""
        if self._elevation is not None:
            tier, until = self._elevation
            if trio.current_time() < until:
                return max(tier, self.npc.budget_tier)
        return self.npc.budget_tier

    # Whose turn it is.

    def _accept(self, utterance: Utterance) -> None:
        current = self._current
        interrupts = current is not None and current.speaker == utterance.speaker
        if not interrupts and len(self._waiting) >= self.config.queue:
            raise QueueFull(f"{len(self._waiting)} wait for {self.npc.name}")
        self._turns += 1
        utterance.number = self._turns
        if current is None:
            self._begin(utterance)
        elif interrupts:
            # They did not wait for the answer: it is not wanted any more, nor is
            # what they said in between. That ends next, one after the other, so
            # that all of it is remembered in the order in which it was said.
            current.scope.cancel("the speaker went on")
            theirs = [w for w in self._waiting if w.speaker == utterance.speaker]
            others = [w for w in self._waiting if w.speaker != utterance.speaker]
            for earlier in theirs:
                earlier.superseded = True
            self._waiting = deque([*theirs, utterance, *others])
        else:
            self._waiting.append(utterance)
            queued = Queued(
                npc=self.npc.name,
                turn=utterance.number,
                position=len(self._waiting),
            )
            self.events.publish(queued)
            utterance.stream.post(queued)

    def _begin(self, utterance: Utterance) -> None:
        self._current = utterance
        if utterance.superseded:
            utterance.scope.cancel("the speaker went on")
        utterance.begins.set()

    async def _live(self, utterance: Utterance) -> None:
        """One utterance until its turn has ended, whatever happens in between."""
        try:
            await self._answer(utterance)
        finally:
            utterance.stream.end()
            utterance.ended.set()
            if utterance is not self._current:
                self._waiting.remove(utterance)
            else:
                self._current = None
                if self._waiting:
                    self._begin(self._waiting.popleft())

    # One turn.

    async def _answer(self, utterance: Utterance) -> None:
        began: float | None = None
        turn: cascaded.TurnInProgress | None = None
        end, error = TurnEnd.INTERRUPTED, ""
        try:
            with utterance.scope:
                await utterance.begins.wait()
                began = trio.current_time()
                turn = await self._prepare(utterance)
                await cascaded.run(turn)
                end = TurnEnd.COMPLETED if turn.error is None else TurnEnd.FAILED
                error = "" if turn.error is None else str(turn.error)
        except Exception as bug:  # border: a model's link is foreign code
            end, error = TurnEnd.FAILED, f"{type(bug).__name__}: {bug}"
        finally:
            exchange = utterance.exchange
            self._conversation.add(exchange)
            now = trio.current_time()
            done = TurnDone(
                npc=self.npc.name,
                turn=utterance.number,
                end=end,
                text=exchange.written,
                outcomes=exchange.outcomes,
                timings=_timings(turn, now if began is None else began, now),
                rounds=len(exchange.rounds),
                tier=None if turn is None else turn.tier,
                error=error,
            )
            self.events.publish(done)
            utterance.stream.post(done)

    async def _prepare(self, utterance: Utterance) -> cascaded.TurnInProgress:
        selection = await self._select(utterance)
        ceiling = self.ceiling
        tier = min(ceiling, selection.tier)
        budget = self.host.settings.limits.ceiling(tier)
        exchange = utterance.exchange
        exchange.late, self._late = tuple(self._late), []

        async def emit(event: TurnEvent) -> None:
            self.events.publish(event)
            await utterance.stream.send(event)

        def post(event: TurnEvent) -> None:
            self.events.publish(event)
            utterance.stream.post(event)

        def late(outcome: Outcome) -> None:
            self._late.append(outcome)
            self.events.publish(
                LateResult(
                    npc=self.npc.name,
                    turn=utterance.number,
                    outcome=outcome,
                    speak=self._wants_speech(outcome),
                )
            )

        await emit(
            TierSelected(
                npc=self.npc.name,
                turn=utterance.number,
                tier=tier,
                selected=selection.tier,
                ceiling=ceiling,
                reason=selection.reason,
                budget=budget,
                speaker=utterance.speaker,
                text=utterance.text,
            )
        )
        return cascaded.TurnInProgress(
            npc=self.npc.name,
            turn=utterance.number,
            tier=tier,
            grant=self.grant,
            config=self.config,
            llm=self.llm,
            host=self.host,
            conversation=self._conversation,
            exchange=exchange,
            tool_clock=Clock(budget),
            model_clock=Clock(self.config.model_total),
            emit=emit,
            post=post,
            approve=self._approve,
            fallback=self._fallback,
            on_late=late,
        )

    async def _select(self, utterance: Utterance) -> Selection:
        request = Select(
            session=self.npc.name,
            text=utterance.text,
            override=utterance.override,
            queue_depth=len(self._waiting),
            commit=True,
        )
        try:
            return await self.selector.ask(request, within=SELECTOR_PATIENCE)
        except GlyphoxaError as error:
            return Selection(Tier.FAST, f"no tier selected: {error}")

    async def _approve(self, calls: Sequence[ToolCall]) -> frozenset[str]:
        """Ask about the calls that need it, all at once, on nobody's clock."""
        approver = self.approver
        if approver is None:
            return frozenset()
        approved: set[str] = set()

        async def ask(call: ToolCall, tool: str) -> None:
            request = ApprovalRequest(npc=self.npc.name, call=call, tool=tool)
            try:
                if await approver(request):
                    approved.add(call.id)
            except Exception:  # border: the embedder's code; this is no yes
                pass

        with trio.move_on_after(self.approval_timeout):
            async with trio.open_nursery() as nursery:
                for call in calls:
                    listing = self.host.snapshot.by_exposed.get(call.name)
                    if (
                        listing is not None
                        and self.grant.covers(listing.definition, listing.exposed)
                        and not self.grant.approves(listing.definition, listing.exposed)
                    ):
                        nursery.start_soon(ask, call, listing.key)
        return frozenset(approved)

    def _fallback(self) -> str:
        lines = self.npc.fallback or self.config.fallback
        self._fallbacks += 1
        return lines[(self._fallbacks - 1) % len(lines)]

    def _wants_speech(self, outcome: Outcome) -> bool:
        listing = self.host.snapshot.by_key.get(outcome.tool or "")
        return (
            listing is not None
            and listing.definition.interruption is OnInterrupt.FINISH_AND_SPEAK
        )


def _timings(turn: cascaded.TurnInProgress | None, began: float, now: float) -> Timings:
    if turn is None:
        return Timings(model=0.0, tools=0.0, total=now - began)
    first = turn.first_text_at
    return Timings(
        model=turn.model_clock.spent(now),
        tools=turn.tool_clock.spent(now),
        total=now - began,
        first_text=None if first is None else first - began,
    )
