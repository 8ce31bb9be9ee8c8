"""The hooks of a replay: the runtime's reports, and stand-ins for servers and disks."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Iterable,
    Mapping,
)
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final, cast

import attrs

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.host import SampleHistory
from glyphoxa_trio.host.calibrator import Observe
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.mcp.status import Publish
from glyphoxa_trio.mcp.transport import ServerSession
from glyphoxa_trio.npc import TurnEvent
from glyphoxa_trio.npc.hot_context import Gather, Gathered, HotContext, Moment
from glyphoxa_trio.npc.identity import NpcId, SessionKey, npc_in
from glyphoxa_trio.observability.recording.format import Line, Recorded
from glyphoxa_trio.observability.recording.hiding import Hiding
from glyphoxa_trio.observability.recording.lines import beside
from glyphoxa_trio.observability.recording.models import mark
from glyphoxa_trio.providers.s2s import S2S
from glyphoxa_trio.runtime.hooks import Hooks, RuntimeStart
from glyphoxa_trio.simulation.replay.driver import ReplayDriver
from glyphoxa_trio.simulation.replay.speech import RecordedSockets
from glyphoxa_trio.tools.definition import (
    Tool,
)
from glyphoxa_trio.tools.history import ToolPlace
from glyphoxa_trio.tools.window import Sample, SampleKind

_NOTHING_HIDDEN: Final = Hiding()


@attrs.define(eq=False)
class ReplayHooks(Hooks):
    """The record of a replay, and a stand-in for the disk with the measurements."""

    _recorded: Recorded
    _conductor: ReplayDriver
    sockets: RecordedSockets
    played: list[tuple[float, TurnEvent]] = attrs.field(factory=list, init=False)
    publish: Publish = attrs.field(init=False)
    # To the end of the run: the last turn ends when the runtime is left.
    _listening: ExitStack = attrs.field(factory=ExitStack, init=False)

    def history(self, history: SampleHistory | None) -> SampleHistory | None:
        return cast("SampleHistory", _Past(self._recorded.of("measured")))

    def speech(self, model: S2S, npc: NpcId) -> S2S:
        return self.sockets.of(npc)

    def context(self, context: HotContext) -> Gather:
        return _Known(self._recorded.of("context"))

    def publishing(self, publish: Publish) -> Publish:
        self.publish = publish
        return _unheard  # servers are not started: what they offered is recorded

    def began(self, beginning: RuntimeStart) -> None:
        beginning.host.approvals.recall(self._recorded.header.get("approved") or {})
        self._listening.enter_context(beginning.events.tap(self._note))

    def _note(self, event: TurnEvent) -> None:
        mark(event)
        now = trio.current_time()
        self.played.append((now, event))
        self._conductor.done(as_line(now, event))


def as_line(at: float, event: TurnEvent) -> Line:
    """An event as a recording has it."""
    plain = beside(_NOTHING_HIDDEN.plain(event))
    return {"kind": "event", "at": at, "event": type(event).__name__, **plain}


def _unheard(
    server: str,
    state: ServerState,
    tools: tuple[Tool, ...],
    ready_at: float | None = None,
) -> None: ...


@attrs.define(eq=False)
class _Known:
    """The answers of providers of context, at the times of the recording."""

    _lines: list[Line]

    async def gather(self, moment: Moment, *, within: float) -> Gathered | None:
        npc = SessionKey(moment.session, moment.tenant).npc(moment.npc)
        asked = npc, moment.turn, moment.text
        for line in self._lines:
            if (npc_in(line), line["turn"], line["text"]) == asked:
                self._lines.remove(line)
                if line.get("cancelled"):
                    await trio.sleep_forever()  # it is cancelled again
                until = min(line["at"], trio.current_time() + within)
                await trio.sleep_until(until)
                missed = tuple((name, why) for name, why in line.get("missed") or ())
                return Gathered(tuple(map(str, line.get("lines") or ())), missed)
        return None


@attrs.frozen(eq=False)
class _Past:
    """A `SampleHistory` without a disk: what earlier runs had measured."""

    lines: Iterable[Line]

    async def load(self, expiry: float) -> list[tuple[ToolPlace, Sample]]:
        return [
            (
                ToolPlace(line["environment"], line.get("origin") or "", line["key"]),
                sample_of(line["sample"]),
            )
            for line in self.lines
        ]

    def add(self, place: ToolPlace, sample: Sample) -> None: ...

    async def run(self) -> None: ...

    async def close(self) -> None: ...

    def statistics(self) -> None:
        return None


def sample_of(data: Mapping[str, Any]) -> Sample:
    return Sample(
        SampleKind(data["kind"]),
        float(data["seconds"]),
        at=float(data["at"]),
        probe=bool(data.get("probe")),
    )


def probes_of(recorded: Recorded) -> dict[int, Observe | None]:
    """Return the measurements of calibration, by the number of each call; None if it
    measured nothing.

    A sample begins when the request was sent or, in recordings without that, when the
    call began.
    """
    calls = {x["call"]: x for x in recorded.of("call") if x.get("until") is not None}
    sent = {x["call"]: float(x["at"]) for x in recorded.of("sent")}
    found: dict[int, Observe | None] = {}
    for end in recorded.of("answer"):
        call = calls.get(end["call"])
        if call is None:
            continue
        at, until = float(end["at"]), float(call["until"])
        if at >= until:
            kind, at = SampleKind.CENSORED, until
        elif end.get("result") is None or end["result"].get("is_error"):
            found[call["call"]] = None
            continue
        else:
            kind = SampleKind.OK
        began = sent.get(call["call"], float(call["at"]))
        sample = Sample(kind, at - began, at=at, probe=True)
        found[call["call"]] = Observe(call["tool"], sample)
    return found


@attrs.frozen
class Absent:
    """An `OpenSession` that never is: it stays as quiet as can be, and is closed when
    the last of the recorded ones was, since late answers come until then.
    """

    until: float

    @asynccontextmanager
    async def __call__(
        self, spec: ServerSpec, **_: Any
    ) -> AsyncGenerator[ServerSession]:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep_until(self.until)
        yield cast("ServerSession", None)
