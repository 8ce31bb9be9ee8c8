"""When the feed is asked and who waits for it. Virtual time, exact.

``ttl`` is 300 s; without jitter a report is asked for again 60 s * 1/4 before its end.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.servers.atis.cache import (
    INTEREST,
    Cache,
    FeedFailure,
    Fetched,
    Unchanged,
)
from glyphoxa_trio.servers.atis.keeper import (
    AT_ONCE,
    COLD_PATIENCE,
    PATIENCE,
    ReportKeeper,
    open_keeper,
)
from glyphoxa_trio.tools.definition import ToolUnavailable

from .support import Fixed, ScriptedFeed, report

TTL = 300.0
REFRESH = TTL - TTL / 5 * 0.25  # with Fixed(0.0)


@asynccontextmanager
async def kept(feed: ScriptedFeed, chance: float = 0.0) -> AsyncGenerator[ReportKeeper]:
    rng = cast(random.Random, Fixed(chance))
    async with open_keeper(feed, ttl=TTL, rng=rng) as keeper:
        yield keeper


async def ask(keeper: ReportKeeper, icao: str = "ENGM", within: float = 60) -> Any:
    return await keeper.report(icao, until=trio.current_time() + within)


async def test_the_first_question_waits_and_the_others_do_not(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed([1.5])
    async with kept(feed) as keeper:
        assert (await ask(keeper)).report == report()
        assert trio.current_time() == 1.5
        assert (await ask(keeper)).report == report()
        assert trio.current_time() == 1.5
    assert feed.asked == [(0.0, "ENGM", "")]


async def test_all_who_ask_at_once_are_one_request(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed([2.0])
    async with kept(feed) as keeper, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask, keeper)
    assert len(feed.asked) == 1
    assert trio.current_time() == 2.0


async def test_who_leaves_does_not_take_the_request_along(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed([2.0])
    async with kept(feed) as keeper:
        with pytest.raises(ToolUnavailable, match="has not answered yet"):
            await ask(keeper, within=0.5)
        assert trio.current_time() == 0.5
        with trio.move_on_after(0.5):
            await ask(keeper)
        assert trio.current_time() == 1.0
        assert (await ask(keeper)).report == report()
        assert trio.current_time() == 2.0
    assert (len(feed.asked), feed.cancelled) == (1, 0)


async def test_a_feed_without_end_costs_its_askers_a_limit(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed([math.inf])
    async with kept(feed) as keeper:
        with pytest.raises(
            ToolUnavailable,
            match="There is no weather for ENGM: the weather service has not answered",
        ):
            await ask(keeper)
        assert trio.current_time() == COLD_PATIENCE
    assert feed.cancelled == 1  # with the keeper


@pytest.mark.parametrize(("chance", "before_the_end"), [(0.0, 15.0), (1.0, 60.0)])
async def test_what_is_wanted_is_fetched_again_before_its_end(
    autojump_clock: MockClock, chance: float, before_the_end: float
) -> None:
    feed = ScriptedFeed(
        finally_=lambda icao: Fetched(report=report(), version="v"),
    )
    async with kept(feed, chance) as keeper:
        for _ in range(7):
            await ask(keeper)
            await trio.sleep(TTL / 2)
    step = TTL - before_the_end
    again = range(1, 1 + int(7 * TTL / 2 / step))
    assert feed.asked == [
        (0.0, "ENGM", ""),
        *((number * step, "ENGM", "v") for number in again),
    ]


async def test_what_nobody_asks_for_any_more_is_left(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed()
    async with kept(feed) as keeper:
        await ask(keeper)
        await trio.sleep(10 * TTL)
        wanted = [n * REFRESH for n in range(10) if n * REFRESH <= INTEREST * TTL]
        assert feed.times == wanted
        before = trio.current_time()
        await ask(keeper)  # from the beginning
        assert feed.times == [*wanted, before]


async def test_the_feeds_own_time_goes_before_ours(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed([Fetched(report=report(), expires=500.0)])
    async with kept(feed) as keeper:
        await ask(keeper)
        for _ in range(10):
            await trio.sleep(60)
            await ask(keeper)
    # 60 s of margin behind what the feed says, a quarter of it for the answer.
    assert feed.times == [0.0, 545.0]


async def test_nobody_waits_for_long_with_an_old_report_at_hand(
    autojump_clock: MockClock,
) -> None:
    newer = report(minutes=30)
    feed = ScriptedFeed([Fetched(report=report()), 4.0, Fetched(report=newer)])
    async with kept(feed) as keeper:
        await ask(keeper)
        await trio.sleep(INTEREST * TTL + TTL)
        feed.asked.clear()
        feed.script[:] = [4.0, Fetched(report=newer)]
        before = trio.current_time()
        old = await ask(keeper)
        assert trio.current_time() == before + PATIENCE
        assert old.report is not None
        assert old.problem == "the weather service has not answered yet"
        await trio.sleep(4)
        now = await ask(keeper)
        assert (now.report, now.problem) == (newer, "")
    assert feed.times == [before]


async def test_a_feed_that_fails_is_left_alone_ever_longer(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed(finally_=lambda icao: FeedFailure(problem="it is down"))
    async with kept(feed) as keeper:
        for _ in range(40):
            with pytest.raises(ToolUnavailable, match="ENGM: it is down"):
                await ask(keeper)
            await trio.sleep(10)
    # 10, 20, 40, 80 and 160 s behind the one before.
    assert feed.times == [0.0, 10.0, 30.0, 70.0, 150.0, 310.0]


async def test_a_failure_keeps_what_is_there_and_says_why(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed(
        [Fetched(report=report())],
        finally_=lambda icao: FeedFailure(problem="it is down"),
    )
    async with kept(feed) as keeper:
        await ask(keeper)
        await trio.sleep(REFRESH + 1)
        seen = await ask(keeper)
        assert (seen.report, seen.problem) == (report(), "")  # good until its end
        await trio.sleep(TTL - REFRESH)
        before = trio.current_time()
        seen = await ask(keeper)
        assert (seen.report, seen.problem) == (report(), "it is down")
        assert trio.current_time() == before  # it is known to be down
        feed.finally_ = lambda icao: Unchanged()
        await trio.sleep(60)
        assert (await ask(keeper)).problem == ""


async def test_one_refusal_is_for_every_aerodrome(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed([FeedFailure(problem="too many", pause=120.0, everything=True)])
    async with kept(feed) as keeper:
        with pytest.raises(ToolUnavailable, match="ENGM: too many"):
            await ask(keeper)
        with pytest.raises(ToolUnavailable, match="ENBR: too many"):
            await ask(keeper, "ENBR")
        await trio.sleep(119)
        with pytest.raises(ToolUnavailable):
            await ask(keeper)
        assert feed.times == [0.0]
        await trio.sleep(1)
        assert (await ask(keeper, "ENBR")).report == report("ENBR")


async def test_a_feed_that_goes_on_to_refuse_is_left_alone_ever_longer(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed(
        finally_=lambda icao: FeedFailure(problem="no", everything=True)
    )
    async with kept(feed) as keeper:
        for number in range(31):  # another one each time: none has failed before
            with pytest.raises(ToolUnavailable):
                await ask(keeper, f"E{number:03}")
            await trio.sleep(10)
    # 10, 20, 40, 80 and 160 s behind the one before; at each time at most four.
    assert sorted(set(feed.times)) == [0.0, 10.0, 30.0, 70.0, 150.0]
    assert max(map(feed.times.count, feed.times)) <= AT_ONCE


async def test_a_report_is_not_lost_because_the_feed_lost_it(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed(
        [Fetched(report=report())], finally_=lambda icao: Fetched(report=None)
    )
    async with kept(feed) as keeper:
        await ask(keeper)
        await trio.sleep(TTL + 1)
        seen = await ask(keeper)
        assert seen.report == report()
        assert seen.problem == "the weather service contradicts its last answer"
        assert len(feed.asked) > 1


def test_refusals_that_were_under_way_together_are_one() -> None:
    cache = Cache(TTL, cast(random.Random, Fixed(0.0)))
    refused = FeedFailure(problem="no", everything=True)
    entries = [cache.asked(f"E{number:03}", 0.0) for number in range(4)]
    for entry in entries:
        assert entry is not None
        cache.landed(entry, refused, 1.0)
    assert cache.paused_until == 11.0
    assert entries[0] is not None
    cache.landed(entries[0], refused, 11.0)
    assert cache.paused_until == 31.0


async def test_more_aerodromes_than_can_be_kept_are_refused_while_all_are_fetched(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed()
    refused: list[str] = []

    async def one(number: int) -> None:
        try:
            await ask(keeper, f"E{number:03}", within=3)
        except ToolUnavailable as error:
            refused.append(str(error))

    async with kept(feed) as keeper:
        feed.script += [1.0] * 200
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(one, number)
        assert sum("too many others are being fetched" in one for one in refused) == 36
        feed.script.clear()
        assert len(keeper._cache.entries) == 64
        await trio.sleep(60)
        assert (await ask(keeper, "E000")).report == report("E000")


async def test_an_aerodrome_without_reports_is_remembered(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed(finally_=lambda icao: Fetched(report=None))
    async with kept(feed) as keeper:
        for _ in range(5):
            assert (await ask(keeper, "ENZZ")).report is None
            await trio.sleep(50)
    assert feed.times == [0.0]


async def test_only_so_many_requests_at_once(autojump_clock: MockClock) -> None:
    flying = most = 0

    class Slow(ScriptedFeed):
        async def fetch(self, icao: str, version: str) -> Any:
            nonlocal flying, most
            flying += 1
            most = max(most, flying)
            await trio.sleep(1)
            flying -= 1
            return Fetched(report=report(icao))

    async with kept(Slow()) as keeper, trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(ask, keeper, f"EN{number:02}")
    assert most == AT_ONCE
    assert trio.current_time() == 12 / AT_ONCE


async def test_a_thousand_aerodromes_are_not_kept(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed()
    async with kept(feed) as keeper:
        for number in range(1000):
            await ask(keeper, f"E{number:03}")
        assert len(keeper._cache.entries) == 64
        await ask(keeper, "E999")
        assert len(feed.asked) == 1000
        await ask(keeper, "E000")
        assert len(feed.asked) == 1001


async def test_another_report_is_news(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed([Fetched(report=report())])
    heard: list[str] = []
    async with kept(feed) as keeper:
        with keeper.news.tap(heard.append):
            await ask(keeper)
            assert heard == ["ENGM"]
            await trio.sleep(REFRESH + 1)  # the same once more
            assert len(feed.asked) == 2
            assert heard == ["ENGM"]
            feed.finally_ = lambda icao: Fetched(report=report(minutes=20))
            await ask(keeper)
            await trio.sleep(REFRESH)
            assert heard == ["ENGM", "ENGM"]


async def test_an_older_report_takes_the_place_of_none(
    autojump_clock: MockClock,
) -> None:
    newer = report(minutes=30)
    feed = ScriptedFeed([Fetched(report=newer)])  # and then one of noon
    async with kept(feed) as keeper:
        await ask(keeper)
        await trio.sleep(REFRESH + 1)
        assert len(feed.asked) == 2
        seen = await ask(keeper)
        assert (seen.report, seen.problem) == (newer, "")


async def test_a_keeper_that_is_left_leaves_nothing(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed([math.inf])
    async with kept(feed) as keeper:
        with trio.move_on_after(1):
            await ask(keeper)
    assert feed.cancelled == 1
    with pytest.raises(RuntimeError, match="mine"):  # as it is, in no group
        async with kept(ScriptedFeed()):
            raise RuntimeError("mine")


def test_a_cache_that_nobody_asked_has_nothing_due() -> None:
    cache = Cache(TTL, random.Random(0))
    assert cache.due(0.0) == []
    assert cache.next_due(0.0) == math.inf
