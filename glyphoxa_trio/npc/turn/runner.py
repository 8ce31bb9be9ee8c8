"""Run the turns of one NPC, one after the other, each until its last event.

A turn is turned away, or says words that exist already, or is answered by the engine.
Any failure ends that turn, and its last event says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import said
from glyphoxa_trio.npc.approval import Questions
from glyphoxa_trio.npc.clock import Clock
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.events import (
    ContextAdded,
    ModelSwitched,
    SpeculationDone,
    TierSelected,
    Transcript,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.hot_context import Gathered, Moment
from glyphoxa_trio.npc.spans import turn_ended, turn_span
from glyphoxa_trio.npc.speaking import voice_of
from glyphoxa_trio.npc.turn.engine import TurnEngine
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.settings import Links, Services, SessionSettings
from glyphoxa_trio.npc.turn.speculation import SpeculatedRequest, foresee
from glyphoxa_trio.npc.turn.speculator import Speculator
from glyphoxa_trio.npc.turn.turn_log import EndedTurn
from glyphoxa_trio.npc.turn.utterance import Utterance
from glyphoxa_trio.providers.llm import Switched, Usage
from glyphoxa_trio.providers.s2s import Complaint
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tracing import Span, within

from .output import TurnOutput
from .state import TurnState, timings_of
from .tiers import Tiers
from .without_model import declined, scripted

# The share of a turn's time for tools that it waits for the lists of servers that
# start; the rest is for calls.
FOR_LISTS: Final = 0.75


@attrs.define(eq=False, kw_only=True)
class TurnRunner:
    """Runs turns. The settings change only while no turn runs.

    Args:
      settings, links: the settings and models in use.
      nursery: runs the work that turns do not wait for.
      asking: returns how many utterances wait for an answer.
    """

    settings: SessionSettings
    links: Links
    _services: Services
    _memory: NpcMemory
    _nursery: trio.Nursery
    _asking: Callable[[], int]
    engine: TurnEngine = attrs.field(init=False)
    speculator: Speculator = attrs.field(init=False)
    questions: Questions = attrs.field(init=False)
    tiers: Tiers = attrs.field(init=False)
    _output: TurnOutput | None = attrs.field(default=None, init=False)
    _turn: TurnState | None = attrs.field(default=None, init=False)
    _narrower: SessionSettings | None = attrs.field(default=None, init=False)
    _crash: Exception | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        services, settings = self._services, self.settings
        id_ = self._memory.id
        self.questions = Questions(id_, services.approver, services.approval_timeout)
        self.tiers = Tiers(services, self._memory, self._asking)
        self.speculator = Speculator(
            id=id_,
            config=settings.speculation,
            foresee=self._foresee,
            busy=lambda: services.activity.busy or services.costs.exhausted(id_),
            told=self._speculated,
            spent=self.charge,
        )

    def configure(
        self, settings: SessionSettings, links: Links, engine: TurnEngine
    ) -> None:
        """Use these settings, models and engine from the next turn on."""
        self.speculator.drop("another configuration")
        self.speculator.configure(settings.speculation)
        self._memory.fillers.configure(settings.filler)
        self.settings, self.links, self.engine = settings, links, engine

        self._narrower = None

    def narrow(self, settings: SessionSettings) -> None:
        """Remove from the running turn, at once, what these settings do not permit."""
        self._narrower = settings
        if self._turn is not None:
            self._turn.narrow(settings.grant, self.tiers.ceiling(settings))

    def crashed(self, bug: Exception) -> None:
        """Record that this bug ends the session: the running turn reports it."""
        self._crash = bug

    async def run(self, utterance: Utterance) -> None:
        """Run one accepted utterance, through its turn, until the last event.

        Raises nothing unless it is cancelled; the last event is delivered even then.
        """
        number, scripted = utterance.number, utterance.scripted
        with within(utterance.listener.context):
            with turn_span(self._memory.id, number, scripted=scripted) as span:
                await self._run(utterance, span)

    async def _run(self, utterance: Utterance, span: Span) -> None:
        accepted = trio.current_time()
        began: float | None = None
        turn: TurnState | None = None
        tier: Tier | None = None
        end, error = TurnEnd.INTERRUPTED, ""
        output: TurnOutput | None = None
        try:
            with utterance.scope:
                await utterance.begins.wait()
                began = trio.current_time()
                output = self._output = self._output_of(utterance)
                async with self._aloud(output):
                    if utterance.shed:
                        self.engine.decline(utterance)
                        self._turn_away(output, utterance)
                        end, error = TurnEnd.SHED, utterance.shed
                    elif utterance.scripted:
                        await self._recite(output, utterance)
                        end = TurnEnd.COMPLETED
                    else:
                        await self.engine.wait_transcript(utterance)
                        turn, tier = await self._prepare(output, utterance)
                        await self.engine.answer(
                            turn, utterance, partial(self._understood, utterance)
                        )
                        failed = turn.error is not None
                        end = TurnEnd.FAILED if failed else TurnEnd.COMPLETED
                        error = str(turn.error) if failed else ""
            # possible even while the rest was said aloud
            if utterance.scope.cancelled_caught:
                end, error = TurnEnd.INTERRUPTED, ""
        except Exception as bug:  # border: a model's link is foreign code
            end, error = TurnEnd.FAILED, said(bug)
        finally:
            if output is None:  # the turn never began
                output = self._output_of(utterance)
            if end is TurnEnd.INTERRUPTED:
                output.flush()
                if self._crash is not None and not utterance.scope.cancel_called:
                    end, error = TurnEnd.FAILED, said(self._crash)
            exchange, begun = utterance.exchange, utterance.begins.is_set()
            added = self._memory.add(exchange, beside=not begun)
            now = trio.current_time()
            began = now if began is None else began
            done = TurnDone(
                **output.of,
                end=end,
                text=exchange.written,
                outcomes=exchange.outcomes,
                timings=timings_of(turn, began, now),
                rounds=0 if end is TurnEnd.SHED else len(exchange.rounds),
                tier=tier,
                error=error,
            )
            output.post(done)
            turn_ended(span, done, queued=began - accepted)
            if utterance.interaction is not None:
                told = partial(_words_come_late, output)
                utterance.interaction.tell_words(told)
            if self._output is output:
                self._output = self._turn = None
            if self._services.log is not None and added:
                self._services.log.ended(self._ended(utterance, added))

    def _ended(self, utterance: Utterance, added: Sequence[Exchange]) -> EndedTurn:
        memory = self._memory
        spent = self._services.costs.part(memory.id)
        return EndedTurn(
            id=memory.id,
            number=utterance.number,
            npc=attrs.evolve(memory.without_history(), spent=spent),
            exchanges=added,
            listener=utterance.listener,
        )

    def _output_of(self, utterance: Utterance) -> TurnOutput:
        settings = self.settings
        return TurnOutput(
            self._memory.id,
            utterance,
            self._services.events,
            settings.turn.listener,
            self._services.log,
        )

    def _aloud(self, output: TurnOutput) -> AbstractAsyncContextManager[None]:
        synthesizer, engine = self._services.synthesizer, self.engine
        if synthesizer is None and not engine.speaks:
            return nullcontext()
        return output.aloud(
            partial(engine.mouths, synthesizer),
            voice_of(self.settings.npc.voice, named=not engine.speaks),
            self._services.warn,
        )

    def _turn_away(self, output: TurnOutput, utterance: Utterance) -> None:
        """Say a fallback line at once, instead of an answer."""
        line = self._memory.fallback()
        utterance.exchange.begin_round().sentences.append(line)
        for event in declined(output.of, utterance, line):
            output.post(event)

    async def _recite(self, output: TurnOutput, utterance: Utterance) -> None:
        """Say words that exist already: the DM's words, or the greeting."""
        memory, text = self._memory, utterance.script
        if utterance.greets:
            first = utterance.number == 1  # no turn came before it
            text = memory.greet() if first else ""
        memory.conversation.tell_news(utterance.exchange)
        self.engine.told_elsewhere(utterance.exchange)
        for event in scripted(output.of, utterance, text or ""):
            await output.emit(event)

    async def _prepare(
        self, output: TurnOutput, utterance: Utterance
    ) -> tuple[TurnState, Tier]:
        """Prepare the turn: choose and announce its tier, and gather its context.

        The tier is the one that it begins with, whatever is taken away meanwhile.
        """
        # If the words are not final yet, the tier is chosen again, and for good, when
        # they are.
        heard = utterance.interaction
        certain = heard is None or heard.understood or not heard.automatic
        settings, host = self.settings, self._services.host
        selected, selection = await self.tiers.tier_of(
            utterance.text,
            settings,
            override=utterance.override,
            commit=certain,
            beside=utterance.waiting,
        )
        ceiling = self.tiers.ceiling(settings)
        tier = self.engine.tier(selection.tier, ceiling, utterance.override)
        budget = host.settings.limits.ceiling(tier)
        exchange = utterance.exchange
        # A model that speaks is told of late calls by its bridge, and later.
        self._memory.tell(exchange, settles=not self.engine.speaks)
        await output.emit(
            TierSelected(
                **output.of,
                tier=tier,
                selected=selection.tier,
                ceiling=ceiling,
                reason=selection.reason,
                budget=budget,
                speaker=utterance.speaker,
                text=utterance.text,
            )
        )
        if (known := await self._gather(exchange, output.turn)) is not None:
            exchange.context = known.lines
            if known.lines or known.missed:
                await output.emit(
                    ContextAdded(
                        **output.of,
                        lines=known.lines,
                        missed=known.missed,
                    )
                )
        self._turn = TurnState(
            settings=settings,
            host=host,
            llm=self.links.llm,
            memory=self._memory,
            output=output,
            exchange=exchange,
            tier=tier,
            selected=selected,
            grant=settings.grant,
            tool_clock=Clock(budget),
            model_clock=Clock(settings.turn.model_total),
            nursery=self._nursery,
            approve=partial(self._approve, output),
            spent=partial(self.charge, output.turn),
            fillers=self._memory.fillers,
            speculation=self.speculator.reserved,
        )
        if self._narrower is not None:
            self.narrow(self._narrower)
        if heard is None or not self.engine.speaks:  # else its model answers already
            await self._wait_listed(self._turn.tool_clock)
        return self._turn, tier

    async def _wait_listed(self, clock: Clock) -> None:
        """Wait for tools of servers that start, on the turn's time for tools."""
        host, npc = self._services.host, self._memory.id.npc
        if not host.unlisted(npc):
            return
        now = trio.current_time()
        clock.start(now)
        try:
            await host.wait_listed(npc, until=now + FOR_LISTS * clock.budget)
        finally:
            clock.stop(trio.current_time())

    async def _understood(self, utterance: Utterance, text: str) -> None:
        await self.tiers.tier_of(
            text, self.settings, override=utterance.override, commit=True
        )

    async def _gather(self, exchange: Exchange, turn: int) -> Gathered | None:
        """Ask the context providers, within the turn's time for them."""
        if self._services.context is None:
            return None
        moment = Moment(
            **self._memory.id.of(turn),
            speaker=exchange.speaker,
            text=exchange.text,
            said=self._memory.conversation.said,
        )
        within = self.settings.turn.context
        return await self._services.context.gather(moment, within=within)

    async def _foresee(self, text: str, speaker: str) -> SpeculatedRequest:
        """Return the first request of a turn with these words. Changes nothing."""
        settings, memory, log = self.settings, self._memory, self._services.log
        tier, _ = await self.tiers.tier_of(text, settings, commit=False)
        exchange = Exchange(speaker, text, late=tuple(memory.late))
        if (known := await self._gather(exchange, 0)) is not None:
            exchange.context = known.lines
        exchange.overheard.extend(memory.conversation.news)
        return foresee(
            settings,
            memory,
            self.links.llm,
            self._services.host,
            tier=tier,
            exchange=exchange,
            epoch=0 if log is None else log.epoch(memory.id.session),
        )

    async def _approve(
        self, output: TurnOutput, calls: Sequence[ToolCall]
    ) -> frozenset[str]:
        grant = self.settings.grant if self._turn is None else self._turn.grant
        return await self.questions.approved(
            calls,
            host=self._services.host,
            grant=grant,
            nursery=self._nursery,
            turn=output.turn,
            post=output.post,
        )

    def charge(self, turn: int, usage: Usage) -> None:
        """Count the usage of a response, and deliver the event of its cost."""
        model = usage.model or self.links.llm.label
        id_ = self._memory.id
        event = self._services.costs.charge(id_, turn, usage, model=model)
        if self._output is not None and self._output.turn == turn:
            self._output.post(event)
        else:
            self._services.events.publish(event)

    def charge_live(self, usage: Usage) -> None:
        """Count the usage of a speech-to-speech model, in the current turn if any."""
        assert self.links.live is not None
        turn = 0 if self._output is None else self._output.turn
        # Prices go by name; the label also says where the model runs.
        name = usage.model or self.links.live.provider.label.partition(" at ")[0]
        self.charge(turn, attrs.evolve(usage, model=name))

    def switched(self, switched: Switched) -> None:
        """Report that another speech-to-speech model continues."""
        turn = 0 if self._output is None else self._output.turn
        event = ModelSwitched(**self._memory.id.of(turn), **attrs.asdict(switched))
        if self._output is not None:
            self._output.post(event)
        else:
            self._services.events.publish(event)

    def complained(self, complaint: Complaint) -> None:
        """Warn that the server of a speech-to-speech model rejected a message."""
        self._services.warn(
            f"the model of {self.settings.npc.name} rejected a message:"
            f" {complaint.code}: {complaint.detail}"
        )

    def _speculated(self, done: SpeculationDone) -> None:
        self._services.tally.add(done)
        self._services.events.publish(done)


def _words_come_late(output: TurnOutput, text: str, final: bool) -> None:
    """Publish the words of a spoken turn that is over already."""
    utterance = output.utterance
    utterance.understood(text)
    output.publish(
        Transcript(**output.of, speaker=utterance.speaker, text=text, final=final)
    )
