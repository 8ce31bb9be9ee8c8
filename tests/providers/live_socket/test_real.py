"""The link over real sockets: refusals, closings, and peers that break every rule.

Loopback only, a free port each, an absolute limit at each test. What is asserted
is an order or an end, never how long it took.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import trustme
from trio_websocket import (
    ConnectionClosed,
    WebSocketConnection,
    WebSocketRequest,
    serve_websocket,
)
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Request,
    TextMessage,
)

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.providers.live_socket import dial, open_live_socket
from glyphoxa_trio.providers.live_socket.dialling import MAX_MESSAGE
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import Heard, LinkClosed, Ready
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.loopback import open_loopback

from .support import PlainWire, closing, text

LIMIT = 20  # seconds, for a test that hangs

Handler = Callable[[WebSocketRequest], Awaitable[None]]
Raw = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A WebSocket server of trio-websocket; yields its address."""

    async def patient(request: WebSocketRequest) -> None:
        with suppress(ConnectionClosed):
            await handler(request)

    with trio.fail_after(LIMIT), lone_errors():
        async with trio.open_nursery() as nursery:
            serve = partial(serve_websocket, patient, "127.0.0.1", 0, None)
            server = await nursery.start(serve)
            yield f"ws://127.0.0.1:{server.port}/v1/realtime?model=m&key=hush"
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def answering(raw: Raw) -> AsyncIterator[str]:
    """A server that does with each connection what ``raw`` does; yields its address."""

    async def closed_after(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                await raw(stream)

    with trio.fail_after(LIMIT):
        async with open_loopback(closed_after) as origin:
            yield origin.replace("http://", "ws://")


async def until_hangup(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass


async def upgraded(stream: trio.SocketStream, *events: Event) -> WSConnection:
    """Shake hands by hand, and send ``ready`` and ``events`` in one piece."""
    socket = WSConnection(ConnectionType.SERVER)
    asked = False
    while not asked:
        socket.receive_data(bytes(await stream.receive_some()))
        asked = any(isinstance(event, Request) for event in socket.events())
    all_of_it = (AcceptConnection(), TextMessage("ready"), *events)
    await stream.send_all(b"".join(socket.send(event) for event in all_of_it))
    return socket


async def refusal(url: str, secret: Secret | None = None) -> LinkClosed:
    with pytest.raises(LinkClosed) as caught:
        async with open_live_socket(PlainWire(), url=url, secret=secret):
            pytest.fail("opened")
    return caught.value


async def end_at(url: str, secret: Secret | None = None) -> LinkClosed:
    """How a socket ends that became ready."""
    async with open_live_socket(PlainWire(), url=url, secret=secret) as link:
        assert await link.receive() == Ready()
        return await closing(link)


@pytest.mark.parametrize(
    ("code", "reason", "kind", "retryable"),
    [
        (1000, "", ErrorKind.INTERRUPTED, True),
        (1001, "Your session hit its maximum duration", ErrorKind.INTERRUPTED, True),
        (1007, "Unknown name", ErrorKind.BAD_REQUEST, False),
        (1007, "API key not valid: k-secret", ErrorKind.AUTHENTICATION, False),
        (1008, "policy", ErrorKind.BAD_REQUEST, False),
        (1011, "internal", ErrorKind.OVERLOADED, True),
        (1011, "You exceeded your current quota", ErrorKind.RATE_LIMITED, True),
        (1013, "", ErrorKind.OVERLOADED, True),
        (3000, "", ErrorKind.AUTHENTICATION, False),
        (4000, "beta_api_shape_disabled", ErrorKind.BAD_REQUEST, False),
    ],
)
async def test_a_close_code_says_who_must_act(
    code: int, reason: str, kind: ErrorKind, retryable: bool
) -> None:
    async def peer(request: WebSocketRequest) -> None:
        socket = await request.accept()
        await socket.send_message("ready")
        await socket.aclose(code, reason)

    async with serving(peer) as url:
        end = await end_at(url, Secret("k-secret"))
    assert (end.code, end.kind, end.retryable) == (code, kind, retryable)
    assert reason.replace("k-secret", "[secret]") in end.detail
    assert "k-secret" not in str(end)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (200, ErrorKind.NOT_FOUND, False),
        (301, ErrorKind.NOT_FOUND, False),
        (400, ErrorKind.BAD_REQUEST, False),
        (401, ErrorKind.AUTHENTICATION, False),
        (402, ErrorKind.RATE_LIMITED, False),
        (403, ErrorKind.BAD_REQUEST, False),
        (404, ErrorKind.NOT_FOUND, False),
        (429, ErrorKind.RATE_LIMITED, True),
        (500, ErrorKind.OVERLOADED, True),
        (503, ErrorKind.OVERLOADED, True),
    ],
)
async def test_a_refused_handshake_says_who_must_act(
    status: int, kind: ErrorKind, retryable: bool
) -> None:
    async def peer(request: WebSocketRequest) -> None:
        body = b'{"error": {"message": "not with k-secret"}}'
        await request.reject(status, extra_headers=[(b"Retry-After", b"7")], body=body)

    async with serving(peer) as url:
        refused = await refusal(url, Secret("k-secret"))
    assert (refused.kind, refused.retryable) == (kind, retryable)
    assert refused.retry_after == (7 if status >= 300 else None)
    assert str(status) in refused.detail
    assert ("not with [secret]" in refused.detail) == (status >= 400)
    assert "hush" not in str(refused)


