"""Positions in the queue of calls, on virtual time."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.aio.call_order import Order, QueuePosition


async def pass_through(
    place: QueuePosition, name: str, seen: list[tuple[str, float]]
) -> None:
    async with place:
        await trio.sleep(1)
    seen.append((name, trio.current_time()))


async def test_each_waits_for_those_before_it_and_for_nobody_else(
    autojump_clock: MockClock,
) -> None:
    order, seen = Order(), list[tuple[str, float]]()
    names = ("one", "two", "three")
    places = [(order.take("Bo"), name) for name in names]
    other = order.take("Cy")
    async with trio.open_nursery() as nursery:
        for place, name in reversed(places):
            nursery.start_soon(pass_through, place, name, seen)
        nursery.start_soon(pass_through, other, "other", seen)
    assert sorted(seen) == [("one", 1), ("other", 1), ("three", 3), ("two", 2)]


async def test_who_gives_up_lets_nobody_past_those_before_it(
    autojump_clock: MockClock,
) -> None:
    order, seen = Order(), list[tuple[str, float]]()
    first, second, third = (order.take("Bo") for _ in range(3))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pass_through, third, "third", seen)
        with trio.CancelScope() as given_up:
            given_up.cancel()
            await pass_through(second, "second", seen)
        await wait_all_tasks_blocked()
        nursery.start_soon(pass_through, first, "first", seen)
    assert seen == [("first", 1), ("third", 2)]


async def test_an_error_ends_a_place(autojump_clock: MockClock) -> None:
    order = Order()
    first, second = order.take("Bo"), order.take("Bo")
    try:
        async with first:
            raise ValueError
    except ValueError:
        pass
    async with second:
        assert trio.current_time() == 0
