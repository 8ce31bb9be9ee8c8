"""A session, written down so that it can be played again (docs/recording.md).

    async with open_recording(Path("table.jsonl")) as recording:
        async with open_runtime(config, world=recording.world()) as runtime:
            ...

Recorded is what a runtime meets and does not decide: what players say and when they
stop listening, what models answer, what tools return, what servers offer, what was
measured; and, to compare with, every event that it published. Inside `SteppingClock`
a replay comes to the same events with the same times; without it, to about the same.

`Recorder` makes the lines and gives them to whoever wants them; `open_recording` has
them written to a file, in a thread, so that no turn ever waits for a disk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

import trio
from trio.testing import MockClock

from glyphoxa_trio.actors import Request, lone_errors
from glyphoxa_trio.config import Config
from glyphoxa_trio.host import History
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.mcp.status import Publish
from glyphoxa_trio.npc import ApprovalSettled, Npc, TurnEvent
from glyphoxa_trio.npc.events import Decision
from glyphoxa_trio.npc.utterance import (
    Adopt,
    Approve,
    Elevate,
    Hearing,
    Interrupt,
    Preview,
    Say,
    Utterance,
)
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.runtime.witness import Witness
from glyphoxa_trio.runtime.world import REAL, World
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.history import Place
from glyphoxa_trio.tools.window import Sample

from .outputs import Output
from .recording_config import config_as_data
from .recording_format import FORMAT, definition_as_data
from .recording_hiding import Hiding
from .recording_lines import MOST_BYTES, Lines, RecordingFile
from .recording_taps import (
    HeardHandler,
    HeardModel,
    HeardRef,
    HeardStream,
    Threads,
    mark,
    until_quiet,
)
from .records import Level, Record
from .stepping import Quiet, SteppingClock
from .writer import Writer

if TYPE_CHECKING:
    from glyphoxa_trio.runtime import Runtime

CAPACITY: Final = 20_000  # lines that may wait for the disk
CLOSING: Final = 2.0  # seconds for the last of them, at the end
# How far times of a replay may be off, seconds, by the clock that was recorded on.
_ROUNDED: Final = 1e-6  # a virtual clock that adds up its jumps
_REAL: Final = 0.05

Take = Callable[[str, Mapping[str, Any]], None]
"""Takes a line: its kind, and its fields."""


@attrs.define(eq=False)
class Recorder(Witness):
    """Hears one runtime, and makes lines of it.

    Args:
      take: told of each line; must neither block nor raise.
      hide: told of what must not be in them, before the first and at each reload.
    """

    _take: Take
    _hide: Callable[[Hiding], None]
    failed: int = attrs.field(default=0, init=False)
    _runtime: Runtime | None = attrs.field(default=None, init=False)
    _configs: list[Config] = attrs.field(factory=list, init=False)
    _samples: list[tuple[Place, Sample]] = attrs.field(factory=list, init=False)
    _requests: count[int] = attrs.field(factory=partial(count, 1), init=False)
    _calls: count[int] = attrs.field(factory=partial(count, 1), init=False)
    _says: count[int] = attrs.field(factory=partial(count, 1), init=False)
    _ours: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _offered: dict[str, list[dict[str, Any]]] = attrs.field(factory=dict, init=False)
    _held: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _quiet: Quiet | None = attrs.field(default=None, init=False)
    _hearing: dict[str, set[HeardStream]] = attrs.field(factory=dict, init=False)
    _threads: Threads = attrs.field(factory=Threads, init=False)
    _listening: ExitStack = attrs.field(factory=ExitStack, init=False)

    def world(self, real: World = REAL) -> World:
        """``real``, listened to. For one runtime."""

        def stand_in(tool: Tool) -> Tool:
            played = tool if real.stand_in is None else real.stand_in(tool)
            return self._heard(played)

        return attrs.evolve(real, witness=self, stand_in=stand_in)

    def note(self, kind: str, /, **fields: Any) -> None:
        """One line, now."""
        try:
            self._take(kind, {"at": trio.current_time(), **fields})
        except Exception:  # whatever is wrong here must not end a turn
            self.failed += 1

    # What a runtime tells.

    def history(self, history: History | None) -> History | None:
        if history is None:
            return None
        return cast("History", _HeardHistory(history, self._samples))

    def model(self, llm: LLM) -> LLM:
        number = self._requests.__next__
        return HeardModel(llm, self.note, number, self._tell_who_is_behind)

    def _heard(self, tool: Tool) -> Tool:
        handler = HeardHandler(tool, self._threads, self.note, self._calls.__next__)
        return attrs.evolve(tool, handler=handler, blocking=False)

    def publishing(self, publish: Publish) -> Publish:
        def heard(server: str, state: ServerState, tools: tuple[Tool, ...]) -> None:
            self._look_for_approvals()
            offered = [definition_as_data(tool) for tool in tools]
            same = self._offered.get(server) == offered
            self._offered[server] = offered
            told = {} if same else {"tools": offered}
            self.note("server", server=server, state=state.value, **told)
            publish(server, state, tools)
            self._held = self._held_now()

        return heard

    def npc(self, npc: Npc) -> Npc:
        told = partial(self._asked, npc.name)
        ref = HeardRef.of(npc._session, told, self._quiet)
        return attrs.evolve(npc, session=ref)

    def began(self, runtime: Runtime, *, approver: bool, patience: float) -> None:
        self._runtime = runtime
        self._hide_secrets_of(runtime.config)
        clock, tolerance = _clock()
        self._quiet = getattr(trio.lowlevel.current_clock(), "quiet", None)
        self.note(
            "recording",
            format=FORMAT,
            package=_version(),
            clock=clock,
            tolerance=tolerance,
            approver=approver,
            approval_timeout=patience,
            approved=runtime.host.approvals.remembered,
            config=config_as_data(runtime.config),
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
        self._listening.enter_context(runtime.events.tap(self._event))

    def registered(self) -> None:
        assert self._runtime is not None
        listings = self._runtime.host.snapshot.listings
        # In the order of their keys: the catalogue's follows from their estimates.
        ours = sorted((x for x in listings if not x.definition.external), key=_key)
        tools = [definition_as_data(listing.tool) for listing in ours]
        if tools != self._ours:
            self._ours = tools
            self.note("tools", tools=tools)

    def reloading(self, config: Config) -> None:
        assert self._runtime is not None
        self._hide_secrets_of(config)
        approved = self._runtime.host.approvals.remembered
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

    def _asked(self, npc: str, request: Request[Any]) -> Request[Any]:
        self._look_for_approvals()
        match request:
            case Say(utterance):
                say = next(self._says)
                self.note(
                    "say",
                    say=say,
                    npc=npc,
                    text=utterance.text,
                    speaker=utterance.speaker,
                    tier=utterance.override,
                )
                heard = self._heard_by(utterance, say)
                self._tell_who_is_behind(npc)
                self._hearing.setdefault(npc, set()).add(heard)
                return Say(_with_scope(utterance, heard.scope))
            case Preview() | Adopt() | Approve():
                pass  # leaves no trace; is a reload's; is known by its event
            case Hearing() | Interrupt() | Elevate():
                self.note(type(request).__name__.lower(), npc=npc, of=request)
                self._tell_who_is_behind(npc)
            case _:
                self.note("unrecorded", what=type(request).__name__)
        return request

    def _heard_by(self, utterance: Utterance, say: int) -> HeardStream:
        stream = HeardStream(
            capacity=utterance.stream.capacity,
            on_consumed=utterance.stream.on_consumed,
            say=say,
            note=self.note,
            scope=trio.CancelScope(),
            quiet=self._quiet,
        )
        utterance.stream = stream
        return stream

    def _tell_who_is_behind(self, npc: str) -> None:
        """Whoever has not heard all yet hears the rest after what was noted just now:
        what an NPC remembers of its own words is what was heard of them by then."""
        listening = {x for x in self._hearing.get(npc, ()) if not x.gone}
        self._hearing[npc] = listening
        for stream in sorted(listening, key=lambda x: x.say):
            stream.tell_if_behind()

    def _event(self, event: TurnEvent) -> None:
        mark(event)
        self._look_for_approvals()
        if isinstance(event, ApprovalSettled) and event.decision in (
            Decision.APPROVED,
            Decision.DENIED,
        ):
            yes = event.decision is Decision.APPROVED
            self.note("approve", npc=event.npc, question=event.question, yes=yes)
        self.note("event", event=type(event).__name__, of=event)

    def _look_for_approvals(self) -> None:
        """Tools that were held back and are not any more: somebody has approved."""
        held = self._held_now()
        if held is not self._held:
            for key in sorted(self._held - held):
                self.note("approved", tool=key)
            self._held = held

    def _held_now(self) -> frozenset[str]:
        assert self._runtime is not None
        return self._runtime.host.approvals.held

    def _hide_secrets_of(self, config: Config) -> None:
        self._configs.append(config)
        self._hide(Hiding.of(*self._configs))


def _with_scope(utterance: Utterance, scope: trio.CancelScope) -> Utterance:
    """The utterance as its session has it: what its listener cancels is cancelled
    by the stream, in its own time."""
    inner = Utterance(utterance.text, utterance.speaker, utterance.override)
    inner.stream, inner.exchange = utterance.stream, utterance.exchange
    inner.begins, inner.ended = utterance.begins, utterance.ended
    inner.scope = scope
    return inner


def _key(listing: Any) -> str:
    return str(listing.key)


def _clock() -> tuple[str, float]:
    """The clock that this runs on, and how exact a replay of it can be."""
    clock = trio.lowlevel.current_clock()
    if isinstance(clock, SteppingClock) or getattr(clock, "exact", False):
        return "stepping", 0.0
    return ("virtual", _ROUNDED) if isinstance(clock, MockClock) else ("real", _REAL)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("glyphoxa-trio")
    except PackageNotFoundError:  # run from where it was checked out
        return "unknown"


def recorder_of(lines: Lines) -> Recorder:
    """A recorder that writes at once: for virtual time, where no thread may be."""

    def hide(hiding: Hiding) -> None:
        lines.hiding = hiding

    return Recorder(lambda kind, fields: lines.info(kind, **fields), hide)


@attrs.define(eq=False)
class _HeardHistory:
    """Somebody's `History`; what it loads is put into ``samples``, too."""

    _history: History
    _samples: list[tuple[Place, Sample]]

    async def load(self, expiry: float) -> list[tuple[Place, Sample]]:
        found = await self._history.load(expiry)
        self._samples += found
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._history, name)


