"""A plan: everything that happens in one rehearsal, as plain data, and how it is
played. Seconds.

    monitor = rehearse(plan)
    assert monitor.broken == []

Configuration, what servers offer, what tools do when they are called, who says
what and when, what the model answers, who reloads, elevates, interrupts, and which
server dies. The same plan is the same run, so a plan that breaks a promise is an
example of it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import IO, Any, Final

import attrs

import trio
import trio.lowlevel

from glyphoxa_trio.config import Config, ConfigError
from glyphoxa_trio.config.voices import SpeechConfig, TurnTakingConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import SampleHistory
from glyphoxa_trio.npc import ApprovalRequest
from glyphoxa_trio.npc.prompting import only_opens
from glyphoxa_trio.providers.llm import (
    CallReady,
    ErrorKind,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    TextChunk,
    Working,
)
from glyphoxa_trio.runtime import Environment, Runtime, open_runtime
from glyphoxa_trio.runtime.hooks import Hooks
from glyphoxa_trio.simulation.promises.liveness import Well
from glyphoxa_trio.simulation.promises.monitor import Monitor, Promise
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.history import Measured
from glyphoxa_trio.tools.outcome import ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import SampleKind

from . import virtual
from .promises.fake_world import Act, Ending, FakeWorld

# Long after every limit there is: whatever is not over by then never ends.
FOREVER: Final = 7200.0
# After the last word: every call that may go on has ended, every limit is over.
SETTLING: Final = 120.0
APPROVAL: Final = 2.0
_SHOWN: Final = 12  # utterances of a plan that its repr shows


class Slip(StrEnum):
    """A model's failure: what it does instead of ending its answer."""

    FAILS = "fails"
    IS_A_BUG = "is a bug"
    HANGS_UP = "hangs up"


@attrs.frozen
class PlannedPause:
    """The model is silent for so long; infinity is for ever."""

    seconds: float


@attrs.frozen
class Asks:
    """The model calls a tool, by whatever name and with whatever arguments."""

    name: str
    arguments: str = "{}"
    id: str = "a"


Step = str | PlannedPause | Asks | Slip
Reply = tuple[Step, ...]


@attrs.frozen(kw_only=True)
class PlannedUtterance:
    """A line that a player says to an NPC.

    Args:
      words: beside a number, which makes each utterance another one.
      replies: what the model answers, round by round; then a line.
      opener: what the fast model of a sentence cascade says.
      leaves: so many seconds after it was said the listener walks away.
      pace: how long the listener takes for each event.
      heard: so many seconds before it is said the NPC hears it coming, if at all;
        ``misheard``, and in other words.
    """

    at: float
    npc: str
    speaker: str = "player"
    words: str = ""
    tier: Tier | None = None
    replies: tuple[Reply, ...] = ()
    opener: Reply = ("Well, ", "now. ", "Then")
    leaves: float = math.inf
    pace: float = 0.0
    heard: float | None = None
    misheard: bool = False


class Deed(StrEnum):
    """A kind of event; `PlannedEvent` has its target and its details."""

    INTERRUPT = "interrupt"  # an NPC
    ELEVATE = "elevate"  # an NPC, to a tier, for some seconds
    PREVIEW = "preview"  # an NPC hears half of a sentence
    RELOAD = "reload"  # to one of the plan's later configurations
    DIE = "die"  # a server
    FREEZE = "freeze"
    THAW = "thaw"
    OFFER = "offer"  # a server lists something else


@attrs.frozen(kw_only=True)
class PlannedEvent:
    at: float
    deed: Deed
    whom: str = ""
    which: int = 0
    tier: Tier = Tier.DEEP
    seconds: float = 0.0


@attrs.frozen(kw_only=True)
class Spell:
    """A time in which a tool, or all tools of a server, behave in another way.

    Without an ``act`` every call is answered when the spell is over, as by a server
    that loads its index.
    """

    whom: str
    begins: float
    ends: float
    act: Act | None = None

    def concerns(self, key: str) -> bool:
        return self.whom in (key, key.partition(".")[0])


