"""Hedging: a second attempt at another server once a call is slower than its p95.

`tools.hedging` has the rules, `hedged_call` one caller's wait for two attempts. All
waiters of the first attempt share the second, so that a question of twenty NPCs is
asked twice and not forty times. Each caller needs the right to call the other tool, by
the gate at that moment: an answer never comes from a server the caller may not use.

The sample of the slower attempt must not distort its tool's statistics in either
direction. No limit has cut it, so it is not a failure. But if it were dropped like an
interrupted call, slow calls would leave no trace: the p95 would sink to that of the
quick ones, and the next call would be hedged sooner. So its sample is right-censored
("longer than this") if it has run for longer than its tool's median, as every first
attempt has. A second attempt may be cut after a millisecond, because the first one has
answered. A hundred such samples would fill the window of a rarely called server and
make it look fast; so that attempt counts as interrupted and leaves no sample.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import SharedTask
from glyphoxa_trio.tools.definition import CallContext, ToolDefinition
from glyphoxa_trio.tools.gate import Availability
from glyphoxa_trio.tools.hedging import (
    HedgeBudget,
    HedgingRules,
    hedgeable,
    may_stand_in,
)
from glyphoxa_trio.tools.window import LatencyWindow, SampleKind

from .attempts import Attempt, Attempts
from .catalogue import Catalogue, CatalogueEntry
from .hedged_call import HedgedCall

# An answer exactly at the p95 is in time, and floats of one moment differ. Seconds.
_A_HAIR: Final = 1e-6


@attrs.frozen(kw_only=True)
class HedgingStatistics:
    """Second attempts since the host opened, and their cost.

    ``started`` is ``won`` plus ``lost`` plus those in flight. ``over_budget`` counts
    attempts that were not started for want of budget. ``wasted`` is the total duration,
    in seconds, of attempts whose answer was not needed: of each pair the slower one.
    """

    started: int = 0
    won: int = 0
    lost: int = 0
    over_budget: int = 0
    wasted: float = 0.0


@attrs.define(eq=False)
class Hedging:
    """The state of hedging: budgets and figures. Only hedged calls change it.

    Args:
      window: returns the measurements of a tool, which are only read.
    """

    rules: HedgingRules
    _nursery: trio.Nursery
    _catalogue: Catalogue
    _attempts: Attempts
    _window: Callable[[ToolDefinition], LatencyWindow]
    _budgets: dict[str, HedgeBudget] = attrs.field(factory=dict, init=False)
    _figures: HedgingStatistics = attrs.field(factory=HedgingStatistics, init=False)

    def hedge(
        self,
        attempt: Attempt,
        *,
        arguments: dict[str, Any],
        context: CallContext,
        permits: Callable[[CatalogueEntry], bool],
        shared: bool,
    ) -> HedgedCall:
        """Return a caller's wait for ``attempt``, with a second one if it is slow.

        Args:
          context: the caller's own.
          permits: the gate for this caller, asked when a second attempt is due.
          shared: the attempt was started, and counted, for another caller.
        """
        listing = attempt.listing
        if not hedgeable(listing.tool) or not self._others(listing):
            return HedgedCall(self._attempts, attempt)
        if not shared:
            self._budget(listing.key).called()
        wait = self._p95(listing)
        if wait is None:
            return HedgedCall(self._attempts, attempt)
        return HedgedCall(
            self._attempts,
            attempt,
            self,
            attempt.started + wait + _A_HAIR,
            partial(self._second, attempt, arguments, context, permits),
        )

    def statistics(self) -> HedgingStatistics:
        return self._figures

    def _others(self, listing: CatalogueEntry) -> list[CatalogueEntry]:
        """Return the same-named tools at the servers that may answer for this one."""
        name, known = listing.definition.name, self._catalogue.current.by_key
        keys = (f"{x}.{name}" for x in self.rules.partners(listing.definition.group))
        return [known[key] for key in keys if key in known]

    def _p95(self, listing: CatalogueEntry) -> float | None:
        """Return the p95 in seconds; None while the tool has too few samples."""
        window, now = self._window(listing.definition), trio.current_time()
        if window.latency_count(now) < self.rules.min_samples:
            return None
        return window.percentile(95, now)

    def _budget(self, key: str) -> HedgeBudget:
        budget = self._budgets.get(key)
        if budget is None:
            known = self._catalogue.current.by_key
            self._budgets = {k: v for k, v in self._budgets.items() if k in known}
            budget = self._budgets[key] = HedgeBudget(self.rules.extra_calls)
        return budget

    def _second(
        self,
        first: Attempt,
        arguments: dict[str, Any],
        context: CallContext,
        permits: Callable[[CatalogueEntry], bool],
    ) -> Attempt | None:
        """Return the second attempt, a shared or a new one; None if not possible."""
        if first.second is not None:
            joins = not first.second.task.cancelled and permits(first.second.listing)
            return first.second if joins else None
        if first.no_second:
            return None
        found = [
            other
            for other in self._others(first.listing)
            if may_stand_in(other.tool, first.listing.tool)
            and other.availability is Availability.READY
            and self._attempts.is_trusted(other, (context.tenant, context.session))
            and self._attempts.has_seat(other)
            and permits(other)
        ]
        if not found:
            return None
        if not self._budget(first.listing.key).take():
            first.no_second = True
            self._count(over_budget=1)
            return None
        other = min(found, key=lambda listing: listing.estimate.seconds)
        limit = trio.current_time() + other.definition.own_limit
        latest = min(context.deadline, first.own_deadline, limit)
        seat = self._attempts.seat(other)
        if seat is not None:
            seat.acquire_nowait()
        # It is trusted, so its start is not refused.
        second = self._attempts.start(
            other,
            arguments,
            attrs.evolve(context, deadline=latest),
            None,
            signature=first.signature,
            seat=seat,
            instead_of=first,
        )
        first.second = second
        self._count(started=1)
        return second

    async def one_ended(self, *tasks: SharedTask[Any]) -> None:
        """Wait until one of them has a result; also if the host closes meanwhile.

        The helper tasks run in the host's nursery: in a nursery of the caller's, its
        cancellation would be raised as an exception group.
        """
        news = trio.Event()
        for task in tasks:
            self._nursery.start_soon(_tell, task, news)
        await news.wait()

    def late(self, attempt: Attempt) -> SampleKind | None:
        """Return the sample of an attempt that is dropped as the other has answered."""
        now = trio.current_time()
        median = self._window(attempt.listing.definition).percentile(50, now)
        if median is None or now - attempt.started <= median:
            return None
        return SampleKind.CENSORED

    def reckon(self, second: Attempt, *, won: bool) -> None:
        """Count an attempt as won or lost; once, for any number of waiters."""
        if second.reckon():
            self._count(won=won, lost=not won)
            if not won:
                self.in_vain(second)

    def in_vain(self, attempt: Attempt) -> None:
        """Count the duration of an attempt that has ended and was not needed."""
        self._count(wasted=trio.current_time() - attempt.started)

    def _count(self, **more: float) -> None:
        old = self._figures
        new = {name: getattr(old, name) + count for name, count in more.items()}
        self._figures = attrs.evolve(old, **new)


async def _tell(task: SharedTask[Any], news: trio.Event) -> None:
    try:
        await task.settled()
    finally:
        news.set()
