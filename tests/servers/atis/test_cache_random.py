"""The cache against a model of the dumbest kind: whatever order things come in.

The model keeps what was said of each aerodrome, and looks at all of it.
"""

from __future__ import annotations

import math
import random
from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from glyphoxa_trio.servers.atis import cache as module
from glyphoxa_trio.servers.atis.cache import (
    BACKOFF,
    INTEREST,
    LONGEST_EXPIRES,
    LONGEST_PAUSE,
    Cache,
    CachedReport,
    FeedFailure,
    Fetched,
    Unchanged,
)

from .support import report

TTL = 300.0
CODES = st.sampled_from([f"EN{letter}{letter}" for letter in "ABCD"])
SECONDS = st.floats(0, 5000, allow_nan=False)
MOST = 2  # entries, for the machine to come to the bound


@attrs.define
class Known:
    """What was said of one aerodrome, and when."""

    asked: float
    good: tuple[float, float, str | None] | None = None  # when, expires, its raw text
    failed_at: float = -math.inf
    pause: float = 0.0
    failures: int = 0
    fetching: CachedReport | None = None


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.cache = Cache(TTL, random.Random(1))
        self.model: dict[str, Known] = {}
        self.order: list[str] = []
        self.refused: tuple[float, float] = (-math.inf, 0.0)
        self.most, module.MOST_ENTRIES = module.MOST_ENTRIES, MOST  # type: ignore[misc]

    def teardown(self) -> None:
        module.MOST_ENTRIES = self.most  # type: ignore[misc]

    # What happens

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(icao=CODES)
    def ask(self, icao: str) -> None:
        entry = self.cache.asked(icao, self.now)
        if icao not in self.model and len(self.order) >= MOST:
            idle = [one for one in self.order if not self.model[one].fetching]
            if not idle:
                assert entry is None
                return
            self.order.remove(idle[0])
            del self.model[idle[0]]
        assert entry is not None
        known = self.model.setdefault(icao, Known(self.now))
        known.asked = self.now
        self.order = [*(one for one in self.order if one != icao), icao]
        if self.cache.may_fetch(entry, self.now):
            assert not self.is_fresh(known)
            assert self.may_be_asked(known)
            entry.fetching = True
            known.fetching = entry

    @rule()
    def refresh(self) -> None:
        for entry in self.cache.due(self.now):
            known = self.model[entry.icao]
            assert known.fetching is None
            assert self.now <= known.asked + INTEREST * TTL
            assert self.may_be_asked(known)
            entry.fetching = True
            known.fetching = entry

    def land(self, data: Any, answer: Any) -> Known | None:
        flying = [icao for icao, one in self.model.items() if one.fetching]
        if not flying:
            return None
        known = self.model[data.draw(st.sampled_from(sorted(flying)))]
        assert known.fetching is not None
        self.cache.landed(known.fetching, answer, self.now)
        known.fetching = None
        return known

    @rule(data=st.data(), expires=st.floats(-100, 1e6), minutes=st.integers(0, 59))
    def report_comes(self, data: Any, expires: float, minutes: int) -> None:
        said = report(minutes=minutes)
        known = self.land(data, Fetched(report=said, version="v", expires=expires))
        if known is not None:
            before = known.good[2] if known.good else None
            # The later one of both, which here is that whose text is greater.
            self.succeeded(known, expires, max(said.raw, before or ""))

    @rule(data=st.data(), expires=SECONDS)
    def nothing_has_changed(self, data: Any, expires: float) -> None:
        known = self.land(data, Unchanged(expires=expires))
        if known is not None and known.good is not None:
            self.succeeded(known, expires, known.good[2])
        elif known is not None:
            self.failed(known, 0.0)

    @rule(data=st.data())
    def there_are_no_reports(self, data: Any) -> None:
        known = self.land(data, Fetched(report=None))
        if known is not None and (known.good is None or known.good[2] is None):
            self.succeeded(known, 0.0, None)
        elif known is not None:
            self.failed(known, 0.0)

    @rule(data=st.data(), pause=st.floats(-10, 1e5), everything=st.booleans())
    def it_fails(self, data: Any, pause: float, everything: bool) -> None:
        failure = FeedFailure(problem="no", pause=pause, everything=everything)
        known = self.land(data, failure)
        if known is not None:
            self.failed(known, pause)
            if everything:
                end = max(sum(self.refused), self.now + min(pause, LONGEST_PAUSE))
                self.refused = (self.now, end - self.now)

    @rule(data=st.data())
    def it_is_not_asked_after_all(self, data: Any) -> None:
        self.land(data, None)

    # What the model makes of it

    def succeeded(self, known: Known, expires: float, raw: str | None) -> None:
        known.good = (self.now, min(max(expires, 0.0), LONGEST_EXPIRES), raw)
        known.failed_at, known.failures, known.pause = -math.inf, 0, 0.0

    def failed(self, known: Known, pause: float) -> None:
        known.failed_at, known.pause = self.now, min(max(pause, 0.0), LONGEST_PAUSE)
        known.failures += 1

    def is_fresh(self, known: Known) -> bool:
        if known.good is None:
            return False
        at, expires, _ = known.good
        return self.now < at + max(TTL, expires + TTL / 5)

    def may_be_asked(self, known: Known) -> bool:
        """Whether the feed would not mind, by all that it has said."""
        if self.now < sum(self.refused):
            return False
        if known.good is not None and self.now < known.good[0] + known.good[1]:
            return False
        if not known.failures:
            return True
        least = BACKOFF.first * BACKOFF.factor ** (known.failures - 1)
        least = min(least, BACKOFF.ceiling) * (1 - BACKOFF.jitter)
        return self.now >= known.failed_at + max(known.pause, least)

    # What must hold

    @invariant()
    def it_knows_what_the_model_knows(self) -> None:
        assert list(self.cache.entries) == self.order
        assert len(self.order) <= MOST
        for icao, entry in self.cache.entries.items():
            known = self.model[icao]
            assert entry.known == (known.good is not None)
            raw = known.good[2] if known.good else None
            assert (entry.report.raw if entry.report else None) == raw
            assert entry.is_fresh(self.now) == self.is_fresh(known)
            assert bool(entry.problem) == bool(known.failures)

    @invariant()
    def what_is_due_next_is_due_then(self) -> None:
        at = self.cache.next_due(self.now)
        assert at >= self.now
        if at < math.inf:
            assert self.cache.due(at)
            assert at == self.now or not self.cache.due(self.now)
        else:
            assert not self.cache.due(self.now)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(stateful_step_count=40)
