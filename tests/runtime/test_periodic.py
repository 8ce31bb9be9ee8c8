"""Tools are measured again from time to time, and never at a turn's expense.

G21, D9. Virtual time, exact but for the jitter, which is drawn from a known seed.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.host import CalibratorSettings, ToolHost, open_host
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.runtime.periodic import JITTER, PATIENCE, Periodic
from glyphoxa_trio.tools.gate import Availability
from glyphoxa_trio.tools.tier import Tier

from ..host.fakes import Log, fake

EVERY = 1000.0


class Steady(random.Random):
    """No jitter: then times can be told in a test."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


@attrs.define
class Loaded:
    """A door that says how busy the machine is."""

    busy: bool = False

    def refusal(self, running: int) -> str:
        return ""


@attrs.define
class Table:
    host: ToolHost
    activity: Activity
    log: Log
    door: Loaded

    def began(self) -> list[tuple[str, float]]:
        """Each tool's first probe of a round, and when."""
        seen: list[tuple[str, float]] = []
        for name, at in self.log.began:
            if not any(n == name and at - t < 100 for n, t in seen):
                seen.append((name, at))
        return seen

    async def talk(self, seconds: float) -> None:
        self.activity.begin()
        await trio.sleep(seconds)
        self.activity.end()


@asynccontextmanager
async def table(
    names: str, *, at_once: int = 1, rng: random.Random | None = None
) -> AsyncGenerator[Table]:
    log, door = Log(), Loaded()
    settings = CalibratorSettings(probe_concurrency=at_once)
    async with open_host(settings=settings) as host, trio.open_nursery() as nursery:
        host.register(  # with a floor, so that what is measured moves nobody
            *(
                fake(name, 1.0, read_only=True, min_tier=Tier.DEEP, log=log)
                for name in names
            )
        )
        activity = Activity(door)
        periodic = Periodic(host, activity, EVERY, rng or Steady())
        nursery.start_soon(periodic.run)
        yield Table(host, activity, log, door)
        nursery.cancel_scope.cancel()


async def test_all_tools_are_probed_again_and_again_a_few_at_a_time(
    autojump_clock: MockClock,
) -> None:
    # G21
    async with table("abc", at_once=2) as t:
        await trio.sleep(2 * EVERY + 100)
        assert sorted(t.began(), key=lambda x: x[::-1]) == [
            *[("a", EVERY), ("b", EVERY), ("c", EVERY + 5)],
            *[("a", 2 * EVERY + 10), ("b", 2 * EVERY + 10), ("c", 2 * EVERY + 15)],
        ]
        assert (await t.host.report())["fake.a"].samples == 10


async def test_nothing_is_probed_while_somebody_talks(
    autojump_clock: MockClock,
) -> None:
    # G21, D9
    async with table("a") as t:
        await trio.sleep(EVERY - 10)
        await t.talk(30)
        await trio.sleep(50)
        assert t.began() == [("a", EVERY + 20)]


async def test_a_turn_that_begins_ends_the_probes_which_are_made_up_for_after_it(
    autojump_clock: MockClock,
) -> None:
    # G21, D9
    async with table("ab") as t:
        await trio.sleep(EVERY + 7.5)  # a is done, b is at its third
        await t.talk(10)
        assert t.log.cancelled == [("b", EVERY + 7.5)]
        assert [at for _, at in t.log.began][-1] == EVERY + 7
        await trio.sleep(50)
        assert t.log.names() == ["a"] * 5 + ["b"] * 3 + ["b"] * 5
        assert [at for _, at in t.log.began][8] == EVERY + 17.5


async def test_a_round_that_finds_no_quiet_is_over_and_the_next_one_goes_on(
    autojump_clock: MockClock,
) -> None:
    async with table("abc") as t:
        await trio.sleep(EVERY + 2)  # a is on its way
        t.activity.begin()
        await trio.sleep(PATIENCE + 1)
        t.activity.end()
        await trio.sleep(EVERY - PATIENCE - 10)
        assert set(t.log.names()) == {"a"}  # it was over before there was quiet
        await trio.sleep(PATIENCE + 100)
        assert [name for name, _ in t.began()] == ["a", "a", "b", "c"]


