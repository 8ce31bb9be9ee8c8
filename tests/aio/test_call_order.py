"""Positions in the queue of calls, on virtual time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "give up", "leave"]), st.integers(0, 5))
)


@given(STEPS)
def test_nothing_is_left_of_queues_that_are_empty_and_nobody_passes(
    steps: list[tuple[str, int]],
) -> None:
    """The model is a list of those who have neither left nor given up."""

    async def main() -> None:
        order, queue = Order(), list[int]()
        scopes, leave = dict[int, trio.CancelScope](), dict[int, trio.Event]()
        inside = list[int]()

        async def call(number: int, place: QueuePosition) -> None:
            with scopes[number]:
                async with place:
                    inside.append(number)
                    await leave[number].wait()
            order.forget("Bo", place)

        async with trio.open_nursery() as nursery:
            for number, (what, which) in enumerate(steps):
                if what == "take":
                    scopes[number], leave[number] = trio.CancelScope(), trio.Event()
                    queue.append(number)
                    nursery.start_soon(call, number, order.take("Bo"))
                elif what == "give up" and len(queue) > 1:
                    scopes[queue.pop(1 + which % (len(queue) - 1))].cancel()
                elif what == "leave" and queue:
                    leave[queue.pop(0)].set()
                await wait_all_tasks_blocked()
                assert inside[-1:] == queue[:1] or not queue
                assert len(inside) == len(set(inside))
                assert len(order) == bool(queue)
            nursery.cancel_scope.cancel()

    trio.run(main)
