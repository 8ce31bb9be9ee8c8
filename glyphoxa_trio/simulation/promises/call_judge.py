"""The judge of a turn's calls: their start, their end, and late results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from glyphoxa_trio.host.catalogue import Snapshot
from glyphoxa_trio.npc import FanOutDone, Filler, LateResult, ToolFinished, ToolStarted
from glyphoxa_trio.npc.events import TurnDone
from glyphoxa_trio.simulation.promises.calls import (
    CallSeen,
    Promise,
    RoundSeen,
    TurnRecord,
)
from glyphoxa_trio.simulation.promises.gate_checker import GateChecker
from glyphoxa_trio.simulation.promises.journal import stale
from glyphoxa_trio.simulation.promises.offered import OfferedTools
from glyphoxa_trio.simulation.promises.said import SpokenOnce
from glyphoxa_trio.simulation.promises.turn import judged_late
from glyphoxa_trio.tools.outcome import Limit, Status


@attrs.define(eq=False, kw_only=True)
class CallJudge:
    """Follows each call from the gate to its end.

    Args:
      ahead: whether tools may be called before the model asks, to save time.
      report: told of each broken promise.
    """

    door: GateChecker
    said: SpokenOnce
    offered: OfferedTools
    ahead: Callable[[], bool]
    snapshot: Callable[[], Snapshot]
    report: Callable[[Promise, str, str], None]
    slack: float
    calls: list[CallSeen] = attrs.field(factory=list, init=False)
    _going_on: list[CallSeen] = attrs.field(factory=list, init=False)
    _told_first: list[tuple[float, LateResult]] = attrs.field(factory=list, init=False)
    _events: int = attrs.field(default=0, init=False)

    def hear(self, turn: TurnRecord, event: Any, at: float) -> None:
        """An event of that turn, in the moment in which it is published."""
        self._events += 1
        match event:
            case Filler():
                self._filled(turn, event)
            case ToolStarted():
                self._started(turn, event, at)
            case ToolFinished():
                self._finished(turn, event, at)
            case FanOutDone():
                round_ = turn.round(event.round)
                round_.fan_out = (at, event)
                self._told_how_long(round_, at, event.elapsed)
            case TurnDone() if len(turn.done) == 1:
                self._done(turn, event, at)

    def late(self, event: LateResult, at: float) -> None:
        """The end of a call that its turn did not wait for."""
        for call in self._going_on:
            if call.call == event.outcome.call:
                self._going_on.remove(call)
                call.late = (at, event.outcome)
                if text := judged_late(call, at, event.outcome, self.slack):
                    where = f"{event.npc}, turn {event.turn}"
                    self.report(Promise.LIMITS, where, f"{call.tool} {text}")
                seen = self.door.seen(call.tool)
                seen.lands()
                seen.ended.append(call)
                return
        self._told_first.append((at, event))

    def quiet(self) -> None:
        """Every limit is long over: nothing goes on."""
        for _, event in self._told_first:
            where = f"{event.npc}, turn {event.turn}"
            self.report(Promise.ONE_OUTCOME, where, "a late result without a call")
        for call in self._going_on:
            if not call.tie:
                text = "it went on and was not heard of again"
                self.report(Promise.ENDS, call.tool, text)
        self._going_on.clear()

    def _told_how_long(self, round_: RoundSeen, at: float, took: float) -> None:
        """A fan-out has ended. Its first calls may all have waited for a seat, of which
        there is no event: then only the runtime knows when it began."""
        keys = {end.tool for _, end in round_.ends}
        if round_.began is not None and any(
            self.offered.may_be_tried(self.snapshot(), key) for key in keys
        ):
            round_.began = min(round_.began, at - took)

    def _started(self, turn: TurnRecord, event: ToolStarted, at: float) -> None:
        round_ = turn.round(event.round)
        self._listen(turn, event.round)
        if round_.began is None:
            round_.began = at
        listing = self.snapshot().by_key.get(event.tool)
        known = None if listing is None else listing.definition
        call = CallSeen(
            turn.npc,
            event.call,
            event.tool,
            at,
            known,
            round_.slot_of(event.call, {x.slot for x in round_.calls}),
            ahead=known is not None and self.ahead() and known.read_only,
            started_as=self._events,
        )
        round_.calls.append(call)
        self.calls.append(call)
        self.door.started(turn, round_, call, event)
        if any(
            x.pending
            and x.late is None
            and (x.npc, x.tool, x.arguments) == (call.npc, call.tool, call.arguments)
            for x in self._going_on
        ):
            text = f"{call.tool} was called again while it was still working"
            self.report(Promise.ONCE, turn.where, text)
        self.door.seen(event.tool).takes_off()

    def _finished(self, turn: TurnRecord, event: ToolFinished, at: float) -> None:
        round_ = turn.round(event.round)
        self._listen(turn, event.round)
        end = event.outcome
        if round_.began is None:
            waited = 0.0
            if end.status is Status.SKIPPED and end.limit is Limit.TURN:
                # It waited for a seat all this time, and no other call began.
                budget = 0.0 if turn.selected is None else turn.selected.budget
                waited = budget - turn.spent(event.round)
            round_.began = at - waited
        round_.ends.append((at, end))
        if end.cached and end.tool is not None and not self.ahead():
            listing = self.snapshot().by_key.get(end.tool)
            definition = None if listing is None else listing.definition
            hit = CallSeen(turn.npc, end.call, end.tool, at, definition, 0)
            if why := stale(hit, self.calls):
                self.report(Promise.FRESH, turn.where, f"{end.tool}: {why}")
        waiting = [x for x in round_.calls if x.outcome is None and x.call == end.call]
        mine = [x for x in waiting if x.call is end.call]
        if not mine and not any(x is end.call for x in round_.said or ()):
            mine = waiting  # of its like, where calls are only told of
        if mine:
            self._ended(turn, round_, mine[0], event, at)

    def _ended(
        self,
        turn: TurnRecord,
        round_: RoundSeen,
        call: CallSeen,
        event: ToolFinished,
        at: float,
    ) -> None:
        tie = False
        if turn.selected is not None and round_.began is not None:
            left = turn.selected.budget - turn.spent(event.round)
            tie = abs(at - round_.began - left) <= self.slack
        call.ends(event.outcome, at, ended_as=self._events, tie=tie)
        seen = self.door.seen(call.tool)
        seen.ended.append(call)
        if not call.goes_on:
            seen.lands()
            return
        self._going_on.append(call)
        # Its late result may come before this event, if both are in one moment: it
        # reached its own limit when the turn was interrupted.
        for when, late in tuple(self._told_first):
            if when == at and late.outcome.call == call.call:
                self._told_first.remove((when, late))
                self.late(late, at)
                return

    def _filled(self, turn: TurnRecord, event: Filler) -> None:
        round_ = turn.round(event.round)
        round_.fillers += 1
        if round_.fillers > 1:
            self.report(Promise.FILLER, turn.where, "it is the second one")
        self._listen(turn, event.round)
        if round_.fan_out is not None or (
            round_.said is not None and len(round_.ends) >= len(round_.said)
        ):
            self.report(Promise.FILLER, turn.where, "nothing is waited for any more")

    def _done(self, turn: TurnRecord, event: TurnDone, at: float) -> None:
        for index in turn.rounds:
            self._listen(turn, index)
        last = max(turn.rounds, default=None)
        if last is not None and (round_ := turn.rounds[last]).fan_out is None:
            # it was interrupted
            took = event.timings.tools - turn.spent(last) - turn.waited(event)
            self._told_how_long(round_, at, took)

    def _listen(self, turn: TurnRecord, index: int) -> None:
        """Record what the model said in that round, if that is known."""
        if turn.selected is not None:
            said = self.said.calls(turn.npc, turn.selected.text, index)
            turn.round(index).said = said
