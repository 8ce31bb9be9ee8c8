"""The actor of one NPC in one conversation: it reads the mailbox and orders the turns.

One turn runs at a time (`TurnRunner`), in this actor's nursery. A new utterance of the
same speaker interrupts the turn; other speakers wait in a bounded queue (`TurnQueue`).
A failure in a turn ends that turn, with an event; the session continues.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Call, Inbox
from glyphoxa_trio.npc.engines.fast import FastModel
from glyphoxa_trio.npc.engines.speech import SpeechEngine
from glyphoxa_trio.npc.engines.text import TextEngine
from glyphoxa_trio.npc.events import Fallback, Queued
from glyphoxa_trio.npc.hot_context import Moment
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.s2s.own_voice import OwnVoice
from glyphoxa_trio.npc.session.messages import (
    Approve,
    Configure,
    Elevate,
    Interrupt,
    Introduce,
    LendEar,
    Overhear,
    PartialSpeech,
    Preview,
    Say,
    SessionMessages,
    Situate,
    TakeEarBack,
)
from glyphoxa_trio.npc.turn.engine import Microphone, TurnEngine
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.runner import TurnRunner
from glyphoxa_trio.npc.turn.settings import Links, Services, SessionSettings
from glyphoxa_trio.npc.turn.utterance import Utterance
from glyphoxa_trio.npc.turn_queue import QueueFull, TurnQueue

# After this time the rest of an answer counts as never heard. Seconds.
_HEARD_OUT: Final = 60.0


@attrs.define(eq=False, kw_only=True)
class NpcSession:
    """One life of the actor. ``memory`` outlives it.

    Args:
      memory: what the NPC remembers.
      services: what the session borrows.
      turns: runs turns, and the work that they do not wait for.
      beside: runs the engine's work beside the turns.
    """

    memory: NpcMemory
    services: Services
    _turns: trio.Nursery
    _beside: trio.Nursery
    runner: TurnRunner = attrs.field(init=False)
    _queue: TurnQueue[Utterance] = attrs.field(init=False)
    _links: Links = attrs.field(init=False)
    _coming: Links | None = attrs.field(default=None, init=False)
    # Whether the running turn counts as work of this process.
    _works: bool = attrs.field(default=True, init=False)
    # Listeners that may still hear the rest of a turn, and when the turn ended.
    _told: list[tuple[Listener, float]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.memory.catch_up()
        self._links = self.services.links(self.settings, self.memory.id)
        self._queue = TurnQueue(
            self.settings.turn.queue,
            lambda n: QueueFull(
                f"the queue of {self.settings.npc.name} is full: {n} waiting"
            ),
        )
        self.runner = TurnRunner(
            settings=self.settings,
            links=self._links,
            services=self.services,
            memory=self.memory,
            nursery=self._turns,
            asking=lambda: self._queue.asking,
        )
        self.runner.configure(self.settings, self._links, self._engine())
        self.memory.lives(lambda: self.idle)

    @property
    def idle(self) -> bool:
        """True if the session has nothing to do.

        No turn runs or waits, no work runs beside, no microphone is attached, and what
        was said has been heard as far as it will be.
        """
        return (
            not self._turns.child_tasks
            and self.runner.engine.idle
            and self._is_heard_out
        )

    @property
    def _is_heard_out(self) -> bool:
        now = trio.current_time()
        self._told = [
            (listener, ended)
            for listener, ended in self._told
            if now - ended < _HEARD_OUT
            and not (listener.stream.heard_out and not listener.unplayed)
        ]
        return not self._told

    @property
    def settings(self) -> SessionSettings:
        """The current settings; for the running turn, if there is one."""
        return self.memory.settings

    async def read(self, inbox: Inbox[SessionMessages]) -> None:
        """Read the mailbox until it is closed."""
        try:
            await self._read(inbox)
        except Exception as bug:
            self.runner.crashed(bug)
            self.runner.engine.close()
            raise
        finally:
            self.runner.engine.ignore_speech()
        self.runner.speculator.drop("the session ended")

    async def _read(self, inbox: Inbox[SessionMessages]) -> None:
        memory, runner = self.memory, self.runner
        async for call in inbox:
            # other messages do not wait for the selector
            if isinstance(call.request, Preview):
                self._turns.start_soon(self._preview, call, call.request.text)
                continue
            with call.answering():
                match call.request:
                    case Say() as say:
                        utterance = self._utterance(say)
                        self._accept(utterance)
                        self._turns.start_soon(self._live, utterance)
                        call.reply(utterance.number)
                    case Elevate(tier, seconds):
                        memory.elevate(tier, until=trio.current_time() + seconds)
                        runner.engine.elevated()
                        self._changed()
                        call.reply(None)
                    case Configure(settings):
                        self._coming = self.services.links(settings, memory.id)
                        memory.go_over_to(settings)
                        if self._running:
                            runner.narrow(settings)
                        self._catch_up_if_idle()
                        call.reply(None)
                    case PartialSpeech(text, speaker):
                        self.services.hearing(
                            Moment(**memory.id.of(0), speaker=speaker, text=text)
                        )
                        if not self._running and runner.engine.may_speculate:
                            runner.speculator.hear(self._turns, text, speaker)
                        call.reply(None)
                    case Approve(question, yes):
                        call.reply(runner.questions.answer(question, yes=yes))
                    case Interrupt(speaker, everybody):
                        call.reply(self._interrupt(speaker, everybody=everybody))
                    case Overhear(speaker, text, to, logged):
                        line = Overheard(speaker, text, to)
                        memory.conversation.overhear(line)
                        runner.engine.overhear(line)
                        if self.services.log is not None and not logged:
                            self.services.log.overheard(memory.id, line)
                        self._changed()
                        call.reply(None)
                    case LendEar(speaker, name):
                        microphone = self.services.handover.take(name, Microphone)
                        call.reply(
                            microphone is not None
                            and runner.engine.lend(name, speaker, microphone)
                        )
                    case TakeEarBack(microphone):
                        runner.engine.take_back(microphone)
                        call.reply(None)
                    case Situate(context):
                        memory.set_scene(context)
                        self._changed()
                        self._catch_up_if_idle()
                        call.reply(None)
                    case Introduce(values):
                        memory.set_variables(values)
                        self._changed()
                        self._catch_up_if_idle()
                        call.reply(None)

    def _changed(self) -> None:
        if self.services.log is not None:
            self.services.log.changed(self.memory.id.session)

    async def _preview(self, call: Call[SessionMessages], text: str) -> None:
        with call.answering():
            tiers = self.runner.tiers
            tier, _ = await tiers.tier_of(text, self.settings, commit=False)
            call.reply(tier)

    # The settings.

    @property
    def _running(self) -> bool:
        return self._queue.running is not None

    def _catch_up_if_idle(self) -> None:
        if not self._running:
            self._catch_up()

    def _catch_up(self) -> None:
        """Apply what had to wait until no turn runs."""
        links, self._coming = self._coming, None
        if not self.memory.catch_up():
            return
        engine = self.runner.engine
        if links is not None:
            self._queue.allow(self.settings.turn.queue)
            same = engine.configure(self.settings, links)
            self._links = attrs.evolve(links, live=engine.live) if same else links
            if not same:
                engine.close()
                engine = self._engine()
            self.runner.configure(self.settings, self._links, engine)
        engine.instruct()

    def _engine(self) -> TurnEngine:
        """Make the engine that answers from now on."""
        live, llm, services = self._links.live, self._links.llm, self.services
        if live is None:
            return TextEngine(self.settings, FastModel(self._links.fast or llm))
        engine = SpeechEngine(
            live=live,
            host=services.host,
            settings=self.settings,
            memory=self.memory,
            ceiling=lambda: self.runner.tiers.ceiling(self.settings),
            spoken=self._spoken,
            spent=self.runner.charge_live,
            complained=self.runner.complained,
            voice=OwnVoice(
                live=live,
                npc=self.settings.npc.name,
                recordings=services.recordings,
                may_ask=lambda: not services.costs.exhausted(self.memory.id),
                records=services.synthesizer is None,
            ),
            switched=self.runner.switched,
        )
        self._beside.start_soon(engine.converse)
        return engine

    # The order of turns.

    def _utterance(self, say: Say) -> Utterance:
        listener = self.services.handover.take(say.listener, Listener)
        if listener is None:  # the listener has left before this was read
            listener = Listener()
            listener.stream.leave()
        return Utterance(
            say.text,
            say.speaker,
            say.tier,
            script=say.script,
            greets=say.greets,
            waiting=say.waiting,
            listener=listener,
            id=say.id,
        )

    def _accept(self, utterance: Utterance) -> None:
        """Accept an utterance: begin its turn, or queue it.

        Raises:
          QueueFull: too many utterances wait.
        """
        current = self._queue.running
        if self._come(utterance, interrupts=self._queue.interrupts(utterance)):
            return
        if utterance.dm:
            if current is not None and current.own:
                current.interrupt("the DM speaks as this NPC")
            return
        queued = Queued(
            **self.memory.id.of(utterance.number),
            position=self._queue.waiting.index(utterance) + 1,
        )
        self.services.events.publish(queued)
        utterance.stream.post(queued)

    def _spoken(self, utterance: Utterance) -> None:
        """Accept an utterance that the model has heard.

        The model has stopped speaking already, whichever speaker it answered, unless
        the utterance is a report of its own.
        """
        try:
            reports = (
                utterance.interaction is not None and utterance.interaction.reports
            )
            self._come(utterance, interrupts=not reports)
        except QueueFull as full:
            self.services.warn(f"an utterance was not answered: {full}")
            utterance.accepted(self.memory.number())
            self.runner.engine.decline(utterance)
            utterance.interrupt(str(full))
        self._turns.start_soon(self._live, utterance)

    def _come(self, utterance: Utterance, *, interrupts: bool) -> bool:
        """Add to the queue; return True unless the utterance has to wait."""
        current = self._queue.running
        superseded = self._queue.come(utterance, interrupts=interrupts)
        utterance.accepted(self.memory.number())
        for earlier in superseded:
            earlier.interrupt("the speaker went on")
        if current is None:
            self._begin(utterance)
        elif interrupts:
            current.interrupt("the speaker went on")
        return current is None or interrupts

    def _interrupt(self, speaker: str | None, *, everybody: bool) -> bool:
        """End the running turn; of one speaker or all, also those that wait."""
        self.runner.speculator.drop("interrupted")
        for waiting in self._queue.waiting:
            if everybody or (speaker == waiting.speaker and waiting.own):
                waiting.interrupt("interrupted")
        running = self._queue.running
        if running is None or speaker not in (None, running.speaker):
            return False
        running.interrupt("interrupted")
        return True

    def _begin(self, utterance: Utterance) -> None:
        self._catch_up()
        services = self.services
        shed, shed_for = "", Fallback.OVERLOADED
        if utterance.scripted or utterance.scope.cancel_called:
            pass  # a turn without a model costs almost nothing
        elif shed := services.costs.refusal(self.memory.id):
            shed_for = Fallback.COST_CEILING
        elif self.runner.engine.asks(utterance):
            shed = services.activity.refusal()
        # Otherwise the model answers in any case: refusing would only mute it.
        if not shed:
            self._works = self.runner.engine.asks(utterance)
            services.activity.begin(works=self._works)
        services.used(self.memory.session)
        self.runner.speculator.meet(utterance.text, utterance.speaker, utterance.number)
        utterance.begin(shed, shed_for)

    async def _live(self, utterance: Utterance) -> None:
        """Run one utterance until its turn has ended, however it ends."""
        try:
            await self.runner.run(utterance)
        finally:
            self.runner.engine.over(utterance)
            utterance.over()
            self._told.append((utterance.listener, trio.current_time()))
            if len(self._told) > self.settings.turn.history:  # the oldest is forgotten
                del self._told[0]
            self.services.used(self.memory.session)
            ran = self._queue.running is utterance
            following = self._queue.go(utterance)
            if ran:
                self.runner.speculator.over()
                if not utterance.shed:
                    self.services.activity.end(works=self._works)
            if following is not None:
                self._begin(following)
            elif ran:
                self._catch_up()


@asynccontextmanager
async def open_session(
    memory: NpcMemory, services: Services
) -> AsyncGenerator[NpcSession]:
    """Open a session; leaving the block waits for the running turn to end."""
    async with trio.open_nursery() as beside:
        async with trio.open_nursery() as turns:
            yield NpcSession(
                memory=memory, services=services, turns=turns, beside=beside
            )
        beside.cancel_scope.cancel("the session ended")


async def run_session(
    inbox: Inbox[SessionMessages], memory: NpcMemory, services: Services
) -> None:
    """Run the body of the actor: each life continues with the same memory."""
    async with open_session(memory, services) as session:
        await session.read(inbox)
