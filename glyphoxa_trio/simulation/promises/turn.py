"""The judge of a turn, when it is over: times, outcomes, order, limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from glyphoxa_trio.config import TurnConfig
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.npc.turn.runner import FOR_LISTS
from glyphoxa_trio.simulation.promises.calls import (
    BrokenPromise,
    CallSeen,
    Promise,
    RoundSeen,
    TurnRecord,
)
from glyphoxa_trio.tools.outcome import Effect, Limit, Outcome, Status
from glyphoxa_trio.tools.tier import TierLimits

# A call that goes on ends after so many seconds if it has no other limit.
_LONGEST: Final = 30.0
_NOT_RUN: Final = {Status.DENIED, Status.SKIPPED, Status.INVALID_ARGUMENTS}


def judged(
    turn: TurnRecord, limits: TierLimits, configs: Iterable[TurnConfig], slack: float
) -> Iterator[BrokenPromise]:
    """Whatever this turn broke.

    Args:
      configs: the limits of a turn that may have been in force when it began.
      slack: how much later than a limit counts as in time, seconds.
    """
    (at, done) = turn.done[0]

    def no(
        promise: Promise, text: str, round_: RoundSeen | None = None
    ) -> BrokenPromise:
        where = turn.where if round_ is None else f"{turn.where}, round {round_.index}"
        return BrokenPromise(promise, where, at, text)

    interrupted = done.end is TurnEnd.INTERRUPTED
    if interrupted and turn.gave_out and turn.flushed is None:
        yield no(Promise.FLUSH, "the listener was not told to stop")
    if turn.flushed is not None and not (interrupted and turn.gave_out):
        yield no(Promise.FLUSH, f"a turn that is {done.end} is flushed")
    if turn.selected is None:
        if done.outcomes or done.text:
            yield no(Promise.ENDS, "it has a past and never began")
        return
    ceiling = limits.ceiling(turn.selected.tier)
    if turn.selected.budget != ceiling:
        yield no(Promise.BUDGET, f"its budget is {turn.selected.budget:g} s")
    if done.timings.tools > ceiling + slack:
        yield no(Promise.BUDGET, f"it waited {done.timings.tools:g} s for tools")
    longest = max((config.model_total for config in configs), default=float("inf"))
    if done.timings.model > longest + slack:
        yield no(Promise.MODEL, f"it waited {done.timings.model:g} s for its model")
    for question, (when, needed) in turn.asked.items():
        settled = turn.settled.get(question)
        if settled is None:
            yield no(Promise.ENDS, f"the question {question} was never settled")
        elif settled[0] > when + needed.expires + slack:
            yield no(Promise.ENDS, f"the question {question} was settled too late")
    spent = turn.waited(done)
    if spent > FOR_LISTS * ceiling + slack:
        yield no(Promise.BUDGET, f"it waited {spent:g} s for servers that start")
    for index in sorted(turn.rounds):
        round_ = turn.rounds[index]
        last = index == max(turn.rounds)
        for promise, text in (
            *_times(round_, ceiling - spent, slack),
            *_outcomes(round_, completed=done.end is TurnEnd.COMPLETED, last=last),
            *_limits(round_, ceiling - spent, slack),
            *_effects(round_),
        ):
            yield no(promise, text, round_)
        if round_.began is not None and round_.ends:
            spent += max(when for when, _ in round_.ends) - round_.began
    if spent > ceiling + slack:
        yield no(Promise.BUDGET, f"its waits for tools took {spent:g} s")
    if abs(spent - done.timings.tools) > slack:
        told = f"{done.timings.tools:g} s of tool time are told"
        yield no(Promise.BUDGET, f"{told} of {spent:g}")
    for promise, text in _again(turn):
        yield no(promise, text)
    told_ends = [x for i in sorted(turn.rounds) for x in _in_call_order(turn.rounds[i])]
    if list(done.outcomes) != told_ends:
        yield no(Promise.ONE_OUTCOME, "the turn ends with other outcomes than it told")


def _times(
    round_: RoundSeen, left: float, slack: float
) -> Iterator[tuple[Promise, str]]:
    if round_.shown is not None and abs(round_.shown.remaining - left) > slack:
        said = f"{round_.shown.remaining:g} s left"
        yield Promise.BUDGET, f"a model was shown tools for {said}, it is {left:g}"
    if round_.began is None:
        return
    end = round_.began + left
    for at, outcome in round_.ends:
        if at > end + slack:
            late = f"{at - end:g} s after the end of the turn's tool time"
            yield Promise.ON_TIME, f"{outcome.call.name} ended {late}"
    if round_.fan_out is not None:
        at, told = round_.fan_out
        if at > end + slack:
            yield Promise.ON_TIME, f"it returned {at - end:g} s after its ceiling"
        if told.elapsed > told.budget + slack:
            over = f"{told.elapsed:g} s of {told.budget:g}"
            yield Promise.ON_TIME, f"it took {over}"
        if abs((at - round_.began) - told.elapsed) > slack:
            took = f"{at - round_.began:g}"
            yield Promise.ON_TIME, f"it took {took} s and says {told.elapsed:g}"
        if round_.ends and at > max(when for when, _ in round_.ends) + slack:
            yield Promise.ON_TIME, "it returned later than its slowest call"


def _outcomes(
    round_: RoundSeen, *, completed: bool, last: bool
) -> Iterator[tuple[Promise, str]]:
    said = round_.said
    told = [outcome.call for _, outcome in round_.ends]
    due = said is not None and (round_.ends or (said and completed))
    if due and sorted(map(repr, told)) != sorted(map(repr, said or ())):
        text = f"{len(told)} outcomes were told for {len(said or ())} calls"
        yield Promise.ONE_OUTCOME, text
    if round_.fan_out is None:
        if round_.ends and (completed or not last):
            yield Promise.ONE_OUTCOME, "a fan-out ended without a word"
        return
    _, fan_out = round_.fan_out
    calls = [outcome.call for outcome in fan_out.outcomes]
    if said is not None and calls != list(said):
        yield Promise.ONE_OUTCOME, "its outcomes are not in call order"
    if sorted(map(repr, fan_out.outcomes)) != sorted(repr(x) for _, x in round_.ends):
        yield Promise.ONE_OUTCOME, "its outcomes are others than those that were told"
    if any(x.status is Status.CANCELLED for x in fan_out.outcomes):
        yield Promise.ONE_OUTCOME, "a call is cancelled, and there was no interruption"


def _in_call_order(round_: RoundSeen) -> list[Outcome]:
    if round_.fan_out is not None:
        return list(round_.fan_out[1].outcomes)
    taken: set[int] = set()
    by_slot: dict[int, Outcome] = {}
    for _, outcome in round_.ends:
        slot = round_.slot_of(outcome.call, taken)
        taken.add(slot)
        by_slot[slot] = outcome
    return [by_slot[slot] for slot in sorted(by_slot)]


def _limits(
    round_: RoundSeen, left: float, slack: float
) -> Iterator[tuple[Promise, str]]:
    begun = {id(call.outcome): call for call in round_.calls}
    for at, end in round_.ends:
        call = begun.get(id(end))
        name = end.call.name
        if call is None:
            if end.status is Status.TIMEOUT:
                yield Promise.LIMITS, f"{name} timed out and never began"
            if end.limit is not None and not (
                end.limit is Limit.TURN and end.status is Status.SKIPPED
            ):
                yield Promise.LIMITS, f"{name} never began and met a limit"
            continue
        if end.status in _NOT_RUN:
            yield Promise.ONE_OUTCOME, f"{name} began and ended as {end.status}"
        own = _own_limit(call)
        if at - call.began > own + slack:
            yield Promise.LIMITS, f"{name} ended {at - call.began - own:g} s too late"
        if end.status is Status.PENDING:
            if not call.writes:
                yield Promise.LIMITS, f"{name} only reads, and was not cut"
            if round_.began is not None and abs(at - round_.began - left) > slack:
                yield Promise.LIMITS, f"{name} was left before the turn's time was up"
        if end.status is not Status.TIMEOUT:
            if end.limit is not None:
                yield Promise.LIMITS, f"{name} ended as {end.status} and met a limit"
        elif end.limit is Limit.TURN:
            if call.on_trial and call.writes and not call.ahead:
                yield Promise.KEPT, f"{name} may write, was on trial, and was cut"
            if round_.began is not None and abs(at - round_.began - left) > slack:
                yield Promise.LIMITS, f"{name} was cut before the turn's time was up"
        elif call.definition is not None:
            stated = (
                call.definition.max_duration
                if end.limit is Limit.TOOL
                else call.definition.server_timeout
            )
            if stated is None or stated > own:
                yield Promise.LIMITS, f"{name} names a limit that is not the nearest"
            elif abs(at - call.began - stated) > slack and not _shareable(call):
                yield Promise.LIMITS, f"{name} ended at no limit of its own"


def _own_limit(call: CallSeen) -> float:
    if call.definition is None:
        return float("inf")
    stated = (call.definition.max_duration, call.definition.server_timeout)
    return min((x for x in stated if x is not None), default=float("inf"))


def judged_late(call: CallSeen, at: float, end: Outcome, slack: float) -> str | None:
    """Return the fault in the end of a call that its turn did not wait for, if there
    is one."""
    own = _own_limit(call)
    limit = own if own < float("inf") else _LONGEST
    took = at - call.began
    if took > limit + slack:
        return f"went on for {took:g} s, but its limit is {limit:g} s"
    if end.status is Status.PENDING:
        return "ended as still working"
    if end.status is not Status.TIMEOUT:
        return None
    if (end.limit is Limit.HOST) is not (own == float("inf")):
        return f"ended at the limit of its {end.limit}"
    if end.limit is Limit.TURN:
        return "ended at the limit of a turn that was over before"
    if abs(took - limit) > slack and not _shareable(call):
        return f"was cut after {took:g} s of {limit:g}"
    return None


def _shareable(call: CallSeen) -> bool:
    return call.ahead or call.definition is None or call.definition.cacheable > 0


def _effects(round_: RoundSeen) -> Iterator[tuple[Promise, str]]:
    begun = {id(call.outcome): call for call in round_.calls}
    for _, end in round_.ends:
        call = begun.get(id(end))
        if call is None:
            if end.effect is not Effect.NONE:
                yield Promise.EFFECTS, f"{end.call.name} had an effect, and never began"
            continue
        expected = expected_effect(call, end)
        if expected is not None and end.effect is not expected:
            told = f"its effect is {expected}, told is {end.effect}"
            yield Promise.EFFECTS, f"{call.tool} ended as {end.status}: {told}"


def _again(turn: TurnRecord) -> Iterator[tuple[Promise, str]]:
    """Find calls of unknown effect that were made again in the same turn."""
    calls = [call for index in sorted(turn.rounds) for call in turn.rounds[index].calls]
    for call in calls:
        for earlier in calls:
            end = earlier.outcome
            if end is None or earlier.ended is None or earlier is call:
                continue
            same = (earlier.tool, earlier.arguments) == (call.tool, call.arguments)
            if (
                same
                and end.effect is Effect.UNKNOWN
                and call.started_as > earlier.ended_as
            ):
                yield Promise.ONCE, f"{call.tool} was called again, its effect unknown"


def expected_effect(call: CallSeen, end: Outcome) -> Effect | None:
    """Return the effect that must be reported; None if the words alone do not say."""
    if not call.writes:
        return Effect.NONE
    match end.status:
        case Status.OK:
            return Effect.NONE if end.cached else Effect.DONE
        case Status.TIMEOUT | Status.CRASHED | Status.CANCELLED | Status.PENDING:
            return Effect.UNKNOWN
        case Status.TOOL_ERROR | Status.UNAVAILABLE:
            return None
    return Effect.NONE
