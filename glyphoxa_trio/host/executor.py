"""The executor, which runs every tool call and returns an `Outcome` for each.

A call goes through gate, arguments, cache, breaker, shared task, outcome and
observation, in this order. A task that takes long may get a second one (`hedging`).

The caller owns the deadline. The handler runs as a shared task in the host's nursery,
so that it cannot delay the caller, whatever it does. Within one fan-out, calls with
side effects on one tool group run in call order, all others in parallel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import attrs
import outcome

import trio

from glyphoxa_trio.actors import FanOut
from glyphoxa_trio.tools.arguments import InvalidArguments, canonical
from glyphoxa_trio.tools.cache import CacheKey, CacheStatistics
from glyphoxa_trio.tools.consent import Purpose, unasked
from glyphoxa_trio.tools.definition import (
    CallContext,
    OnInterrupt,
    SessionClaim,
    ToolUnavailable,
)
from glyphoxa_trio.tools.gate import (
    EVERYTHING,
    Candidate,
    Grant,
    Reason,
    Refusal,
    not_granted,
    refusal,
)
from glyphoxa_trio.tools.naming import READ_RESOURCE, nearest
from glyphoxa_trio.tools.outcome import Effect, Limit, Outcome, Status, ToolCall
from glyphoxa_trio.tools.readmission import TURN
from glyphoxa_trio.tools.schema import BadSchema
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import SampleKind

from . import call_outcome
from .approvals import Approvals
from .attempts import NOBODYS, Attempt, Attempts, Whose
from .call_outcome import PendingCall
from .call_spans import call_ended, call_span
from .catalogue import Catalogue, CatalogueEntry
from .hedged_call import HedgedCall
from .hedging import Hedging, HedgingStatistics
from .pauses import PausedWait, TurnQuestions
from .search import SEARCHING, VisibleTools
from .speculative_calls import SpeculativeCalls, may_go_ahead

# The latest end of a call that goes on after its turn, if neither its tool nor its
# server has a limit; in seconds after its start.
LONGEST_FLIGHT = 30.0

# Tools that are hidden again within this time are hidden in the same turn. Seconds.
_A_MOMENT = 1.0

_NO_MORE_CALLS = "no more calls are made in this turn"
_NOT_WRITTEN = (
    "{} may change something, and it cannot be written down now that it is called;"
    " it was not called"
)

_STILL_WORKING = (
    "the same call was made before and is still working, or you do not have its"
    " result yet, so it is not made again"
)
_REPEATED = (
    "the same call was made before in this turn and it is not known whether it"
    " took effect, so it is not made again"
)


@attrs.frozen(eq=False)
class CallsOfTurn:
    """The state that all calls of one turn share, in each round; see `Caller`."""

    unknown_effects: set[tuple[str, str]] = attrs.field(factory=set)
    questions: TurnQuestions = attrs.field(factory=TurnQuestions)


@attrs.frozen(kw_only=True)
class Caller:
    """The NPC on whose behalf calls run, and the limits of its turn.

    Args:
      epoch: that of the session's claim; 0 if it has none.
      still: returns what remains of ``grant`` and ``tier`` when a call starts, which
        may be long after the fan-out began; None is all of it.
      max_calls: the number of calls of one response that are run.
      questions: the questions of servers to a person in this turn.
      unknown_effects: calls of this turn whose effect is unknown, by key and canonical
        arguments: an identical one is refused. The executor adds to it.
      pending: calls of this conversation that may change something and go on after
        their turn's time was up, or after an interruption, by key and canonical
        arguments, until their result was told: an identical one is refused. The
        executor adds to it; the code that tells the result removes them.
      longest: a call that outlasts its turn goes on, for at most this many seconds
        after its start; a call that is expected to outlast the turn is not waited for
        at all. With None only calls that may write go on, of tools on trial.
      approved: ids of the calls that an approver said yes to.
      may_write: False refuses every call that may have side effects.
      showing: the tools that the model of this round can see; None is all.
      ahead: calls of this response that were started before the turn.
      on_start: called with the index of a call that passed the gate and starts.
      on_outcome: called with the index and the outcome of every call, once each, also
        when the fan-out is interrupted.
      on_paused: called once with the seconds for which a person was asked something by
        a server meanwhile, if there were any.
      on_left: called with a call, and the key of its tool, when it goes on after an
        interruption or after its turn's time was up.
      on_late: called with the outcome of such a call. No callback may block.
    """

    grant: Grant
    tier: Tier = Tier.DEEP
    still: Callable[[], tuple[Grant, Tier]] | None = None
    npc: str = ""
    session: str = ""
    tenant: str = ""
    epoch: int = 0
    max_calls: int = 16
    questions: TurnQuestions = attrs.field(factory=TurnQuestions)
    unknown_effects: set[tuple[str, str]] = attrs.field(factory=set)
    pending: dict[tuple[str, str], ToolCall] = attrs.field(factory=dict)
    approved: frozenset[str] = frozenset()
    may_write: bool = True
    longest: float | None = None
    showing: VisibleTools | None = None
    ahead: SpeculativeCalls | None = None
    on_start: Callable[[int, CatalogueEntry], None] | None = None
    on_outcome: Callable[[int, Outcome], None] | None = None
    on_paused: Callable[[float], None] | None = None
    on_left: Callable[[ToolCall, str], None] | None = None
    on_late: Callable[[Outcome], None] | None = None

    @property
    def claim(self) -> SessionClaim | None:
        """The claim of its session."""
        return SessionClaim.of(self.tenant, self.session, self.epoch)

    @property
    def whose(self) -> Whose:
        return self.tenant, self.session

    @property
    def rights(self) -> tuple[Grant, Tier]:
        """The grant and the tier at this moment."""
        return (self.grant, self.tier) if self.still is None else self.still()


class RunsCalls(Protocol):
    """The function that runs one response's calls: `ToolHost.fan_out` or a wrapper."""

    async def __call__(
        self,
        calls: Sequence[ToolCall],
        caller: Caller,
        *,
        deadline: float,
        remaining: float,
    ) -> list[Outcome]: ...


