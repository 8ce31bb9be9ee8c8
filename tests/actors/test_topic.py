"""A topic: publishing never waits, and each subscriber's lag is its own.

Whoever would wait for ever fails after a minute of virtual time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import Lag, Lagged, Subscription, Topic
from glyphoxa_trio.errors import GlyphoxaError


async def read_all(events: AsyncIterator[int]) -> list[int]:
    with trio.fail_after(60):
        return [event async for event in events]


class Odd(int):
    """A kind of event."""


def publish_all(topic: Topic[int], events: range) -> None:
    for event in events:
        topic.publish(event)


async def test_every_subscriber_gets_what_is_published_inside_its_block(
    autojump_clock: MockClock,
) -> None:
    topic: Topic[int] = Topic()
    topic.publish(0)
    with topic.subscribe() as early:
        topic.publish(1)
        with topic.subscribe() as late:
            topic.publish(2)
        topic.publish(3)
    topic.publish(4)
    assert await read_all(early) == [1, 2, 3]
    assert await read_all(late) == [2]
    assert (early.missed, late.missed) == (0, 0)


async def test_a_waiting_subscriber_is_woken_by_an_event_and_by_the_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    topic: Topic[int] = Topic()

    @nursery.start_soon
    async def publish() -> None:
        await trio.sleep(1)
        topic.publish(1)
        await trio.sleep(1)
        topic.close()

    with topic.subscribe() as events:
        with trio.fail_after(60):
            assert await anext(events) == 1
        assert trio.current_time() == 1
        assert await read_all(events) == []
        assert trio.current_time() == 2


async def test_a_slow_subscriber_loses_the_oldest(autojump_clock: MockClock) -> None:
    topic: Topic[int] = Topic()
    with topic.subscribe(capacity=2) as events:
        publish_all(topic, range(5))
    assert await read_all(events) == [3, 4]
    assert events.missed == 3


async def test_a_slow_subscriber_may_prefer_to_lose_the_newest(
    autojump_clock: MockClock,
) -> None:
    topic: Topic[int] = Topic()
    with topic.subscribe(capacity=2, lag=Lag.DROP_NEWEST) as events:
        publish_all(topic, range(5))
    assert await read_all(events) == [0, 1]
    assert events.missed == 3


async def test_a_slow_subscriber_may_prefer_to_be_cut_off(
    autojump_clock: MockClock,
) -> None:
    topic: Topic[int] = Topic()
    with (
        topic.subscribe(capacity=2, lag=Lag.CUT_OFF) as slow,
        topic.subscribe(capacity=9) as quick,
    ):
        publish_all(topic, range(5))
        assert [await anext(slow), await anext(slow)] == [0, 1]
        for _ in range(2):  # room again does not bring back what is missing
            topic.publish(5)
            with (
                trio.fail_after(60),
                pytest.raises(Lagged, match=rf"^{slow.missed} events missed$"),
            ):
                await anext(slow)
    assert slow.missed == 5
    assert await read_all(quick) == [0, 1, 2, 3, 4, 5, 5]
    assert issubclass(Lagged, GlyphoxaError)


async def test_a_cancelled_read_loses_nothing(autojump_clock: MockClock) -> None:
    topic: Topic[int] = Topic()
    with topic.subscribe() as events:
        with trio.move_on_after(1) as patience:
            await anext(events)
        assert patience.cancelled_caught
        topic.publish(1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(events)
        assert scope.cancelled_caught
        assert await anext(events) == 1


async def test_a_long_read_lets_others_run(autojump_clock: MockClock) -> None:
    topic: Topic[int] = Topic()
    reads = 0
    with topic.subscribe(capacity=1000) as events, trio.CancelScope() as scope:
        publish_all(topic, range(1000))
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def others() -> None:
                scope.cancel()

            while reads < 1000:
                await anext(events)
                reads += 1
    assert reads < 1000


async def test_a_block_left_by_an_error_ends_its_subscription(
    autojump_clock: MockClock,
) -> None:
    topic: Topic[int] = Topic()
    with pytest.raises(ZeroDivisionError), topic.subscribe() as events:
        raise ZeroDivisionError
    topic.publish(1)
    assert await read_all(events) == []
    assert topic._subscriptions == []


async def test_nothing_follows_the_close_of_a_topic(autojump_clock: MockClock) -> None:
    topic: Topic[int] = Topic()
    with topic.subscribe() as events:
        topic.publish(1)
        topic.close()
        topic.publish(2)  # a straggler at shutdown disturbs nobody
        assert await read_all(events) == [1]
        topic.publish(3)
        assert await read_all(events) == []
    with topic.subscribe() as late:
        topic.publish(4)
        assert await read_all(late) == []
    assert events.missed == 0


@pytest.mark.parametrize("lag", list(Lag))
async def test_what_a_subscriber_does_not_want_takes_no_place_and_wakes_nobody(
    lag: Lag, autojump_clock: MockClock
) -> None:
    topic: Topic[int] = Topic()
    with topic.subscribe(capacity=1, lag=lag, only=(Odd, str)) as events:
        topic.publish(Odd(1))
        publish_all(topic, range(0, 1000, 2))
        assert await anext(events) == 1
        with trio.move_on_after(1) as patience:
            topic.publish(2)
            await anext(events)
        assert patience.cancelled_caught
        topic.publish(Odd(3))
    assert await read_all(events) == [3]
    assert events.missed == 0


@pytest.mark.parametrize("lag", list(Lag))
def test_a_subscription_without_room_is_refused(lag: Lag) -> None:
    # It must not come to light in whoever publishes next.
    topic: Topic[int] = Topic()
    with pytest.raises(ValueError, match="capacity"):
        with topic.subscribe(capacity=0, lag=lag):
            pytest.fail("there is no room for any event")


# -- against lists --------------------------------------------------------------


@attrs.define
class Listener:
    """What one subscriber should see: everything it can still read, in a list."""

    capacity: int
    lag: Lag
    only_odd: bool
    waiting: list[int] = attrs.field(factory=list)
    missed: int = 0
    cut_off: bool = False
    closed: bool = False

    def publish(self, event: int) -> None:
        if self.closed or (self.only_odd and event % 2 == 0):
            return
        everything = [*self.waiting, event]
        if self.cut_off:
            self.missed += 1
        elif len(everything) <= self.capacity:
            self.waiting = everything
        else:
            self.missed += 1
            self.cut_off = self.lag is Lag.CUT_OFF
            if self.lag is Lag.DROP_OLDEST:
                self.waiting = everything[1:]

    def read(self) -> int | str | None:
        """The next event, how it ends, or None: wait."""
        if self.waiting:
            return self.waiting.pop(0)
        return "lagged" if self.cut_off else "end" if self.closed else None


async def read_one(events: Subscription[int]) -> int | str:
    try:
        with trio.fail_after(60):
            return await anext(events)
    except Lagged:
        return "lagged"
    except StopAsyncIteration:
        return "end"


lags = st.sampled_from(Lag)
steps = st.one_of(
    st.just(("publish", 0, Lag.DROP_OLDEST)),
    st.tuples(st.sampled_from(["all", "odd"]), st.integers(1, 3), lags),
    st.tuples(st.sampled_from(["read", "read", "leave"]), st.integers(0, 3), lags),
    st.tuples(st.just("close"), st.integers(0, 3), lags),
)


@given(st.lists(steps, max_size=40))
def test_a_topic_is_a_list_for_each_subscriber(
    steps: list[tuple[str, int, Lag]],
) -> None:
    async def main() -> None:
        topic: Topic[int] = Topic()
        closed = False
        pairs: list[tuple[Subscription[int], Listener, ExitStack]] = []
        # A read that waits: what it should get, and what it got.
        expected: dict[int, list[int | str]] = {}
        got: dict[int, list[int | str]] = {}

        async def read(number: int, events: Subscription[int]) -> None:
            got[number].append(await read_one(events))

        reading: set[int] = set()

        def settle() -> None:
            for number in list(reading):
                answer = pairs[number][1].read()
                if answer is not None:
                    expected[number].append(answer)
                    reading.discard(number)

        async with trio.open_nursery() as nursery:
            for event, (step, number, lag) in enumerate(steps):
                match step:
                    case "publish":
                        topic.publish(Odd(event) if event % 2 else event)
                        for _, listener, _ in pairs:
                            if not closed:
                                listener.publish(event)
                    case "all" | "odd":
                        block = ExitStack()
                        events = block.enter_context(
                            topic.subscribe(
                                capacity=number,
                                lag=lag,
                                only=Odd if step == "odd" else object,
                            )
                        )
                        listener = Listener(number, lag, step == "odd", closed=closed)
                        expected[len(pairs)], got[len(pairs)] = [], []
                        pairs.append((events, listener, block))
                    case "close" if number == 0:
                        topic.close()
                        closed = True
                        for _, listener, _ in pairs:
                            listener.closed = True
                    case "read" if number < len(pairs) and number not in reading:
                        reading.add(number)
                        nursery.start_soon(read, number, pairs[number][0])
                    case "leave" if number < len(pairs):
                        pairs[number][2].close()
                        pairs[number][1].closed = True
                await wait_all_tasks_blocked()
                settle()
                assert got == expected
                for events, listener, _ in pairs:
                    assert events.missed == listener.missed
            for _, _, block in pairs:
                block.close()
            await wait_all_tasks_blocked()
            assert all(len(got[n]) == len(expected[n]) + 1 for n in reading)
        for number, (events, listener, _) in enumerate(pairs):
            listener.closed = True
            if number in reading:
                assert got[number][-1] == listener.read()
            rest: list[int] = []
            while isinstance(answer := await read_one(events), int):
                rest.append(answer)
            assert rest == listener.waiting
            assert answer == ("lagged" if listener.cut_off else "end")

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_a_tap_hears_each_event_in_the_moment_it_is_published() -> None:
    topic: Topic[int] = Topic()
    heard: list[int] = []
    topic.publish(0)
    with topic.tap(heard.append):
        topic.publish(1)
        assert heard == [1]  # nobody else has run
        topic.publish(2)
    topic.publish(3)
    with topic.tap(heard.append):
        topic.close()
        topic.publish(4)
    assert heard == [1, 2]
