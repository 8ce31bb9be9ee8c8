"""Streams: bounded, in order, and without endless waits.

Whoever would wait for ever fails after a minute of virtual time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import Stream, StreamStatistics


async def read_all(stream: Stream[int]) -> list[int]:
    with trio.fail_after(60):
        return [event async for event in stream]


async def test_events_are_read_in_order_and_then_it_ends(
    autojump_clock: MockClock,
) -> None:
    stream: Stream[int] = Stream()
    for event in range(3):
        await stream.send(event)
    stream.post(3)
    stream.end()
    assert await read_all(stream) == [0, 1, 2, 3]
    assert await read_all(stream) == []


async def test_a_waiting_consumer_is_woken_by_an_event_and_by_the_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    stream: Stream[int] = Stream()

    @nursery.start_soon
    async def produce() -> None:
        await trio.sleep(1)
        await stream.send(1)
        await trio.sleep(1)
        stream.post(2)
        await trio.sleep(1)
        stream.end()

    read: list[int] = []
    with trio.fail_after(60):
        async for event in stream:
            assert event == trio.current_time()
            read.append(event)
    assert read == [1, 2]
    assert trio.current_time() == 3


async def test_a_full_stream_holds_its_producer_until_one_is_read(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    stream: Stream[int] = Stream(capacity=2)
    sent: list[tuple[int, float]] = []

    @nursery.start_soon
    async def produce() -> None:
        for event in range(4):
            await stream.send(event)
            sent.append((event, trio.current_time()))
        stream.end()

    await trio.sleep(1)
    assert await anext(stream) == 0
    await trio.sleep(1)
    assert await read_all(stream) == [1, 2, 3]
    assert sent == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 2.0)]


async def test_a_post_never_waits_whatever_the_capacity(
    autojump_clock: MockClock,
) -> None:
    stream: Stream[int] = Stream(capacity=1)
    for event in range(5):
        stream.post(event)
    expected = StreamStatistics(waiting=5, capacity=1, peak=5, sent=5)
    assert stream.statistics() == expected
    assert await anext(stream) == 0
    stream.end()
    assert await read_all(stream) == [1, 2, 3, 4]
    assert stream.statistics() == StreamStatistics(
        waiting=0, capacity=1, peak=5, sent=5
    )


async def test_posts_over_capacity_do_not_turn_the_waiting_senders_round(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    stream: Stream[int] = Stream(capacity=1)
    for event in (0, 1):
        stream.post(event)
    for event in (2, 3, 4):
        nursery.start_soon(stream.send, event)
        await wait_all_tasks_blocked()
    with trio.fail_after(60):
        for event in range(5):
            assert await anext(stream) == event
            await wait_all_tasks_blocked()


async def test_the_modest_leave_places_to_the_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    stream: Stream[str] = Stream(capacity=3)

    async def send(event: str, spare: int) -> None:
        await stream.send(event, spare=spare)

    for event in "abc":
        nursery.start_soon(send, event, 2)
        await wait_all_tasks_blocked()
    for event in "xyz":
        nursery.start_soon(send, event, 0)
        await wait_all_tasks_blocked()
    # One of the modest, two of the others; the third of these waits as well.
    assert stream.statistics().waiting == 3
    with trio.fail_after(60):
        read = []
        for _ in range(6):
            read.append(await anext(stream))
            await wait_all_tasks_blocked()
    assert read[:4] == ["a", "x", "y", "z"]
    assert sorted(read[4:]) == ["b", "c"]


@pytest.mark.parametrize("end", [Stream.end, Stream.leave])
async def test_the_modest_do_not_wait_for_ever(
    autojump_clock: MockClock, end: Callable[[Stream[int]], None]
) -> None:
    stream: Stream[int] = Stream(capacity=1)
    await stream.send(0, spare=9)  # one place is theirs all the same

    async def send() -> None:
        with suppress(ValueError):  # it has ended
            await stream.send(1, spare=9)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await wait_all_tasks_blocked()
            end(stream)


async def test_a_cancelled_send_leaves_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    stream: Stream[int] = Stream(capacity=1)
    await stream.send(0)
    with trio.move_on_after(1) as patience:
        await stream.send(1)
    assert patience.cancelled_caught
    with trio.CancelScope() as scope:
        assert await anext(stream) == 0
        scope.cancel()
        await stream.send(2)  # there is room, but the sender is cancelled
    assert scope.cancelled_caught
    stream.end()
    assert await read_all(stream) == []
    assert stream.statistics().sent == 1


async def test_a_cancelled_read_loses_nothing(autojump_clock: MockClock) -> None:
    stream: Stream[int] = Stream()
    with trio.move_on_after(1) as patience:
        await anext(stream)
    assert patience.cancelled_caught
    stream.post(0)
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(stream)
    assert scope.cancelled_caught
    assert await anext(stream) == 0


async def test_an_event_is_delivered_when_its_consumer_asks_for_the_next(
    autojump_clock: MockClock,
) -> None:
    # D12a
    delivered: list[int] = []
    stream: Stream[int] = Stream(on_consumed=delivered.append)
    for event in range(3):
        stream.post(event)
    async for event in stream:
        assert delivered == list(range(event))
        if event == 1:
            break
    assert delivered == [0]  # the consumer broke off inside event 1
    with trio.move_on_after(0):
        await anext(stream)  # asking is enough, also when nothing comes of it
    assert delivered == [0, 1]
    stream.end()
    assert await read_all(stream) == [2]
    assert delivered == [0, 1, 2]


async def test_it_is_told_once_when_everything_was_consumed(
    autojump_clock: MockClock,
) -> None:
    told: list[str] = []
    for way in ("read", "acknowledged", "left", "read before"):
        stream: Stream[int] = Stream()
        stream.post(1)
        stream.end()
        if way == "read before":
            await read_all(stream)
        stream.when_heard_out(lambda way=way: told.append(way))  # type: ignore[misc]
        assert told.count(way) == (way == "read before")
        if way == "acknowledged":
            stream.acknowledge()
        if way != "left":
            await read_all(stream)
        if way == "acknowledged":
            assert way not in told
            stream.acknowledge(1)
        stream.leave()
        assert told.count(way) == 1


async def test_what_is_acknowledged_is_delivered_and_nothing_else(
    autojump_clock: MockClock,
) -> None:
    delivered: list[str] = []
    stream: Stream[str] = Stream(on_consumed=delivered.append)
    events = ["one", "two", "three"]
    for event in events:
        stream.post(event)
    stream.end()
    stream.acknowledge()
    assert [event async for event in stream] == events
    assert (delivered, stream.heard_out) == ([], False)
    stream.acknowledge("two")  # not before the one that came before it
    assert delivered == []
    stream.acknowledge("one", "two")
    assert delivered == ["one", "two"]
    stream.leave()
    stream.acknowledge("three")
    assert (delivered, stream.heard_out) == (["one", "two"], True)


async def test_the_last_event_is_delivered_when_the_end_is_awaited(
    autojump_clock: MockClock,
) -> None:
    delivered: list[int] = []
    stream: Stream[int] = Stream(on_consumed=delivered.append)
    stream.post(7)
    assert await anext(stream) == 7
    with trio.move_on_after(1):
        await anext(stream)
    assert delivered == [7]
    stream.end()
    assert await read_all(stream) == []
    assert delivered == [7]


async def test_a_consumer_that_leaves_releases_every_producer(
    autojump_clock: MockClock,
) -> None:
    delivered: list[int] = []
    stream: Stream[int] = Stream(capacity=1, on_consumed=delivered.append)
    stream.post(0)
    stream.post(1)
    assert await anext(stream) == 0
    with trio.fail_after(60):
        async with trio.open_nursery() as producers:
            for event in (2, 3):
                producers.start_soon(stream.send, event)
            await trio.sleep(1)
            stream.leave()
        await stream.send(4)
    stream.post(5)
    assert trio.current_time() == 1
    assert delivered == []
    assert stream.statistics() == StreamStatistics(
        waiting=0, capacity=1, peak=2, sent=2
    )
    stream.end()
    assert await read_all(stream) == []


async def test_leaving_ends_a_read_that_is_under_way(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    stream: Stream[int] = Stream()

    @nursery.start_soon
    async def leave() -> None:
        await trio.sleep(1)
        stream.leave()

    assert await read_all(stream) == []
    assert trio.current_time() == 1


async def test_a_producer_whose_consumer_left_still_lets_others_run(
    autojump_clock: MockClock,
) -> None:
    # Its loop never waits any more, and must not keep the clock from ticking.
    stream: Stream[int] = Stream()
    stream.leave()
    sends = 0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def others() -> None:
                scope.cancel()

            while sends < 1000:
                await stream.send(0)
                sends += 1
    assert sends < 1000


async def test_a_long_read_lets_others_run() -> None:
    stream: Stream[int] = Stream()
    for event in range(1000):
        stream.post(event)
    reads = 0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def others() -> None:
                scope.cancel()

            while reads < 1000:
                await anext(stream)
                reads += 1
    assert reads < 1000


async def test_nothing_follows_the_end() -> None:
    stream: Stream[int] = Stream()
    stream.end()
    with pytest.raises(ValueError, match="ended"):
        stream.post(1)
    with pytest.raises(ValueError, match="ended"):
        await stream.send(1)


async def test_the_end_strands_no_sender(autojump_clock: MockClock) -> None:
    stream: Stream[int] = Stream(capacity=1)
    await stream.send(0)

    async def send() -> None:
        with pytest.raises(ValueError, match="ended"):
            await stream.send(1)
        assert trio.current_time() == 1

    with trio.fail_after(60):
        async with trio.open_nursery() as producers:
            for _ in range(3):
                producers.start_soon(send)
            await trio.sleep(1)
            stream.end()
    assert await read_all(stream) == [0]


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_stream_without_room_is_refused(capacity: int) -> None:
    # Its senders would wait for ever, even beside a waiting consumer.
    with pytest.raises(ValueError, match="capacity"):
        Stream(capacity=capacity)


# -- against a deque, with a list of those who wait -----------------------------

STEPS = ["send"] * 4 + ["post"] + ["read"] * 4 + ["cancel send", "cancel read"]
STEPS += ["end", "leave"] + ["acknowledge"] * 2 + ["acknowledge nothing"]


class Model:
    """What a stream should do, one step at a time."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.events: deque[int] = deque()
        self.senders: deque[int] = deque()
        self.reading = False
        self.ended = self.left = False
        self.results: list[tuple[str, int | None]] = []  # in the order they come
        self.handed: list[int] = []
        self.acknowledges = False
        self.consumed: list[int] = []
        self.sent = 0

    def send(self, event: int) -> None:
        self.senders.append(event)

    def post(self, event: int) -> None:
        if self.ended:
            self.results.append(("ended", event))
        elif not self.left:
            self.events.append(event)
            self.sent += 1

    def read(self) -> None:
        self.reading = True
        if not self.acknowledges:
            self.consumed += self.handed
            self.handed = []

    def acknowledge(self, event: int) -> None:
        self.acknowledges = True
        if self.handed[:1] == [event] and not self.left:
            self.consumed.append(self.handed.pop(0))

    def settle(self) -> None:
        """Whoever can go on goes on."""
        moved = True
        while moved:
            moved = False
            if self.reading and self.events:
                self.handed.append(self.events.popleft())
                self.results.append(("read", self.handed[-1]))
                self.reading, moved = False, True
            elif self.reading and (self.ended or self.left):
                self.results.append(("nothing", None))
                self.reading, moved = False, True
            elif self.senders and self.ended:
                self.results.append(("ended", self.senders.popleft()))
                moved = True
            elif self.senders and (self.left or len(self.events) < self.capacity):
                event = self.senders.popleft()
                self.post(event)
                self.results.append(("sent", event))
                moved = True


