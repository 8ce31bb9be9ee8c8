"""The timing of one call: how long its tool took, from when it was sent, without the
time in which the event loop was late."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, cast

import attrs

from glyphoxa_trio.actors import LoopHold, LoopLag, OwnTime
from glyphoxa_trio.tools import foreign
from glyphoxa_trio.tools.definition import CallContext, Handler, Tool
from glyphoxa_trio.tools.outcome import ToolResult

from .pauses import TurnQuestions
from .stalls import Stalls

# A cut call is no sample if it spent more than this share of its time waiting for
# something other than its tool.
_TOO_MUCH = 0.1


@attrs.define(eq=False)
class Timing:
    """The clock of one call. Times in seconds.

    Time in which the call waits for a server that starts, for a thread, for a permit,
    or for a person whom its server asks does not count as the tool's latency. Neither
    does time in which the event loop was blocked, unless the tool's own code blocked
    it.
    """

    _lag: LoopLag
    _stalls: Stalls
    _tool: Tool
    # Of the turn that waits for the call; a call that no turn awaits has none.
    _questions: TurnQuestions | None = attrs.field(default=None, init=False)
    started: float = attrs.field(init=False)
    _stalled_before: float = attrs.field(init=False)  # the loop's lag at the start
    _paused_before: float = attrs.field(default=0.0, init=False)
    _paused_sent: float = attrs.field(default=0.0, init=False)
    _sent: float | None = attrs.field(default=None, init=False)
    _stalled: float = attrs.field(default=0.0, init=False)  # its lag when sent
    _own: OwnTime[Any] | None = attrs.field(default=None, init=False)
    held_loop: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.started, self._stalled_before = self._lag.clock(), self._lag.total()

    def of_turn(self, questions: TurnQuestions | None) -> None:
        """Do not count, from now on, the time in which the tool's server asks a person
        something in that turn."""
        self._questions = questions
        self._paused_before = self._paused_sent = self._paused()

    def instead_of(self, other: Timing) -> None:
        """Take over the turn that waits for another call."""
        self.of_turn(other._questions)

    def _paused(self) -> float:
        if self._questions is None or not self._questions.by_server:
            return 0.0
        return self._questions.seconds(self._tool.definition.group)

    @property
    def was_sent(self) -> bool:
        return self._sent is not None

    def sent(self) -> None:
        """Note that the tool starts now. May be called in a thread, and again if the
        call is repeated."""
        self._sent, self._stalled = self._lag.clock(), self._lag.total()
        self._paused_sent = self._paused()

    async def run(
        self, handler: Handler, arguments: Mapping[str, Any], context: CallContext
    ) -> Any:
        """Run a handler of this process, which counts as sent when it starts."""
        self.sent()
        self._own = OwnTime(
            cast("Awaitable[Any]", handler(arguments, context))
            if foreign.makes(handler)
            else _result(handler, arguments, context),
            self._lag.clock,
            self._stalls.watchdog,
            self._tool.key,
            self._hold,
        )
        return await self._own

    def _hold(self, hold: LoopHold) -> None:
        if not self.held_loop:
            self.held_loop = True
            self._stalls.held(self._tool, hold)

    def kept_waiting(self) -> float:
        """Return how long the loop was late since the call started, except by its own
        code."""
        paused = self._paused() - self._paused_before
        return self._excused(self._stalled_before) + paused

    def _excused(self, before: float) -> float:
        own = 0.0 if self._own is None else self._own.seconds
        return max(0.0, self._lag.total() - before - own)

    def ended(self) -> float | None:
        """Return the seconds that the tool took until now; None if never sent."""
        if self._sent is None:
            return None
        excused = self._excused(self._stalled) + self._paused() - self._paused_sent
        return max(0.0, self._lag.clock() - self._sent - excused)

    def had(self) -> float | None:
        """Return all the time since the start; None if the loop's lag, or waiting to be
        sent, took more than a negligible share of it."""
        had = self._lag.clock() - self.started
        if self._sent is None or self.kept_waiting() > _TOO_MUCH * had:
            return None
        return had if self._sent - self.started <= _TOO_MUCH * had else None

    def cut(self) -> float | None:
        """Return the seconds that a tool had whose call is cut now without an answer;
        None if they are no sample of the tool's latency."""
        if self._sent is None:
            return None
        now, excused = self._lag.clock(), self.kept_waiting()
        had = now - self.started
        if excused > _TOO_MUCH * had:
            return None
        if self._sent - self.started <= _TOO_MUCH * had:
            return max(0.0, had - excused)  # the next call would not have more time
        return max(0.0, now - self._sent - self._excused(self._stalled))


async def _result(
    handler: Handler, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Return the handler's result, converted: that counts as the tool's own time."""
    work = cast("Awaitable[Any]", handler(arguments, context))
    return foreign.result(await work)