@attrs.frozen(kw_only=True)
class ExecutorStatistics:
    """Counts since the host opened: outcomes by status, refusals by reason."""

    outcomes: Mapping[Status, int]
    refusals: Mapping[Reason, int]
    cache: CacheStatistics
    hedging: HedgingStatistics


class _GateRefused(Exception):
    """A refusal on its way to the one place that turns it into an outcome."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


@attrs.define(eq=False)
class Executor:
    """The owner of the gate, through which tools are both shown and called."""

    _nursery: trio.Nursery
    _catalogue: Catalogue
    _attempts: Attempts
    _approvals: Approvals = attrs.field(factory=Approvals)
    _hedging: Hedging | None = None
    # Called with tools hidden for being slow, and the seconds that NPCs had turns
    # without them.
    _tell_missed: Callable[[tuple[str, ...], float], None] = lambda keys, seconds: None
    _missed_at: dict[str, float] = attrs.field(factory=dict, init=False)
    _outcomes: Counter[Status] = attrs.field(factory=Counter, init=False)
    _refusals: Counter[Reason] = attrs.field(factory=Counter, init=False)

    def visible(
        self, grant: Grant, *, tier: Tier, remaining: float, whose: Whose = NOBODYS
    ) -> tuple[CatalogueEntry, ...]:
        """Return the tools that a model may see now, in the catalogue's order."""
        explained = self.explain(grant, tier=tier, remaining=remaining, whose=whose)
        return tuple(listing for listing, no in explained if no is None)

    def explain(
        self, grant: Grant, *, tier: Tier, remaining: float, whose: Whose = NOBODYS
    ) -> list[tuple[CatalogueEntry, Refusal | None]]:
        """Return every tool, with the reason why it may not be shown, if any."""
        explained: list[tuple[CatalogueEntry, Refusal | None]] = []
        missed: list[str] = []
        for listing in self._catalogue.current.listings:
            no = not_granted(listing.definition, listing.exposed, grant) or refusal(
                self._candidate(listing, whose), grant, tier=tier, remaining=remaining
            )
            explained.append((listing, no))
            if no is not None and _was_slow(listing, no):
                missed.append(listing.key)
        if missed and grant.npc:
            self._missed(missed)
        return explained

    def candidates(self) -> list[tuple[CatalogueEntry, Candidate]]:
        """Return every tool as the gate sees it now. Does not count as a turn."""
        return [
            (x, self._candidate(x, NOBODYS)) for x in self._catalogue.current.listings
        ]

    def refusal(self, listing: CatalogueEntry, remaining: float) -> Refusal | None:
        """Return why the tool cannot be called now by any caller."""
        candidate = self._candidate(listing, NOBODYS)
        return refusal(candidate, EVERYTHING, tier=Tier.DEEP, remaining=remaining)

    async def fan_out(
        self,
        calls: Sequence[ToolCall],
        caller: Caller,
        *,
        deadline: float,
        remaining: float | None = None,
    ) -> list[Outcome]:
        """Run the calls of one model response; return an outcome each, in call order.

        Args:
          deadline: on trio's clock. Results from before it are kept; the other calls
            are cancelled, at their servers too, and time out with the turn. Except for
            a call of a tool on trial that may write, and for all if ``caller.longest``
            is set: that ends as `Status.PENDING`, goes on, and its result comes late.
          remaining: the turn's tool time that was left when the model was shown its
            tools, seconds; None is the time until ``deadline``.

        It never raises because of an error in a tool. Cancelling it is an interruption:
        each running call is treated by its tool's policy, and its outcome goes to
        ``caller.on_outcome`` alone.
        """
        # If two calls have one id, it is unknown which of them was approved.
        approved = caller.approved
        if approved:
            often = Counter([call.id for call in calls])
            approved = frozenset(x for x in approved if often[x] == 1)
        pending_calls = [
            PendingCall(at, call, call.id in approved) for at, call in enumerate(calls)
        ]
        outcomes: list[Outcome | None] = [None] * len(pending_calls)

        def settle(pending_call: PendingCall, end: Outcome) -> None:
            pending_call.settled = True
            if not pending_call.goes_on:
                call_ended(pending_call.span, end)
            outcomes[pending_call.index] = end
            self._outcomes[end.status] += 1
            if end.effect is Effect.UNKNOWN and pending_call.listing is not None:
                caller.unknown_effects.add(
                    (pending_call.listing.key, pending_call.arguments)
                )
            if caller.on_outcome is not None:
                caller.on_outcome(pending_call.index, end)

        def settle_rest(end: Callable[[PendingCall, float], Outcome]) -> None:
            for pending_call in pending_calls:
                if not pending_call.settled:
                    settle(pending_call, end(pending_call, trio.current_time()))

        fan: FanOut[None] = FanOut(deadline)
        if remaining is None:
            remaining = deadline - trio.current_time()
        queues: dict[str, _QueuePlace] = {}  # for permits of tools on trial

        def begin(
            pending_call: PendingCall, left: float, seat: trio.Semaphore | None = None
        ) -> None:
            fan.deadline = waiting.until()
            match self._begin(pending_call, caller, left, fan, seat):
                case Outcome() as end:
                    settle(pending_call, end)
                case _Begun() as begun:
                    pending_call.begun_as = begun
                case trio.Semaphore() as full:
                    key = (
                        pending_call.listing.key
                        if pending_call.listing is not None
                        else ""
                    )
                    queues[key] = place = _QueuePlace(queues.get(key))
                    pending_call.seat = (full, place)

        async def job(pending_call: PendingCall, turn: _QueuePlace | None) -> None:
            if turn is not None and turn.waits:
                await turn.wait()
                begin(pending_call, waiting.until() - trio.current_time())
            if pending_call.seat is not None:
                seat, place = pending_call.seat
                await place.wait()
                await seat.acquire()
                place.over()
                # The call that released the permit has just sent its sample to the
                # calibrator. Wait here until the calibrator has updated the estimate.
                await trio.lowlevel.cancel_shielded_checkpoint()
                begin(pending_call, waiting.until() - trio.current_time(), seat)
            if pending_call.begun_as is not None:
                end = await self._await_result(pending_call, fan, caller)
                if end is not None:
                    settle(pending_call, end)
            if turn is not None:
                turn.over()

        turns = self._write_turns(pending_calls, caller)
        for pending_call in pending_calls:
            pending_call.span = call_span(
                pending_call.call,
                pending_call.listing,
                tier=str(caller.tier),
                budget=remaining,
            )
        groups = {
            x.listing.definition.group for x in pending_calls if x.listing is not None
        }
        pauses, asked = self._attempts.pauses, caller.questions
        asked.whose = caller.tenant, caller.session
        with pauses.waiting(groups, asked, deadline, fan.move) as waiting:
            try:
                await trio.lowlevel.checkpoint_if_cancelled()  # before any call starts
                # All calls that wait for no other call are admitted here, in call
                # order and in one step, with the time that was left when the round
                # began.
                for pending_call in pending_calls:
                    if (
                        pending_call.index not in turns
                        or not turns[pending_call.index].waits
                    ):
                        begin(pending_call, remaining)
                if len(pending_calls) == 1 and pending_calls[0].begun_as is not None:
                    # The usual case, one call: it only has to wait for its result.
                    (pending_call,) = pending_calls
                    end = await self._await_result(pending_call, fan, caller)
                    if end is not None:
                        settle(pending_call, end)
                else:
                    await fan.run(
                        [partial(job, x, turns.get(x.index)) for x in pending_calls]
                    )
            except BaseException:  # several jobs are cancelled as a group
                for pending_call in pending_calls:
                    self._abandon(pending_call)
                settle_rest(call_outcome.interrupted)
                raise
        if waiting.shift and caller.on_paused is not None:
            caller.on_paused(waiting.shift)
        settle_rest(call_outcome.cut)
        return [end for end in outcomes if end is not None]

    def ahead(
        self, caller: Caller, *, remaining: float, until: float
    ) -> SpeculativeCalls:
        """Return a holder for speculative calls, which ``caller`` may make later.

        Args:
          remaining: what will be left of its tool budget then, seconds.
          until: the latest end of that turn, on trio's clock.
        """
        start = partial(
            self._start_speculative, caller=caller, remaining=remaining, until=until
        )
        return SpeculativeCalls(self._nursery, self._attempts, start)

    def _start_speculative(
        self,
        pending_call: PendingCall,
        *,
        caller: Caller,
        remaining: float,
        until: float,
    ) -> Attempt | None:
        """Start a call before its turn; return None if it would have to wait.

        It goes through the same gate. A call whose result is cached, or which is in
        flight for another caller, is not started again.
        """
        now = trio.current_time()
        try:
            listing = self._admit(pending_call, caller, remaining)
            if not may_go_ahead(
                listing,
                self._attempts,
                caller.rights[0],
                caller.whose,
                agreed=listing.key in self._approvals.agreed,
            ):
                return None
            arguments = listing.schema.parse(pending_call.call.arguments)
            pending_call.arguments = canonical(arguments)
            cache_key = _cache_key(pending_call, listing, caller)
            if cache_key is not None and (
                self._attempts.in_flight(cache_key) is not None
                or not self._attempts.cache.lacks(cache_key, now)
            ):
                return None
            context = CallContext(
                npc=caller.npc,
                session=caller.session,
                tenant=caller.tenant,
                call_id=pending_call.call.id,
                deadline=_latest_end(listing, now, until),
                awaited_until=until,
                claim=caller.claim,
            )
            seat = self._attempts.seat(listing)
            if seat is not None:
                seat.acquire_nowait()
            return self._start(
                listing, arguments, context, cache_key, pending_call, seat
            )
        except (
            _GateRefused,
            InvalidArguments,
            BadSchema,
            ToolUnavailable,
            trio.WouldBlock,
        ):
            return None  # a turn that makes this call will get the error

    def statistics(self) -> ExecutorStatistics:
        return ExecutorStatistics(
            outcomes=dict(self._outcomes),
            refusals=dict(self._refusals),
            cache=self._attempts.cache.statistics(),
            hedging=self._hedging.statistics()
            if self._hedging
            else HedgingStatistics(),
        )

    def _write_turns(
        self, pending_calls: list[PendingCall], caller: Caller
    ) -> dict[int, _QueuePlace]:
        """Queue calls with side effects on one group, each behind the one before."""
        turns: dict[int, _QueuePlace] = {}
        last: dict[str, _QueuePlace] = {}
        for pending_call in pending_calls:
            listing = self._resolve(pending_call.call.name, caller)
            pending_call.listing = listing
            if listing is not None and listing.definition.side_effects:
                group = listing.definition.group
                turns[pending_call.index] = last[group] = _QueuePlace(last.get(group))
        return turns

    def _begin(
        self,
        pending_call: PendingCall,
        caller: Caller,
        remaining: float,
        fan: FanOut[None],
        seat: trio.Semaphore | None,
    ) -> Outcome | _Begun | trio.Semaphore:
        """Bring one call through the gate to its shared task, or straight to its
        outcome.

        Returns a semaphore if its tool is on trial and enough calls of it are in
        flight: acquire that first, then call this again with it as ``seat``.
        """
        now = trio.current_time()
        pending_call.begin(now)
        taken = seat
        try:
            # A call that may go on has unlimited time, even if the turn does not.
            left = remaining if caller.longest is None else math.inf
            listing = self._admit(pending_call, caller, left, calling=True)
            pending_call.in_vain = left > remaining < listing.estimate.seconds
            pending_call.reader = partial(self._reader, listing, caller)
            arguments = listing.schema.parse(pending_call.call.arguments)
            pending_call.arguments = canonical(arguments)
            if (listing.key, pending_call.arguments) in caller.pending:
                raise _GateRefused(Refusal(reason=Reason.REPEATED, text=_STILL_WORKING))
            if (listing.key, pending_call.arguments) in caller.unknown_effects:
                raise _GateRefused(Refusal(reason=Reason.REPEATED, text=_REPEATED))
            attempt = None if caller.ahead is None else caller.ahead.find(pending_call)
            if attempt is not None:
                pending_call.span.set({"glyphoxa.speculative": True})
            cache_key = _cache_key(pending_call, listing, caller)
            if attempt is None and cache_key is not None:
                hit = self._attempts.cache.get(cache_key, now)
                if hit is not None:
                    kept = outcome.Value(hit)
                    return call_outcome.to_outcome(pending_call, kept, now, cached=True)
            shared = False
            if attempt is None:
                attempt = self._attempts.in_flight(cache_key)
                shared = attempt is not None
                if attempt is not None:
                    pending_call.span.link(attempt.context)
            until = fan.deadline if caller.longest is None else now + caller.longest
            context = CallContext(
                npc=caller.npc,
                session=caller.session,
                tenant=caller.tenant,
                call_id=pending_call.call.id,
                deadline=_latest_end(listing, now, until),
                awaited_until=until,
                claim=caller.claim,
            )
            if attempt is None:
                if taken is None and (free := self._attempts.seat(listing)) is not None:
                    try:
                        free.acquire_nowait()
                    except trio.WouldBlock:
                        return free
                    taken = free
                begun_with, taken = taken, None
                with pending_call.span.current():
                    attempt = self._start(
                        listing, arguments, context, cache_key, pending_call, begun_with
                    )
            if not shared:
                attempt.timing.of_turn(caller.questions)
            if self._hedging is None:
                hedged = HedgedCall(self._attempts, attempt)
            else:
                end = min(fan.deadline, attempt.own_deadline)
                hedged = self._hedging.hedge(
                    attempt,
                    arguments=arguments,
                    context=context,
                    permits=partial(self._permits, caller, end),
                    shared=shared,
                )
        except _GateRefused as no:
            self._refusals[no.refusal.reason] += 1
            pending_call.span.set({"glyphoxa.reason": no.refusal.reason.value})
            if pending_call.listing is not None and _was_slow(
                pending_call.listing, no.refusal
            ):
                self._missed([pending_call.listing.key])
            return call_outcome.refused(pending_call, no.refusal, now)
        except (InvalidArguments, BadSchema) as error:
            return call_outcome.invalid(pending_call, str(error), now)
        except ToolUnavailable as error:
            self._refusals[Reason.UNAVAILABLE] += 1
            text = f"{pending_call.call.name} cannot be used now: {error}"
            no_ = Refusal(reason=Reason.UNAVAILABLE, text=text)
            return call_outcome.refused(pending_call, no_, now)
        finally:
            if taken is not None:  # it was not needed
                taken.release()
        pending_call.was_started = True
        hedged.add_waiter()
        if caller.ahead is not None:  # this call is a waiter itself now
            caller.ahead.let_go(pending_call)
        if caller.on_start is not None:
            caller.on_start(pending_call.index, listing)
        return _Begun(hedged, shared)

    def _start(
        self,
        listing: CatalogueEntry,
        arguments: dict[str, Any],
        context: CallContext,
        cache_key: CacheKey | None,
        pending_call: PendingCall,
        seat: trio.Semaphore | None,
    ) -> Attempt:
        try:
            return self._attempts.start(
                listing,
                arguments,
                context,
                cache_key,
                signature=_signature(pending_call.arguments),
                seat=seat,
            )
        except ToolUnavailable:
            if seat is not None:
                seat.release()
            raise

    def _abandon(self, pending_call: PendingCall) -> None:
        """Release the shared task of a call whose result is not awaited yet."""
        begun = pending_call.hand_over()
        if begun is not None:
            begun.hedged.release(None)

    async def _await_result(
        self, pending_call: PendingCall, fan: FanOut[None], caller: Caller
    ) -> Outcome | None:
        """Wait for the result, as one waiter of several, up to the tool's own limit.

        Returns None if the turn's time was up first and the call does not go on; a
        cancellation of the fan-out is raised.
        """
        begun = pending_call.hand_over()
        assert begun is not None
        hedged = begun.hedged
        awaited_until = fan.deadline
        if caller.longest is not None and pending_call.begun is not None:
            hedged.cut_at(pending_call.begun + caller.longest)
            if pending_call.in_vain:
                awaited_until = pending_call.begun
        # The sample of a tool that is left early: none, unless some time was up.
        early: SampleKind | None = None
        paused = 0.0  # seconds for which a person was asked
        try:
            while True:
                until = min(hedged.until, awaited_until) + paused
                scope = trio.CancelScope(deadline=until)
                with self._pausing(hedged, caller, scope) as waiting, scope:
                    with pending_call.span.current():  # of a second attempt, too
                        result = await hedged.settled()
                    pending_call.learn(hedged.failed, hedged.answered_by)
                    now = trio.current_time()
                    return call_outcome.to_outcome(
                        pending_call, result, now, shared=begun.shared
                    )
                paused += waiting.shift
                now = trio.current_time() - paused
                if now < hedged.until and (fan.time_is_up or now >= awaited_until):
                    early = self._leave_behind(pending_call, True, hedged, caller)
                    if pending_call.pending:
                        return call_outcome.cut(pending_call, trio.current_time())
                    return None
                if not hedged.extended():
                    break
            early = SampleKind.TIMEOUT
            pending_call.learn(hedged.failed, hedged.answered_by)
            limit = _whose_limit(hedged, caller)
            return call_outcome.timed_out(
                pending_call, trio.current_time(), limit=limit
            )
        except trio.Cancelled:
            early = self._leave_behind(pending_call, fan.time_is_up, hedged, caller)
            raise
        finally:
            if not pending_call.goes_on:
                hedged.release(early)

    def _pausing(
        self, hedged: HedgedCall, caller: Caller, scope: trio.CancelScope
    ) -> AbstractContextManager[PausedWait]:
        """Move the deadline of a wait while the call's server asks a person."""
        group = hedged.first.listing.definition.group
        move = partial(setattr, scope, "deadline")
        return self._attempts.pauses.waiting(
            (group,), caller.questions, scope.deadline, move
        )

    def _leave_behind(
        self,
        pending_call: PendingCall,
        time_is_up: bool,
        hedged: HedgedCall,
        caller: Caller,
    ) -> SampleKind | None:
        """Stop waiting in the turn, because its ``time_is_up`` or it was interrupted;
        return the sample to record, if any."""
        listing = hedged.first.listing
        definition = listing.definition
        early: SampleKind | None = None
        if time_is_up:
            early = SampleKind.CENSORED  # it takes longer than this
            pending_call.learn(hedged.failed, hedged.answered_by)
            writes_on_trial = hedged.first.on_trial and definition.side_effects
            pending_call.pending = writes_on_trial or caller.longest is not None
        if pending_call.pending or not (
            time_is_up or definition.interruption is OnInterrupt.CANCEL
        ):
            pending_call.goes_on = True
            how = "time" if time_is_up else "interruption"
            pending_call.span.set({"glyphoxa.outlives_turn": how})
            if definition.side_effects:
                caller.pending[listing.key, pending_call.arguments] = pending_call.call
            if caller.on_left is not None:
                caller.on_left(pending_call.call, listing.key)
            self._nursery.start_soon(self._finish, pending_call, hedged, caller)
        return early

    async def _finish(
        self, pending_call: PendingCall, hedged: HedgedCall, caller: Caller
    ) -> None:
        """Wait for the end of a call that its turn no longer waits for."""
        with pending_call.span:
            end = await self._late_end(pending_call, hedged, caller)
            call_ended(pending_call.span, end)
        if caller.on_late is not None:
            caller.on_late(end)

    async def _late_end(
        self, pending_call: PendingCall, hedged: HedgedCall, caller: Caller
    ) -> Outcome:
        end: Outcome | None = None
        early: SampleKind | None = None
        limit = _whose_limit(hedged, caller)
        hedged.start_no_second()
        if hedged.until == math.inf:
            limit = Limit.HOST
            hedged.bound(LONGEST_FLIGHT)
        try:
            while end is None:
                # No turn waits: a question of its server is not asked any more.
                with trio.move_on_at(hedged.until):
                    result = await hedged.settled()
                    pending_call.learn(hedged.failed, hedged.answered_by)
                    end = call_outcome.to_outcome(
                        pending_call, result, trio.current_time()
                    )
                if end is None and not hedged.extended():
                    break
            # The tool has failed only if the limit was its own or its server's.
            early = SampleKind.TIMEOUT if limit is None else SampleKind.CENSORED
            pending_call.learn(hedged.failed, hedged.answered_by)
        finally:
            hedged.release(early)
        now = trio.current_time()
        return end or call_outcome.timed_out(pending_call, now, limit=limit)

    def _resolve(self, name: str, caller: Caller) -> CatalogueEntry | None:
        if caller.showing is not None and (own := caller.showing.own(name)):
            return own
        snapshot = self._catalogue.current
        return snapshot.by_exposed.get(name) or snapshot.by_key.get(name)

    def _admit(
        self,
        pending_call: PendingCall,
        caller: Caller,
        remaining: float,
        *,
        calling: bool = False,
    ) -> CatalogueEntry:
        """Return the tool that the call names, if the gate permits it.

        Raises:
          _GateRefused: if there is no such tool, or the gate refuses it.
        """
        if pending_call.index >= caller.max_calls:
            raise _GateRefused(Refusal(reason=Reason.TOO_MANY, text=_NO_MORE_CALLS))
        grant, tier = caller.rights
        listing = self._resolve(pending_call.call.name, caller)
        pending_call.listing = listing
        if listing is None:
            shown = self.visible(
                grant, tier=tier, remaining=remaining, whose=caller.whose
            )
            near = nearest(pending_call.call.name, [x.exposed for x in shown])
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            text = f"there is no tool {pending_call.call.name[:64]!r}{hint}"
            raise _GateRefused(Refusal(reason=Reason.UNKNOWN, text=text))
        view = caller.showing
        no = refusal(
            self._candidate(listing, caller.whose, calling=calling),
            SEARCHING if view and listing is view.search else grant,
            tier=tier,
            remaining=remaining,
            approved=pending_call.approved,
        )
        if no is None and view is not None:
            no = view.not_loaded(listing)
        if no is not None:
            raise _GateRefused(no)
        if not pending_call.approved and not self._is_approved(listing, grant):
            # It was shown because a person could be asked, but none has said yes.
            text = f"{listing.exposed} was not approved"
            raise _GateRefused(Refusal(reason=Reason.NEEDS_APPROVAL, text=text))
        if not caller.may_write and listing.definition.side_effects:
            text = _NOT_WRITTEN.format(listing.exposed)
            raise _GateRefused(Refusal(reason=Reason.UNAVAILABLE, text=text))
        return listing

    def _reader(self, listing: CatalogueEntry, caller: Caller) -> str | None:
        """Return the exposed name of the tool that reads the same server's resources;
        None if there is none, or the caller may not use it."""
        key = f"{listing.definition.group}.{READ_RESOURCE}"
        reading = self._catalogue.current.by_key.get(key)
        # Another tool of that name is the server's own and may do anything.
        if reading is None or not reading.tool.reads_resources:
            return None
        grant, tier = caller.rights
        candidate = self._candidate(reading, caller.whose)
        no = refusal(candidate, grant, tier=tier, remaining=float("inf"))
        return reading.exposed if no is None else None

    def _permits(self, caller: Caller, end: float, listing: CatalogueEntry) -> bool:
        """Return True if a tool that the model did not name may answer its call until
        ``end``.

        The approval of the call is not an approval of this tool, since no person was
        asked about it. The tool need not have been shown to the model.
        """
        grant, tier = caller.rights
        remaining = end - trio.current_time()
        candidate = self._candidate(listing, caller.whose)
        if refusal(candidate, grant, tier=tier, remaining=remaining):
            return False
        return not unasked(
            listing.definition,
            Purpose.HEDGE,
            (grant,),
            exposed=listing.exposed,
            agreed=listing.key in self._approvals.agreed,
        )

    def _is_approved(self, listing: CatalogueEntry, grant: Grant) -> bool:
        """Return True if the tool may be called without asking a person."""
        return listing.key in self._approvals.agreed or grant.approves(
            listing.definition, listing.exposed
        )

    def _candidate(
        self, listing: CatalogueEntry, whose: Whose, *, calling: bool = False
    ) -> Candidate:
        held, agreed = self._approvals.held, self._approvals.agreed
        ready_at = listing.ready_at if calling else None
        return Candidate(
            definition=listing.definition,
            exposed=listing.exposed,
            estimate=listing.estimate,
            availability=listing.availability,
            obstacle=self._attempts.obstacle(listing, whose),
            changed=bool(held) and listing.key in held,
            agreed=bool(agreed) and listing.key in agreed,
            held=self._attempts.stalls.refused(listing.key),
            starts_in=0.0
            if ready_at is None
            else max(0.0, ready_at - trio.current_time()),
        )

    def _missed(self, hidden: Iterable[str]) -> None:
        """Report the tools that are hidden from an NPC now for being slow."""
        now = trio.current_time()
        due: dict[float, list[str]] = {}
        for key in hidden:
            since = self._missed_at.get(key)
            if since is not None and now - since < _A_MOMENT:
                continue
            self._missed_at[key] = now
            if since is not None:
                due.setdefault(min(now - since, TURN), []).append(key)
        for seconds, keys in due.items():
            self._tell_missed(tuple(keys), seconds)


