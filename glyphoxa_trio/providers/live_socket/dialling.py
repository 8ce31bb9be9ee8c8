"""Open a WebSocket at an address, with the reason if that fails.

trio-websocket waits for ever for a server that hangs up during the handshake, and
leaves its socket open after some errors. So the stream is opened and closed here, and
watched during the handshake.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Final, Protocol
from urllib.parse import urlsplit

import attrs
from trio_websocket import (
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
)

import trio

from glyphoxa_trio.certificates import trusted
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.secret import Secret

from .failures import on_dialling, on_rejection

MAX_MESSAGE: Final = 16 * 1024 * 1024  # bytes: audio deltas can be large
# Bytes of an HTTP response that is no upgrade. An upgrade may arrive together with the
# first messages, so this is more than one read returns.
MAX_ANSWER: Final = 256 * 1024
QUEUE: Final = 8  # messages between trio-websocket's reader and ours

Headers = Sequence[tuple[bytes, bytes]]


class Dial(Protocol):
    """The function that opens a stream to a host; in tests, one in memory."""

    async def __call__(self, host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        """Open a stream.

        Raises:
          OSError, UnicodeError, trio.BrokenResourceError: if that fails.
        """
        ...


async def dial(
    host: str, port: int, *, tls: bool, context: ssl.SSLContext | None = None
) -> trio.abc.Stream:
    """Open a TCP stream, with TLS if wanted. If cancelled, nothing stays open."""
    if not tls:
        return await trio.open_tcp_stream(host, port)
    # First, so that no server waits for it with an open connection.
    context = context or await trusted()
    stream = await trio.open_tcp_stream(host, port)
    secured = trio.SSLStream(
        stream, context, server_hostname=host, https_compatible=True
    )
    try:
        await secured.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(secured)
        raise
    return secured


@attrs.frozen
class Address:
    """The address of a WebSocket. Its text hides the query, which may hold a key.

    Raises:
      ValueError: from `of`, if the address is not plain ws(s).
    """

    host: str
    port: int
    tls: bool
    resource: str = attrs.field(repr=False)

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse an address."""
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname:
            raise ValueError("the address of a WebSocket begins with ws:// or wss://")
        tls = parts.scheme == "wss"
        resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls, resource)

    @property
    def authority(self) -> str:
        """The host as HTTP and people write it, with the port if it is unusual."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


async def dialled(dial: Dial, address: Address, until: float) -> trio.abc.Stream:
    """Return a stream to that address.

    Raises:
      LinkClosed: if there is none, or not before ``until``.
    """
    stream = None
    with trio.move_on_at(until):
        try:
            stream = await dial(address.host, address.port, tls=address.tls)
        except (OSError, UnicodeError, trio.BrokenResourceError) as error:
            raise on_dialling(error, address.authority) from None
    if stream is None:
        raise _too_late(address)
    return stream


async def upgrade(
    nursery: trio.Nursery,
    stream: trio.abc.Stream,
    address: Address,
    headers: Headers,
    secret: Secret | None,
    until: float,
) -> WebSocketConnection:
    """Perform the handshake over ``stream``.

    trio-websocket's reader runs in ``nursery``.

    Raises:
      LinkClosed: if the server hung up, answered something else, or nothing in time.
      ConnectionRejected: from ``nursery``; `rejected` converts it.
    """
    watched = _Watched(stream)
    socket: WebSocketConnection | None = None
    async with trio.open_nursery() as racing:
        racing.cancel_scope.deadline = until
        racing.start_soon(watched.cancel_at_end, racing.cancel_scope)
        socket = await wrap_client_stream(
            nursery,
            watched,  # type: ignore[arg-type]  # any stream works
            address.authority,
            address.resource,
            extra_headers=list(headers),
            message_queue_size=QUEUE,
            max_message_size=MAX_MESSAGE,
            receive_buffer_size=None,
        )
        watched.opened = True
        racing.cancel_scope.cancel()
    if socket is None:
        raise watched.why(secret, address)
    return socket


def rejected(error: HandshakeError, secret: Secret | None) -> LinkClosed:
    """Convert trio-websocket's error about a failed handshake."""
    if not isinstance(error, ConnectionRejected):
        return _hung_up()
    return on_rejection(
        error.status_code,
        {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in error.headers
        },
        (error.body or b"").decode("utf-8", "replace"),
        secret,
    )


def _hung_up() -> LinkClosed:
    return LinkClosed(
        ErrorKind.INTERRUPTED,
        "the server hung up during the handshake",
        retryable=True,
    )


def _too_late(address: Address) -> LinkClosed:
    return LinkClosed(
        ErrorKind.UNREACHABLE,
        f"{address.authority}: no WebSocket in time",
        retryable=True,
    )


@attrs.define(eq=False)
class _Watched(trio.abc.Stream):
    """A stream that stores the start of its handshake, and reports its own end."""

    _stream: trio.abc.Stream
    opened: bool = False
    _seen: bytearray = attrs.field(factory=bytearray, init=False)
    _given_up: bool = attrs.field(default=False, init=False)
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            data = await self._stream.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._ended.set()
            raise
        if not self.opened:
            self._seen += data[: MAX_ANSWER - len(self._seen)]
            if len(self._seen) >= MAX_ANSWER:
                data = b""
        if not data:
            self._ended.set()
        return data

    async def aclose(self) -> None:
        self._given_up = not self._ended.is_set()
        self._ended.set()
        await self._stream.aclose()

    async def cancel_at_end(self, scope: trio.CancelScope) -> None:
        """Cancel ``scope`` if the stream ends before the handshake does."""
        await self._ended.wait()
        # If the upgrade arrived with the end, its waiter runs before this continues.
        await trio.lowlevel.checkpoint()
        scope.cancel()

    def why(self, secret: Secret | None, address: Address) -> LinkClosed:
        """Return why there was no handshake."""
        head, _, body = bytes(self._seen).partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.[01] (\d{3})\b", head)
        if status and status[1] != b"101":  # a response whose end never arrived
            return on_rejection(
                int(status[1]), {}, body.decode("utf-8", "replace"), secret
            )
        if self._given_up:
            return LinkClosed(
                ErrorKind.MALFORMED,
                "the server there does not support WebSocket",
                retryable=False,
            )
        return _hung_up() if self._ended.is_set() else _too_late(address)
