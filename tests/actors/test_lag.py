"""`LoopLag` and `OwnTime`: whose fault it is that something came late. Row G20.

On a virtual clock that jumps while the loop is held, and that is otherwise never late;
the last two tests hold a real loop.
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


@asynccontextmanager
async def lagging(clock: MockClock) -> AsyncGenerator[LoopLag]:
    """Measure how late a virtual clock is, as if it were the real one."""
    lag = LoopLag(clock.current_time)
    trio.lowlevel.add_instrument(lag)
    try:
        await trio.lowlevel.checkpoint()
        yield lag
    finally:
        trio.lowlevel.remove_instrument(lag)


async def test_a_round_of_the_loop_that_takes_long_is_counted(
    mock_clock: MockClock,
) -> None:
    async with lagging(mock_clock) as lag:
        mock_clock.jump(LONG)
        assert lag.total() == pytest.approx(LONG)  # the round that runs, too
        await trio.lowlevel.checkpoint()
        assert lag.total() == pytest.approx(LONG)
        mock_clock.jump(STALL / 2)  # that is a normal round
        await trio.lowlevel.checkpoint()
        assert lag.total() == pytest.approx(LONG)


def test_waiting_is_nobodys_stall_and_oversleeping_is() -> None:
    now = 0.0
    lag = LoopLag(lambda: now)
    lag.before_io_wait(0.1)
    now = 0.1  # as it was asked to
    lag.after_io_wait(0.1)
    assert lag.total() == 0
    lag.before_io_wait(0.1)
    now = 0.3
    lag.after_io_wait(0.1)
    assert lag.total() == pytest.approx(0.1)


async def test_a_virtual_clock_is_never_late(autojump_clock: MockClock) -> None:
    with loop_lag() as lag:
        await trio.sleep(60)
        autojump_clock.jump(LONG)
        await trio.sleep(60)
        assert lag.total() == 0


async def test_own_time_is_what_a_coroutine_holds_the_loop_for(
    mock_clock: MockClock,
) -> None:
    async def work() -> str:
        mock_clock.jump(LONG)
        await trio.lowlevel.checkpoint()
        mock_clock.jump(LONG)
        return "done"

    async def innocent() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    own: OwnTime[str] = OwnTime(work(), mock_clock.current_time)
    assert await own == "done"
    assert own.seconds == pytest.approx(2 * LONG)
    own = OwnTime(innocent(), mock_clock.current_time)
    assert await own == "done"
    assert own.seconds == 0


async def test_own_time_hands_on_errors_and_cancellation(
    autojump_clock: MockClock,
) -> None:
    clock = autojump_clock.current_time
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


def stall(seconds: float = LONG) -> None:
    """Hold the loop, as code that computes does."""
    until = time.perf_counter() + seconds  # real time is what a stall takes
    while time.perf_counter() < until:
        pass


@pytest.mark.border
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
        # A busy machine takes its time in the midst of a few, and their time it is.
        assert sum(end.ok for end in ends) > len(ends) / 2
        report = (await host.report())["dice.roll"]
        assert report.p50 is not None
        assert report.p50 < 0.06


@pytest.mark.border
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
