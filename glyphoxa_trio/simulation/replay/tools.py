"""Tools out of a recording."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import (
    Mapping,
)
from typing import Any

import attrs

import trio

from glyphoxa_trio.npc.identity import SessionKey, npc_in
from glyphoxa_trio.observability.recording.format import Line, Recorded
from glyphoxa_trio.observability.recording.handlers import FAILURES
from glyphoxa_trio.simulation.replay.answers import Notes, Shift, bug
from glyphoxa_trio.simulation.replay.driver import ReplayDriver
from glyphoxa_trio.tools.arguments import canonical
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolDefinition,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import Media, ToolResult
from glyphoxa_trio.units import in_ms


@attrs.define(eq=False)
class Answers:
    """The results of calls, by tool and arguments; equal calls in their order."""

    _recorded: Recorded
    _notes: Notes
    _conductor: ReplayDriver
    _calls: dict[tuple[str, str], list[Line]] = attrs.field(init=False)
    _ends: dict[int, Line] = attrs.field(init=False)
    _sent: dict[int, list[Line]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = defaultdict(list)
        for line in self._recorded.of("call"):
            if line.get("until") is None:  # probes are not made again
                asked = canonical(line["arguments"])
                self._calls[line["tool"], asked].append(line)
        self._sent = defaultdict(list)
        for line in self._recorded.of("sent"):
            self._sent[line["call"]].append(line)
        self._ends = {line["call"]: line for line in self._recorded.of("answer")}

    def tool(self, definition: ToolDefinition, fingerprint: str) -> Tool:
        """The tool as it was, with the answers that it gave."""
        handler = RecordedHandler(definition.key, self)
        return Tool(
            definition=definition,
            handler=handler,
            fingerprint=fingerprint,
            remote=definition.external,
        )

    async def of(
        self, key: str, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        waiting = self._calls[key, canonical(dict(arguments))]
        if not waiting:
            self._notes.add(
                f"{key} is called as it was not in the recording, so its answer is"
                " unknown: what follows is a what-if"
            )
            raise ToolUnavailable("the recording has no answer to this call")
        # Equal calls may have begun in any order at one instant.
        npc = SessionKey(context.session, context.tenant).npc(context.npc)
        whose = [x for x in waiting if not x.get("npc") or npc_in(x) == npc] or waiting
        call = next((x for x in whose if x.get("id") == context.call_id), whose[0])
        waiting.remove(call)
        self._conductor.done(call)
        shift = Shift(call["at"], trio.current_time(), self._conductor)
        end = self._ends.get(call["call"])
        if not self._says_when_sent:
            context.sent()
        for line in self._sent[call["call"]]:
            if shift.of(line["at"]) > trio.current_time():
                await trio.sleep_until(shift.of(line["at"]))
            context.sent()
        if end is None or end.get("cancelled"):
            await self._in_vain(key, shift, end)
        else:
            await _until(shift, end)
        assert end is not None
        self._conductor.done(end)
        if (error := end.get("error")) is not None:
            kind = FAILURES.get(error["kind"])
            raise bug(error) if kind is None else kind(error.get("detail", ""))
        result = end["result"]
        return ToolResult(
            text=tuple(result.get("text") or ()),
            structured=result.get("structured"),
            is_error=bool(result.get("is_error")),
            media=tuple(
                Media(item["mime"], base64.b64decode(item["data"]))
                for item in result.get("media") or ()
            ),
        )

    @property
    def _says_when_sent(self) -> bool:
        return int(self._recorded.header["format"]) >= 2

    async def _in_vain(self, key: str, shift: Shift, end: Line | None) -> None:
        """Wait for a call that was cut; one that resisted ends when it did then."""
        try:
            await trio.sleep_forever()
        finally:
            if end is not None:
                now, over = trio.current_time(), shift.of(end["at"])
                if now > over:
                    took = in_ms(end["at"] - shift.recorded)
                    self._notes.add(
                        f"{key} was cut after {took} in the recording, so its duration"
                        " is unknown; here it never ends: what follows is a what-if"
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
class RecordedHandler:
    """A handler out of a recording; equal to another one of the same tool."""

    key: str
    _answers: Answers = attrs.field(eq=False)

    async def __call__(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        return await self._answers.of(self.key, arguments, context)