class ApproverReply(StrEnum):
    """An approver's answer."""

    YES = "yes"
    NO = "no"
    FAIL = "fail"
    NEVER = "never"


def _some(said: tuple[PlannedUtterance, ...]) -> str:
    """The utterances as text; those of a long evening are cut."""
    more = len(said) - _SHOWN
    return repr(said) if more <= 0 else f"{said[:_SHOWN]!r} and {more} more"


def _people(later: tuple[Config, ...]) -> str:
    """Configurations as text: only their NPCs, since a whole one fills pages."""
    return repr([config.npcs for config in later])


@attrs.frozen(kw_only=True)
class RehearsalPlan:
    """Everything that one rehearsal needs.

    Args:
      own: tools of the embedder.
      offers, later_offers: what each server lists, at first and then.
      starts: how many seconds a start of a server takes, by its name.
      acts: by a tool's key, what its runs do, one after the other, then from the
        beginning.
      spells: times in which tools behave in another way; the first that fits counts.
      answers: of the approver, in turn, each after some seconds; None without one.
      later: what the configuration is reloaded to.
      measured: what earlier runs have measured, as of Unix time 0.
      closes: when the runtime's block is left in the middle of everything.
    """

    config: Config
    own: tuple[ToolDefinition, ...] = ()
    offers: Mapping[str, tuple[Mapping[str, Any], ...]] = attrs.field(factory=dict)
    later_offers: Mapping[str, tuple[tuple[Mapping[str, Any], ...], ...]] = attrs.field(
        factory=dict
    )
    starts: Mapping[str, float] = attrs.field(factory=dict)
    acts: Mapping[str, tuple[Act, ...]] = attrs.field(factory=dict)
    spells: tuple[Spell, ...] = ()
    utterances: tuple[PlannedUtterance, ...] = attrs.field(default=(), repr=_some)
    events: tuple[PlannedEvent, ...] = ()
    answers: tuple[tuple[ApproverReply, float], ...] | None = None
    later: tuple[Config, ...] = attrs.field(default=(), repr=_people)
    closes: float | None = None
    measured: tuple[Measured, ...] = ()
    seed: int = 0


def rehearse(plan: RehearsalPlan, *, keep: bool = False) -> Monitor:
    """Play it on virtual time and say what was broken.

    Args:
      keep: keep every event, so that a test can look at them.
    """
    return virtual.run(partial(play, plan, keep=keep), seed=plan.seed)


def record(plan: RehearsalPlan, file: IO[bytes]) -> Monitor:
    """Play it once more, and write a recording of it: `glyphoxa replay` shows that."""
    from glyphoxa_trio.observability.recording.lines import LineOutput
    from glyphoxa_trio.observability.recording.recording import Recorder
    from glyphoxa_trio.simulation.clock import ExactClock

    lines = LineOutput(file)

    class Listening(Recorder):
        def history(self, history: SampleHistory | None) -> SampleHistory | None:
            return super().history(Remembering(plan.measured).history(history))

    async def main() -> Monitor:
        recorder = Listening(
            lambda kind, fields: lines.info(kind, **fields),
            lines.hide,
        )
        monitor = await play(plan, listens=recorder.environment)
        lines.end(trio.current_time(), "closed")
        return monitor

    return virtual.run(main, seed=plan.seed, clock=ExactClock())


def rehearsable(config: Config) -> Config:
    """The configuration without what means nothing on virtual time, or must not be
    done in a rehearsal: files, networks, voices, a watch over how late the loop is.
    """
    return attrs.evolve(
        config,
        mcp=attrs.evolve(config.mcp, remember=False),
        calibration=attrs.evolve(config.calibration, remember=False, every=None),
        overload=attrs.evolve(config.overload, enabled=False),
        telemetry=attrs.evolve(config.telemetry, enabled=False),
        speech=SpeechConfig(),
        turn_taking=TurnTakingConfig(),
    )


