"""A connection on virtual time, against a server in memory: `fake`."""

from __future__ import annotations

from itertools import pairwise

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.nats import (
    NatsDisconnected,
    NatsError,
    NatsMessages,
    NatsOptions,
    NatsRefused,
    NatsUnreachable,
    NoResponders,
    OutgoingFull,
    PayloadTooLarge,
    RepliesLost,
    open_nats,
    open_requests,
)
from glyphoxa_trio.secret import Secret

from .fake import URL, FakeServer, linked

FEW = 5.0


async def next_of(messages: NatsMessages) -> bytes:
    with trio.fail_after(FEW):
        return (await anext(messages)).payload


async def test_a_message_reaches_every_subscriber_and_one_of_a_queue(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (_, nats):
        async with (
            nats.subscribe("a.*") as pattern,
            nats.subscribe("a.b", queue="q") as one,
            nats.subscribe("a.b", queue="q") as other,
        ):
            await nats.publish("a.b", b"hello")
            await nats.publish("a.c", b"bye")
            await nats.flush(within=1)
            assert await next_of(pattern) == b"hello"
            assert await next_of(pattern) == b"bye"
            got = [x for x in (one, other) if x._waiting]
            assert len(got) == 1
        with trio.fail_after(FEW):
            assert [x.payload async for x in one] in ([], [b"hello"])
        assert nats.statistics().server == "fake:1"


async def test_it_reconnects_and_subscribes_again(autojump_clock: MockClock) -> None:
    async with linked() as (server, nats), nats.subscribe("a") as messages:
        await server.hang_up()
        assert not nats.is_connected
        assert nats.statistics().server is None
        with pytest.raises(NatsDisconnected, match="fake:1 closed the connection"):
            await nats.publish("a", b"lost")
        await nats.publish("a", b"kept", within=1)
        assert await next_of(messages) == b"kept"
        assert messages.interruptions == 1
        assert nats.statistics().reconnections == 1


async def test_it_goes_to_a_learned_server_and_comes_back(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (server, nats):
        server.info["connect_urls"] = ["fake:1", "other:2", "no port", "[::1]:99999"]
        await server.hang_up()
        await nats.wait_connected(within=1)
        server.down.add("fake")
        await server.hang_up()
        await nats.wait_connected(within=1)
        assert nats.statistics().server == "other:2"
        server.down = {"other"}
        await server.hang_up()
        await nats.wait_connected(within=1)
        assert nats.statistics().server == "fake:1"


async def test_attempts_become_rarer_and_never_stop(autojump_clock: MockClock) -> None:
    async with linked() as (server, nats):
        server.down.add("fake")
        await server.hang_up()
        await trio.sleep(60)
        at = [when for when, _ in server.dialled[1:]]
        gaps = [b - a for a, b in pairwise(at)]
        assert 0.02 <= gaps[0] <= 0.2
        assert all(1.0 <= gap <= 2.0 for gap in gaps[8:])
        assert len({*gaps}) == len(gaps)  # jitter
        server.down.clear()
        await nats.wait_connected(within=2)
        assert nats.statistics().failed >= 30


async def test_a_server_that_hangs_up_at_once_is_not_asked_all_the_time(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (server, _):
        for _ in range(100):
            await trio.sleep(0.1)
            await server.hang_up()
        assert len(server.dialled) < 30


async def test_it_gives_up_when_it_is_told_to(autojump_clock: MockClock) -> None:
    with pytest.raises(NatsUnreachable, match=r"no NATS server for 3000 ms: fake:1"):
        async with linked(options=NatsOptions(give_up=3)) as (server, _):
            began = trio.current_time()
            server.down.add("fake")
            await server.hang_up()
            try:
                await trio.sleep(FEW)
            finally:
                assert trio.current_time() == began + 3


async def test_a_silent_server_is_noticed_on_time(autojump_clock: MockClock) -> None:
    async with linked() as (server, nats):
        await trio.sleep(10)  # idle, and it answers
        assert nats.statistics().reconnections == 0
        (peer,) = server.peers
        assert peer.pings > 3
        await nats.flush(within=1)
        began, peer.silent = trio.current_time(), True
        with open_requests(nats) as requests:
            with pytest.raises(NatsDisconnected, match="silent for 3000 ms"):
                await requests.ask("a", within=10)
        assert trio.current_time() == began + 3


async def test_a_process_that_stood_still_does_not_blame_the_server(
    mock_clock: MockClock,
) -> None:
    async with linked() as (server, nats):
        for steps in range(12):  # from the question being due to its answer
            mock_clock.jump(2)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            mock_clock.jump(100)
            await wait_all_tasks_blocked(0.001)
        assert nats.statistics().reconnections == 0
        server.peers[0].silent = True
        for _ in range(8):
            mock_clock.jump(1)
            await wait_all_tasks_blocked(0.001)
        assert nats.statistics().reconnections == 1


async def test_a_server_that_does_not_read_fails_what_is_too_much(
    autojump_clock: MockClock,
) -> None:
    class Deaf(trio.abc.Stream):
        """Takes the CONNECT, and nothing after it."""

        def __init__(self, stream: trio.abc.Stream) -> None:
            self.stream, self.sent = stream, 0

        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            self.sent += 1
            if self.sent > 1:
                await trio.sleep_forever()
            await self.stream.send_all(data)

        async def wait_send_all_might_not_block(self) -> None: ...

        async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
            return await self.stream.receive_some(max_bytes)

        async def aclose(self) -> None:
            await self.stream.aclose()

    async with trio.open_nursery() as nursery:
        server = FakeServer(nursery)

        async def dial(host: str, port: int) -> trio.abc.Stream:
            return Deaf(await server.dial(host, port))

        options = NatsOptions(outgoing=2000)
        async with open_nats(URL, dial=dial, options=options) as nats:
            await nats.publish("a", b"x" * 900)
            await nats.publish("a", b"x" * 900)
            with pytest.raises(OutgoingFull, match=r"18\d\d bytes wait"):
                await nats.publish("a", b"x" * 900)
            began = trio.current_time()
            with pytest.raises(OutgoingFull):
                await nats.publish("a", b"x" * 900, within=0.5)
            assert trio.current_time() == began + 0.5
            assert nats.statistics().waiting <= 2000
            # Room comes with a new connection.
            await nats.publish("a", b"x" * 900, within=5)
            assert nats.statistics().unsent > 1800
        nursery.cancel_scope.cancel()


async def test_a_slow_subscriber_loses_messages_and_holds_nobody(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (server, nats):
        async with (
            nats.subscribe("a", capacity=3) as few,
            nats.subscribe("a", most_bytes=250) as small,
            nats.subscribe("a") as all_,
        ):
            await nats.flush(within=1)
            for n in range(5):
                await server.publish("a", b"%d" % n * 100)
            await nats.flush(within=1)
            assert (few.dropped, small.dropped, all_.dropped) == (2, 3, 0)
            assert [(await next_of(few))[:1] for _ in range(3)] == [b"0", b"1", b"2"]
            assert nats.statistics().dropped == 5


async def test_errors_of_the_server_reach_whom_they_are_about(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (server, nats), nats.subscribe("secret") as messages:
        (peer,) = server.peers
        async with nats.subscribe("open") as others:
            await peer.send(
                b"-ERR 'Permissions Violation for Subscription to \"secret\"'\r\n"
            )
            with pytest.raises(NatsRefused, match="fake:1 says: Permissions"):
                await next_of(messages)
            await nats.publish("open", b"still there")
            assert await next_of(others) == b"still there"
        async with nats.subscribe("deaf"):
            with open_requests(nats) as requests:
                async with requests.stream("deaf", within=9) as replies:
                    await peer.send(
                        b"-ERR 'Permissions Violation for Publish to \"deaf\"'\r\n"
                    )
                    with pytest.raises(NatsRefused, match='Publish to "deaf"'):
                        await anext(replies)
        assert nats.statistics().reconnections == 0
        await server.hang_up(b"-ERR 'Slow Consumer'\r\n")
        with pytest.raises(NatsDisconnected, match="says: Slow Consumer"):
            await nats.publish("open")
        assert str(nats.statistics().trouble).endswith("Slow Consumer")


async def test_a_lame_duck_is_named(autojump_clock: MockClock) -> None:
    async with linked() as (server, nats):
        await server.peers[0].send(b'INFO {"ldm":true,"max_payload":5}\r\n')
        await nats.changed.until(lambda: nats.statistics().lame_duck)
        with pytest.raises(PayloadTooLarge):
            await nats.publish("a", b"123456")
        await server.hang_up()
        await nats.wait_connected(within=1)
        assert not nats.statistics().lame_duck


async def test_credentials_are_refused_at_once_and_never_shown(
    autojump_clock: MockClock,
) -> None:
    said = b"-ERR 'Authorization Violation of hunter2hunter2'\r\n"
    shown: list[str] = []
    for url in ("nats://hunter2hunter2@fake:1", URL):
        async with trio.open_nursery() as nursery:
            server = FakeServer(nursery, token="other")
            server.greeting = None
            token = None if "@" in url else Secret("hunter2hunter2")
            with pytest.raises(NatsRefused, match="Authorization Violation") as raised:
                async with open_nats(url, token=token, dial=server.dial):
                    pass
            shown.append(str(raised.value))
            server.token = None
            async with open_nats(url, token=token, dial=server.dial) as nats:
                assert server.peers[-1].options["auth_token"] == "hunter2hunter2"
                await server.peers[-1].send(said)
                await nats.flush(within=1)
                shown += [repr(nats), repr(nats.statistics()), repr(nats._servers)]
            nursery.cancel_scope.cancel()
    assert "hunter2" not in "".join(shown)
    assert "[secret]" in "".join(shown)


async def test_opening_ends_when_nothing_is_there(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        server = FakeServer(nursery, down={"fake"})
        with pytest.raises(NatsUnreachable, match=r"within 5000 ms: .*nothing there"):
            async with open_nats(URL, dial=server.dial):
                pass
        assert trio.current_time() == 5.0
        server.down.clear()
        server.greeting = b""  # it says nothing
        with pytest.raises(NatsUnreachable, match="no answer within 2000 ms"):
            async with open_nats(URL, dial=server.dial):
                pass
        assert trio.current_time() == 10.0
        nursery.cancel_scope.cancel()


async def test_a_server_without_tls_gets_no_password(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        server = FakeServer(nursery)
        with pytest.raises(NatsUnreachable, match="offers no TLS"):
            async with open_nats("tls://u:passpass@fake:1", dial=server.dial):
                pass
        server.info["tls_required"] = True
        server.greeting = b'INFO {"tls_required":true}\r\nPING\r\n'
        with pytest.raises(NatsUnreachable, match="between INFO and TLS"):
            async with open_nats("tls://u:passpass@fake:1", dial=server.dial):
                pass
        assert server.peers == []
        nursery.cancel_scope.cancel()


async def test_leaving_has_the_server_read_everything(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (_, other), other.subscribe("a") as messages:
        pass
    async with trio.open_nursery() as nursery:
        server = FakeServer(nursery)
        async with open_nats(URL, dial=server.dial) as listening:
            async with listening.subscribe("a") as messages:
                await listening.flush(within=1)
                with trio.CancelScope() as scope:
                    async with open_nats(URL, dial=server.dial) as nats:
                        for _ in range(10):
                            nats.publish_nowait("a", b"x" * 500)
                        scope.cancel()
                        await trio.sleep(1)
                for _ in range(10):
                    assert await next_of(messages) == b"x" * 500
        with pytest.raises(NatsDisconnected, match="it was left"):
            await nats.publish("a", within=1)
        # A server that does not answer is not waited for.
        began = trio.current_time()
        async with open_nats(URL, dial=server.dial):
            server.peers[-1].silent = True
        assert trio.current_time() == began + 0.5
        nursery.cancel_scope.cancel()


async def test_messages_end_when_the_connection_is_left(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        server = FakeServer(nursery)
        opened = open_nats(URL, dial=server.dial)
        nats = await opened.__aenter__()
        async with nats.subscribe("a") as messages:
            await opened.__aexit__(None, None, None)
            with pytest.raises(NatsDisconnected, match="left"):
                await next_of(messages)
        nursery.cancel_scope.cancel()


# ------------------------------------------------------------------------- requests


async def test_a_request_has_one_reply_or_many(autojump_clock: MockClock) -> None:
    async with linked() as (server, nats), nats.subscribe("w") as asked:

        async def answer() -> None:
            async for message in asked:
                for n in range(int(message.payload)):
                    nats.publish_nowait(message.reply, b"%d" % n)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            with open_requests(nats) as requests:
                assert (await requests.ask("w", b"1", within=1)).payload == b"0"
                async with requests.stream("w", b"20", within=1) as replies:
                    found = [(await anext(replies)).payload for _ in range(20)]
                    assert found == [b"%d" % n for n in range(20)]
                    with pytest.raises(DeadlineExceeded, match="to w within 1000 ms"):
                        await anext(replies)
                # One subscription for all of them.
                assert len(server.peers[0].subscriptions) == 2
                assert (await requests.ask("w", b"3", within=1)).payload == b"0"
                await nats.flush(within=1)
                assert requests.late == 2
                assert not requests._open
            nursery.cancel_scope.cancel()


async def test_nothing_that_subscribes_is_said_at_once(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (_, nats):
        with open_requests(nats) as requests:
            with pytest.raises(NoResponders, match="nothing subscribes to w"):
                await requests.ask("w", within=5)
            assert trio.current_time() == 0


async def test_open_requests_learn_of_a_broken_connection_at_once(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (server, nats), nats.subscribe("w"):
        with open_requests(nats) as requests:
            ended: list[float] = []

            async def ask() -> None:
                with pytest.raises(NatsDisconnected, match="broke: fake:1 closed"):
                    await requests.ask("w", within=60)
                ended.append(trio.current_time())

            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(ask)
                await trio.sleep(1)
                await server.hang_up()
            assert ended == [1.0] * 10
            with pytest.raises(NatsDisconnected):
                await requests.ask("w", within=60)
            await nats.wait_connected(within=1)
            with pytest.raises(DeadlineExceeded):  # and works again
                await requests.ask("w", within=1)


async def test_a_cancelled_request_is_forgotten(autojump_clock: MockClock) -> None:
    async with linked() as (_, nats), nats.subscribe("w") as asked:
        with open_requests(nats) as requests:
            with trio.move_on_after(0.5):
                await requests.ask("w", within=60)
            assert not requests._open
            await nats.publish((await anext(asked)).reply, b"late")
            await nats.flush(within=1)
            assert requests.late == 1
        with pytest.raises(NatsDisconnected, match="left"):
            await requests.ask("w", within=1)


async def test_replies_that_are_not_read_end_with_an_error(
    autojump_clock: MockClock,
) -> None:
    async with linked() as (_, nats), nats.subscribe("w") as asked:
        with open_requests(nats) as requests:
            async with requests.stream("w", within=1, capacity=3) as replies:
                reply = (await anext(asked)).reply
                for _ in range(5):
                    await nats.publish(reply, b"x")
                await nats.flush(within=1)
                for _ in range(3):
                    assert (await anext(replies)).payload == b"x"
                with pytest.raises(RepliesLost):
                    await anext(replies)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "fake:1",
        "http://fake:1",
        "nats://",
        "nats://hunter2@hunter2@fake:1",
        "nats://me:hunter2/a@fake",
        "nats://me:hunter2#a@fake",
        "nats://fake:hunter2",
        "nats://fake:1/hunter2",
        "nats://fake:99999",
        "nats://[hunter2",
    ],
)
async def test_a_wrong_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="address of a NATS server") as raised:
        async with open_nats(url):
            pass
    assert "hunter2" not in str(raised.value)


async def test_the_base_of_all_errors_is_one() -> None:
    with pytest.raises(ValueError, match="no address"):
        async with open_nats():
            pass
    for error in (NoResponders, NatsDisconnected, OutgoingFull, RepliesLost):
        assert issubclass(error, NatsError)
