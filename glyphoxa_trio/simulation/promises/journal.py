"""Compare the calls that were reported with the runs that happened. Pure.

A run is known by its tool and its arguments, so what follows is exact where one
call had those arguments, and a count where several had.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import attrs

from glyphoxa_trio.simulation.promises.calls import BrokenPromise, CallSeen, Promise
from glyphoxa_trio.simulation.promises.consent import nature, why_not_unasked
from glyphoxa_trio.simulation.promises.fake_world import Ending, Performance
from glyphoxa_trio.simulation.promises.rights import GrantLedger
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import Unknown
from glyphoxa_trio.tools.naming import exposed_name
from glyphoxa_trio.tools.outcome import Effect, Limit, Status

# A call that goes on ends after so many seconds if it has no other limit.
_LONGEST: Final = 30.0
# So many calls of a tool on trial run at once, until so many have ended.
_AT_ONCE: Final = 2
_ENOUGH: Final = 5
_ANSWERS = {Ending.ANSWER, Ending.STUBBORN, Ending.SAY_NO}


Say = Callable[[Promise, str], BrokenPromise]


@attrs.frozen
class _Offered:
    key: str
    exposed: str
    definition: ToolDefinition


@attrs.frozen(kw_only=True)
class PromiseJournal:
    """The record of what really ran, compared with the events at the end.

    Args:
      runs: every run of a tool, as the one who played it recorded it.
      definitions: by key, every definition that a tool had.
      probed: calibration may have called tools that may be probed.
      ahead: tools that may be called before they are asked for (speculation).
      attempts: how often one call of a repeatable tool may be sent.
      ledger: what each NPC was granted, and when.
      exposed: the names that models see, by key.
      remembered: the keys of tools that earlier runs have measured.
      steady: nothing was taken away in between.
      closing: when the runtime's block was left: that ends everything.
      moments: the times at which the runtime was acted on; what ends in the same
        moment may end either way.
    """

    calls: Sequence[CallSeen]
    runs: Sequence[Performance]
    definitions: dict[str, list[ToolDefinition]]
    probed: bool
    ledger: GrantLedger = attrs.field(factory=GrantLedger)
    exposed: Mapping[str, str] = attrs.field(factory=dict)
    remembered: Collection[str] = ()
    ahead: bool = False
    attempts: int = 2
    steady: bool = True
    closing: float = math.inf
    moments: Collection[float] = ()
    slack: float = 1e-9

    def broken(self) -> Iterator[BrokenPromise]:
        calls: dict[tuple[str, str], list[CallSeen]] = defaultdict(list)
        runs: dict[tuple[str, str], list[Performance]] = defaultdict(list)
        for call in self.calls:
            calls[call.tool, call.arguments].append(call)
        for run in self.runs:
            runs[run.key, run.arguments].append(run)
        if self.steady:
            by_tool: dict[str, list[Performance]] = defaultdict(list)
            for run in self.runs:
                by_tool[run.key].append(run)
            for key in sorted({*by_tool} & {*self.definitions}):
                yield from self._seats(key, by_tool[key])
        for place in {*calls, *runs}:
            if place[0] in self.definitions:
                theirs = calls.get(place, [])
                yield from self._counted(place[0], theirs, runs.get(place, []))
                if self.steady and not self.probed:
                    yield from self._apart(place[0], runs.get(place, []))
                if len(theirs) == 1:
                    yield from self._exact(theirs[0], runs.get(place, []))

    def _names(self, key: str) -> set[str]:
        """Return the names under which models saw the tool, or would have seen it.

        A tool whose server ends before a model is asked was measured all the same.
        """
        if key in self.exposed:
            return {self.exposed[key]}
        styles = {config.mcp.naming for config in self.ledger.configs}
        return {exposed_name(x, y) for x in self.definitions[key] for y in styles}

    def _always(self, key: str, what: str) -> bool:
        return all(getattr(x, what) for x in self.definitions[key])

    def _counted(
        self, key: str, calls: list[CallSeen], runs: list[Performance]
    ) -> Iterator[BrokenPromise]:
        sent = [run for run in runs if run.act.ending is not Ending.BUSY]
        if len(sent) <= len(calls):
            return
        known = self.definitions[key]
        granted = any(
            self.ledger.may_be_called_for_somebody(_Offered(key, name, known[-1]))
            for name in self._names(key)
        )
        for run in sent[len(calls) :]:
            what = nature(run, known[-1], self.ledger)
            if what.twice_is_once and len(sent) <= self.attempts * len(calls):
                continue
            why = why_not_unasked(
                what, granted=granted, probed=self.probed, ahead=self.ahead
            )
            if why is not None:
                count = f"it ran {len(sent)} times for {len(calls)} calls that began"
                promise = Promise.ONCE if calls else Promise.ASKED
                yield BrokenPromise(promise, key, run.began, f"{count}, and {why}")
                return

    def _seats(self, key: str, runs: Sequence[Performance]) -> Iterator[BrokenPromise]:
        """Too many calls at once of a tool on trial, which it is until five have
        ended."""
        known = self.definitions[key]
        if (
            any(x.estimated_duration is not None for x in known)
            or key in self.remembered
            or any(
                x.calibration.unknown is not Unknown.TRIAL for x in self.ledger.configs
            )
        ):
            return
        for run in runs:
            over = sum(x.over is not None and x.over <= run.began for x in runs)
            beside = [
                x
                for x in runs
                if x.began <= run.began
                and (x.over is None or x.over > run.began)
                and x.act.ending is not Ending.STUBBORN
            ]
            if over < _ENOUGH and len(beside) > _AT_ONCE + self.probed:
                text = f"{len(beside)} calls of it run at once, and {over} have ended"
                yield BrokenPromise(Promise.TRIALS, key, run.began, text)
                return

    def _apart(self, key: str, runs: list[Performance]) -> Iterator[BrokenPromise]:
        """A cacheable read that nothing disturbed is never on its way twice."""
        group = key.partition(".")[0]
        writers = {
            run.key
            for run in self.runs
            if run.key.partition(".")[0] == group
            and not self._always(run.key, "read_only")
        }
        known = self.definitions[key][0]
        if not known.cacheable or known.per_npc or writers:
            return
        whole = [
            run for run in runs if run.complete and run.act.ending is Ending.ANSWER
        ]
        for one, other in pairwise(whole):
            assert one.over is not None
            if other.began < one.over:
                text = f"it ran from {one.began:g} s and again from {other.began:g} s"
                yield BrokenPromise(Promise.SHARED, key, other.began, text)

    def _exact(
        self, call: CallSeen, runs: list[Performance]
    ) -> Iterator[BrokenPromise]:
        end, at = call.outcome, call.ended
        if end is None or at is None:
            yield BrokenPromise(
                Promise.ONE_OUTCOME, call.tool, call.began, "it has no outcome"
            )
            return

        def no(promise: Promise, text: str) -> BrokenPromise:
            return BrokenPromise(promise, call.tool, at, text)

        ran = [run for run in runs if run.act.ending is not Ending.BUSY]
        if self.probed or self.ahead:
            known = self.definitions[call.tool]
            if any(x.read_only or x.probe is not None for x in known):
                return  # which run was whose is not to be told
        yield from self._effects(call, ran, no)
        for run in runs:
            if run.began < call.began - self.slack or end.cached or end.shared:
                continue
            yield from self._kept(call, run, no)
            yield from self._let_go_on(call, run, no)
            yield from self._stopped(call, run, no)

    def _effects(
        self, call: CallSeen, ran: list[Performance], no: Say
    ) -> Iterator[BrokenPromise]:
        end = call.outcome
        assert end is not None
        if not call.writes or end.cached:
            return
        answered = any(r.complete and r.act.ending in _ANSWERS for r in ran)
        if end.effect is Effect.DONE and not answered:
            yield no(Promise.EFFECTS, "an effect is told, and it never answered")
        if end.effect is Effect.NONE and end.status is not Status.TOOL_ERROR and ran:
            yield no(Promise.EFFECTS, f"{end.status} without an effect, and it ran")

    def _kept(
        self, call: CallSeen, run: Performance, no: Say
    ) -> Iterator[BrokenPromise]:
        """Check that a run which ended while a caller waited for it is the outcome."""
        if not run.complete or run.over is None or run.act.ending not in _ANSWERS:
            return
        if run.over in self.moments:
            return
        end, at = call.outcome, call.ended
        assert end is not None
        assert at is not None
        if call.late is not None and run.over > at:
            at, end = call.late
        elif call.goes_on and call.late is None:
            return  # the runtime has closed meanwhile
        if at < run.over + self.slack and end.status not in (
            Status.OK,
            Status.TOOL_ERROR,
        ):
            return  # no caller waited any more, or it is a tie
        said_no = run.act.ending is Ending.SAY_NO
        told = end.status is (Status.TOOL_ERROR if said_no else Status.OK)
        if at > run.over + self.slack or not told:
            yield no(
                Promise.KEPT,
                f"its answer was there at {run.over:g} s, and it ended as"
                f" {end.status} at {at:g} s",
            )

    def _let_go_on(
        self, call: CallSeen, run: Performance, no: Say
    ) -> Iterator[BrokenPromise]:
        """Check that a call that may go on ends by itself or at its limit."""
        known = call.definition
        if known is None or known.external or not call.goes_on or call.tie:
            return
        if run.over is None:
            return
        due = run.began + run.act.seconds
        own = known.own_limit
        latest = call.began + (own if own < math.inf else _LONGEST)
        early = run.over < min(due, latest) - self.slack
        if early and not run.complete and run.over < self.closing:
            yield no(Promise.KEPT, f"it was to go on, and was cut at {run.over:g} s")

    def _stopped(
        self, call: CallSeen, run: Performance, no: Say
    ) -> Iterator[BrokenPromise]:
        over = call.over
        if over is None or run.act.ending is Ending.STUBBORN:
            return
        if call.goes_on and call.late is None:
            return
        if run.over is None or run.over > over + self.slack:
            until = "the end" if run.over is None else f"{run.over:g} s"
            yield no(
                Promise.STOPPED, f"it was over at {over:g} s and ran until {until}"
            )


def still_running(runs: Iterable[Performance]) -> list[str]:
    return sorted({run.key for run in runs if run.over is None})


def stale(hit: CallSeen, calls: Iterable[CallSeen]) -> str | None:
    """Why a cached answer must not have been given; None if it was good."""
    known = hit.definition
    if known is None:
        return None
    group = hit.tool.partition(".")[0]
    sources: list[float] = []
    writes: list[float] = []
    for call in calls:
        end, at = (call.outcome, call.ended) if call.late is None else call.late[::-1]
        if end is None or at is None:
            continue
        if (
            call.writes
            and call.tool.partition(".")[0] == group
            and call.tool != hit.tool
        ):
            writes.append(at)
        same = (call.tool, call.arguments) == (hit.tool, hit.arguments)
        if same and call.goes_on and call.late is None:
            return None  # it may have ended just now, and not been told yet
        # What answers in the very moment of its own limit may be told as a timeout.
        tie = end.status is Status.TIMEOUT and end.limit is Limit.TOOL
        good = end.ok or tie
        if same and good and (call.npc == hit.npc or not known.per_npc):
            sources.append(at)
    if not sources:
        return "no call was given that answer before"
    newest = max(sources)
    if newest + known.cacheable < hit.began:
        return f"its answer was of {newest:g} s"
    if any(newest < at < hit.began for at in writes):
        return f"its answer of {newest:g} s was outdated"
    return None
