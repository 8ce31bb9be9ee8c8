"""When a feed is asked, and what is told meanwhile. No I/O, no clock, no tasks.

An aerodrome's entry is *fresh* for the feed's own time (``Expires``) and a fifth of
ours more, at least for ours (``ttl``). In the last fifth, at a random moment, it is
*due*: asked for again, unless nobody has wanted it for a while. So one that is wanted
is never old, nobody waits for it, and the feed is not asked before it said.

Feeds that fail are left alone: ever longer, at least as long as they say. One that
says that we ask too much, or may not ask, is left alone for every aerodrome.

All times are seconds on one clock.
"""

from __future__ import annotations

import math
import random
from typing import Final

import attrs

from glyphoxa_trio.actors import Backoff

from .report import WeatherReport, is_older

MOST_ENTRIES: Final = 64
LONGEST_EXPIRES: Final = 3600.0  # of a feed; one that says a year is not believed
LONGEST_PAUSE: Final = 3600.0
INTEREST: Final = 3.0  # times the ttl that somebody's question keeps an entry going

BACKOFF: Final = Backoff(first=10.0, factor=2.0, ceiling=600.0, jitter=0.3)


@attrs.frozen(kw_only=True)
class Fetched:
    """The feed's answer. Times are seconds from when it came.

    Args:
      report: None if the feed knows of none.
      version: the feed's ``Last-Modified``, to ask whether there is a newer one.
      expires: before this it does not want to be asked again.
    """

    report: WeatherReport | None
    version: str = ""
    expires: float = 0.0


@attrs.frozen(kw_only=True)
class Unchanged:
    """What was fetched before is the latest."""

    expires: float = 0.0


@attrs.frozen(kw_only=True)
class FeedFailure:
    """No answer, or none that can be used.

    Args:
      problem: why, in words that may be spoken.
      pause: how long the feed wants to be left alone, seconds.
      everything: not for this aerodrome only, but for all.
    """

    problem: str
    pause: float = 0.0
    everything: bool = False


Answer = Fetched | Unchanged | FeedFailure


@attrs.define(eq=False)
class CachedReport:
    """What is known of one aerodrome. ``report`` None with ``known`` is that the feed
    has none."""

    icao: str
    asked: float
    report: WeatherReport | None = None
    known: bool = False
    version: str = ""
    fresh_until: float = -math.inf
    next_fetch: float = -math.inf  # not before this
    failures: int = 0
    problem: str = ""
    fetching: bool = False

    def take_off(self) -> None:
        """The feed is being asked, until `Cache.landed`."""
        self.fetching = True

    def is_fresh(self, now: float) -> bool:
        return self.known and now < self.fresh_until


@attrs.define(eq=False)
class Cache:
    """The entries, at most `MOST_ENTRIES`: those asked for last."""

    ttl: float
    rng: random.Random
    entries: dict[str, CachedReport] = attrs.field(factory=dict, init=False)
    paused_until: float = attrs.field(default=-math.inf, init=False)
    refusal: str = attrs.field(default="", init=False)
    refusals: int = attrs.field(default=0, init=False)

    def asked(self, icao: str, now: float) -> CachedReport | None:
        """Somebody wants to know: its entry, new or not. None if there is no room for
        one more, since all the others are being fetched."""
        entry = self.entries.pop(icao, None)
        if entry is None:
            if len(self.entries) >= MOST_ENTRIES:
                idle = (name for name, one in self.entries.items() if not one.fetching)
                if (oldest := next(idle, None)) is None:
                    return None
                del self.entries[oldest]
            entry = CachedReport(icao, asked=now)
        entry.asked = now
        self.entries[icao] = entry  # at the end: the first ones go first
        return entry

    def may_fetch(self, entry: CachedReport, now: float) -> bool:
        """Whether the feed may be asked for it now."""
        return (
            not entry.fetching
            and now >= max(entry.next_fetch, self.paused_until)
            and not entry.is_fresh(now)
        )

    def problem(self, entry: CachedReport, now: float) -> str:
        """Why there is no fresh report, as far as the feed has said; else empty."""
        if entry.problem or now >= self.paused_until:
            return entry.problem
        return self.refusal

    def due(self, now: float) -> list[CachedReport]:
        """Those to be fetched again now, since they are wanted."""
        return [
            entry
            for entry in self.entries.values()
            if not entry.fetching
            and self._is_wanted(entry, now)
            and self._due_at(entry) <= now
        ]

    def next_due(self, now: float) -> float:
        """When one may be due next; inf if none is wanted."""
        times = (
            (entry, max(now, self._due_at(entry)))
            for entry in self.entries.values()
            if not entry.fetching
        )
        wanted = (at for entry, at in times if self._is_wanted(entry, at))
        return min(wanted, default=math.inf)

    def landed(self, entry: CachedReport, answer: Answer | None, now: float) -> None:
        """The feed has answered, or has not; None: it was not asked after all."""
        entry.fetching = False
        match answer:
            case None:
                pass
            case Fetched(report=report) if report or not entry.report:
                if not is_older(report, entry.report):  # behind a feed are several
                    entry.report = report
                entry.known, entry.version = True, answer.version
                self._keep(entry, answer.expires, now)
            case Unchanged() if entry.known:
                self._keep(entry, answer.expires, now)
            case FeedFailure():
                self._leave_alone(entry, answer, now)
            case _:  # nothing where there was a report, or no change of nothing
                forgot = FeedFailure(problem="the feed does not know what it said")
                self._leave_alone(entry, forgot, now)

    def _is_wanted(self, entry: CachedReport, now: float) -> bool:
        return now <= entry.asked + INTEREST * self.ttl

    def _due_at(self, entry: CachedReport) -> float:
        return max(entry.next_fetch, self.paused_until)

    def _keep(self, entry: CachedReport, expires: float, now: float) -> None:
        margin = self.ttl / 5
        expires = min(max(expires, 0.0), LONGEST_EXPIRES)
        entry.fresh_until = now + max(self.ttl, expires + margin)
        # Not in the last quarter of the margin: that is for the answer to come.
        share = 0.25 + 0.75 * self.rng.random()
        entry.next_fetch = entry.fresh_until - margin * share
        entry.failures, entry.problem, self.refusals = 0, "", 0

    def _leave_alone(
        self, entry: CachedReport, failure: FeedFailure, now: float
    ) -> None:
        entry.failures += 1
        entry.problem = failure.problem
        pause = min(max(failure.pause, 0.0), LONGEST_PAUSE)
        if failure.everything:
            self.refusal = failure.problem
            # Those that were under way together are one refusal.
            self.refusals += now >= self.paused_until
            pause = max(pause, BACKOFF.delay(self.refusals, self.rng))
            self.paused_until = max(self.paused_until, now + pause)
        entry.next_fetch = now + max(pause, BACKOFF.delay(entry.failures, self.rng))
