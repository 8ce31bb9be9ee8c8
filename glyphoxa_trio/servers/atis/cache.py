"""The rules for asking a feed and for answering meanwhile. No I/O, no clock, no tasks.

The entry of an aerodrome is *fresh* for at least our own time (``ttl``), and longer if
the feed's own time (``Expires``) plus a fifth of ours is longer. At a random moment in
the last fifth the entry is *due*: it is fetched again, unless it has not been asked for
in a while. So an entry in demand is never old, no caller waits for it, and the feed is
not asked earlier than it allows.

After an error, a feed is not asked for some time: longer with each error, and at least
as long as the feed says. If it reports too many requests, or refuses access, it is not
asked for any aerodrome.

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
LONGEST_EXPIRES: Final = 3600.0  # the longest time of a feed that is believed
LONGEST_PAUSE: Final = 3600.0
# multiples of ttl for which one question keeps an entry up to date
INTEREST: Final = 3.0

BACKOFF: Final = Backoff(first=10.0, factor=2.0, ceiling=600.0, jitter=0.3)


@attrs.frozen(kw_only=True)
class Fetched:
    """The feed's answer. Times are seconds from its arrival.

    Args:
      report: None if the feed has none.
      version: the feed's ``Last-Modified``, for asking whether there is a newer report.
      expires: the time before which the feed does not want to be asked again.
    """

    report: WeatherReport | None
    version: str = ""
    expires: float = 0.0


@attrs.frozen(kw_only=True)
class Unchanged:
    """The feed's answer that the report fetched before is still the latest."""

    expires: float = 0.0


@attrs.frozen(kw_only=True)
class FeedFailure:
    """No answer, or none that can be used.

    Args:
      problem: the reason, in words that may be spoken.
      pause: seconds for which the feed does not want to be asked.
      everything: whether the pause holds for all aerodromes, not for this one only.
    """

    problem: str
    pause: float = 0.0
    everything: bool = False


Answer = Fetched | Unchanged | FeedFailure


@attrs.define(eq=False)
class CachedReport:
    """The state of one aerodrome.

    ``report`` is None with ``known`` set if the feed has no report of it.
    """

    icao: str
    asked: float
    report: WeatherReport | None = None
    known: bool = False
    version: str = ""
    fresh_until: float = -math.inf
    next_fetch: float = -math.inf  # not before this time
    failures: int = 0
    problem: str = ""
    fetching: bool = False

    def take_off(self) -> None:
        """Mark the entry as being fetched, until `Cache.landed`."""
        self.fetching = True

    def is_fresh(self, now: float) -> bool:
        return self.known and now < self.fresh_until


@attrs.define(eq=False)
class Cache:
    """The entries, at most `MOST_ENTRIES`: those asked for most recently."""

    ttl: float
    rng: random.Random
    entries: dict[str, CachedReport] = attrs.field(factory=dict, init=False)
    paused_until: float = attrs.field(default=-math.inf, init=False)
    refusal: str = attrs.field(default="", init=False)
    refusals: int = attrs.field(default=0, init=False)

    def asked(self, icao: str, now: float) -> CachedReport | None:
        """Return the entry for a question that came now, a new one if necessary.

        None if there is no room for another, because all entries are being fetched.
        """
        entry = self.entries.pop(icao, None)
        if entry is None:
            if len(self.entries) >= MOST_ENTRIES:
                idle = (name for name, one in self.entries.items() if not one.fetching)
                if (oldest := next(idle, None)) is None:
                    return None
                del self.entries[oldest]
            entry = CachedReport(icao, asked=now)
        entry.asked = now
        # at the end: the first entry is the first to be dropped
        self.entries[icao] = entry
        return entry

    def may_fetch(self, entry: CachedReport, now: float) -> bool:
        """Return whether the feed may be asked for this entry now."""
        return (
            not entry.fetching
            and now >= max(entry.next_fetch, self.paused_until)
            and not entry.is_fresh(now)
        )

    def problem(self, entry: CachedReport, now: float) -> str:
        """Return why there is no fresh report, if the feed has said why; else ""."""
        if entry.problem or now >= self.paused_until:
            return entry.problem
        return self.refusal

    def due(self, now: float) -> list[CachedReport]:
        """Return the entries that are in demand and have to be fetched again now."""
        return [
            entry
            for entry in self.entries.values()
            if not entry.fetching
            and self._is_wanted(entry, now)
            and self._due_at(entry) <= now
        ]

    def next_due(self, now: float) -> float:
        """Return the time when the next entry may be due; inf if none is in demand."""
        times = (
            (entry, max(now, self._due_at(entry)))
            for entry in self.entries.values()
            if not entry.fetching
        )
        wanted = (at for entry, at in times if self._is_wanted(entry, at))
        return min(wanted, default=math.inf)

    def landed(self, entry: CachedReport, answer: Answer | None, now: float) -> None:
        """Store the feed's answer for an entry; None: the feed was not asked."""
        entry.fetching = False
        match answer:
            case None:
                pass
            case Fetched(report=report) if report or not entry.report:
                # a feed may have several sources
                if not is_older(report, entry.report):
                    entry.report = report
                entry.known, entry.version = True, answer.version
                self._keep(entry, answer.expires, now)
            case Unchanged() if entry.known:
                self._keep(entry, answer.expires, now)
            case FeedFailure():
                self._leave_alone(entry, answer, now)
            case _:  # no report where there was one, or "unchanged" without a report
                forgot = FeedFailure(
                    problem="the weather service contradicts its last answer"
                )
                self._leave_alone(entry, forgot, now)

    def _is_wanted(self, entry: CachedReport, now: float) -> bool:
        return now <= entry.asked + INTEREST * self.ttl

    def _due_at(self, entry: CachedReport) -> float:
        return max(entry.next_fetch, self.paused_until)

    def _keep(self, entry: CachedReport, expires: float, now: float) -> None:
        margin = self.ttl / 5
        expires = min(max(expires, 0.0), LONGEST_EXPIRES)
        entry.fresh_until = now + max(self.ttl, expires + margin)
        # Not in the last quarter of the margin, which is for the answer to arrive.
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
            # Requests that were under way together count as one refusal.
            self.refusals += now >= self.paused_until
            pause = max(pause, BACKOFF.delay(self.refusals, self.rng))
            self.paused_until = max(self.paused_until, now + pause)
        entry.next_fetch = now + max(pause, BACKOFF.delay(entry.failures, self.rng))
