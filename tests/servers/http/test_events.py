"""What is kept of what was sent: bounded, and each session's own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCResponse

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.servers.http.events import (
    MOST_BYTES,
    MOST_EVENTS,
    SessionEvents,
    StreamedEvents,
)


def told(text: str = "") -> JSONRPCMessage:
    return JSONRPCNotification(jsonrpc="2.0", method="n", params={"text": text})


def answer(number: int = 1) -> JSONRPCMessage:
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={})


class Ear:
    def __init__(self, events: SessionEvents) -> None:
        self.events = events
        self.heard: list[str] = []
        self.done = False

    async def follow(self, last: str) -> None:
        await self.events.replay_events_after(last, self.hear)
        self.done = True

    async def hear(self, event: EventMessage) -> None:
        await trio.lowlevel.checkpoint()
        assert event.event_id is not None
        self.heard.append(event.event_id)


async def test_what_follows_in_the_same_stream_is_replayed(
    autojump_clock: MockClock,
) -> None:
    events = SessionEvents(StreamedEvents())
    events.owed.add("1")
    first = await events.store_event("1", None)
    other = await events.store_event("2", told())
    second = await events.store_event("1", told())
    ear = Ear(events)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ear.follow, first)
        await wait_all_tasks_blocked()
        assert ear.heard == [second]
        await events.store_event("2", told())
        last = await events.store_event("1", answer())
    assert ear.heard == [second, last]
    assert events.stream_of(other) == "2"
    assert not events.owed


async def test_nothing_is_said_twice_or_left_out_however_it_arrives(
    autojump_clock: MockClock,
) -> None:
    """Events that are stored while others are being replayed."""
    events = SessionEvents(StreamedEvents())
    numbers = [await events.store_event(GET_STREAM_KEY, told()) for _ in range(5)]
    ear = Ear(events)

    async def more() -> None:
        for _ in range(20):
            await trio.lowlevel.checkpoint()
            numbers.append(await events.store_event(GET_STREAM_KEY, told()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ear.follow, numbers[0])
        nursery.start_soon(more)
        await wait_all_tasks_blocked()
        assert ear.heard == numbers[1:]
        events.close()
    assert ear.done


async def test_a_stream_that_said_all_ends_at_once(autojump_clock: MockClock) -> None:
    events = SessionEvents(StreamedEvents())
    first = await events.store_event("1", None)
    last = await events.store_event("1", answer())
    for at, heard in ((first, [last]), (last, []), ("999", []), ("x" * 99, [])):
        ear = Ear(events)
        await ear.follow(at)
        assert ear.heard == heard


async def test_who_follows_gives_way_to_who_comes_later(
    autojump_clock: MockClock,
) -> None:
    events = SessionEvents(StreamedEvents())
    events.owed.add("1")
    first = await events.store_event("1", None)
    ears = [Ear(events), Ear(events)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ears[0].follow, first)
        await wait_all_tasks_blocked()
        nursery.start_soon(ears[1].follow, first)
        await wait_all_tasks_blocked()
        await events.store_event("1", answer())
    assert [len(ear.heard) for ear in ears] == [0, 1]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0, 10, 3000, 400_000, 10**6])),
        max_size=80,
    )
)
def test_no_session_and_not_all_of_them_keep_more_than_they_may(
    sent: Sequence[tuple[int, int]],
) -> None:
    log = StreamedEvents(most_bytes=2 * MOST_BYTES)
    sessions = [SessionEvents(log) for _ in range(4)]

    async def main() -> None:
        for which, size in sent:
            number = await sessions[which].store_event("1", told("x" * size))
            # The newest is always there to come back to.
            assert sessions[which].stream_of(number) == "1"
            assert log.bytes <= log.most_bytes
            assert len(log) == sum(session.count for session in sessions)
            assert all(session.count <= MOST_EVENTS for session in sessions)

    trio.run(main)
    for session in sessions:
        session.close()
    assert (log.bytes, len(log)) == (0, 0)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "\u0661", "0x1", "9" * 30])
def test_what_is_no_number_of_ours_is_no_event(text: str) -> None:
    assert SessionEvents(StreamedEvents()).stream_of(text) is None
