"""What a recorded session meets when it is played again: models and tools that answer
as they did, after as long as they did, and servers that nobody starts.

An answer comes at its recorded time if its question does; if a changed rule moved the
question, as long after it. What nobody asked in the recording has no answer, and
whatever is asked instead makes a replay a *what-if*: `Notes` says from where on.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Iterable,
    Mapping,
)
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final, cast

import attrs

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.host import History
from glyphoxa_trio.host.calibrator import Observe
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.mcp.status import Publish
from glyphoxa_trio.mcp.transport import Session
from glyphoxa_trio.npc import TurnEvent
from glyphoxa_trio.observability.recording_format import Line, Recorded
from glyphoxa_trio.observability.recording_hiding import Hiding
from glyphoxa_trio.observability.recording_lines import beside
from glyphoxa_trio.observability.recording_taps import FAILURES, digest, mark, where
from glyphoxa_trio.providers.llm import (
    CallReady,
    ErrorKind,
    Finished,
    FinishReason,
    LLMError,
    LLMEvent,
    LLMRequest,
    TextChunk,
    Usage,
    Working,
)
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.runtime.witness import Witness
from glyphoxa_trio.tools.arguments import canonical
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolDefinition,
    ToolUnavailable,
)
from glyphoxa_trio.tools.history import Place
from glyphoxa_trio.tools.outcome import ToolCall, ToolResult
from glyphoxa_trio.tools.window import Sample, SampleKind
from glyphoxa_trio.units import in_ms

from .replay_conductor import Conductor

_NOTHING_HIDDEN: Final = Hiding()


@attrs.define(eq=False)
class Notes:
    """What a replay could not take from its recording, for people, in order."""

    texts: list[str] = attrs.field(factory=list)

    def add(self, text: str) -> None:
        line = f"{trio.current_time():.3f} s: {text}"
        if line not in self.texts:
            self.texts.append(line)


@attrs.frozen
class Shift:
    """Recorded times as those of a replay, for what follows from one question."""

    recorded: float
    now: float
    conductor: Conductor

    def of(self, at: float) -> float:
        # Not now + (at - recorded): that would be another float of the same time.
        if self.now == self.recorded:
            return at
        return self.now + (at - self.recorded)

    async def wait(self, line: Line) -> None:
        if self.now == self.recorded:
            await self.conductor.cue(line).wait()
        else:
            await trio.sleep_until(max(self.of(line["at"]), trio.current_time()))


# Models.


@attrs.define(eq=False)
class ReplayModel:
    """Answers each round as it was answered in the recording."""

    _notes: Notes
    _conductor: Conductor
    _rounds: dict[tuple[str, int, int], list[Line]] = attrs.field(init=False)
    _said: dict[int, list[Line]] = attrs.field(init=False)
    _astray: set[str] = attrs.field(factory=set, init=False)
    _recorded: Recorded = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._rounds, self._said = defaultdict(list), defaultdict(list)
        for line in self._recorded.of("request"):
            place = line.get("npc") or "", line.get("turn") or 0, line.get("round") or 0
            self._rounds[place].append(line)
        for line in self._recorded.of("model"):
            self._said[line["request"]].append(line)

    @property
    def label(self) -> str:
        return "a recording"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        line = self._take(request)
        self._conductor.done(line)
        said = self._said[line["request"]]
        shift = Shift(line["at"], trio.current_time(), self._conductor)
        yield _Words(deque(x for x in said if "hung_up" not in x), shift)
        for gone in said:
            if gone.get("hung_up") is not None:
                later = Shift(gone["hung_up"], trio.current_time(), self._conductor)
                with trio.CancelScope(shield=True):
                    await trio.sleep_until(later.of(gone["at"]))

    def _take(self, request: LLMRequest) -> Line:
        npc, turn, round_ = where.get()
        waiting = self._rounds[npc, turn, round_]
        place = f"{npc or 'somebody'}, turn {turn}, round {round_ + 1}"
        if not waiting:
            self._notes.add(f"{place}: nothing was recorded of a model here")
            raise LLMError(
                ErrorKind.INTERRUPTED, "the recording has no answer for this round"
            )
        asked = digest(request, _NOTHING_HIDDEN)
        same = [line for line in waiting if line.get("prompt") == asked]
        chosen = (same or waiting)[0]
        if not same and chosen.get("prompt") and npc not in self._astray:
            self._astray.add(npc)
            self._notes.add(
                f"{place}: the model is asked something else than was recorded, and"
                " answers the same: what follows is a what-if"
            )
        waiting.remove(chosen)
        return chosen


@attrs.define(eq=False)
class _Words:
    _lines: deque[Line]
    _shift: Shift

    def __aiter__(self) -> _Words:
        return self

    async def __anext__(self) -> LLMEvent:
        if not self._lines:  # it was hung up on here, or the recording ends
            await trio.sleep_forever()
        line = self._lines.popleft()
        await self._shift.wait(line)
        self._shift.conductor.done(line)
        if line.get("connected"):
            return await self.__anext__()
        return _event_of(line)


def _event_of(line: Line) -> LLMEvent:
    if line.get("text") is not None:
        return TextChunk(line["text"])
    if (call := line.get("call")) is not None:
        return CallReady(
            ToolCall(call["id"], call["name"], call.get("arguments", "{}"))
        )
    if (end := line.get("finished")) is not None:
        usage = Usage(**end["usage"]) if end.get("usage") else None
        return Finished(reason=FinishReason(end.get("reason", "stop")), usage=usage)
    if (failed := line.get("failed")) is not None:
        if "kind" in failed:
            raise LLMError(ErrorKind(failed["kind"]), failed.get("detail", ""))
        raise _bug(failed)
    return Working()


def _bug(error: Mapping[str, Any]) -> Exception:
    """An error that is called as the recorded one was, since outcomes name it."""
    kind = type(str(error.get("error") or "Exception"), (Exception,), {})
    raised: Exception = kind(error.get("detail", ""))
    return raised


# Tools.


@attrs.define(eq=False)
class Answers:
    """What calls came to, by tool and arguments; of equal ones, in their order."""

    _recorded: Recorded
    _notes: Notes
    _conductor: Conductor
    _calls: dict[tuple[str, str], list[Line]] = attrs.field(init=False)
    _ends: dict[int, Line] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = defaultdict(list)
        for line in self._recorded.of("call"):
            if line.get("until") is None:  # probes are not made again
                asked = canonical(line["arguments"])
                self._calls[line["tool"], asked].append(line)
        self._ends = {line["call"]: line for line in self._recorded.of("answer")}

    def tool(self, definition: ToolDefinition, fingerprint: str) -> Tool:
        """The tool as it was, with the answers that it gave."""
        handler = Answering(definition.key, self)
        return Tool(definition=definition, handler=handler, fingerprint=fingerprint)

    async def of(
        self, key: str, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        waiting = self._calls[key, canonical(dict(arguments))]
        if not waiting:
            self._notes.add(
                f"{key} is called as it was not in the recording, so nobody knows what"
                " it says: what follows is a what-if"
            )
            raise ToolUnavailable("the recording has no answer to this call")
        # Equal calls may have begun in any order at one instant.
        whose = [x for x in waiting if x.get("npc") in (None, context.npc)] or waiting
        call = next((x for x in whose if x.get("id") == context.call_id), whose[0])
        waiting.remove(call)
        self._conductor.done(call)
        shift = Shift(call["at"], trio.current_time(), self._conductor)
        end = self._ends.get(call["call"])
        if end is None or end.get("cancelled"):
            await self._in_vain(key, shift, end)
        else:
            await _until(shift, end)
        assert end is not None
        self._conductor.done(end)
        if (error := end.get("error")) is not None:
            kind = FAILURES.get(error["kind"])
            raise _bug(error) if kind is None else kind(error.get("detail", ""))
        result = end["result"]
        return ToolResult(
            text=tuple(result.get("text") or ()),
            structured=result.get("structured"),
            is_error=bool(result.get("is_error")),
        )

    async def _in_vain(self, key: str, shift: Shift, end: Line | None) -> None:
        """It was cut; a call that resists is over when it was then."""
        try:
            await trio.sleep_forever()
        finally:
            if end is not None:
                now, over = trio.current_time(), shift.of(end["at"])
                if now > over:
                    took = in_ms(end["at"] - shift.recorded)
                    self._notes.add(
                        f"{key} was cut after {took} in the recording, and nobody knows"
                        " how long it takes; here it never ends: what follows is a"
                        " what-if"
                    )
                elif shift.now == shift.recorded:
                    with trio.CancelScope(shield=True):
                        await trio.sleep_until(over)


async def _until(shift: Shift, end: Line) -> None:
    try:
        await shift.wait(end)
    except trio.Cancelled:
        if not end.get("in_spite"):
            raise
        with trio.CancelScope(shield=True):  # it answered all the same
            await shift.wait(end)


@attrs.frozen
class Answering:
    """A handler out of a recording; equal to another one of the same tool."""

    key: str
    _answers: Answers = attrs.field(eq=False)

    async def __call__(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        return await self._answers.of(self.key, arguments, context)


# What the runtime tells, and is told.


@attrs.define(eq=False)
class Stage(Witness):
    """Takes down what is played, and has what was measured in place of a disk."""

    _recorded: Recorded
    _conductor: Conductor
    played: list[tuple[float, TurnEvent]] = attrs.field(factory=list, init=False)
    publish: Publish = attrs.field(init=False)
    # To the end of the run: the last turn ends when the runtime is left.
    _listening: ExitStack = attrs.field(factory=ExitStack, init=False)

    def history(self, history: History | None) -> History | None:
        return cast("History", _Past(self._recorded.of("measured")))

    def publishing(self, publish: Publish) -> Publish:
        self.publish = publish
        return _unheard  # nobody starts the servers: what they offered is recorded

    def began(self, runtime: Runtime, *, approver: bool, patience: float) -> None:
        runtime.host.approvals.recall(self._recorded.header.get("approved") or {})
        self._listening.enter_context(runtime.events.tap(self._note))

    def _note(self, event: TurnEvent) -> None:
        mark(event)
        now = trio.current_time()
        self.played.append((now, event))
        self._conductor.done(as_line(now, event))


def as_line(at: float, event: TurnEvent) -> Line:
    """An event as a recording has it."""
    plain = beside(_NOTHING_HIDDEN.plain(event))
    return {"kind": "event", "at": at, "event": type(event).__name__, **plain}


def _unheard(server: str, state: ServerState, tools: tuple[Tool, ...]) -> None: ...


@attrs.frozen(eq=False)
class _Past:
    """A `History` without a disk: what was measured before the recording began."""

    lines: Iterable[Line]

    async def load(self, expiry: float) -> list[tuple[Place, Sample]]:
        return [
            (
                Place(line["environment"], line.get("origin") or "", line["key"]),
                sample_of(line["sample"]),
            )
            for line in self.lines
        ]

    def add(self, place: Place, sample: Sample) -> None: ...

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


def probes_of(recorded: Recorded) -> dict[int, Observe]:
    """What calibration measured meanwhile, by the number of its call."""
    calls = {x["call"]: x for x in recorded.of("call") if x.get("until") is not None}
    found: dict[int, Observe] = {}
    for end in recorded.of("answer"):
        call = calls.get(end["call"])
        if call is None:
            continue
        at, until = float(end["at"]), float(call["until"])
        if at >= until:
            kind, at = SampleKind.CENSORED, until
        elif end.get("result") is None or end["result"].get("is_error"):
            continue
        else:
            kind = SampleKind.OK
        sample = Sample(kind, at - float(call["at"]), at=at, probe=True)
        found[call["call"]] = Observe(call["tool"], sample)
    return found


@attrs.frozen
class Absent:
    """An `OpenSession` that never is: it stays as quiet as can be, and is closed when
    the last of the recorded ones was, since late answers come until then.
    """

    until: float

    @asynccontextmanager
    async def __call__(self, spec: ServerSpec, **_: Any) -> AsyncGenerator[Session]:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep_until(self.until)
        yield cast("Session", None)