@attrs.frozen
class _Begun:
    """A started call; ``shared`` if it joined the task of an identical one."""

    hedged: HedgedCall
    shared: bool


@attrs.define(eq=False)
class _QueuePlace:
    """A place in a queue of calls within one response."""

    _before: _QueuePlace | None
    _over: trio.Event = attrs.field(factory=trio.Event)

    @property
    def waits(self) -> bool:
        return self._before is not None

    async def wait(self) -> None:
        if self._before is not None:
            await self._before._over.wait()

    def over(self) -> None:
        self._over.set()


def _was_slow(listing: CatalogueEntry, no: Refusal) -> bool:
    """Return True if the tool is refused because of its measurements, or because it
    blocked the loop, and waits for a trial."""
    if no.reason is Reason.HOLDS_LOOP:
        return True
    hidden = listing.estimate.next_trial is not None
    return hidden and no.reason in (Reason.OVER_TIER, Reason.OVER_BUDGET)


def _whose_limit(hedged: HedgedCall, caller: Caller) -> Limit | None:
    """Return whose limit cuts the call; None is the tool's own, or its server's."""
    shorter = hedged.until < hedged.first.own_deadline
    return Limit.HOST if caller.longest is not None and shorter else None


def _latest_end(listing: CatalogueEntry, now: float, turn: float) -> float:
    """Return the latest end of a call that starts now, for any number of waiters."""
    definition = listing.definition
    own = now + definition.own_limit
    if definition.interruption is OnInterrupt.CANCEL and not definition.cacheable:
        return min(own, turn)
    return own if own < math.inf else now + LONGEST_FLIGHT


def _signature(arguments: str) -> int | None:
    """Return what is equal for calls with equal canonical arguments; None if there are
    no arguments."""
    return None if arguments == "{}" else hash(arguments)


def _cache_key(
    pending_call: PendingCall, listing: CatalogueEntry, caller: Caller
) -> CacheKey | None:
    definition = listing.definition
    if not definition.cacheable:
        return None
    scope = caller.tenant
    if definition.per_npc:
        scope = "\x1f".join((caller.tenant, caller.session, caller.npc))
    return CacheKey(tool=listing.key, arguments=pending_call.arguments, scope=scope)
