"""Attempts: the flights of tools, and what each one says of its tool (D7, D11).

Several callers may wait for one attempt (single flight). Its result goes to all
of them; what it says of latency and health is said once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import outcome

import trio

from glyphoxa_trio.actors import Flight, Flights
from glyphoxa_trio.errors import GlyphoxaError, TooManyFlights
from glyphoxa_trio.tools.breaker import Breaker, BreakerState, Ticket
from glyphoxa_trio.tools.cache import CacheKey, ResultCache
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.window import Sample, SampleKind
from glyphoxa_trio.units import in_ms

from .catalogue import Listing


@attrs.define(eq=False)
class Attempt:
    """One flight of one tool."""

    listing: Listing
    started: float
    _breaker: Breaker
    _ticket: Ticket
    cache_key: CacheKey | None
    _epoch: int
    # The one that it may answer for, being its second attempt; and that second one.
    instead_of: Attempt | None = None
    second: Attempt | None = attrs.field(default=None, init=False)
    no_second: bool = attrs.field(default=False, init=False)  # there was no budget
    reckoned: bool = attrs.field(default=False, init=False)  # as won or lost
    flight: Flight[Any] = attrs.field(init=False)
    # A write has ended since it began: nobody who comes later may have its result.
    outdated: bool = attrs.field(default=False, init=False)

    @property
    def own_deadline(self) -> float:
        """When the tool's or its server's own limit is reached; never, once it
        has landed: a result may be waited for by somebody who comes later."""
        if self.flight.landed and not self.flight.cancelled:
            return math.inf
        return self.started + self.listing.definition.own_limit


@attrs.define(eq=False)
class Attempts:
    """The owner of breakers, cached results, and the attempts in the air.

    Args:
      observe: told of every sample; must not block (the calibrator's mailbox).
      health_anew: told of a tool whose breaker has closed.
    """

    _flights: Flights
    _observe: Callable[[str, Sample], None]
    _health_anew: Callable[[str], None]
    cache: ResultCache[ToolResult] = attrs.field(factory=ResultCache)
    _breakers: dict[str, Breaker] = attrs.field(factory=dict, init=False)
    _in_flight: dict[CacheKey, Attempt] = attrs.field(factory=dict, init=False)
    # Attempts that were begun ahead of the turn that may take them.
    _ahead: set[Attempt] = attrs.field(factory=set, init=False)
    # When a server was last lost under a call of the tool.
    _lost_at: dict[str, float] = attrs.field(factory=dict, init=False)
    # Tools of which a write was cut: it may still write until it really stops.
    _cut_writes: dict[str, Listing] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._flights.when_stray_stops(self._stray_stopped)

    def _stray_stopped(self, key: object) -> None:
        listing = self._cut_writes.get(str(key))
        if listing is not None:
            self.wrote(listing)

    def obstacle(self, listing: Listing) -> str | None:
        """Why the tool cannot be called right now, in words; None if it can."""
        breaker = self._breakers.get(listing.key)
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

    def depart(
        self,
        listing: Listing,
        arguments: dict[str, Any],
        context: CallContext,
        cache_key: CacheKey | None,
        *,
        instead_of: Attempt | None = None,
    ) -> Attempt:
        """Start the handler.

        Args:
          instead_of: a call of another tool that it may answer. What it says of
            latency and health it says of its own tool, but the answer is kept as
            if the other had given it.

        Raises:
          ToolUnavailable: if the breaker or earlier strays do not let it.
        """
        now = trio.current_time()
        breaker = self._breakers.get(listing.key)
        if breaker is None:
            breaker = self._breakers[listing.key] = Breaker()
        ticket = breaker.begin(now)
        if ticket is None:
            raise ToolUnavailable(self.obstacle(listing) or "its breaker is open")
        attempt = Attempt(
            listing, now, breaker, ticket, cache_key, self.cache.epoch, instead_of
        )
        try:
            attempt.flight = self.launch(
                listing, arguments, context, partial(self._landed, attempt)
            )
        except TooManyFlights as error:
            breaker.release(ticket, now)
            raise ToolUnavailable(str(error)) from None
        if cache_key is not None:
            self._in_flight[cache_key] = attempt
        return attempt

    def begin_ahead(self, attempt: Attempt) -> None:
        """Somebody may want this one later: take note of what outdates it."""
        self._ahead.add(attempt)

    def end_ahead(self, attempt: Attempt) -> None:
        self._ahead.discard(attempt)

    def undoubted(self, listing: Listing) -> bool:
        """True if a call of it is nobody's trial, and no earlier one lingers."""
        breaker = self._breakers.get(listing.key)
        closed = breaker is None or breaker.state is BreakerState.CLOSED
        return closed and not self._flights.lingering(listing.key)

    def launch(
        self,
        listing: Listing,
        arguments: dict[str, Any],
        context: CallContext,
        on_landed: Callable[[outcome.Maybe[Any]], None] | None = None,
    ) -> Flight[Any]:
        """The bare flight: no breaker, no record.

        Raises:
          TooManyFlights: if earlier flights of this tool do not stop.
        """
        tool, flights = listing.tool, self._flights
        launch: Callable[..., Flight[Any]] = (
            flights.launch_in_thread if tool.blocking else flights.launch
        )
        return launch(
            listing.key, tool.handler, arguments, context, on_landed=on_landed
        )

    def leave(self, attempt: Attempt, early: SampleKind | None) -> bool:
        """Get off; ``early`` is what it says of the tool if that ended the flight,
        and that is what is returned.
        """
        if not attempt.flight.leave():
            return False
        if attempt.listing.definition.side_effects:
            self._cut_writes[attempt.listing.key] = attempt.listing
        self._gone(attempt)
        self._record(attempt, early)
        return True

    def forget(self, key: str) -> None:
        """A tool was removed or replaced: nothing of it is remembered."""
        self._breakers.pop(key, None)
        self._cut_writes.pop(key, None)
        self._lost_at.pop(key, None)
        self.cache.drop_tool(key)
        self._join_no_more(lambda listing: listing.key == key)

    def wrote(self, listing: Listing) -> None:
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
        self._gone(attempt)
        if undisturbed:  # what it dropped just now is older than its own result
            epoch = self.cache.epoch
        kind, answer = kind_of(result)
        if self._same_death(attempt, result):
            kind = None
        self._record(attempt, kind)
        if kind is SampleKind.OK and answer and asked.cache_key is not None:
            self.cache.put(
                asked.cache_key,
                answer,
                group=asked.listing.definition.group,
                ttl=asked.listing.definition.cacheable,
                now=trio.current_time(),
                epoch=epoch,
            )

    def _same_death(self, attempt: Attempt, result: outcome.Maybe[Any]) -> bool:
        """Whether it was lost with a call that has counted: one death, one failure."""
        match result:
            case outcome.Error(ConnectionLost()):
                key = attempt.listing.key
                if attempt.started < self._lost_at.get(key, -math.inf):
                    return True
                self._lost_at[key] = trio.current_time()
        return False

    def _gone(self, attempt: Attempt) -> None:
        """It is down: nobody joins it, and what it wrote outdates cached reads."""
        key = attempt.cache_key
        if key is not None and self._in_flight.get(key) is attempt:
            del self._in_flight[key]
        self.wrote(attempt.listing)

    def _join_no_more(self, outdated: Callable[[Listing], bool]) -> None:
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
        now, key = trio.current_time(), attempt.listing.key
        if kind is not None:
            self._observe(key, Sample(kind=kind, seconds=now - attempt.started, at=now))
        if kind is None or kind is SampleKind.CENSORED:
            attempt._breaker.release(attempt._ticket, now)
        elif attempt._breaker.record(
            attempt._ticket, ok=kind in (SampleKind.OK, SampleKind.TOOL_ERROR), now=now
        ):
            self._health_anew(key)


def kind_of(
    result: outcome.Maybe[Any],
) -> tuple[SampleKind | None, ToolResult | None]:
    """What a landing says of the tool; None if it never reached it."""
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