async def test_those_who_were_left_out_come_first_the_next_time(
    autojump_clock: MockClock,
) -> None:
    async with table("abc") as t:
        await trio.sleep(EVERY + 5.5)  # a is done
        await t.talk(PATIENCE + 1)
        await trio.sleep(EVERY + 100)
        assert [name for name, _ in t.began()] == ["a", "b", "b", "c", "a"]


async def test_a_tool_that_turns_into_a_writer_while_there_is_no_quiet_is_not_called(
    autojump_clock: MockClock,
) -> None:
    # Found: it was called as if a person had named it.
    async with table("ab") as t:
        await trio.sleep(EVERY - 1)
        t.activity.begin()
        await trio.sleep(10)
        t.host.deregister("fake.a")
        t.host.register(fake("a", 1.0, log=t.log))
        t.activity.end()
        await trio.sleep(100)
        assert t.log.names() == ["b"] * 5


async def test_a_round_waits_no_longer_than_that_all_in_all(
    autojump_clock: MockClock,
) -> None:
    async with table("abc") as t:
        await trio.sleep(EVERY + 2)
        for _ in range(3):  # each is shorter than its patience
            await t.talk(PATIENCE * 0.4)
            await trio.sleep(2)
        began = t.log.names()
        await trio.sleep(500)
        assert t.log.names() == began == ["a"] * 9


async def test_quiet_that_comes_late_ends_a_round_and_nothing_else(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A loop that is held up hears of the quiet and of the end of patience at once.
    async def late(_: Activity) -> None:
        autojump_clock.jump(PATIENCE + 1)

    monkeypatch.setattr(Activity, "quiet", late)
    async with table("ab") as t:
        await trio.sleep(EVERY + 500)
        assert t.log.names()[:5] == ["a"] * 5


async def test_a_busy_machine_is_not_kept_busier(autojump_clock: MockClock) -> None:
    async with table("a") as t:
        t.door.busy = True
        await trio.sleep(EVERY + 100)
        assert t.log.began == []
        t.door.busy = False
        await trio.sleep(EVERY)
        assert len(t.log.began) == 5


async def test_what_must_not_or_need_not_be_called_is_left_alone(
    autojump_clock: MockClock,
) -> None:
    # D9: with side effects; and a server that nobody needed yet stays asleep
    log = Log()
    async with table("") as t:
        t.host.register(fake("pay", log=log))
        asleep = fake("look", group="seer", read_only=True, log=log)
        t.host.publish("seer", Availability.RESTARTING, [asleep])
        await trio.sleep(2 * EVERY + 100)
        assert log.began == []
        t.host.publish("seer", Availability.READY, None)
        await trio.sleep(EVERY)
        assert log.names() == ["look"] * 5


@pytest.mark.parametrize("seed", range(5))
async def test_two_of_one_start_do_not_stay_together(
    seed: int, autojump_clock: MockClock
) -> None:
    async with table("a", rng=random.Random(seed)) as t:
        await trio.sleep(10 * EVERY)
        rounds = [at for _, at in t.began()]
        apart = [b - a - 5 for a, b in zip([-5.0, *rounds], rounds, strict=False)]
        assert all((1 - JITTER) <= x / EVERY <= (1 + JITTER) for x in apart)
        assert len(set(apart)) == len(apart) > 7


async def test_quiet_and_begun_are_two_sides(autojump_clock: MockClock) -> None:
    activity = Activity()
    with trio.move_on_after(1) as waiting:
        await activity.begun()
    assert waiting.cancelled_caught
    await activity.quiet()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(activity.begun)
        await trio.sleep(1)
        activity.begin()
        activity.end()  # in the same moment: that was none
        await trio.sleep(1)
        activity.begin()
    assert trio.current_time() == 3
    await activity.begun()
