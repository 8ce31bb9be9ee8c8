"""The link over a stream in memory: order, clocks and ends, in virtual time."""

from __future__ import annotations

import pytest
from trio_websocket import WebSocketConnection
from wsproto.events import CloseConnection

import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from glyphoxa_trio.providers.live_socket import open_live_socket
from glyphoxa_trio.providers.live_socket.outbox import MAX_AUDIO
from glyphoxa_trio.providers.live_socket.socket import (
    CLOSE_GRACE,
    MAX_WAITING,
    OPEN_TIMEOUT,
    PING_EVERY,
    PING_PATIENCE,
    SETUP_TIMEOUT,
)
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    Cancel,
    Complaint,
    Heard,
    LinkClosed,
    Ready,
    SendAudio,
    SpeechEnds,
)

from .support import PlainWire, closing, open_in_memory, open_wedged, text


async def stay(socket: WebSocketConnection) -> None:
    await socket.send_message("ready")
    await trio.sleep_forever()


async def test_what_is_said_before_the_set_up_goes_out_after_it_in_order(
    autojump_clock: MockClock,
) -> None:
    got: list[str | bytes] = []

    async def peer(socket: WebSocketConnection) -> None:
        got.append(await socket.get_message())
        await wait_all_tasks_blocked()
        await socket.send_message("ready")
        got.extend([await socket.get_message() for _ in range(5)])

    async with open_in_memory(peer, PlainWire(first=["first"])) as link:
        link.send(SendAudio(b"\x01"))
        link.send(text("one"))
        link.send(SendAudio(b"\x02"))
        link.send(text("two"))
        assert await link.receive() == Ready()
        await closing(link)
    assert got == ["first", "set up", "one", "two", b"\x01", b"\x02"]


async def test_control_overtakes_audio_but_not_the_end_of_an_utterance(
    autojump_clock: MockClock,
) -> None:
    got: list[str | bytes] = []

    async def peer(socket: WebSocketConnection) -> None:
        await socket.send_message("ready")
        got.extend([await socket.get_message() for _ in range(7)])

    async with open_in_memory(peer) as link:
        await link.receive()
        for command in (
            SendAudio(b"\x01"),
            text("overtakes"),
            SendAudio(b"\x02"),
            SpeechEnds(),
            text("after the end"),
            SendAudio(b"\x03"),
        ):
            link.send(command)
        await closing(link)
    assert got[1:] == ["overtakes", b"\x01", b"\x02", "end", "after the end", b"\x03"]


async def test_events_come_before_the_end_and_the_end_comes_again(
    autojump_clock: MockClock,
) -> None:
    async def peer(socket: WebSocketConnection) -> None:
        for word in ("ready", "a", "b"):
            await socket.send_message(word)
        await socket.aclose(1011, "internal error")

    async with open_in_memory(peer) as link:
        await wait_all_tasks_blocked()
        heard = [await link.receive() for _ in range(3)]
        assert heard == [Ready(), Heard("a", final=True), Heard("b", final=True)]
        for _ in range(2):
            end = await closing(link)
            assert (end.kind, end.code) == (ErrorKind.OVERLOADED, 1011)
            assert end.retryable
        link.send(text("nowhere"))


async def test_a_reader_that_is_cancelled_loses_no_event(
    autojump_clock: MockClock,
) -> None:
    async def peer(socket: WebSocketConnection) -> None:
        await socket.send_message("ready")
        await trio.sleep(5)
        await socket.send_message("late")

    async with open_in_memory(peer) as link:
        await link.receive()
        with trio.move_on_after(3) as impatient:
            await link.receive()
        assert impatient.cancelled_caught
        assert await link.receive() == Heard("late", final=True)
        assert trio.current_time() == 5