async def play(capacity: int, steps: list[str]) -> None:
    model = Model(capacity)
    consumed: list[int] = []
    results: list[tuple[str, int | None]] = []
    stream: Stream[int] = Stream(capacity=capacity, on_consumed=consumed.append)
    sends: dict[int, trio.CancelScope] = {}
    reading: trio.CancelScope | None = None

    async def send(event: int, scope: trio.CancelScope) -> None:
        with scope:
            try:
                await stream.send(event)
                results.append(("sent", event))
            except ValueError:
                results.append(("ended", event))

    async def read(scope: trio.CancelScope) -> None:
        with scope:
            try:
                results.append(("read", await anext(stream)))
            except StopAsyncIteration:
                results.append(("nothing", None))

    async with trio.open_nursery() as nursery:
        for event, step in enumerate(steps):
            match step:
                case "send":
                    sends[event] = trio.CancelScope()
                    nursery.start_soon(send, event, sends[event])
                    model.send(event)
                case "post":
                    try:
                        stream.post(event)
                    except ValueError:
                        results.append(("ended", event))
                    model.post(event)
                case "read" if not model.reading:
                    reading = trio.CancelScope()
                    nursery.start_soon(read, reading)
                    model.read()
                case "cancel send" if model.senders:
                    sends[model.senders.popleft()].cancel()
                case "cancel read" if model.reading and reading is not None:
                    reading.cancel()
                    model.reading = False
                case "acknowledge":
                    which = model.handed[0] if model.handed else event
                    stream.acknowledge(which)
                    model.acknowledge(which)
                case "acknowledge nothing":  # of another turn, or once more
                    stream.acknowledge(event)
                    model.acknowledge(event)
                case "end":
                    stream.end()
                    model.ended = True
                case "leave":
                    stream.leave()
                    model.left = True
                    model.events.clear()
            await wait_all_tasks_blocked()
            model.settle()
            assert sorted(results, key=str) == sorted(model.results, key=str)
            assert [r for r in results if r[0] == "read"] == [
                r for r in model.results if r[0] == "read"
            ]
            assert consumed == model.consumed
            assert stream.statistics().waiting == len(model.events)
            assert stream.statistics().sent == model.sent
        nursery.cancel_scope.cancel()


