"""The recorder, which makes lines of everything that happens to one runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any, cast

import attrs

import trio

from glyphoxa_trio.actors import Handover
from glyphoxa_trio.config import Config
from glyphoxa_trio.host import SampleHistory, ToolHost
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.mcp.status import Publish
from glyphoxa_trio.npc import ApprovalSettled, Npc, TurnEvent, TurnKept
from glyphoxa_trio.npc.events import Decision
from glyphoxa_trio.npc.hot_context import Gather, Gathered, HotContext, Moment
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.npc.session.messages import (
    Approve,
    Configure,
    Elevate,
    Interrupt,
    Introduce,
    Overhear,
    PartialSpeech,
    Preview,
    Say,
    SessionRequest,
    Situate,
)
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.observability.recording.config import config_as_data
from glyphoxa_trio.observability.recording.format import FORMAT
from glyphoxa_trio.observability.recording.handlers import HeardHandler, Threads
from glyphoxa_trio.observability.recording.hiding import Hiding
from glyphoxa_trio.observability.recording.history import HeardHistory
from glyphoxa_trio.observability.recording.lines import LineOutput
from glyphoxa_trio.observability.recording.models import HeardModel, mark
from glyphoxa_trio.observability.recording.players import (
    HeardDoor,
    HeardStream,
    until_quiet,
    unusual,
)
from glyphoxa_trio.observability.recording.speech import HeardSpeech
from glyphoxa_trio.observability.recording.tools import definition_as_data
from glyphoxa_trio.observability.stepping import Quiet, exactness
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.providers.s2s import S2S
from glyphoxa_trio.runtime.environment import REAL, Environment
from glyphoxa_trio.runtime.hooks import Hooks, RuntimeStart
from glyphoxa_trio.runtime.session_snapshot import SessionSnapshot
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.history import ToolPlace
from glyphoxa_trio.tools.window import Sample

Take = Callable[[str, Mapping[str, Any]], None]
"""Takes a line: its kind, and its fields."""


@attrs.define(eq=False)
class Recorder(Hooks):
    """Hears one runtime, and makes lines of it.

    Args:
      take: told of each line; must neither block nor raise.
      hide: told of what must not be in them, before the first and at each reload.
    """

    _take: Take
    _hide: Callable[[Hiding], None]
    failed: int = attrs.field(default=0, init=False)
    _host: ToolHost | None = attrs.field(default=None, init=False)
    _configs: list[Config] = attrs.field(factory=list, init=False)
    _samples: list[tuple[ToolPlace, Sample]] = attrs.field(factory=list, init=False)
    _requests: count[int] = attrs.field(factory=partial(count, 1), init=False)
    _calls: count[int] = attrs.field(factory=partial(count, 1), init=False)
    _says: count[int] = attrs.field(factory=partial(count, 1), init=False)
    _sockets: count[int] = attrs.field(factory=partial(count, 1), init=False)
    _speaking: set[NpcId] = attrs.field(factory=set, init=False)
    _ours: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _offered: dict[str, list[dict[str, Any]]] = attrs.field(factory=dict, init=False)
    _held: tuple[frozenset[str], frozenset[str]] = attrs.field(
        default=(frozenset(), frozenset()), init=False
    )
    _quiet: Quiet | None = attrs.field(default=None, init=False)
    _hearing: dict[NpcId, set[HeardStream]] = attrs.field(factory=dict, init=False)
    _threads: Threads = attrs.field(factory=Threads, init=False)
    _listening: ExitStack = attrs.field(factory=ExitStack, init=False)

    def environment(self, real: Environment = REAL) -> Environment:
        """``real``, listened to. For one runtime."""

        def stand_in(tool: Tool) -> Tool:
            played = tool if real.stand_in is None else real.stand_in(tool)
            return self._heard(played)

        return attrs.evolve(real, hooks=self, stand_in=stand_in)

    def note(self, kind: str, /, **fields: Any) -> None:
        """One line, now."""
        try:
            self._take(kind, {"at": trio.current_time(), **fields})
        except Exception:  # whatever is wrong here must not end a turn
            self.failed += 1

    # What a runtime tells.

    def history(self, history: SampleHistory | None) -> SampleHistory | None:
        if history is None:
            return None
        return cast("SampleHistory", HeardHistory(history, self._samples))

    def model(self, llm: LLM) -> LLM:
        number = self._requests.__next__
        return HeardModel(llm, self.note, number, self._tell_who_is_behind)

    def speech(self, model: S2S, npc: NpcId) -> S2S:
        self._speaking.add(npc)
        return HeardSpeech(model, npc, self.note, self._sockets.__next__)

    def context(self, context: HotContext) -> Gather:
        context.tell(self._knows)
        return context

    def _knows(self, moment: Moment, found: Gathered | None) -> None:
        of: dict[str, Any] = {"cancelled": True}
        if found is not None:
            of = {"lines": found.lines, "missed": found.missed}
        npc = SessionKey(moment.session, moment.tenant).npc(moment.npc)
        asked = {**npc.named, "turn": moment.turn, "text": moment.text}
        self.note("context", **asked, **of)

    def _heard(self, tool: Tool) -> Tool:
        handler = HeardHandler(tool, self._threads, self.note, self._calls.__next__)
        return attrs.evolve(tool, handler=handler, blocking=False)

    def publishing(self, publish: Publish) -> Publish:
        def heard(
            server: str,
            state: ServerState,
            tools: tuple[Tool, ...],
            ready_at: float | None = None,
        ) -> None:
            self._look_for_approvals()
            offered = [definition_as_data(tool) for tool in tools]
            same = self._offered.get(server) == offered
            self._offered[server] = offered
            told: dict[str, Any] = {} if same else {"tools": offered}
            if ready_at is not None:
                told["ready_at"] = ready_at
            self.note("server", server=server, state=state.value, **told)
            publish(server, state, tools, ready_at)
            self._held = self._held_now()

        return heard

    def npc(self, npc: Npc) -> Npc:
        told = partial(self._asked, npc.session.npc(npc.name), npc._handover)
        door = HeardDoor.of(npc._door, told, self._quiet)
        return attrs.evolve(npc, door=door)

    def began(self, beginning: RuntimeStart) -> None:
        self._host = beginning.host
        self._hide_secrets_of(beginning.config)
        clock, tolerance = exactness()
        self._quiet = getattr(trio.lowlevel.current_clock(), "quiet", None)
        self.note(
            "recording",
            format=FORMAT,
            package=_version(),
            clock=clock,
            tolerance=tolerance,
            run=beginning.run_id,
            approver=beginning.approver,
            approval_timeout=beginning.patience,
            approved=beginning.host.approvals.remembered,
            config=config_as_data(beginning.config),
        )
        for place, sample in self._samples:
            self.note(
                "measured",
                environment=place.environment,
                origin=place.origin,
                key=place.key,
                sample={
                    "kind": sample.kind,
                    "seconds": sample.seconds,
                    "at": sample.at,
                    "probe": sample.probe,
                },
            )
        self._samples.clear()
        self._held = self._held_now()
        self.registered()
        self._listening.enter_context(beginning.events.tap(self._event))

    def knows(
        self,
        session: SessionKey,
        variables: Mapping[str, str | None],
        told: tuple[str, ...] = (),
    ) -> None:
        more = {"told": told} if told else {}
        self.note("session", **session.named, variables=dict(variables), **more)

    def restored(self, session: SessionKey, kept: SessionSnapshot) -> None:
        self.note("restored", **session.named, kept=kept.to_data())

    async def ending(self, session: SessionKey) -> None:
        if self._quiet is not None:
            await until_quiet(self._quiet)
        self.note("ended", **session.named)
        self._speaking = {x for x in self._speaking if x.session != session}
        for npc in [x for x in self._hearing if x.session != session]:
            self._listening_to(npc)  # forgets what has ended since

    def registered(self) -> None:
        assert self._host is not None
        listings = self._host.snapshot.listings
        # In the order of their keys: the catalogue's follows from their estimates.
        ours = sorted((x for x in listings if not x.definition.external), key=_key)
        tools = [definition_as_data(listing.tool) for listing in ours]
        if tools != self._ours:
            self._ours = tools
            self.note("tools", tools=tools)

    def reloading(self, config: Config) -> None:
        assert self._host is not None
        self._hide_secrets_of(config)
        approved = self._host.approvals.remembered
        self.note("reload", config=config_as_data(config), approved=approved)
        self._held = self._held_now()

    async def leaving(self) -> None:
        if self._quiet is not None:
            with trio.CancelScope(shield=True):
                await until_quiet(self._quiet)
        self.note("leaving")
        self._threads.over.set()  # the runtime must not wait for one of ours

    def end(self) -> None:
        """Listen no more."""
        self._listening.close()

    # What players do, and what comes of it.

    def _asked(self, npc: NpcId, handover: Handover, request: SessionRequest) -> None:
        self._look_for_approvals()
        match request:
            case Say() as said:
                say = next(self._says)
                self.note(
                    "say",
                    say=say,
                    **npc.named,
                    text=said.text,
                    speaker=said.speaker,
                    tier=said.tier,
                    **unusual(said),
                )
                self._tell_who_is_behind(npc)
                listener = handover.look(said.listener, Listener)
                if listener is not None:
                    heard = self._heard_by(npc, listener, say)
                    self._hearing.setdefault(npc, set()).add(heard)
            case Preview() | Configure() | Approve():
                pass  # leaves no trace; is a reload's; is known by its event
            # These messages have no answer, so no listener is behind for them.
            case Overhear(speaker, text, to):
                words = {"speaker": speaker, "text": text} | ({"to": to} if to else {})
                self.note("overhear", **npc.named, **words)
            case Introduce() | Situate():
                self.note(type(request).__name__.lower(), **npc.named, of=request)
            case PartialSpeech():
                self.note("hearing", **npc.named, of=request)
                self._tell_who_is_behind(npc)
            case Interrupt() | Elevate():
                self.note(type(request).__name__.lower(), **npc.named, of=request)
                self._tell_who_is_behind(npc)
            case _:
                self.note("unrecorded", what=type(request).__name__)

    def _heard_by(self, npc: NpcId, listener: Listener, say: int) -> HeardStream:
        stream = HeardStream(
            capacity=listener.stream.capacity,
            say=say,
            has_voice=npc in self._speaking,
            note=self.note,
            quiet=self._quiet,
        )
        listener.listen_through(stream, stream.played)
        return stream

    def _tell_who_is_behind(self, npc: NpcId) -> None:
        """Note the listeners that are behind: they hear the rest after the last line.
        An NPC remembers those of its own words that were heard by then."""
        for stream in sorted(self._listening_to(npc), key=lambda x: x.say):
            stream.tell_if_behind()

    def _listening_to(self, npc: NpcId) -> set[HeardStream]:
        """Return the listeners of an NPC, and forget those that are gone."""
        listening = {x for x in self._hearing.pop(npc, ()) if not x.gone}
        if listening:
            self._hearing[npc] = listening
        return listening

    def _event(self, event: TurnEvent) -> None:
        if isinstance(event, TurnKept):  # comes when the disk is done
            return
        mark(event)
        self._look_for_approvals()
        if isinstance(event, ApprovalSettled) and event.decision in (
            Decision.APPROVED,
            Decision.DENIED,
        ):
            yes = event.decision is Decision.APPROVED
            self.note("approve", **event.id.named, question=event.question, yes=yes)
        self.note("event", event=type(event).__name__, of=event)

    def _look_for_approvals(self) -> None:
        """Note the tools that were approved since the last look: those that are not
        held back any more, and those that a person has agreed to."""
        held, agreed = self._held_now()
        before, had = self._held
        if held is not before or agreed is not had:
            for key in sorted((before - held) | (agreed - had)):
                self.note("approved", tool=key)
            self._held = held, agreed

    def _held_now(self) -> tuple[frozenset[str], frozenset[str]]:
        assert self._host is not None
        approvals = self._host.approvals
        return approvals.held, approvals.agreed

    def _hide_secrets_of(self, config: Config) -> None:
        self._configs.append(config)
        self._hide(Hiding.of(*self._configs))


def _key(listing: Any) -> str:
    return str(listing.key)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("glyphoxa-trio")
    except PackageNotFoundError:  # run from where it was checked out
        return "unknown"


def recorder_of(lines: LineOutput) -> Recorder:
    """A recorder that writes at once: for virtual time, where no thread may be."""
    return Recorder(lambda kind, fields: lines.info(kind, **fields), lines.hide)
