"""A server that sends nonsense: a connection ends and comes back, and that is all."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.nats import (
    NatsError,
    NatsRefused,
    NatsUnreachable,
    open_nats,
    open_requests,
)

from .fake import URL, FakeServer

INFO: Final = b'INFO {"headers":true,"connect_urls":["other:1"]}\r\n'
PIECES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [
            *(b"PONG\r\n", b"PING\r\n", b"+OK\r\n", INFO, b"INFO {}\r\n"),
            *(b"-ERR 'Slow Consumer'\r\n", b"-ERR\r\n", b"\r\n", b"\xff\r\n"),
            *(b"MSG a 1 3\r\nabc\r\n", b"MSG a 1 3\r\nabcd", b"MSG a 99 0\r\n\r\n"),
            *(b"HMSG a 1 3 3\r\nabc\r\n", b"HMSG a 1 9 3\r\n", b"MSG a 1 99999999\r\n"),
            b"-ERR 'Permissions Violation for Subscription to \"a\"'\r\n",
        ]
    ),
)


@given(
    greeting=st.none() | st.lists(PIECES, max_size=4).map(b"".join),
    said=st.lists(PIECES, max_size=6),
)
@settings(deadline=None)
def test_nonsense_ends_a_connection_and_nothing_else(
    greeting: bytes | None, said: list[bytes]
) -> None:
    async def talk() -> None:
        async with trio.open_nursery() as nursery:
            server = FakeServer(nursery, greeting=greeting)
            try:
                async with open_nats(URL, dial=server.dial) as nats:
                    server.greeting = None
                    async with nats.subscribe("a"):
                        with open_requests(nats) as requests:
                            for piece in said:
                                for peer in [*server.peers]:
                                    await peer.send(piece)
                                with suppress(NatsError, trio.TooSlowError):
                                    await requests.ask("b", within=0.1)
                    for peer in [*server.peers]:  # what it still says makes no sense
                        peer.silent = True
                    await trio.sleep(20)
                    await nats.wait_connected(within=5)
                    await nats.flush(within=1)
            except (NatsUnreachable, NatsRefused):
                if greeting is None:  # it must be possible to open it
                    raise
            nursery.cancel_scope.cancel()

    async def bounded() -> None:
        with trio.fail_after(300):
            await talk()

    trio.run(bounded, clock=MockClock(autojump_threshold=0))
