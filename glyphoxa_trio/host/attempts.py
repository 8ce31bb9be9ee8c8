"""Attempts: the flights of tools, and what each one says of its tool.

Several callers may wait for one attempt (single flight). Its result goes to all
of them; what it says of latency and health is said once. Above 300 lines, because how
a flight begins and what its end means are read together.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import attrs
import outcome

import trio

from glyphoxa_trio.actors import LoopLag, SharedTask, SharedTasks
from glyphoxa_trio.errors import GlyphoxaError, TooManyFlights
from glyphoxa_trio.tools import foreign
from glyphoxa_trio.tools.breaker import Breaker, BreakerState, Ticket
from glyphoxa_trio.tools.cache import CacheKey, ResultCache
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.estimate import EstimateSource
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.window import Sample, SampleKind
from glyphoxa_trio.units import in_ms

from .catalogue import CatalogueEntry
from .stalls import Stalls
from .timing import Timing

# So many calls of a tool on trial run at once. More of them would find out no more.
TRIALS_AT_ONCE = 2


@attrs.frozen
class ProbeResult:
    """How a probe ended. ``answer`` is None if its time was up, ``seconds`` if its time
    says nothing of the tool."""

    answer: ToolResult | None
    seconds: float | None


Whose = tuple[str, str]
"""Tenant and session of who calls."""
NOBODYS: Whose = ("", "")


@attrs.define(eq=False)
class Life:
    """What is known of one life of a server; of one connection, where each session has
    its own."""

    breakers: dict[str, Breaker] = attrs.field(factory=dict, init=False)
    # When it was last lost under a call of the tool.
    lost_at: dict[str, float] = attrs.field(factory=dict, init=False)
    # When a call first ended.
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
        """A call of it has ended."""
        self.first_end = min(self.first_end, now)

    def dies_again(self, key: str, began: float, now: float) -> bool:
        """Whether a call that began then was lost with another: one death counts
        once."""
        if began < self.lost_at.get(key, -math.inf):
            return True
        self.lost_at[key] = now
        return False


@attrs.define(eq=False)
class Attempt:
    """One flight of one tool. ``signature`` differs for calls with other arguments."""

    listing: CatalogueEntry
    timing: Timing
    signature: int
    _life: Life
    _ticket: Ticket
    cache_key: CacheKey | None
    _epoch: int
    # If the tool is on trial, the seat that this call holds until it has ended.
    _seat: trio.Semaphore | None = None
    # The one that it may answer for, being its second attempt; and that second one.
    instead_of: Attempt | None = None
    second: Attempt | None = attrs.field(default=None, init=False)
    no_second: bool = attrs.field(default=False, init=False)  # there was no budget
    _reckoned: bool = attrs.field(default=False, init=False)  # as won or lost
    flight: SharedTask[Any] = attrs.field(init=False)
    # Its tool was hidden, and is shown once more for this call.
    is_trial: bool = attrs.field(default=False, init=False)
    # Its tool was refused because it held the loop, and is shown once for this call.
    is_loop_trial: bool = attrs.field(default=False, init=False)
    # A write has ended since it began: nobody who comes later may have its result.
    outdated: bool = attrs.field(default=False, init=False)

    def hedge_with(self, second: Attempt) -> None:
        """From now on the other one may answer for it."""
        self.second = second

    def stay_alone(self) -> None:
        """There is no budget for a second one."""
        self.no_second = True

    def reckon(self) -> bool:
        """True the first time: it has not counted as won or lost before."""
        first, self._reckoned = not self._reckoned, True
        return first

    @property
    def started(self) -> float:
        return self.timing.departed

    @property
    def on_trial(self) -> bool:
        return self._seat is not None

    @property
    def own_deadline(self) -> float:
        """When the tool's or its server's own limit is reached; never, once it
        has landed: a result may be waited for by somebody who comes later."""
        if self.flight.done and not self.flight.cancelled:
            return math.inf
        return self.started + self.listing.definition.own_limit

    def extended(self, limit: float) -> float:
        """``limit``, on trio's clock, with the time in which the loop did not run it:
        a tool in this process is not charged for that."""
        if self.listing.tool.remote or limit == math.inf:
            return limit
        return limit + self.timing.kept_waiting()


@attrs.define(eq=False)
class Attempts:
    """The owner of breakers, cached results, and the attempts in the air.

    Args:
      observe: told of every sample; must not block (the calibrator's mailbox).
      health_anew: told of a tool whose breaker has closed.
      trial_began: told when a tool is called that was hidden and is shown for a trial.
      trial_said_nothing: told if such a call has ended and left no sample.
    """

    _flights: SharedTasks
    _observe: Callable[[str, Sample], None]
    _health_anew: Callable[[str], None]
    _lag: LoopLag
    _trial_began: Callable[[str], None] = lambda key: None
    _trial_said_nothing: Callable[[str], None] = lambda key: None
    stalls: Stalls = attrs.field(factory=Stalls)
    cache: ResultCache[ToolResult] = attrs.field(factory=ResultCache)
    # By the server, and by whose connection it is.
    _lives: dict[str | tuple[str, Whose], Life] = attrs.field(factory=dict, init=False)
    _in_flight: dict[CacheKey, Attempt] = attrs.field(factory=dict, init=False)
    # Attempts that were begun ahead of the turn that may take them.
    _ahead: set[Attempt] = attrs.field(factory=set, init=False)
    _seats: dict[str, trio.Semaphore] = attrs.field(factory=dict, init=False)
    # Tools of which a write was cut: it may still write until it really stops.
    _cut_writes: dict[str, CatalogueEntry] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._flights.when_lingering_stops(self._stray_stopped)

    def _stray_stopped(self, key: object) -> None:
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
        """Why the tool cannot be called right now, in words; None if it can."""
        breaker = self._breaker(listing, whose)
        now = trio.current_time()
        if breaker is not None and not breaker.admits(now):
            wait = breaker.retry_in(now)
            then = f"next try in {in_ms(wait)}" if wait else "one call is trying it"
            return f"it failed repeatedly, {then}"
        lingering = self._flights.lingering(listing.key)
        if lingering >= self._flights.lingering_limit:
            return f"{lingering} earlier calls do not stop"
        return None

    def in_flight(self, key: CacheKey | None) -> Attempt | None:
        """The attempt that an identical call may join."""
        return None if key is None else self._in_flight.get(key)

    def seat(self, listing: CatalogueEntry) -> trio.Semaphore | None:
        """The seats for calls of a tool on trial: each needs one before it departs.
        None if the tool is not on trial."""
        if listing.estimate.source is not EstimateSource.TRIAL:
            return None
        seat = self._seats.get(listing.key)
        if seat is None:
            seat = self._seats[listing.key] = trio.Semaphore(
                TRIALS_AT_ONCE, max_value=TRIALS_AT_ONCE
            )
        return seat

    def has_seat(self, listing: CatalogueEntry) -> bool:
        """Whether a call of it need not wait for one on trial to end."""
        seat = self.seat(listing)
        return seat is None or seat.value > 0

    def begin_life(self, group: str) -> None:
        """A server has started again: its tools are not blamed for its earlier life."""
        self._lives.pop(group, None)
        self._lives.pop((group, NOBODYS), None)

    def leave_session(self, whose: Whose) -> None:
        """Its connections end: so does what is known of them."""
        for place in [x for x in self._lives if x[1:] == (whose,)]:
            del self._lives[place]

    def start(
        self,
        listing: CatalogueEntry,
        arguments: dict[str, Any],
        context: CallContext,
        cache_key: CacheKey | None,
        *,
        signature: int = 0,
        seat: trio.Semaphore | None = None,
        instead_of: Attempt | None = None,
    ) -> Attempt:
        """Start the handler.

        Args:
          seat: a seat taken from `seat`; it is given back when the call has ended.
          instead_of: a call of another tool that it may answer. What it says of
            latency and health it says of its own tool.

        Raises:
          ToolUnavailable: if the breaker or earlier strays do not let it.
        """
        timing = Timing(self._lag, self.stalls, listing.tool)
        now = timing.departed
        whose = context.tenant, context.session
        life = self._life_of(listing, whose)
        breaker = life.breaker(listing.key)
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
        try:
            attempt.flight = self.launch(
                listing, arguments, context, timing, partial(self._landed, attempt)
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

    def start_speculative(self, attempt: Attempt) -> None:
        """Somebody may want this one later: take note of what outdates it."""
        self._ahead.add(attempt)

    def end_ahead(self, attempt: Attempt) -> None:
        self._ahead.discard(attempt)

    def is_trusted(self, listing: CatalogueEntry, whose: Whose) -> bool:
        """True if a call of it is nobody's trial, and no earlier one lingers."""
        breaker = self._breaker(listing, whose)
        closed = breaker is None or breaker.state is BreakerState.CLOSED
        return closed and not self._flights.lingering(listing.key)

    def launch(
        self,
        listing: CatalogueEntry,
        arguments: dict[str, Any],
        context: CallContext,
        timing: Timing,
        on_landed: Callable[[outcome.Maybe[Any]], None] | None = None,
    ) -> SharedTask[Any]:
        """The bare flight: no breaker, no record.

        Raises:
          TooManyFlights: if earlier flights of this tool do not stop.
        """
        tool, flights, key = listing.tool, self._flights, listing.key
        context = context.telling(timing.sent)
        if tool.blocking:

            def in_thread() -> Any:
                timing.sent()
                return foreign.received(tool.handler, tool.handler(arguments, context))

            return flights.start_in_thread(key, in_thread, on_landed=on_landed)
        if tool.remote:
            asks = cast("Callable[..., Awaitable[Any]]", tool.handler)
            begin = getattr(asks, "begin", None)
            if begin is not None:
                begin = partial(begin, arguments, context)
            return flights.start(
                key, asks, arguments, context, on_landed=on_landed, begin=begin
            )
        return flights.start(
            key, timing.run, tool.handler, arguments, context, on_landed=on_landed
        )

    async def probe(
        self, listing: CatalogueEntry, arguments: dict[str, Any], *, deadline: float
    ) -> ProbeResult:
        """Call a tool to measure it, past gate, cache and breaker; nothing is recorded.

        Raises:
          Exception: whatever the handler raises.
        """
        if self.stalls.refused(listing.key) is not None:
            raise ToolUnavailable("it holds the event loop")
        context = CallContext(call_id="probe", deadline=deadline)
        timing = Timing(self._lag, self.stalls, listing.tool)
        flight = self.launch(listing, arguments, context, timing)
        flight.add_waiter()
        try:
            with trio.CancelScope(deadline=deadline):
                answer = ToolResult.of(await flight.result())
                return ProbeResult(answer, timing.ended())
            life = self._life_of(listing, NOBODYS)
            first = _first_in_life(life, listing, timing)
            return ProbeResult(None, None if first else timing.cut())
        finally:
            self.probe_ended(listing)
            flight.release()
            self.wrote(listing)

    def leave(self, attempt: Attempt, early: SampleKind | None) -> bool:
        """Get off; ``early`` is what it says of the tool if that ended the flight,
        and that is what is returned.
        """
        if not attempt.flight.release():
            return False
        if attempt.listing.definition.side_effects:
            self._cut_writes[attempt.listing.key] = attempt.listing
        self._retire(attempt)
        if attempt.is_loop_trial and not attempt.timing.held_loop:
            self.stalls.ended(attempt.listing.key, well=None)
        self._record(attempt, early)
        return True

    def forget(self, key: str) -> None:
        """A tool was removed or replaced: nothing of it is remembered."""
        for life in self._lives.values():
            life.forget(key)
        self._cut_writes.pop(key, None)
        self._seats.pop(key, None)
        self.stalls.forget(key)
        self.cache.drop_tool(key)
        self._join_no_more(lambda listing: listing.key == key)

    def wrote(self, listing: CatalogueEntry) -> None:
        """A call of the tool is over: what it wrote outdates reads of its group."""
        definition = listing.definition
        if definition.side_effects:
            self.cache.drop_group(definition.group)
            self._join_no_more(lambda other: other.definition.group == definition.group)

    def _landed(self, attempt: Attempt, result: outcome.Maybe[Any]) -> None:
        """The flight has landed by itself, before its passengers hear of it."""
        asked = attempt.instead_of or attempt  # whose answer it is
        epoch = asked._epoch
        undisturbed = epoch == self.cache.epoch
        self._retire(attempt)
        if undisturbed:  # what it dropped just now is older than its own result
            epoch = self.cache.epoch
        if attempt.is_loop_trial and not attempt.timing.held_loop:
            self.stalls.ended(attempt.listing.key, well=True)
        kind, answer = classify(result)
        if self._same_death(attempt, result):
            kind = None
        self._record(attempt, kind)
        # An answer of another server is not cached: the next caller may not be
        # permitted to ask that server.
        own = attempt.instead_of is None
        if own and kind is SampleKind.OK and answer and attempt.cache_key is not None:
            self.cache.put(
                attempt.cache_key,
                answer,
                group=attempt.listing.definition.group,
                ttl=attempt.listing.definition.cacheable,
                now=trio.current_time(),
                epoch=epoch,
            )

    def _same_death(self, attempt: Attempt, result: outcome.Maybe[Any]) -> bool:
        """Whether it was lost with a call that has counted: one death, one failure."""
        match result:
            case outcome.Error(ConnectionLost()):
                key, now = attempt.listing.key, trio.current_time()
                return attempt._life.dies_again(key, attempt.started, now)
        return False

    def _retire(self, attempt: Attempt) -> None:
        """It is down: nobody joins it, and what it wrote outdates cached reads."""
        key = attempt.cache_key
        if key is not None and self._in_flight.get(key) is attempt:
            del self._in_flight[key]
        if attempt._seat is not None:
            attempt._seat.release()
        self.wrote(attempt.listing)

    def _join_no_more(self, outdated: Callable[[CatalogueEntry], bool]) -> None:
        """Later calls must not share reads that may be from before a change."""
        self._in_flight = {
            key: attempt
            for key, attempt in self._in_flight.items()
            if not outdated(attempt.listing)
        }
        for attempt in self._ahead:
            attempt.outdated |= outdated(attempt.listing)

    def _record(self, attempt: Attempt, kind: SampleKind | None) -> None:
        """Once an attempt: it lands by itself, or its last passenger leaves it."""
        now, key, timing = trio.current_time(), attempt.listing.key, attempt.timing
        seconds: float | None
        whole: float | None = None
        if kind is SampleKind.TIMEOUT and attempt.listing.tool.remote:
            # Its limit was not extended by what it lost to others. If that was much,
            # the call says of the tool what one says that its turn has cut.
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
            self._observe(key, Sample(kind, seconds, now, arguments=attempt.signature))
        if kind is None and attempt.is_trial:
            self._trial_said_nothing(key)
        if kind is None or kind is SampleKind.CENSORED:
            attempt._life.breaker(key).release(attempt._ticket, now)
        elif attempt._life.breaker(key).record(
            attempt._ticket, ok=kind in (SampleKind.OK, SampleKind.TOOL_ERROR), now=now
        ):
            self._health_anew(key)

    def probe_ended(self, listing: CatalogueEntry) -> None:
        """A call that measures it is over."""
        self._life_of(listing, NOBODYS).ended(trio.current_time())


def _place(listing: CatalogueEntry, whose: Whose) -> str | tuple[str, Whose]:
    group = listing.definition.group
    return (group, whose) if listing.tool.per_session else group


def _first_in_life(life: Life, listing: CatalogueEntry, timing: Timing) -> bool:
    """Whether the call began before any other had ended in this life of its server.
    Such a call may be slow because it loads an index, or fills a cache."""
    return listing.tool.remote and timing.departed < life.first_end


def classify(
    result: outcome.Maybe[Any],
) -> tuple[SampleKind | None, ToolResult | None]:
    """What a landing says of the tool; None if it never reached it."""
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
