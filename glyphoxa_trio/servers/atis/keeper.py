"""The owner of the reports: it asks the feed, ahead of those who ask it.

Whoever wants a report is answered from the cache. Who has to wait waits for one
request of all who want the same, which goes on when they leave: the next one finds its
answer. With an old report at hand nobody waits for long.
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
PATIENCE: Final = 0.2  # seconds for a newer report, with an older one at hand
COLD_PATIENCE: Final = 9.0  # seconds for the first one
NOT_YET: Final = "the weather service has not answered yet"


@attrs.frozen(kw_only=True)
class Sighting:
    """A report as it can be told now; None if the feed has none.

    ``problem`` is why it may not be the latest, empty if it is.
    """

    report: WeatherReport | None
    problem: str = ""


@attrs.define(eq=False)
class ReportKeeper:
    """See `open_keeper`. ``news`` tells which aerodrome has another report."""

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
        """The latest report, by ``until`` (trio's clock) at the latest.

        Cancelled, what is under way goes on.

        Raises:
          ToolUnavailable: if there is none yet, saying why.
        """
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        entry = self._cache.asked(icao, now)
        if entry is None:
            raise ToolUnavailable(
                f"There is no weather for {icao}: too many others are asked for now."
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
        """Fetch what is due, for as long as the keeper lives."""
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
            # One that waited for its turn may have become too many.
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
    """A keeper, until the block is left.

    Args:
      ttl: seconds that a report is good, if the feed does not say longer.
      rng: draws the moments at which reports are asked for again.
    """
    with lone_errors():
        async with trio.open_nursery() as nursery:
            keeper = ReportKeeper(feed, Cache(ttl, rng or random.Random()), nursery)
            nursery.start_soon(keeper.refresh)
            yield keeper
            nursery.cancel_scope.cancel()