async def test_the_wires_alarm_wakes_it_on_time_and_what_it_says_is_sent(
    autojump_clock: MockClock,
) -> None:
    got: list[str | bytes] = []

    async def peer(socket: WebSocketConnection) -> None:
        await socket.send_message("ready")
        await socket.send_message("alarm 9")
        await socket.send_message("alarm 4")
        got.extend([await socket.get_message() for _ in range(2)])

    async with open_in_memory(peer) as link:
        await link.receive()
        complaint = await link.receive()
        assert isinstance(complaint, Complaint)
        assert complaint.detail == "4.0"
        await closing(link)
    assert got == ["set up", "awake"]


async def test_the_wire_may_end_the_session(
    autojump_clock: MockClock,
) -> None:
    async def peer(socket: WebSocketConnection) -> None:
        for word in ("ready", "last", "over"):
            await socket.send_message(word)
        await trio.sleep_forever()

    async with open_in_memory(peer) as link:
        assert await link.receive() == Ready()
        assert await link.receive() == Heard("last", final=True)
        assert (await closing(link)).kind is ErrorKind.RATE_LIMITED


async def test_what_a_wire_never_allows_is_the_callers_mistake(
    autojump_clock: MockClock,
) -> None:
    async with open_in_memory(stay) as link:
        await link.receive()
        with pytest.raises(ValueError, match="not here"):
            link.send(Cancel())


async def test_a_peer_that_answers_pings_stays(
    autojump_clock: MockClock,
) -> None:
    async with open_in_memory(stay) as link:
        await link.receive()
        with trio.move_on_after(3600) as hour:
            await link.receive()
        assert hour.cancelled_caught


async def test_a_peer_that_answers_no_ping_is_given_up(
    autojump_clock: MockClock,
) -> None:
    async with open_wedged() as link:
        end = await closing(link)
        assert trio.current_time() == PING_EVERY + PING_PATIENCE
        assert end.kind is ErrorKind.SILENCE
        assert end.retryable


async def test_a_peer_that_never_sets_up_is_given_up(
    autojump_clock: MockClock,
) -> None:
    async def peer(socket: WebSocketConnection) -> None:
        await trio.sleep_forever()

    async with open_in_memory(peer) as link:
        end = await closing(link)
        assert trio.current_time() == SETUP_TIMEOUT
        assert end.kind is ErrorKind.SILENCE


async def test_an_upgrade_that_is_never_answered_is_given_up(
    autojump_clock: MockClock,
) -> None:
    async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        return memory_stream_pair()[0]

    with pytest.raises(LinkClosed, match="peer:81: no WebSocket in time"):
        async with open_live_socket(PlainWire(), url="ws://peer:81/?key=k", dial=dial):
            pytest.fail("opened")
    assert trio.current_time() == OPEN_TIMEOUT


async def test_a_dial_that_never_ends_is_given_up_and_can_be_cancelled(
    autojump_clock: MockClock,
) -> None:
    async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(LinkClosed) as caught:
        async with open_live_socket(PlainWire(), url="wss://peer/", dial=dial):
            pytest.fail("opened")
    assert caught.value.retryable
    assert trio.current_time() == OPEN_TIMEOUT
    with trio.move_on_after(1):
        async with open_live_socket(PlainWire(), url="wss://peer/", dial=dial):
            pytest.fail("opened")
    assert trio.current_time() == OPEN_TIMEOUT + 1


async def test_a_peer_that_closes_and_does_not_read_is_noticed(
    autojump_clock: MockClock,
) -> None:
    async with open_wedged(CloseConnection(1001, "going")) as link:
        link.send(text("x"))  # waits for ever, and the answer to the close behind it
        end = await closing(link)
        assert end.code == 1001
        assert trio.current_time() == PING_EVERY + CLOSE_GRACE


async def test_a_link_says_how_it_is(autojump_clock: MockClock) -> None:
    async with open_in_memory(stay) as link:
        assert repr(link) == "<LiveSocket setting up, 0 events wait>"
        await wait_all_tasks_blocked()
        assert repr(link) == "<LiveSocket open, 1 events wait>"
    assert repr(link) == "<LiveSocket ended (left), 1 events wait>"


