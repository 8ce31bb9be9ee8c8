"""The owner of the reports, which asks the feed before a report is needed.

A question is answered from the cache. Callers that have to wait for the same aerodrome
share one request to the feed, which goes on when they are cancelled: the next caller
finds its answer. If an older report is there, a caller waits only 0.2 seconds for a
newer one.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal, Topic, lone_errors
from glyphoxa_trio.tools.definition import ToolUnavailable

from .cache import Cache, CachedReport
from .feed import Feed
from .report import WeatherReport

AT_ONCE: Final = 4  # requests to the feed
PATIENCE: Final = 0.2  # seconds to wait for a newer report if there is an older one
COLD_PATIENCE: Final = 9.0  # seconds to wait for the first one
NOT_YET: Final = "the weather service has not answered yet"


@attrs.frozen(kw_only=True)
class Sighting:
    """A report as it can be given now; None if the feed has none.

    ``problem`` is the reason why it may not be the latest; empty if it is.
    """

    report: WeatherReport | None
    problem: str = ""


@attrs.define(eq=False)
class ReportKeeper:
    """The reports of all aerodromes; see `open_keeper`.

    ``news`` publishes the code of each aerodrome that has a new report.
    """

    _feed: Feed
    _cache: Cache
    _nursery: trio.Nursery
    news: Topic[str] = attrs.field(factory=Topic, init=False)
    _turn: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(AT_ONCE), init=False
    )
    _changed: Signal = attrs.field(factory=Signal, init=False)
    _landed: dict[str, trio.Event] = attrs.field(factory=dict, init=False)

    async def report(self, icao: str, *, until: float) -> Sighting:
        """Return the latest report, by ``until`` (on trio's clock) at the latest.

        Cancelling it does not cancel the request to the feed.

        Raises:
          ToolUnavailable: if there is no report yet; the message says why.
        """
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        entry = self._cache.asked(icao, now)
        if entry is None:
            raise ToolUnavailable(
                f"There is no weather for {icao}: too many others are being fetched."
            )
        if not entry.is_fresh(now):
            if self._cache.may_fetch(entry, now):
                self._fetch(entry)
            if entry.fetching:
                patience = PATIENCE if entry.known else COLD_PATIENCE
                with trio.move_on_at(min(until, now + patience)):
                    await self._landed[icao].wait()
        self._wake()
        now = trio.current_time()
        if entry.is_fresh(now):
            return Sighting(report=entry.report)
        problem = self._cache.problem(entry, now) or NOT_YET
        if not entry.known:
            raise ToolUnavailable(f"There is no weather for {icao}: {problem}.")
        return Sighting(report=entry.report, problem=problem)

    async def refresh(self) -> None:
        """Fetch the entries that are due, until cancelled."""
        while True:
            now = trio.current_time()
            for entry in self._cache.due(now):
                self._fetch(entry)
            with trio.move_on_at(self._cache.next_due(now)):
                await self._changed.take()

    def _wake(self) -> None:
        self._changed.set()

    def _fetch(self, entry: CachedReport) -> None:
        entry.take_off()
        self._landed[entry.icao] = trio.Event()
        self._nursery.start_soon(self._fly, entry)

    async def _fly(self, entry: CachedReport) -> None:
        before = entry.report
        answer = None
        async with self._turn:
            # While this request waited for its turn, the feed may have refused further
            # ones.
            if trio.current_time() >= self._cache.paused_until:
                answer = await self._feed.fetch(entry.icao, entry.version)
        self._cache.landed(entry, answer, trio.current_time())
        self._landed.pop(entry.icao).set()
        self._wake()
        if entry.report is not None and entry.report != before:
            self.news.publish(entry.icao)


@asynccontextmanager
async def open_keeper(
    feed: Feed, *, ttl: float, rng: random.Random | None = None
) -> AsyncGenerator[ReportKeeper]:
    """Open a keeper, until the block is left; that cancels its requests to the feed.

    Args:
      ttl: seconds for which a report is valid, if the feed does not say longer.
      rng: draws the moments at which reports are fetched again.
    """
    with lone_errors():
        async with trio.open_nursery() as nursery:
            keeper = ReportKeeper(feed, Cache(ttl, rng or random.Random()), nursery)
            nursery.start_soon(keeper.refresh)
            yield keeper
            nursery.cancel_scope.cancel()
