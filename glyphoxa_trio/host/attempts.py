"""Attempts: the shared tasks that run tools, and the sample that each one records.

Several callers may wait for one attempt. Its result goes to all of them; its latency
and health sample is recorded once.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any, Final, cast

import attrs
import outcome

import trio

from glyphoxa_trio.actors import LoopLag, SharedTask, SharedTasks
from glyphoxa_trio.errors import GlyphoxaError, TooManyFlights
from glyphoxa_trio.tools import foreign
from glyphoxa_trio.tools.breaker import Breaker, BreakerState, Ticket
from glyphoxa_trio.tools.cache import CacheKey, ResultCache
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    CallContext,
    ConnectionLost,
    ServerFault,
    Tool,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.estimate import EstimateSource
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.window import Sample, SampleKind
from glyphoxa_trio.tracing import here
from glyphoxa_trio.units import in_ms, many

from .catalogue import CatalogueEntry
from .elsewhere import AnswerElsewhere, CallSharer
from .pauses import Pauses
from .stalls import Stalls
from .timing import Timing

# The number of calls of a tool on trial that run at once. More would not tell more.
TRIALS_AT_ONCE = 2
_UNLIKE_ALL: Final = count(1 << 64)  # no hash of arguments is as large


@attrs.frozen
class ProbeResult:
    """The end of a probe. ``answer`` is None if its time was up; ``seconds`` is None if
    its duration is no sample of the tool's latency. ``held_loop``: the tool's code has
    blocked the event loop."""

    answer: ToolResult | None
    seconds: float | None
    held_loop: bool = False


Whose = tuple[str, str]
"""Tenant and session of the caller."""
NOBODYS: Whose = ("", "")


@attrs.define(eq=False)
class Life:
    """The state kept for one life of a server, that is from one start to the next; for
    one connection, if each session has its own."""

    breakers: dict[str, Breaker] = attrs.field(factory=dict, init=False)
    # When the connection was last lost during a call of the tool.
    lost_at: dict[str, float] = attrs.field(factory=dict, init=False)
    # When the first call ended.
    first_end: float = attrs.field(default=math.inf, init=False)

    def breaker(self, key: str) -> Breaker:
        breaker = self.breakers.get(key)
        if breaker is None:
            breaker = self.breakers[key] = Breaker()
        return breaker

    def forget(self, key: str) -> None:
        self.breakers.pop(key, None)
        self.lost_at.pop(key, None)

    def ended(self, now: float) -> None:
        """Note that a call has ended."""
        self.first_end = min(self.first_end, now)

    def dies_again(self, key: str, began: float, now: float) -> bool:
        """Return True if a call that began then was lost together with another one:
        one death of the server counts once."""
        if began < self.lost_at.get(key, -math.inf):
            return True
        self.lost_at[key] = now
        return False


@attrs.define(eq=False)
class Attempt:
    """One run of one tool. ``signature`` differs for calls with other arguments; None
    for a call without any.

    `Attempts` sets what is learned of it; `hedging`, which decides about hedges, sets
    ``second`` and ``no_second``.
    """

    listing: CatalogueEntry
    timing: Timing
    signature: int | None
    _life: Life
    _ticket: Ticket
    cache_key: CacheKey | None
    _epoch: int
    # If the tool is on trial, the permit that this call holds until it has ended.
    _seat: trio.Semaphore | None = None
    # The attempt that it is the hedge of, and the attempt that is its own hedge.
    instead_of: Attempt | None = None
    second: Attempt | None = attrs.field(default=None, init=False)
    no_second: bool = attrs.field(default=False, init=False)  # no hedging budget left
    _reckoned: bool = attrs.field(default=False, init=False)  # counted as won or lost
    task: SharedTask[Any] = attrs.field(init=False)
    # The trace of the call that it was started for.
    context: Any = attrs.field(factory=here, init=False)
    # Its tool was hidden, and is shown again for this one call.
    is_trial: bool = attrs.field(default=False, init=False)
    # Its tool was refused for blocking the loop, and is allowed for this one call.
    is_loop_trial: bool = attrs.field(default=False, init=False)
    # A write has ended since it began, so later callers must not get its result.
    outdated: bool = attrs.field(default=False, init=False)
    # Another process is asked to make the call, or has made it.
    elsewhere: bool = attrs.field(default=False, init=False)
    _began_late: bool = attrs.field(default=False, init=False)
    # Seconds for which its result may be cached at most.
    valid_for: float = attrs.field(default=math.inf, init=False)

    def begin_here(self, timing: Timing) -> None:
        """Make the call here after all, later than it was asked for."""
        self.elsewhere, self._began_late, self.timing = False, True, timing

    def reckon(self) -> bool:
        """Return True the first time: it was not yet counted as won or lost."""
        first, self._reckoned = not self._reckoned, True
        return first

    @property
    def started(self) -> float:
        return self.timing.started

    @property
    def on_trial(self) -> bool:
        return self._seat is not None

    @property
    def own_deadline(self) -> float:
        """When the limit of the tool or of its server is reached, on trio's clock;
        infinite once the task has ended, since a later caller may take its result."""
        if self.task.done and not self.task.cancelled:
            return math.inf
        return self.started + self.listing.definition.own_limit

    def extended(self, limit: float) -> float:
        """Return ``limit``, on trio's clock, plus the time in which the loop did not
        run the tool: a tool of this process is not charged for that."""
        if self.listing.tool.remote or limit == math.inf:
            return limit
        return limit + self.timing.kept_waiting()


@attrs.define(eq=False)
class Attempts:
    """The owner of breakers, cached results, and attempts in flight.

    Args:
      observe: called with every sample; must not block (the calibrator's mailbox).
      health_anew: called with a tool whose breaker has closed.
      trial_began: called when a hidden tool that is shown for a trial is called.
      trial_said_nothing: called when such a call has ended and left no sample.
      opened: called with a tool whose breaker has opened, unless each session has a
        connection of its own to its server.
      wrote_to: called with a group whose cached results were dropped for a write.
    """

    _tasks: SharedTasks
    _observe: Callable[[str, Sample], None]
    _health_anew: Callable[[str], None]
    _lag: LoopLag
    _trial_began: Callable[[str], None] = lambda key: None
    _trial_said_nothing: Callable[[str], None] = lambda key: None
    stalls: Stalls = attrs.field(factory=Stalls)
    _opened: Callable[[str], None] = lambda key: None
    _wrote_to: Callable[[str], None] = lambda group: None
    cache: ResultCache[ToolResult] = attrs.field(factory=ResultCache)
    pauses: Pauses = attrs.field(factory=Pauses, init=False)
    # By server; by server and session, where each session has its own connection.
    _lives: dict[str | tuple[str, Whose], Life] = attrs.field(factory=dict, init=False)
    _in_flight: dict[CacheKey, Attempt] = attrs.field(factory=dict, init=False)
    # Attempts that were started speculatively, for a turn that may take them.
    _speculative: set[Attempt] = attrs.field(factory=set, init=False)
    _seats: dict[str, trio.Semaphore] = attrs.field(factory=dict, init=False)
    _sharer: CallSharer | None = attrs.field(default=None, init=False)
    # Tools with a cancelled write, which may still write until its task has stopped.
    _cut_writes: dict[str, CatalogueEntry] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._tasks.when_lingering_stops(self._lingering_stopped)

    def _timing(self, tool: Tool) -> Timing:
        return Timing(self._lag, self.stalls, tool)

    def _lingering_stopped(self, key: object) -> None:
        listing = self._cut_writes.get(str(key))
        if listing is not None:
            self.wrote(listing)

    def _life_of(self, listing: CatalogueEntry, whose: Whose) -> Life:
        place = _place(listing, whose)
        life = self._lives.get(place)
        if life is None:
            life = self._lives[place] = Life()
        return life

    def _breaker(self, listing: CatalogueEntry, whose: Whose) -> Breaker | None:
        life = self._lives.get(_place(listing, whose))
        return None if life is None else life.breakers.get(listing.key)

    def obstacle(self, listing: CatalogueEntry, whose: Whose = NOBODYS) -> str | None:
        """Return why the tool cannot be called right now, in words; None if it can."""
        breaker = self._breaker(listing, whose)
        now = trio.current_time()
        if breaker is not None and not breaker.admits(now):
            wait = breaker.retry_in(now)
            then = f"next try in {in_ms(wait)}" if wait else "a trial call is running"
            return f"it failed repeatedly, {then}"
        lingering = self._tasks.lingering(listing.key)
        if lingering >= self._tasks.lingering_limit:
            return (
                f"{many(lingering, 'earlier call does', 'earlier calls do')} not stop"
            )
        return None

    def in_flight(self, key: CacheKey | None) -> Attempt | None:
        """Return the attempt that an identical call may join."""
        return None if key is None else self._in_flight.get(key)

    def seat(self, listing: CatalogueEntry) -> trio.Semaphore | None:
        """Return the semaphore that each call of a tool on trial must hold; None if
        the tool is not on trial."""
        if listing.estimate.source is not EstimateSource.TRIAL:
            return None
        seat = self._seats.get(listing.key)
        if seat is None:
            seat = self._seats[listing.key] = trio.Semaphore(
                TRIALS_AT_ONCE, max_value=TRIALS_AT_ONCE
            )
        return seat

    def has_seat(self, listing: CatalogueEntry) -> bool:
        """Return True if a call need not wait for one on trial to end."""
        seat = self.seat(listing)
        return seat is None or seat.value > 0

    def begin_life(self, group: str) -> None:
        """Start a server's state anew, without the failures of its earlier life."""
        self._lives.pop(group, None)
        self._lives.pop((group, NOBODYS), None)

    def leave_session(self, whose: Whose) -> None:
        """Drop the state of a session's own connections, which end."""
        for place in [x for x in self._lives if x[1:] == (whose,)]:
            del self._lives[place]

    def share_with(self, sharer: CallSharer | None) -> None:
        """Ask this sharer before a call whose result would be cached is made here."""
        self._sharer = sharer

    def start(
        self,
        listing: CatalogueEntry,
        arguments: dict[str, Any],
        context: CallContext,
        cache_key: CacheKey | None,
        *,
        signature: int | None = 0,
        seat: trio.Semaphore | None = None,
        instead_of: Attempt | None = None,
        own: bool = False,
    ) -> Attempt:
        """Start the handler, or have another process run it.

        Args:
          own: no other process is asked.
          seat: a permit acquired from `seat`; it is released when the call has ended.
          instead_of: a call of another tool that this one may answer. Its latency and
            health sample still belongs to its own tool.

        Raises:
          ToolUnavailable: if the breaker or earlier lingering tasks forbid it.
        """
        timing = self._timing(listing.tool)
        if instead_of is not None:
            timing.instead_of(instead_of.timing)
        now = timing.started
        whose = context.tenant, context.session
        life = self._life_of(listing, whose)
        breaker = life.breaker(listing.key)
        sharer = None
        if not own and cache_key is not None and instead_of is None and seat is None:
            sharer = self._sharer_of(listing, cache_key, context, breaker)
        ticket = breaker.begin(now)
        if ticket is None:
            why = self.obstacle(listing, whose)
            raise ToolUnavailable(why or "its breaker is open")
        attempt = Attempt(
            listing,
            timing,
            signature,
            life,
            ticket,
            cache_key,
            self.cache.epoch,
            seat,
            instead_of,
        )
        on_result = partial(self._on_result, attempt)
        try:
            if sharer is None or cache_key is None:
                attempt.task = self.launch(
                    listing, arguments, context, timing, on_result
                )
            else:
                attempt.elsewhere = True
                ask = partial(sharer.ask, listing, cache_key, context)
                attempt.task = self._tasks.start(
                    *(listing.key, self._elsewhere_first, attempt, ask),
                    *(arguments, context),
                    on_result=on_result,
                )
        except TooManyFlights as error:
            breaker.release(ticket, now)
            raise ToolUnavailable(str(error)) from None
        if cache_key is not None:
            self._in_flight[cache_key] = attempt
        if seat is not None and listing.estimate.next_trial is not None:
            attempt.is_trial = True
            self._trial_began(listing.key)
        attempt.is_loop_trial = self.stalls.begun(listing.key)
        return attempt

    def _sharer_of(
        self,
        listing: CatalogueEntry,
        key: CacheKey,
        context: CallContext,
        breaker: Breaker,
    ) -> CallSharer | None:
        """Return the way to another process that is to make the call, if there is one.

        A call that is to show if the tool works is made here.
        """
        sharer = self._sharer
        if sharer is None or breaker.state is not BreakerState.CLOSED:
            return None
        return sharer if sharer.shares(listing, key, context) else None

    async def _elsewhere_first(
        self,
        attempt: Attempt,
        ask: Callable[[], Awaitable[AnswerElsewhere | None]],
        arguments: dict[str, Any],
        context: CallContext,
    ) -> Any:
        """Return the answer of another process or, without one, that of the tool."""
        answer = await ask()
        if answer is not None:
            attempt.valid_for = answer.valid_for
            return answer.result
        tool = attempt.listing.tool
        timing = self._timing(tool)
        timing.instead_of(attempt.timing)
        attempt.begin_here(timing)
        context = context.telling(timing.sent)
        if tool.remote:
            return await cast("Awaitable[Any]", tool.handler(arguments, context))
        return await timing.run(tool.handler, arguments, context)

    def start_speculative(self, attempt: Attempt) -> None:
        """Note that a later turn may take this attempt, and track what outdates it."""
        self._speculative.add(attempt)

    def end_speculative(self, attempt: Attempt) -> None:
        self._speculative.discard(attempt)

    def is_trusted(self, listing: CatalogueEntry, whose: Whose) -> bool:
        """Return True if its breaker is closed and no earlier call lingers."""
        breaker = self._breaker(listing, whose)
        closed = breaker is None or breaker.state is BreakerState.CLOSED
        return closed and not self._tasks.lingering(listing.key)

    def launch(
        self,
        listing: CatalogueEntry,
        arguments: dict[str, Any],
        context: CallContext,
        timing: Timing,
        on_result: Callable[[outcome.Maybe[Any]], None] | None = None,
    ) -> SharedTask[Any]:
        """Start the shared task alone: no breaker, no record.

        Raises:
          TooManyFlights: if too many earlier tasks of this tool do not stop.
        """
        tool, tasks, key = listing.tool, self._tasks, listing.key
        context = context.telling(timing.sent)
        if tool.blocking:

            def in_thread() -> Any:
                timing.sent()
                return foreign.received(tool.handler, tool.handler(arguments, context))

            return tasks.start_in_thread(key, in_thread, on_result=on_result)
        if tool.remote:
            asks = cast("Callable[..., Awaitable[Any]]", tool.handler)
            begin = getattr(asks, "begin", None)
            if begin is not None:
                begin = partial(begin, arguments, context)
            return tasks.start(
                key, asks, arguments, context, on_result=on_result, begin=begin
            )
        return tasks.start(
            key, timing.run, tool.handler, arguments, context, on_result=on_result
        )

    async def probe(
        self, listing: CatalogueEntry, arguments: dict[str, Any], *, deadline: float
    ) -> ProbeResult:
        """Call a tool to measure it, past gate, cache and breaker; record nothing.

        If ``deadline`` passes, the handler is cancelled and the result has no answer.

        Raises:
          ToolUnavailable: if the tool is refused because it blocks the event loop.
          Exception: any exception that the handler raises.
        """
        if self.stalls.refused(listing.key) is not None:
            raise ToolUnavailable("it holds the event loop")
        context = CallContext(call_id="probe", deadline=deadline)
        timing = self._timing(listing.tool)
        task = self.launch(listing, arguments, context, timing)
        task.add_waiter()
        try:
            with trio.CancelScope(deadline=deadline):
                answer = ToolResult.of(await task.result())
                return ProbeResult(answer, timing.ended(), timing.held_loop)
            life = self._life_of(listing, NOBODYS)
            first = _first_in_life(life, listing, timing)
            seconds = None if first else timing.cut()
            return ProbeResult(None, seconds, timing.held_loop)
        finally:
            self.probe_ended(listing)
            task.release()
            self.wrote(listing)

    def leave(self, attempt: Attempt, early: SampleKind | None) -> bool:
        """Stop waiting. If this was the last waiter, the task is cancelled, ``early``
        is recorded as its sample, and True is returned.
        """
        if not attempt.task.release():
            return False
        if attempt.listing.definition.side_effects:
            self._cut_writes[attempt.listing.key] = attempt.listing
        self._retire(attempt)
        if attempt.is_loop_trial and not attempt.timing.held_loop:
            self.stalls.ended(attempt.listing.key, well=None)
        self._record(attempt, early)
        return True

    def forget(self, key: str) -> None:
        """Drop all state of a tool that was removed or replaced."""
        for life in self._lives.values():
            life.forget(key)
        self._cut_writes.pop(key, None)
        self._seats.pop(key, None)
        self.stalls.forget(key)
        self.cache.drop_tool(key)
        self._join_no_more(lambda listing: listing.key == key)

    def wrote(self, listing: CatalogueEntry) -> None:
        """Note the end of a call: a write outdates the cached reads of its group."""
        if listing.definition.side_effects:
            self.written(listing.definition.group)
            self._wrote_to(listing.definition.group)

    def written(self, group: str | None) -> None:
        """Outdate the reads of a group, or with None all reads."""
        if group is None:
            self.cache.drop_all()
        else:
            self.cache.drop_group(group)
        self._join_no_more(lambda x: group in (None, x.definition.group))

    def suspect(self, listing: CatalogueEntry) -> None:
        """Open the tool's breaker at its next failure, since it failed elsewhere."""
        if not listing.tool.per_session:
            breaker = self._life_of(listing, NOBODYS).breaker(listing.key)
            breaker.suspect(trio.current_time())

    def _on_result(self, attempt: Attempt, result: outcome.Maybe[Any]) -> None:
        """Handle a task that ended by itself, before its waiters get the result."""
        asked = attempt.instead_of or attempt  # the call that it answers
        epoch = asked._epoch
        undisturbed = epoch == self.cache.epoch
        self._retire(attempt)
        if undisturbed:  # the reads dropped just now are older than its own result
            epoch = self.cache.epoch
        if attempt.is_loop_trial and not attempt.timing.held_loop:
            self.stalls.ended(attempt.listing.key, well=True)
        kind, answer = classify(result)
        if self._same_death(attempt, result):
            kind = None
        self._record(attempt, kind, own_fault=is_own_fault(result))
        # An answer of another server is not cached: the next caller may not be
        # permitted to ask that server.
        own = attempt.instead_of is None
        if own and kind is SampleKind.OK and answer and attempt.cache_key is not None:
            self.cache.put(
                attempt.cache_key,
                answer,
                group=attempt.listing.definition.group,
                ttl=min(attempt.listing.definition.cacheable, attempt.valid_for),
                now=trio.current_time(),
                epoch=epoch,
            )

    def _same_death(self, attempt: Attempt, result: outcome.Maybe[Any]) -> bool:
        """Return True if the connection was lost and another call has counted that."""
        match result:
            case outcome.Error(ConnectionLost()):
                key, now = attempt.listing.key, trio.current_time()
                return attempt._life.dies_again(key, attempt.started, now)
        return False

    def _retire(self, attempt: Attempt) -> None:
        """Let no more callers join it; if it wrote, drop the cached reads."""
        key = attempt.cache_key
        if key is not None and self._in_flight.get(key) is attempt:
            del self._in_flight[key]
        if attempt._seat is not None:
            attempt._seat.release()
        self.wrote(attempt.listing)

    def _join_no_more(self, outdated: Callable[[CatalogueEntry], bool]) -> None:
        """Keep later calls from sharing reads that may predate a change."""
        self._in_flight = {
            key: attempt
            for key, attempt in self._in_flight.items()
            if not outdated(attempt.listing)
        }
        for attempt in self._speculative:
            attempt.outdated |= outdated(attempt.listing)

    def _record(
        self, attempt: Attempt, kind: SampleKind | None, *, own_fault: bool = False
    ) -> None:
        """Record an attempt's one sample: at its own end, or when all have left it.

        ``own_fault``: other arguments would have met the same error.
        """
        now, key, timing = trio.current_time(), attempt.listing.key, attempt.timing
        if attempt.elsewhere:  # it says nothing of the tool here
            kind = None
        elif attempt._began_late and kind is SampleKind.TIMEOUT:
            kind = SampleKind.CENSORED  # it had less time than its limit
        seconds: float | None
        whole: float | None = None
        if kind is SampleKind.TIMEOUT and attempt.listing.tool.remote:
            # Its limit was not extended by the time it lost to others. If that was
            # much, the call is censored, like one that its turn has cut short.
            whole = timing.had()
            kind = SampleKind.CENSORED if whole is None else kind
        if whole is not None:
            seconds = whole
        elif kind is SampleKind.CENSORED:
            first = _first_in_life(attempt._life, attempt.listing, timing)
            seconds = None if first else timing.cut()
        elif kind is SampleKind.TIMEOUT and not timing.was_sent:
            seconds = None  # no thread was free in all that time
        else:
            seconds = timing.ended() or 0.0
        if kind is not None:
            attempt._life.ended(now)
        if seconds is None:
            kind = None
        elif kind is not None:
            asked = None if own_fault else attempt.signature
            if asked is None:  # no arguments can be blamed: it is like no other call
                asked = next(_UNLIKE_ALL)
            self._observe(key, Sample(kind, seconds, now, arguments=asked))
        if kind is None and attempt.is_trial:
            self._trial_said_nothing(key)
        breaker = attempt._life.breaker(key)
        if kind is None or kind is SampleKind.CENSORED:
            breaker.release(attempt._ticket, now)
            return
        was_open = breaker.state is BreakerState.OPEN
        ok = kind in (SampleKind.OK, SampleKind.TOOL_ERROR)
        if breaker.record(attempt._ticket, ok=ok, now=now):
            self._health_anew(key)
        opens = not was_open and breaker.state is BreakerState.OPEN
        if opens and not attempt.listing.tool.per_session:
            self._opened(key)

    def probe_ended(self, listing: CatalogueEntry) -> None:
        """Note the end of a call that measures the tool."""
        self._life_of(listing, NOBODYS).ended(trio.current_time())


def _place(listing: CatalogueEntry, whose: Whose) -> str | tuple[str, Whose]:
    group = listing.definition.group
    return (group, whose) if listing.tool.per_session else group


def _first_in_life(life: Life, listing: CatalogueEntry, timing: Timing) -> bool:
    """Return True if the call began before any other had ended in this life of its
    server. Such a call may be slow because it loads an index, or fills a cache."""
    return listing.tool.remote and timing.started < life.first_end


def is_own_fault(result: outcome.Maybe[Any]) -> bool:
    """Return True for an error of the tool that its arguments did not cause."""
    match result:
        case outcome.Error(AnswerUnusable() | ServerFault()):
            return True
    return False


def classify(
    result: outcome.Maybe[Any],
) -> tuple[SampleKind | None, ToolResult | None]:
    """Return the kind of sample that a result is, None if the call never reached the
    tool; and its answer, if it has one."""
    try:
        match result:
            case outcome.Value(value):
                try:
                    answer = ToolResult.of(value)
                except Exception:  # border: the value is foreign, and no result
                    return SampleKind.FAILED, None
                ok = not answer.is_error
                return (SampleKind.OK if ok else SampleKind.TOOL_ERROR), answer
            case outcome.Error(ToolError()):
                return SampleKind.TOOL_ERROR, None
            case outcome.Error(ConnectionLost()):
                return SampleKind.FAILED, None
            case outcome.Error(GlyphoxaError()):
                return None, None
            case _:
                return SampleKind.FAILED, None
    except Exception:  # border: an error that fails when it is looked at
        return SampleKind.FAILED, None