async def play(
    plan: RehearsalPlan,
    *,
    keep: bool = False,
    listens: Callable[[Environment], Environment] | None = None,
) -> Monitor:
    """Play it, on whatever clock runs.

    Args:
      listens: what stands between the runtime and its world: a recording.
    """
    plan = attrs.evolve(
        plan,
        config=rehearsable(plan.config),
        later=tuple(rehearsable(config) for config in plan.later),
    )
    scenery = FakeWorld(_director(plan), plan.offers, random.Random(plan.seed))
    for name, seconds in plan.starts.items():
        scenery.server(name).start_after(seconds)
    asked = plan.answers is not None
    monitor = Monitor(
        plan.config,
        scenery,
        asked=asked,
        keep=keep,
        remembered=_remembered(plan),
        well=partial(_well, plan),
    )
    if listens is not None:
        world = listens(monitor.environment())
    else:
        world = attrs.evolve(monitor.environment(), hooks=Remembering(plan.measured))
    model = MadeUpModel(plan, monitor)
    approver = None if plan.answers is None else _approver(plan.answers)
    with trio.move_on_after(FOREVER) as patience, ExitStack() as taps:
        async with trio.open_nursery() as players:
            async with open_runtime(
                plan.config,
                tools=[_tool(definition) for definition in plan.own],
                llm=model,
                approver=approver,
                approval_timeout=APPROVAL,
                wait_for_servers=0,
                environment=world,
            ) as runtime:
                taps.enter_context(monitor.watching(runtime))
                await trio.lowlevel.checkpoint()
                stage = _Stage(plan, runtime, scenery, monitor)
                ends = stage.start(players)
                with trio.move_on_after(
                    math.inf if plan.closes is None else plan.closes
                ):
                    for end in ends:
                        await end.wait()
                    await trio.sleep(SETTLING)
                    monitor.quiet(runtime)
                began_to_close = trio.current_time()
                monitor.closes()
            took = trio.current_time() - began_to_close
        monitor.closed(runtime, took=max(0.0, took - _longest_stubborn(plan)))
    if patience.cancelled_caught:
        monitor.fail(Promise.ENDS, "the rehearsal", "a listener waits for ever")
    if model.open:
        monitor.fail(Promise.NOTHING_LEFT, "model", f"{model.open} streams are open")
    return monitor


