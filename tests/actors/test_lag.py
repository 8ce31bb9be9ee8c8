"""`LoopLag` and `OwnTime`: whose fault it is that something came late. Row G20.

On the real clock, since a virtual one is never late: a stall is as long as the test
makes it, and what is asserted is who is charged for it, not how long it took.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import trio
import trio.lowlevel
from trio.testing import MockClock

from glyphoxa_trio.actors import STALL, LoopLag, OwnTime, loop_lag

LONG = 10 * STALL


def stall(seconds: float = LONG) -> None:
    """Hold the loop, as code that computes does."""
    until = time.perf_counter() + seconds  # real time is what a stall takes
    while time.perf_counter() < until:
        pass


@asynccontextmanager
async def lagging() -> AsyncGenerator[LoopLag]:
    with loop_lag() as lag:
        await trio.lowlevel.checkpoint()
        yield lag


async def test_a_round_of_the_loop_that_takes_long_is_counted() -> None:
    async with lagging() as lag:
        before = lag.total()
        stall()
        assert lag.total() - before >= LONG  # the round that runs, too
        await trio.lowlevel.checkpoint()
        assert lag.total() - before >= LONG


async def test_waiting_is_nobodys_stall() -> None:
    async with lagging() as lag:
        before, began = lag.total(), trio.current_time()
        await trio.sleep(0.1)
        # A busy machine may oversleep; that is counted, and the sleep is not.
        assert lag.total() - before < trio.current_time() - began


async def test_a_virtual_clock_is_never_late(autojump_clock: MockClock) -> None:
    with loop_lag() as lag:
        await trio.sleep(60)
        stall()
        await trio.sleep(60)
        assert lag.total() == 0


async def test_own_time_is_what_a_coroutine_holds_the_loop_for() -> None:
    async def work() -> str:
        stall()
        await trio.lowlevel.checkpoint()
        stall()
        return "done"

    async def innocent() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    clock = trio.lowlevel.current_clock().current_time
    own: OwnTime[str] = OwnTime(work(), clock)
    assert await own == "done"
    assert own.seconds >= 2 * LONG
    own = OwnTime(innocent(), clock)
    assert await own == "done"
    assert own.seconds < LONG


async def test_own_time_hands_on_errors_and_cancellation() -> None:
    clock = trio.lowlevel.current_clock().current_time
    seen: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append("cancelled")

    with trio.move_on_after(0.01) as scope:
        await OwnTime(work(), clock)
    assert (seen, scope.cancelled_caught) == (["cancelled"], True)

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await OwnTime(fail(), clock)


async def test_own_time_takes_whatever_may_be_awaited() -> None:
    class Bare:
        def __await__(self) -> Any:
            return iter(())

    clock = trio.lowlevel.current_clock().current_time
    assert await OwnTime(Bare(), clock) is None


async def test_a_tool_in_this_process_is_not_charged_for_a_loop_that_stood() -> None:
    """Found: one stall of 60 ms with dice in the air, and all of them timed out."""
    from glyphoxa_trio.builtin import dice
    from glyphoxa_trio.host import open_host

    async with open_host() as host:
        host.register(*dice.tools())
        ends = []

        async def roll() -> None:
            ends.append(await host.execute("dice.roll", {"expression": "2d6"}))

        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(roll)
                await trio.lowlevel.checkpoint()
                stall(0.06)  # three times the tool's limit
        assert [end.message for end in ends if not end.ok] == []
        report = (await host.report())["dice.roll"]
        assert report.p99 is not None
        assert report.p99 < 0.06


async def test_a_tool_is_charged_for_a_loop_that_it_holds_itself() -> None:
    from glyphoxa_trio import tool
    from glyphoxa_trio.host import open_host

    @tool(read_only=True)
    async def hog() -> str:
        """Compute without a pause."""
        stall()
        await trio.lowlevel.checkpoint()
        return "done"

    async with open_host() as host:
        host.register(hog)
        for _ in range(5):
            assert (await host.execute(hog.key)).ok
        report = (await host.report())[hog.key]
        assert report.p50 is not None
        assert report.p50 >= LONG