@attrs.define(eq=False)
class Recording:
    """Made by `open_recording`: a recorder whose lines go into a file."""

    path: Path
    _recorder: Recorder
    _lines: Lines
    _writer: Writer

    def world(self, real: World = REAL) -> World:
        """For `open_runtime`, and for one runtime only."""
        return self._recorder.world(real)

    @property
    def failure(self) -> str:
        """Why the file is not whole; empty as long as it is."""
        statistics = self._writer.statistics()
        if self._lines.failure:
            return self._lines.failure
        missing = statistics.failed + statistics.lost + self._recorder.failed
        return f"{missing} lines are missing" if missing else ""


@asynccontextmanager
async def open_recording(
    path: Path, *, most_bytes: int = MOST_BYTES, capacity: int = CAPACITY
) -> AsyncGenerator[Recording]:
    """A recording that is written for as long as the block lasts.

    The block goes around a runtime's. Until its end the file is beside ``path``, with
    ``.part`` at its end. Leaving takes at most two seconds, cancelled or not.

    Args:
      most_bytes: beyond it the recording ends, and says so.
      capacity: lines that may wait for the disk; beyond it, likewise.

    Raises:
      OSError: if the file cannot be made.
    """
    file = RecordingFile(path)
    opened = await trio.to_thread.run_sync(file.open, abandon_on_cancel=True)
    lines = Lines(opened, most_bytes=most_bytes)
    writer = Writer(cast("Output", lines), capacity)

    def take(kind: str, fields: Mapping[str, Any]) -> None:
        writer.put(Record(Level.INFO, kind, fields))

    def hide(hiding: Hiding) -> None:
        lines.hiding = hiding

    recorder = Recorder(take, hide)
    clock = trio.lowlevel.current_clock()
    if isinstance(clock, SteppingClock):
        clock.on_lost = lambda at, seconds: take(
            "inexact", {"at": at, "why": f"always something to do for {seconds:.3f} s"}
        )
    done = trio.Event()
    with lone_errors():
        async with trio.open_nursery() as nursery:
            writing = trio.CancelScope(shield=True)

            async def write() -> None:
                with writing:
                    await writer.run()
                done.set()

            nursery.start_soon(write)
            try:
                yield Recording(path, recorder, lines, writer)
            finally:
                recorder.end()
                at = trio.current_time()
                writer.finish()
                with trio.move_on_after(CLOSING, shield=True):
                    await done.wait()
                    with suppress(OSError):
                        await trio.to_thread.run_sync(
                            partial(_finish, lines, file, at), abandon_on_cancel=True
                        )
                writing.cancel()


def _finish(lines: Lines, file: RecordingFile, at: float) -> None:
    try:
        lines.end(at, "closed")
        file.close()
    except OSError as error:
        lines.failure = lines.failure or error.strerror or type(error).__name__
        raise