async def _here(function: Callable[..., Any], *args: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return function(*args)


@attrs.frozen
class _Kept:
    """A stand-in for the file of measurements, which forgets what is written."""

    _measured: tuple[Measured, ...]

    def load(self, since: float, until: float) -> tuple[Measured, ...]:
        return self._measured

    def write(self, batch: Sequence[Measured], *, keep: int) -> None: ...

    def close(self) -> None: ...


@attrs.frozen
class Remembering(Hooks):
    """Lets the runtime remember what the plan says was measured."""

    _measured: tuple[Measured, ...]

    def history(self, history: SampleHistory | None) -> SampleHistory | None:
        if not self._measured:
            return None
        kept = _Kept(self._measured)
        return SampleHistory(lambda: kept, today=lambda: 0.0, in_thread=_here)


def _longest_stubborn(plan: RehearsalPlan) -> float:
    """Return how long calls that ignore cancellation may delay the end of a runtime."""
    return max(
        (
            act.seconds
            for acts in plan.acts.values()
            for act in acts
            if act.ending is Ending.STUBBORN
        ),
        default=0.0,
    )


@attrs.define(eq=False)
class _Stage:
    _plan: RehearsalPlan
    _runtime: Runtime
    _scenery: FakeWorld
    _monitor: Monitor

    def start(self, nursery: trio.Nursery) -> list[trio.Event]:
        """Start every player and event; returns an event for each, set at its end."""
        ends: list[trio.Event] = []
        for number, utterance in enumerate(self._plan.utterances):
            ends.append(trio.Event())
            nursery.start_soon(
                self._speak, text_of(number, utterance), utterance, ends[-1]
            )
        for event in self._plan.events:
            ends.append(trio.Event())
            nursery.start_soon(self._act, event, ends[-1])
        return ends

    async def _speak(self, text: str, what: PlannedUtterance, end: trio.Event) -> None:
        try:
            if what.heard is not None:
                await trio.sleep_until(what.at - what.heard)
                partial_ = f"{text}, or not" if what.misheard else text
                await self._runtime.npc(what.npc).hearing(
                    partial_, speaker=what.speaker
                )
            await trio.sleep_until(what.at)
            self._monitor.disturbed()  # it may interrupt
            self._monitor.says(what.npc, text, what.tier)
            with trio.move_on_at(what.at + what.leaves) as scope:
                async with self._runtime.npc(what.npc).say(
                    text, speaker=what.speaker, tier=what.tier
                ) as turn:
                    async for _ in turn:
                        if what.pace:
                            await trio.sleep(what.pace)
            if scope.cancelled_caught:
                self._monitor.disturbed()
        except GlyphoxaError:
            pass  # no such NPC, a full queue, or the end: each is an answer
        finally:
            end.set()

    async def _act(self, event: PlannedEvent, end: trio.Event) -> None:
        try:
            await trio.sleep_until(event.at)
            await self._do(event)
        except GlyphoxaError:
            pass
        finally:
            end.set()

    async def _do(self, event: PlannedEvent) -> None:
        monitor, plan = self._monitor, self._plan
        monitor.disturbed()
        if event.deed in _TO_TOOLS:
            monitor.stirred(until=math.inf if event.deed is Deed.FREEZE else None)
        match event.deed:
            case Deed.INTERRUPT:
                await self._runtime.npc(event.whom).interrupt()
            case Deed.ELEVATE:
                npc = self._runtime.npc(event.whom)
                monitor.elevates(npc.name, event.tier, event.seconds)
                await npc.elevate(event.tier, seconds=event.seconds)
            case Deed.PREVIEW:
                await self._runtime.npc(event.whom).tier_for("Please think carefully")
            case Deed.RELOAD:
                config = plan.later[event.which]
                monitor.reloads(config)
                try:
                    await self._runtime.reload(config)
                except ConfigError:
                    monitor.ledger.refused(config)
            case Deed.DIE:
                self._scenery.server(event.whom).die()
            case Deed.FREEZE:
                self._scenery.server(event.whom).freeze()
            case Deed.THAW:
                self._scenery.server(event.whom).thaw()
            case Deed.OFFER:
                monitor.tools_change()
                offers = plan.later_offers[event.whom][event.which]
                self._scenery.server(event.whom).offer(offers)


# Deeds that change tools or servers: how well a tool was before does not count then.
_TO_TOOLS: Final = {Deed.RELOAD, Deed.DIE, Deed.FREEZE, Deed.THAW, Deed.OFFER}


def text_of(number: int, utterance: PlannedUtterance) -> str:
    """Return the words of an utterance: unique, so that the model can tell it."""
    return f"Number {number} {utterance.words}".strip()


def _director(plan: RehearsalPlan) -> Callable[[str, Mapping[str, Any]], Act]:
    runs: Counter[str] = Counter()

    def direct(key: str, arguments: Mapping[str, Any]) -> Act:
        now = trio.current_time()
        for spell in plan.spells:
            if spell.concerns(key) and spell.begins <= now < spell.ends:
                return spell.act or Act(Ending.ANSWER, spell.ends - now)
        acts = plan.acts.get(key) or (Act(),)
        runs[key] += 1
        return acts[(runs[key] - 1) % len(acts)]

    return direct


def _well(plan: RehearsalPlan, key: str) -> Well | None:
    """Return a tool's latency at this moment; None unless it answers every call."""
    now = trio.current_time()
    acts = plan.acts.get(key) or (Act(),)
    mine = [x for x in plan.spells if x.concerns(key) and x.begins <= now]
    if any(now < x.ends for x in mine) or any(
        x.ending is not Ending.ANSWER for x in acts
    ):
        return None
    since = max((x.ends for x in mine), default=0.0)
    ills = sum(x.ends > since - 3600 for x in mine)
    return Well(since, max(x.seconds for x in acts), ills)


def _remembered(plan: RehearsalPlan) -> Mapping[tuple[str, str], tuple[float, ...]]:
    oldest = -plan.config.calibration.expiry
    kept: dict[tuple[str, str], list[float]] = {}
    for one in plan.measured:
        if one.kind is SampleKind.OK and one.when > oldest:
            _, origin, key = one.place
            kept.setdefault((origin, key), []).append(one.seconds)
    return {place: tuple(seconds) for place, seconds in kept.items()}


def _approver(answers: tuple[tuple[ApproverReply, float], ...]) -> Any:
    asked = 0

    async def approve(request: ApprovalRequest) -> bool:
        nonlocal asked
        answer, seconds = answers[asked % len(answers)]
        asked += 1
        await trio.sleep(math.inf if answer is ApproverReply.NEVER else seconds)
        if answer is ApproverReply.FAIL:
            raise RuntimeError("the approver fell over")
        return answer is ApproverReply.YES

    return approve


def _tool(definition: ToolDefinition) -> Tool:
    async def nobody(arguments: Mapping[str, Any], context: object) -> ToolResult:
        raise AssertionError("the scenery plays it")

    return Tool(definition=definition, handler=nobody)


@attrs.define(eq=False)
class MadeUpModel:
    """Answers as the plan has it: whose turn it is, the utterance says."""

    _plan: RehearsalPlan
    _monitor: Monitor
    open: int = attrs.field(default=0, init=False)

    @property
    def label(self) -> str:
        return "made up"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        told = request.messages
        last = max(n for n, message in enumerate(told) if message.role == "user")
        text = told[last].content
        number = int(text.split()[1])
        utterance = self._plan.utterances[number]
        self._monitor.asked_of_model(utterance.npc, request.messages)
        # Not counted: a round that began ahead may be thrown away. Every round but
        # the last has called something; an opener is of this one.
        round_ = sum(bool(message.calls) for message in told[last:])
        replies = utterance.replies
        reply = replies[round_] if round_ < len(replies) else ("So be it.",)
        opens = only_opens(request)
        if opens:
            reply = utterance.opener

        def ended(calls: tuple[ToolCall, ...]) -> None:
            if not opens:
                self._monitor.answered(utterance.npc, text, round_, calls)

        self.open += 1
        try:
            yield _Played(list(reply), ended)
        finally:
            self.open -= 1


@attrs.define(eq=False)
class _Played:
    _steps: list[Step]
    _ended: Callable[[tuple[ToolCall, ...]], None]
    _calls: list[ToolCall] = attrs.field(factory=list, init=False)
    _over: bool = attrs.field(default=False, init=False)

    def __aiter__(self) -> _Played:
        return self

    async def __anext__(self) -> LLMEvent:
        await trio.lowlevel.checkpoint()
        while self._steps:
            match self._steps.pop(0):
                case PlannedPause(seconds):
                    await trio.sleep(seconds)
                case Asks(name, arguments, id_):
                    self._calls.append(ToolCall(id_, name, arguments))
                    return CallReady(self._calls[-1])
                case Slip.FAILS:
                    raise LLMError(ErrorKind.OVERLOADED, "it is made to")
                case Slip.IS_A_BUG:
                    raise RuntimeError("a bug of a model's link")
                case Slip.HANGS_UP:
                    raise LLMError(ErrorKind.INTERRUPTED, "it hung up")
                case "":
                    return Working()
                case str() as text:
                    return TextChunk(text)
        if self._over:
            raise StopAsyncIteration
        self._over = True
        self._ended(tuple(self._calls))
        return Finished()