async def test_headers_and_path_arrive_and_the_query_is_not_shown() -> None:
    asked: list[tuple[str, dict[bytes, bytes]]] = []

    async def peer(request: WebSocketRequest) -> None:
        asked.append((request.path, dict(request.headers)))
        await request.reject(500)

    headers = [(b"Authorization", b"Bearer k-secret")]
    async with serving(peer) as url:
        with pytest.raises(LinkClosed) as caught:
            async with open_live_socket(PlainWire(), url=url, headers=headers):
                pytest.fail("opened")
    [(path, got)] = asked
    assert path == "/v1/realtime?model=m&key=hush"
    assert got[b"authorization"] == b"Bearer k-secret"
    shown: BaseException | None = caught.value
    while shown is not None:
        assert "k-secret" not in repr(shown)
        assert "hush" not in repr(shown)
        shown = shown.__cause__


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", ErrorKind.INTERRUPTED),
        (b"HTTP/1.1 101 Switch", ErrorKind.INTERRUPTED),
        (b"SSH-2.0-OpenSSH_9.7\r\n\r\n", ErrorKind.MALFORMED),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\nno key", ErrorKind.AUTHENTICATION),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 99\r\n\r\nhalf", ErrorKind.OVERLOADED),
        (
            b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            ErrorKind.MALFORMED,
        ),
    ],
    ids=["nothing", "half", "another protocol", "no length", "cut", "no key"],
)
async def test_a_handshake_that_is_none_ends_with_the_reason(
    answer: bytes, kind: ErrorKind
) -> None:
    async def raw(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(answer)

    async with answering(raw) as url:
        assert (await refusal(url)).kind is kind


async def test_an_answer_without_end_ends() -> None:
    async def raw(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 500 Oh\r\nContent-Length: 99999999\r\n\r\n")
        while True:
            await stream.send_all(b"x" * 10_000)

    async with answering(raw) as url:
        assert (await refusal(url)).kind is ErrorKind.OVERLOADED


async def test_nobody_there_and_no_such_host_are_told_with_their_place() -> None:
    with trio.fail_after(LIMIT):
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        for listener in listeners:
            await listener.aclose()
        refused = await refusal(f"ws://127.0.0.1:{port}/?key=hush")
        assert refused.detail.startswith(f"127.0.0.1:{port}: ")
        assert (refused.kind, refused.retryable) == (ErrorKind.UNREACHABLE, True)
        nowhere = await refusal("ws://nowhere.invalid/?key=hush")
        assert nowhere.detail.startswith("nowhere.invalid: ")
        assert (nowhere.kind, nowhere.retryable) == (ErrorKind.UNREACHABLE, True)
        assert "hush" not in str(refused) + str(nowhere)


async def test_a_certificate_is_checked() -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    async def secured(stream: trio.SocketStream) -> None:
        tls = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        await upgraded(tls)  # type: ignore[arg-type]
        await until_hangup(tls)  # type: ignore[arg-type]

    async with answering(secured) as url:
        url = url.replace("ws://127.0.0.1", "wss://localhost")
        refused = await refusal(url)
        assert "certificate" in refused.detail
        assert (refused.kind, refused.retryable) == (ErrorKind.UNREACHABLE, False)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        async with open_live_socket(
            PlainWire(), url=url, dial=partial(dial, context=trusting)
        ) as link:
            assert await link.receive() == Ready()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_connection_that_breaks_is_1006_after_what_came(reset: bool) -> None:
    async def raw(stream: trio.SocketStream) -> None:
        await upgraded(stream, TextMessage("last"))
        if reset:
            await stream.receive_some()
            stream.setsockopt(
                trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
            )

    async with answering(raw) as url:
        async with open_live_socket(PlainWire(), url=url) as link:
            assert await link.receive() == Ready()
            assert await link.receive() == Heard("last", final=True)
            end = await closing(link)
    assert (end.code, end.kind) == (1006, ErrorKind.INTERRUPTED)
    assert end.retryable


async def test_a_frame_that_is_too_large_ends_the_socket() -> None:
    async def peer(request: WebSocketRequest) -> None:
        socket = await request.accept()
        await socket.send_message("ready")
        await socket.send_message("x" * MAX_MESSAGE)
        await socket.send_message("x" * (MAX_MESSAGE + 1))
        await trio.sleep_forever()

    async with serving(peer) as url:
        async with open_live_socket(PlainWire(), url=url) as link:
            assert await link.receive() == Ready()
            assert isinstance(await link.receive(), Heard)
            end = await closing(link)
    assert (end.code, end.retryable) == (1009, False)


@pytest.mark.parametrize(
    "garbage",
    [b"\x83\x01x", b"\xff\xff\xff", b"\x81\x02\xc3\x28", b"\x09\xff"],
    ids=["opcode", "bits", "not UTF-8", "a ping in pieces"],
)
async def test_what_is_no_frame_ends_the_socket(garbage: bytes) -> None:
    async def raw(stream: trio.SocketStream) -> None:
        await upgraded(stream)
        await stream.send_all(garbage)
        await until_hangup(stream)

    async with answering(raw) as url:
        end = await end_at(url)
    assert not end.retryable


async def test_binary_messages_are_the_wires_to_read() -> None:
    async def raw(stream: trio.SocketStream) -> None:
        await upgraded(stream, BytesMessage(b"in bytes"))
        await until_hangup(stream)

    async with answering(raw) as url:
        async with open_live_socket(PlainWire(), url=url) as link:
            assert await link.receive() == Ready()
            assert await link.receive() == Heard("in bytes", final=True)


async def test_a_peer_that_says_goodbye_and_stays_is_left() -> None:
    left = trio.Event()

    async def raw(stream: trio.SocketStream) -> None:
        await upgraded(stream, CloseConnection(1001, "going"))
        await until_hangup(stream)
        left.set()

    async with answering(raw) as url:
        assert (await end_at(url)).code == 1001
        await left.wait()


async def test_a_ping_in_the_middle_of_closing_harms_nobody() -> None:
    async def raw(stream: trio.SocketStream) -> None:
        socket = await upgraded(stream)
        closing = False
        while not closing:
            socket.receive_data(bytes(await stream.receive_some()))
            closing = any(isinstance(e, CloseConnection) for e in socket.events())
        await stream.send_all(b"\x89\x00")  # by hand: wsproto knows better
        await until_hangup(stream)

    async with answering(raw) as url:
        async with open_live_socket(PlainWire(), url=url) as link:
            assert await link.receive() == Ready()


async def test_a_peer_that_stops_reading_does_not_hold_the_sender_or_the_end() -> None:
    async def raw(stream: trio.SocketStream) -> None:
        await upgraded(stream)
        await trio.sleep_forever()

    async with answering(raw) as url:
        async with open_live_socket(PlainWire(), url=url) as link:
            assert await link.receive() == Ready()
            for _ in range(15):
                link.send(text("x" * 1_000_000))
            with trio.move_on_after(0.1):
                await link.receive()
            for _ in range(17):
                link.send(text("x" * 1_000_000))
            assert "does not read" in (await closing(link)).detail


async def test_a_flood_of_messages_lets_others_run() -> None:
    ticks = 0

    async def peer(request: WebSocketRequest) -> None:
        socket: WebSocketConnection = await request.accept()
        await socket.send_message("ready")
        for number in range(2000):
            await socket.send_message(str(number))
        await socket.aclose()

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.lowlevel.checkpoint()
            ticks += 1

    async with serving(peer) as url:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            async with open_live_socket(PlainWire(), url=url) as link:
                assert await link.receive() == Ready()
                heard = [await link.receive() for _ in range(2000)]
            nursery.cancel_scope.cancel()
    assert heard == [Heard(str(number), final=True) for number in range(2000)]
    assert ticks > 500


@pytest.mark.parametrize("url", ["http://host/", "ws:///", "host"])
async def test_an_address_must_be_one(url: str) -> None:
    with pytest.raises(ValueError, match="ws://"):
        async with open_live_socket(PlainWire(), url=url):
            pytest.fail("opened")