async def test_leaving_a_peer_that_listens_takes_no_time(
    autojump_clock: MockClock,
) -> None:
    async with open_in_memory(stay) as link:
        await link.receive()
    assert trio.current_time() == 0
    assert (await closing(link)).detail == "left"


async def test_leaving_a_peer_that_does_not_read_takes_less_than_a_second(
    autojump_clock: MockClock,
) -> None:
    async with open_wedged() as link:
        link.send(text("x"))
    assert trio.current_time() == CLOSE_GRACE


async def test_so_does_being_cancelled(
    autojump_clock: MockClock,
) -> None:
    with trio.CancelScope() as scope:
        async with open_wedged() as link:
            link.send(text("x"))
            scope.cancel()
            await link.receive()
    assert trio.current_time() == CLOSE_GRACE


async def test_whoever_is_cancelled_says_goodbye(
    autojump_clock: MockClock,
) -> None:
    goodbyes: list[int] = []

    async def peer(socket: WebSocketConnection) -> None:
        try:
            await stay(socket)
        finally:
            reason = socket.closed
            goodbyes.append(reason.code if reason else 0)

    with trio.CancelScope() as scope:
        async with open_in_memory(peer) as link:
            await link.receive()
            scope.cancel()
            await link.receive()
    assert goodbyes == [1000]
    assert trio.current_time() == 0


async def test_an_error_in_the_block_comes_out_as_it_is(
    autojump_clock: MockClock,
) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_wedged():
            raise KeyError("mine")


async def test_audio_that_waits_is_dropped_the_oldest_first(
    autojump_clock: MockClock,
) -> None:
    got: list[bytes] = []

    async def peer(socket: WebSocketConnection) -> None:
        await socket.send_message("ready")
        await socket.get_message()
        while len(got) < MAX_AUDIO // 1000:
            message = await socket.get_message()
            assert isinstance(message, bytes)
            got.append(message[:2])

    async with open_in_memory(peer) as link:
        await link.receive()
        pieces = MAX_AUDIO // 1000 + 7
        for number in range(pieces):
            link.send(SendAudio(number.to_bytes(2, "big") + bytes(998)))
        assert link.statistics().audio_dropped == 7
        await closing(link)
    assert got == [number.to_bytes(2, "big") for number in range(7, pieces)]


async def test_control_that_waits_without_end_is_the_end(
    autojump_clock: MockClock,
) -> None:
    async with open_wedged() as link:
        for _ in range(17):
            link.send(text("x" * 1_000_000))
        end = await closing(link)
        assert "does not read" in end.detail
        assert end.retryable
        assert trio.current_time() == 0


async def test_events_that_nobody_takes_are_the_end_and_stay_readable(
    autojump_clock: MockClock,
) -> None:
    size = 1_000_000

    async def peer(socket: WebSocketConnection) -> None:
        await socket.send_message("ready")
        while True:
            await socket.send_message("x" * size)

    async with open_in_memory(peer, PlainWire(events_per_message=2)) as link:
        await wait_all_tasks_blocked()
        heard = 0
        with pytest.raises(LinkClosed, match="are not received"):
            while True:
                heard += isinstance(await link.receive(), Heard)
        assert heard == 2 * (MAX_WAITING // size + 1)


async def test_statistics_count_both_ways(
    autojump_clock: MockClock,
) -> None:
    async def peer(socket: WebSocketConnection) -> None:
        for word in ("ready", "a", "b"):
            await socket.send_message(word)
        for _ in range(3):
            await socket.get_message()

    async with open_in_memory(peer, PlainWire(unknown={"x.y": 2})) as link:
        link.send(text("one"))
        link.send(SendAudio(b"\0"))
        await closing(link)
        statistics = link.statistics()
    assert (statistics.sent, statistics.received) == (3, 3)
    assert statistics.unknown == {"x.y": 2}