def run_virtually(main: Callable[..., Awaitable[Any]], *args: Any) -> None:
    async def guarded() -> None:
        with trio.fail_after(1000):
            await main(*args)

    trio.run(guarded, clock=MockClock(autojump_threshold=0))


@given(capacity=st.integers(1, 3), steps=st.lists(st.sampled_from(STEPS), max_size=25))
def test_step_by_step_it_is_a_deque_with_a_queue_before_it(
    capacity: int, steps: list[str]
) -> None:
    run_virtually(play, capacity, steps)


pauses = st.lists(st.integers(0, 2), max_size=6)


@given(
    capacity=st.integers(1, 2),
    producers=st.lists(pauses, min_size=1, max_size=3),
    posts=pauses,
    consumer=st.lists(st.integers(0, 2), max_size=20),
    patience=st.integers(1, 4),
)
def test_all_at_once_nothing_is_lost_and_nobody_is_left_waiting(
    capacity: int,
    producers: list[list[int]],
    posts: list[int],
    consumer: list[int],
    patience: int,
) -> None:
    """Whole seconds, so that sends, posts, reads and cancellations coincide."""

    async def main() -> None:
        consumed: list[tuple[int, int]] = []
        read: list[tuple[int, int]] = []
        sent: set[tuple[int, int]] = set()
        stream: Stream[tuple[int, int]] = Stream(capacity, consumed.append)

        async def produce(number: int, pauses: list[int]) -> None:
            for index, pause in enumerate(pauses):
                await trio.sleep(pause)
                with trio.move_on_after(patience):
                    await stream.send((number, index))
                    sent.add((number, index))

        async def post(pauses: list[int]) -> None:
            for index, pause in enumerate(pauses):
                await trio.sleep(pause)
                stream.post((-1, index))
                sent.add((-1, index))

        async def all_of_them() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(post, posts)
                for number, pauses in enumerate(producers):
                    nursery.start_soon(produce, number, pauses)
            stream.end()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(all_of_them)
            for pause in consumer:
                try:
                    read.append(await anext(stream))
                except StopAsyncIteration:
                    break
                await trio.sleep(pause)
            else:
                await trio.sleep(0.5)
                before = set(sent)
                waiting = stream.statistics().waiting
                assert len(before) == len(read) + waiting
                assert set(read) <= before
                stream.leave()
                left_at = trio.current_time()
                # From here on no send takes time; only the pauses do.
                await wait_all_tasks_blocked()
                assert trio.current_time() == left_at
        for number in range(-1, len(producers)):
            indices = [index for whose, index in read if whose == number]
            assert indices == sorted(set(indices))
        if not stream._left:
            assert set(read) == sent
        assert consumed in (read, read[:-1])
        assert stream.statistics().peak <= capacity + len(posts)

    run_virtually(main)
