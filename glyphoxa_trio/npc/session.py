"""One NPC: the actor that owns its conversation and its turns.

One turn runs at a time, in this actor's nursery. The same speaker's new
utterance interrupts it; other speakers wait in a bounded queue (D12a). Whatever
goes wrong in a turn ends that turn, in an event; the session lives on.

Above 300 lines, because whose turn it is and what one turn needs are decided from
the same state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import attrs

import trio

from glyphoxa_trio.actors import Inbox, Ref, Topic
from glyphoxa_trio.config.model import NpcConfig, SpeculationConfig, TurnConfig
from glyphoxa_trio.config.voices import Engine, FillerConfig, S2SConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import Shelf, ToolHost
from glyphoxa_trio.providers.llm import LLM, Usage
from glyphoxa_trio.providers.s2s import Complaint, Line
from glyphoxa_trio.providers.speech import Synthesizer
from glyphoxa_trio.tools.definition import OnInterrupt
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.search import DEFER_THRESHOLD
from glyphoxa_trio.tools.tier import Tier

from .activity import Activity
from .approval import APPROVAL_TIMEOUT, Approver, Questions
from .conversation import Conversation, Exchange
from .cost import Costs
from .engines.cascaded import TurnInProgress
from .engines.choice import answer, may_speculate
from .engines.fast import FastModel
from .engines.s2s import S2SEngine
from .events import (
    GIVEN_OUT,
    ContextAdded,
    Fallback,
    Flush,
    LateResult,
    Queued,
    SpeculationDone,
    Speech,
    TierSelected,
    Timings,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from .filler import Fillers
from .hearsay import Overheard
from .hot_context import Gather, Gathered, Moment
from .opening import Opening
from .s2s import Interaction, Live
from .scripted import scripted
from .selection import Selection
from .selector import Select, Selector
from .shedding import declined
from .speaking import SPARE, Speaking, voice_of
from .speculation import Foreseen, foresee
from .speculator import Speculator, Tally
from .topics import NamedTools
from .turn import Clock
from .utterance import (
    Adopt,
    Approve,
    Elevate,
    Hearing,
    Interrupt,
    Introduce,
    LendEar,
    Overhear,
    Preview,
    Say,
    SessionMessages,
    Situate,
    TakeEarBack,
    Utterance,
)

# The selector answers in microseconds; if it does not, the tier is FAST (D2).
SELECTOR_PATIENCE = 0.05


class QueueFull(GlyphoxaError):
    """Too many speakers wait for this NPC already."""


@attrs.define(eq=False, kw_only=True)
class NpcSession:
    """The actor's state; `run` is its body.

    Args:
      selector: asked for the tier of each utterance.
      events: told of everything that happens, whoever listens to the turn.
      activity: counts the turns that run.
      grant: if it has an ``approver``, external tools that nobody approved are
        asked about, by events and ``approver``, for ``approval_timeout`` seconds
        outside the tool clock; without one they are refused at once.
      approver: says yes or no to them beside `Npc.approve`; the first one counts.
      fast: the model that opens for a sentence cascade; None is ``llm``.
      defer_threshold: so many external tools are shown in full (N24).
      speculation: whether a turn may begin on a partial transcript.
      tally: counts what that came to.
      filler: what is said while tools are waited for.
      costs: of all NPCs: says whether a turn may begin, and is told what it took.
      synthesizer: says sentences aloud, if there is one; ``warn`` is told if it fails.
      overheard: so many lines of what others say to each other are remembered.
      scene: what holds where it is, until it is told otherwise.
      template_defaults: for the variables of prompt and greeting that nobody gave a
        value; ``call_id`` is one of them (A32).
      context: asked in each turn for what is to be known in it.
      live: the conversation of a speech-to-speech NPC with its model; this is its
        owner, and runs it as ``s2s`` says.
    """

    npc: NpcConfig
    config: TurnConfig
    grant: Grant
    llm: LLM
    host: ToolHost
    selector: Ref[Selector]
    events: Topic[TurnEvent]
    fast: LLM | None = None
    activity: Activity = attrs.field(factory=Activity)
    approver: Approver | None = None
    approval_timeout: float = APPROVAL_TIMEOUT
    defer_threshold: int = DEFER_THRESHOLD
    speculation: SpeculationConfig = attrs.field(factory=SpeculationConfig)
    filler: FillerConfig = attrs.field(factory=FillerConfig)
    tally: Tally = attrs.field(factory=Tally)
    costs: Costs = attrs.field(factory=Costs)
    synthesizer: Synthesizer | None = None
    warn: Callable[[str], None] = lambda _: None
    overheard: int = 20
    scene: tuple[str, ...] = ()
    template_defaults: Mapping[str, str] = attrs.field(factory=dict)
    call_id: str = "session"
    context: Gather | None = None
    live: Live | None = None
    s2s: S2SConfig = attrs.field(factory=S2SConfig)
    _s2s: S2SEngine | None = attrs.field(default=None, init=False)
    _beside: trio.Nursery = attrs.field(init=False)
    _conversation: Conversation = attrs.field(init=False)
    _nursery: trio.Nursery = attrs.field(init=False)
    _current: Utterance | None = attrs.field(default=None, init=False)
    _waiting: deque[Utterance] = attrs.field(factory=deque, init=False)
    _elevation: tuple[Tier, float] | None = attrs.field(default=None, init=False)
    _turn: TurnInProgress | None = attrs.field(default=None, init=False)
    _next: Adopt | None = attrs.field(default=None, init=False)
    _late: list[Outcome] = attrs.field(factory=list, init=False)
    _pending: dict[tuple[str, str], ToolCall] = attrs.field(factory=dict, init=False)
    _turns: int = attrs.field(default=0, init=False)
    _fallbacks: int = attrs.field(default=0, init=False)
    _questions: Questions = attrs.field(init=False)
    _shelf: Shelf = attrs.field(factory=Shelf, init=False)
    _speculator: Speculator = attrs.field(init=False)
    _fast: FastModel = attrs.field(init=False)
    _fillers: Fillers = attrs.field(init=False)
    _opening: Opening = attrs.field(init=False)
    _reopen: bool = attrs.field(default=False, init=False)
    _crash: Exception | None = attrs.field(default=None, init=False)
    _slow: tuple[int, Grant, NamedTools] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._opening = Opening(
            self.npc, self.template_defaults, self.call_id, self.scene
        )
        self._conversation = Conversation((), self.config.history)
        self._open()
        self._questions = Questions(self.npc.name, self.approver, self.approval_timeout)
        self._fast = FastModel(self.fast or self.llm)
        self._fillers = Fillers(self.filler)
        self._speculator = Speculator(
            npc=self.npc.name,
            config=self.speculation,
            foresee=self._foresee,
            busy=lambda: self.activity.busy or self.costs.exhausted(self.npc.name),
            told=self._speculated,
            spent=self._charge,
        )

    async def run(self, inbox: Inbox[SessionMessages]) -> None:
        """Read the mailbox until stopped; then let the running turn end."""
        async with trio.open_nursery() as nursery:
            self._beside = nursery
            if self.live is not None:
                self._converse(self.live)
            await self._serve(inbox)
            nursery.cancel_scope.cancel("the session ended")

    def _converse(self, live: Live) -> None:
        """Own this conversation with a speech-to-speech model, and run it."""
        self.live = live
        self._s2s = S2SEngine(
            live=live,
            host=self.host,
            grant=self.grant,
            route=self.s2s.route,
            filler=self.s2s.filler,
            tool_timeout=self.s2s.tool_timeout,
            defer_threshold=self.defer_threshold,
            shelf=self._shelf,
        )
        self._s2s.prepare(self.ceiling)
        live.set_instructions(self._conversation.prompt_text)
        live.history = self._conversation.lines
        live.on_spoken = self._spoken
        live.on_usage = self._spent
        live.on_complaint = self._complained
        self._beside.start_soon(self._s2s.converse)

    async def _serve(self, inbox: Inbox[SessionMessages]) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                self._crash = None
                await self._read(inbox, nursery)
            except Exception as bug:
                self._crash = bug  # the turns that run say so at their end
                raise
            finally:
                # What the model says from now on is nobody's turn: each would be
                # ended at once, and leave what it has said to the next one.
                if self.live is not None:
                    self.live.on_spoken = None
            self._speculator.drop("the session ended")

    async def _read(self, inbox: Inbox[SessionMessages], nursery: trio.Nursery) -> None:
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
                    case Adopt() as successor:
                        self._adopt(successor)
                        call.reply(None)
                    case Preview(text):
                        selection = await self._select(text, commit=False)
                        call.reply(min(self.ceiling, selection.tier))
                    case Hearing(text, speaker):
                        if self._current is None and may_speculate(self.npc):
                            self._speculator.hear(nursery, text, speaker)
                        call.reply(None)
                    case Approve(question, yes):
                        call.reply(self._questions.answer(question, yes=yes))
                    case Interrupt(speaker):
                        call.reply(self._interrupt(speaker))
                    case Overhear(speaker, text, to):
                        line = Overheard(speaker, text, to)
                        self._conversation.overhear(line)
                        if self._s2s is not None:
                            self._s2s.live.remember(Line("user", f"({line})"))
                        call.reply(None)
                    case LendEar(speaker, told, interrupted, gone):
                        lent = None
                        if self._s2s is not None:
                            lent = self._s2s.lend(speaker, told, interrupted, gone)
                        call.reply(lent)
                    case TakeEarBack(told):
                        if self._s2s is not None:
                            self._s2s.take_back(told)
                        call.reply(None)
                    case Situate(context):
                        self._opening.scene = context
                        self._open()
                        call.reply(None)
                    case Introduce(values):
                        self._opening.introduce(values)
                        self._open()
                        call.reply(None)

    @property
    def ceiling(self) -> Tier:
        """The slowest tier this NPC may use now; an elevation only raises it."""
        return self._ceiling_of(self.npc)

    def _ceiling_of(self, npc: NpcConfig) -> Tier:
        if self._elevation is not None:
            tier, until = self._elevation
            if trio.current_time() < until:
                return max(tier, npc.budget_tier)
        return npc.budget_tier

    def _adopt(self, successor: Adopt) -> None:
        if self._current is not None:
            self._next = successor
            if self._turn is not None:
                self._narrow(self._turn, successor)
            return
        self._next = None
        self._speculator.drop("another configuration")
        if successor.speculation is not None:
            self._speculator.config = successor.speculation
        self.npc, self.config = successor.npc, successor.config
        self.grant, self.llm = successor.grant, successor.llm
        self.fast = successor.fast
        if self._fast.llm is not (self.fast or self.llm):
            self._fast = FastModel(self.fast or self.llm)
        if successor.defer_threshold is not None:
            self.defer_threshold = successor.defer_threshold
        if successor.filler is not None:
            self._fillers.config = successor.filler
        if successor.overheard is not None:
            self.overheard = successor.overheard
        if successor.template_defaults is not None:
            self._opening.defaults = successor.template_defaults
        if successor.scene is not None:
            self._opening.scene = successor.scene
        if successor.s2s is not None:
            self.s2s = successor.s2s
        self._opening.become(self.npc, begun=self._turns > 0)
        self._open()
        if self._s2s is not None and self.npc.engine is not Engine.S2S:
            self._s2s.close()
            self._s2s = self.live = None
        elif self._s2s is not None:
            self._s2s.become(
                successor.grant,
                successor.live,
                successor.s2s,
                successor.defer_threshold,
            )
        elif successor.live is not None:
            self._converse(successor.live)

    def _open(self) -> None:
        """Begin the conversation with what is known now; a turn that runs as it was."""
        if self._current is not None:
            self._reopen = True
            return
        self._reopen = False
        self._conversation.begin_with(
            *self._opening.messages(),
            limit=self.config.history,
            most_overheard=self.overheard,
        )
        if self._s2s is not None:
            self._s2s.live.set_instructions(self._conversation.prompt_text)

    def _narrow(self, turn: TurnInProgress, successor: Adopt) -> None:
        """Leave a running turn what it has, as far as its NPC still has it."""
        # Of several in one turn the last one counts, beside what it began with.
        began_with = turn.grant.also or turn.grant
        turn.grant = attrs.evolve(successor.grant, also=began_with)
        turn.tier = min(turn.tier, self._ceiling_of(successor.npc))

    # Whose turn it is.

    def _accept(self, utterance: Utterance) -> None:
        current = self._current
        takes_over = utterance.script is not None  # as whoever directs the scene
        interrupts = takes_over or (
            current is not None
            and current.speaker == utterance.speaker
            and current.script is None
        )
        # Whoever interrupts gets through, but not without end.
        bound = self.config.queue * (2 if interrupts else 1)
        if len(self._waiting) >= bound:
            raise QueueFull(f"{len(self._waiting)} wait for {self.npc.name}")
        self._turns += 1
        utterance.number = self._turns
        if current is None:
            self._begin(utterance)
        elif takes_over:
            if current.script is None:
                current.interrupt("somebody speaks as this NPC")
            earlier = [w for w in self._waiting if w.script is not None]
            others = [w for w in self._waiting if w.script is None]
            self._waiting = deque([*earlier, utterance, *others])
        elif interrupts:
            self._overtake(current, utterance)
        else:
            self._waiting.append(utterance)
            queued = Queued(
                npc=self.npc.name,
                turn=utterance.number,
                position=len(self._waiting),
            )
            self.events.publish(queued)
            utterance.stream.post(queued)

    def _overtake(self, current: Utterance, utterance: Utterance) -> None:
        """Its speaker did not wait for the answer: it is not wanted any more, nor is
        what they said in between. That ends next, one after the other, so that all of
        it is remembered in the order in which it was said."""
        current.interrupt("the speaker went on")
        theirs = [w for w in self._waiting if _is_said_by(w, utterance.speaker)]
        others = [w for w in self._waiting if w not in theirs]
        for superseded in theirs:
            superseded.superseded = True
        self._waiting = deque([*theirs, utterance, *others])

    def _spoken(self, interaction: Interaction) -> None:
        """The model has heard something: that is an utterance like any other."""
        assert self._s2s is not None
        self._s2s.tell()
        utterance = self._s2s.heard(interaction)
        self._turns += 1
        utterance.number = self._turns
        self._s2s.report(utterance)
        if self._current is None:
            self._begin(utterance)
        else:
            # The model has stopped already: nobody is answered any more.
            self._overtake(self._current, utterance)
        self._nursery.start_soon(self._live, utterance)

    def _interrupt(self, speaker: str | None) -> bool:
        """End the turn that runs; with those that wait, if it is one speaker's."""
        self._speculator.drop("interrupted")
        for waiting in self._waiting:
            if speaker is not None and _is_said_by(waiting, speaker):
                waiting.superseded = True
        running = self._current
        if running is None or speaker not in (None, running.speaker):
            return False
        running.interrupt("interrupted")
        return True

    def _begin(self, utterance: Utterance) -> None:
        if self._next is not None:
            self._adopt(self._next)
        if self._reopen:
            self._open()
        self._current = utterance
        if utterance.superseded:
            utterance.interrupt("the speaker went on")
        elif utterance.scripted:
            pass  # what needs no model costs next to nothing
        elif reason := self.costs.refusal(self.npc.name):
            utterance.shed, utterance.shed_for = reason, Fallback.COST_CEILING
        else:
            utterance.shed = self.activity.refusal()
        if not utterance.shed:
            self.activity.begin()
        self._speculator.meet(utterance.text, utterance.speaker, utterance.number)
        utterance.begins.set()

    async def _live(self, utterance: Utterance) -> None:
        """One utterance until its turn has ended, whatever happens in between."""
        try:
            await self._answer(utterance)
        finally:
            if self._s2s is not None:
                self._s2s.over(utterance)
            utterance.stream.end()
            utterance.ended.set()
            if utterance is not self._current:
                self._waiting.remove(utterance)
            else:
                self._current = self._turn = None
                self._speculator.over()
                if not utterance.shed:
                    self.activity.end()
                if self._waiting:
                    self._begin(self._waiting.popleft())
                elif self._next is not None:
                    self._adopt(self._next)
                elif self._reopen:
                    self._open()

    # One turn.

    async def _answer(self, utterance: Utterance) -> None:
        began: float | None = None
        turn: TurnInProgress | None = None
        end, error = TurnEnd.INTERRUPTED, ""
        try:
            async with self._heard(utterance):
                await utterance.begins.wait()
                began = trio.current_time()
                if utterance.shed:
                    if self._s2s is not None:
                        self._s2s.decline(utterance)
                    self._turn_away(utterance)
                    end, error = TurnEnd.SHED, utterance.shed
                elif utterance.scripted:
                    await self._recite(utterance)
                    end = TurnEnd.COMPLETED
                else:
                    if self._s2s is not None:
                        await self._s2s.hear_out(utterance)
                    turn = self._turn = await self._prepare(utterance)
                    if self._next is not None:
                        self._narrow(turn, self._next)
                    await self._run(turn, utterance)
                    end = TurnEnd.COMPLETED if turn.error is None else TurnEnd.FAILED
                    error = "" if turn.error is None else str(turn.error)
            if utterance.scope.cancelled_caught:  # also while the rest was said aloud
                end, error = TurnEnd.INTERRUPTED, ""
        except Exception as bug:  # border: a model's link is foreign code
            end, error = TurnEnd.FAILED, _named(bug)
        finally:
            if end is TurnEnd.INTERRUPTED:
                self._flush(utterance)
                if self._crash is not None and not utterance.scope.cancel_called:
                    end, error = TurnEnd.FAILED, _named(self._crash)
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
                rounds=0 if end is TurnEnd.SHED else len(exchange.rounds),
                tier=None if turn is None else turn.tier,
                error=error,
            )
            self.events.publish(done)
            utterance.stream.post(done)

    async def _run(self, turn: TurnInProgress, utterance: Utterance) -> None:
        """Answer, the way that this NPC does."""

        async def understood(text: str) -> Tier:
            selection = await self._select(text, utterance.override, commit=True)
            return min(self.ceiling, selection.tier)

        if self.npc.engine is Engine.S2S and self._s2s is not None:
            await self._s2s.run(turn, utterance, understood)
        else:
            await answer(turn)

    @asynccontextmanager
    async def _heard(self, utterance: Utterance) -> AsyncGenerator[None]:
        """The turn until its listener leaves, aloud if it can be."""
        with utterance.scope:
            if self.synthesizer is None:
                yield
                return

            async def give(speech: Speech) -> None:
                await self._send(utterance, speech, spare=SPARE)

            utterance.speaking = Speaking(
                synthesizer=self.synthesizer,
                voice=voice_of(self.npc.voice),
                exchange=utterance.exchange,
                give=give,
                post=utterance.stream.post,
                warn=self.warn,
                engine_speaks=self.npc.engine is Engine.S2S and not utterance.scripted,
            )
            async with utterance.speaking.open():
                try:
                    yield
                    await utterance.speaking.finish()
                except Exception:
                    raise
                except BaseException:
                    self._flush(utterance)  # before a voice has let go
                    raise

    async def _send(
        self, utterance: Utterance, event: TurnEvent, *, spare: int = 0
    ) -> None:
        with trio.move_on_after(self.config.listener) as patience:
            await utterance.stream.send(event, spare=spare)
        if patience.cancelled_caught:
            # Others wait for this NPC, and nobody listens to it.
            utterance.interrupt("the listener stopped listening")

    def _flush(self, utterance: Utterance) -> None:
        """What was given out is to stop, and what nobody has heard is taken back."""
        if utterance.gave_out and not utterance.flushed:
            utterance.flushed = True
            utterance.stream.take_back(lambda event: isinstance(event, GIVEN_OUT))
            flush = Flush(
                npc=self.npc.name, turn=utterance.number, reason=utterance.reason
            )
            self.events.publish(flush)
            utterance.stream.post(flush)

    def _turn_away(self, utterance: Utterance) -> None:
        """Say a line instead of an answer, at once (D12b)."""
        line = self._fallback()
        utterance.exchange.begin_round().sentences.append(line)
        for event in declined(self.npc.name, utterance, line):
            self.events.publish(event)
            utterance.post(event)

    async def _recite(self, utterance: Utterance) -> None:
        """Say what there is to say already: the DM's words, or the greeting, once."""
        text = utterance.script
        if utterance.greets:
            first = utterance.number == 1  # nobody has spoken to it yet
            text = self._opening.greet() if first else ""
            self._reopen = True
        self._conversation.tell_news(utterance.exchange)
        if self._s2s is not None:
            self._s2s.said_without_it(utterance.exchange)
        for event in scripted(self.npc.name, utterance, text or ""):
            await self._emit(utterance, event)

    async def _emit(self, utterance: Utterance, event: TurnEvent) -> None:
        # Nothing is given out after an interruption, however near it was.
        await trio.lowlevel.checkpoint_if_cancelled()
        self._publish(utterance, event)
        await self._send(utterance, event)
        utterance.say_aloud(event)

    def _publish(self, utterance: Utterance, event: TurnEvent) -> None:
        if isinstance(event, GIVEN_OUT):
            utterance.gave_out = True
        self.events.publish(event)

    async def _prepare(self, utterance: Utterance) -> TurnInProgress:
        # Words that are not understood yet choose again, and for good, when they are.
        heard = utterance.interaction
        certain = heard is None or heard.understood or not heard.automatic
        selection = await self._select(
            utterance.text, utterance.override, commit=certain, beside=utterance.waiting
        )
        ceiling = self.ceiling
        tier = min(ceiling, selection.tier)
        budget = self.host.settings.limits.ceiling(tier)
        exchange = utterance.exchange
        exchange.late, self._late = tuple(self._late), []
        self._told(exchange.late)
        self._conversation.tell_news(exchange)
        emit = partial(self._emit, utterance)

        def post(event: TurnEvent) -> None:
            self._publish(utterance, event)
            utterance.post(event)

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
        if (known := await self._gather(exchange, utterance.number)) is not None:
            exchange.context = known.lines
            await emit(
                ContextAdded(
                    npc=self.npc.name,
                    turn=utterance.number,
                    lines=known.lines,
                    missed=known.missed,
                )
            )
        return TurnInProgress(
            npc=self.npc.name,
            turn=utterance.number,
            tier=tier,
            grant=self.grant,
            config=self.config,
            llm=self.llm,
            nursery=self._nursery,
            host=self.host,
            conversation=self._conversation,
            exchange=exchange,
            tool_clock=Clock(budget),
            model_clock=Clock(self.config.model_total),
            emit=emit,
            post=post,
            shelf=self._shelf,
            defer_threshold=self.defer_threshold,
            approve=partial(self._approve, utterance.number, post),
            fallback=self._fallback,
            on_late=late,
            cut=partial(self._flush, utterance),
            engine=self.npc.engine,
            cascade=self.npc.cascade_mode,
            fast=self._fast,
            fillers=self._fillers,
            spent=partial(self._charge, utterance.number),
            speculation=self._speculator.reserved,
            pending=self._pending,
        )

    def _told(self, late: Iterable[Outcome]) -> None:
        """Note that this turn tells these results: their calls may be made again."""
        calls = [outcome.call for outcome in late]
        for key in [key for key, call in self._pending.items() if call in calls]:
            del self._pending[key]

    async def _gather(self, exchange: Exchange, turn: int) -> Gathered | None:
        """What providers of context have to add, within its time (`HotContext`)."""
        if self.context is None:
            return None
        said, speaker = exchange.text, exchange.speaker
        moment = Moment(npc=self.npc.name, turn=turn, speaker=speaker, text=said)
        return await self.context.gather(moment, within=self.config.context)

    async def _foresee(self, text: str, speaker: str) -> Foreseen:
        """The turn that these words would begin now. It is not committed to."""
        selection = await self._select(text, commit=False)
        exchange = Exchange(speaker, text, late=tuple(self._late))
        if (known := await self._gather(exchange, 0)) is not None:
            exchange.context = known.lines
        exchange.overheard.extend(self._conversation.news)
        return foresee(
            npc=self.npc.name,
            tier=min(self.ceiling, selection.tier),
            grant=self.grant,
            llm=self.llm,
            host=self.host,
            shelf=self._shelf,
            defer_threshold=self.defer_threshold,
            conversation=self._conversation,
            exchange=exchange,
            config=self.config,
            expires=self._speculator.config.expires,
        )

    async def _select(
        self,
        text: str,
        override: Tier | None = None,
        *,
        commit: bool,
        beside: int = 0,
    ) -> Selection:
        if override is None and not self.npc.select_tier:
            return Selection(self.ceiling, "always its slowest tier")
        request = Select(
            session=self.npc.name,
            text=text,
            npc=self.npc.name,
            tools=self._slow_tools(),
            override=override,
            queue_depth=beside + sum(not x.superseded for x in self._waiting),
            commit=commit,
        )
        try:
            return await self.selector.ask(request, within=SELECTOR_PATIENCE)
        except GlyphoxaError as error:
            return Selection(Tier.FAST, f"no tier selected: {error}")

    def _slow_tools(self) -> NamedTools:
        """The tools that the NPC may use and that a FAST turn has no time for. A player
        who asks for one by name gets a slower turn."""
        snapshot, grant = self.host.snapshot, self.grant
        if self._slow is None or self._slow[:2] != (snapshot.revision, grant):
            tools = tuple(
                (x.key, x.exposed, x.estimate.tier)
                for x in snapshot.listings
                if x.estimate.tier > Tier.FAST and grant.covers(x.definition, x.exposed)
            )
            self._slow = snapshot.revision, grant, NamedTools(tools)
        return self._slow[2]

    async def _approve(
        self,
        turn: int,
        post: Callable[[TurnEvent], None],
        calls: Sequence[ToolCall],
    ) -> frozenset[str]:
        """Ask about the calls that need it, on nobody's clock."""
        grant = self.grant if self._turn is None else self._turn.grant
        if not grant.approver:
            return frozenset()
        found = self.host.snapshot.by_exposed
        listed = [(call, found[call.name]) for call in calls if call.name in found]
        doubtful = [
            (call, listing)
            for call, listing in listed
            if grant.covers(listing.definition, listing.exposed)
            and not grant.approves(listing.definition, listing.exposed)
            and listing.key not in self.host.approvals.agreed
        ]
        approved = await self._questions.ask(self._nursery, turn, doubtful, post)
        # A yes is for the tool that was asked about, not for what its server has
        # put under the same name since.
        now = self.host.snapshot.by_key
        return frozenset(
            call.id
            for call, listing in doubtful
            if call.id in approved
            and listing.key in now
            and now[listing.key].definition == listing.definition
        )

    def _fallback(self) -> str:
        lines = self.npc.fallback or self.config.fallback
        self._fallbacks += 1
        return lines[(self._fallbacks - 1) % len(lines)]

    def _charge(self, turn: int, usage: Usage) -> None:
        """Count what a response has taken, and tell of it."""
        model = usage.model or self.llm.label
        event = self.costs.charge(self.npc.name, turn, usage, model=model)
        self.events.publish(event)
        if self._current is not None and self._current.number == turn:
            self._current.stream.post(event)

    def _spent(self, usage: Usage) -> None:
        """What a speech-to-speech model has taken, in whatever turn."""
        assert self.live is not None
        turn = 0 if self._current is None else self._current.number
        # Prices are by name, a label says where the model is, too.
        name = usage.model or self.live.provider.label.partition(" at ")[0]
        self._charge(turn, attrs.evolve(usage, model=name))

    def _complained(self, complaint: Complaint) -> None:
        self.warn(
            f"the model of {self.npc.name} did not take something:"
            f" {complaint.code}: {complaint.detail}"
        )

    def _speculated(self, done: SpeculationDone) -> None:
        self.tally.add(done)
        self.events.publish(done)

    def _wants_speech(self, outcome: Outcome) -> bool:
        listing = self.host.snapshot.by_key.get(outcome.tool or "")
        return (
            listing is not None
            and listing.definition.interruption is OnInterrupt.FINISH_AND_SPEAK
        )


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _is_said_by(waiting: Utterance, speaker: str) -> bool:
    """Whether this is theirs, and in their own name."""
    return waiting.speaker == speaker and waiting.script is None


def _timings(turn: TurnInProgress | None, began: float, now: float) -> Timings:
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
