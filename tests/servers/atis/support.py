"""What the tests of the ATIS server share: a feed with a script, and reports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import attrs

import trio

from glyphoxa_trio.servers.atis.cache import Answer, FeedFailure, Fetched, Unchanged
from glyphoxa_trio.servers.atis.report import WeatherReport, read

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)  # when trio's clock says 0


def wall() -> datetime:
    """The time of day, on trio's clock."""
    return NOON + timedelta(seconds=trio.current_time())


def report(
    icao: str = "ENGM", minutes: float = 0, weather: str = "CAVOK"
) -> WeatherReport:
    """A report that was observed so many minutes after noon."""
    at = NOON + timedelta(minutes=minutes)
    found = read(f"{icao} {at:%d%H%M}Z 32009KT {weather} 09/M04 Q1025", at)
    assert found is not None
    return found


Said = Answer | float  # an answer, or seconds until the next thing is said


@attrs.define(eq=False)
class ScriptedFeed:
    """Says what stands in ``script``, then ``finally_``; ``asked`` is when for what."""

    script: list[Said] = attrs.field(factory=list)
    finally_: Callable[[str], Answer] = lambda icao: Fetched(report=report(icao))
    asked: list[tuple[float, str, str]] = attrs.field(factory=list)
    cancelled: int = 0

    async def fetch(self, icao: str, version: str) -> Answer:
        self.asked.append((round(trio.current_time(), 6), icao, version))
        try:
            while self.script:
                said = self.script.pop(0)
                if not isinstance(said, int | float):
                    return said
                await trio.sleep(said)
        except trio.Cancelled:
            self.cancelled += 1
            raise
        return self.finally_(icao)

    @property
    def times(self) -> list[float]:
        return [time for time, _, _ in self.asked]


@attrs.define
class Fixed:
    """Chance that is always the same."""

    value: float = 0.0

    def random(self) -> float:
        return self.value


__all__ = [
    "FeedFailure",
    "Fetched",
    "Fixed",
    "ScriptedFeed",
    "Unchanged",
    "report",
    "wall",
]
