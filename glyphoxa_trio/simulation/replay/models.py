"""A model out of a recording."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import (
    AsyncIterator,
)
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.npc.identity import NpcId, npc_in
from glyphoxa_trio.observability.recording.format import Line, Recorded
from glyphoxa_trio.observability.recording.hiding import Hiding
from glyphoxa_trio.observability.recording.models import digest, where
from glyphoxa_trio.providers.llm import (
    CallReady,
    ErrorKind,
    Finished,
    FinishReason,
    LLMError,
    LLMEvent,
    LLMRequest,
    Switched,
    TextChunk,
    Usage,
    Verbatim,
    Waiting,
    Working,
)
from glyphoxa_trio.simulation.replay.answers import Notes, Shift, bug
from glyphoxa_trio.simulation.replay.driver import ReplayDriver
from glyphoxa_trio.tools.outcome import ToolCall

_NOTHING_HIDDEN: Final = Hiding()


@attrs.define(eq=False)
class ReplayModel:
    """Answers each round as it was answered in the recording."""

    _notes: Notes
    _conductor: ReplayDriver
    _rounds: dict[tuple[NpcId, int, int], list[Line]] = attrs.field(init=False)
    _said: dict[int, list[Line]] = attrs.field(init=False)
    _astray: set[NpcId] = attrs.field(factory=set, init=False)
    _recorded: Recorded = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._rounds, self._said = defaultdict(list), defaultdict(list)
        for line in self._recorded.of("request"):
            place = npc_in(line), line.get("turn") or 0, line.get("round") or 0
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
        yield _RecordedText(deque(x for x in said if "hung_up" not in x), shift)
        for gone in said:
            if gone.get("hung_up") is not None:
                later = Shift(gone["hung_up"], trio.current_time(), self._conductor)
                with trio.CancelScope(shield=True):
                    await trio.sleep_until(later.of(gone["at"]))

    def _take(self, request: LLMRequest) -> Line:
        npc, turn, round_ = where.get()
        waiting = self._rounds[npc, turn, round_]
        place = f"{npc.npc or 'an NPC'}, turn {turn}, round {round_ + 1}"
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
class _RecordedText:
    _lines: deque[Line]
    _shift: Shift

    def __aiter__(self) -> _RecordedText:
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
        again = end.get("verbatim")
        return Finished(
            reason=FinishReason(end.get("reason", "stop")),
            usage=Usage(**end["usage"]) if end.get("usage") else None,
            verbatim=Verbatim(**again) if again else None,
        )
    if (switched := line.get("switched")) is not None:
        return Switched(**switched)
    if line.get("unsaid"):
        return Working(unsaid=True)
    if (waiting := line.get("waiting")) is not None:
        return Waiting(**waiting)
    if (failed := line.get("failed")) is not None:
        if "kind" in failed:
            raise LLMError(ErrorKind(failed["kind"]), failed.get("detail", ""))
        raise bug(failed)
    return Working()
