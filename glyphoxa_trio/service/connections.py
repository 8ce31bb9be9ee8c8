"""Each connection of the service: a WebSocket at ``/ws``, or HTTP.

The head of the first request decides. hypercorn would accept compressed frames, inflate
a whole read before it looks at the size, and not notice a client that is gone, so a
WebSocket is spoken by `trio_websocket` instead, without compression.
"""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import Any, Final

import attrs
import h11
from trio_websocket import wrap_server_stream

import trio

from glyphoxa_trio.servers.http.access import (
    RequestRefusal,
    host_allowed,
    origin_allowed,
    read_headers,
)
from glyphoxa_trio.servers.http.bucket import whose
from glyphoxa_trio.servers.http.limits import Access
from glyphoxa_trio.servers.http.listening import ClientStream, HttpConnections

from .gateway import NpcGateway
from .protocol import MOST_BYTES

logger = logging.getLogger(__name__)

PATH: Final = "/ws"
_MOST_HEAD: Final = 16 * 1024  # bytes
_RECEIVE: Final = 64 * 1024


@attrs.define(eq=False)
class ReplayedStream(trio.abc.HalfCloseableStream):
    """A stream of which something was read already, and is read again first.

    Whatever else is asked of it, such as its socket, is that of the stream.
    """

    _stream: ClientStream
    _first: bytes

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if not self._first:
            return await self._stream.receive_some(max_bytes)
        await trio.lowlevel.checkpoint()
        size = len(self._first) if max_bytes is None else max_bytes
        piece, self._first = self._first[:size], self._first[size:]
        return piece

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def refusal_of(headers: dict[str, str], access: Access) -> RequestRefusal | None:
    """Return why a request with these headers may not come in; None if it may.

    A page may use the service that it came from, and others that ``access`` names.
    """
    host = headers.get("host", "")
    if not host_allowed(host, access):
        return RequestRefusal(421, "this Host is not allowed (see --allow-host)")
    origin = headers.get("origin")
    if origin is None or origin.partition("://")[2].lower() == host.lower():
        return None
    if not origin_allowed(origin, access):
        return RequestRefusal(403, "this Origin is not allowed (see --allow-origin)")
    return None


@attrs.define(eq=False)
class ServiceConnections:
    """Serves WebSockets by the gateway, and everything else by HTTP."""

    _http: HttpConnections
    _gateway: NpcGateway
    _access: Access
    _head_within: float

    async def serve(self, stream: ClientStream) -> None:
        """Serve a connection until it is closed."""
        try:
            first, request = b"", None
            with trio.move_on_after(self._head_within) as patience:
                if isinstance(stream, trio.SSLStream):
                    await stream.do_handshake()
                first, request = await _first_request(stream)
            if patience.cancelled_caught or not first:
                return
            whole = ReplayedStream(stream, first)
            if request is not None and _wants_socket(request):
                await self._serve_socket(whole, request)
            else:
                await self._http.serve(whole)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the client has left
        except Exception:  # border: an error ends its connection only
            logger.exception("a connection ended with an error")
        finally:
            await trio.aclose_forcefully(stream)

    async def stop(self) -> None:
        """Have idle connections end."""
        self._gateway.close_all()
        await self._http.stop()

    async def _serve_socket(self, stream: ReplayedStream, request: h11.Request) -> None:
        headers = read_headers(request.headers)
        refused = headers if isinstance(headers, RequestRefusal) else None
        if isinstance(headers, dict):
            refused = refusal_of(headers, self._access)
            if refused is None and not _is_upgrade(headers):
                refused = RequestRefusal(426, "a WebSocket is needed here")
        if refused is not None:
            await stream.send_all(_refusal_text(refused))
            return
        assert isinstance(headers, dict)
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(self._head_within) as patience:
                asked = await wrap_server_stream(
                    nursery, stream, message_queue_size=1, max_message_size=MOST_BYTES
                )
                socket = await asked.accept()
            if not patience.cancelled_caught:
                await self._gateway.serve(
                    socket, headers=headers, address=_address_of(stream)
                )
            nursery.cancel_scope.cancel("the client has left")


def _address_of(stream: ReplayedStream) -> str:
    """Return the client's address, as limits count it."""
    below = stream.transport_stream if hasattr(stream, "transport_stream") else stream
    return whose(str(below.socket.getpeername()[0]))


async def _first_request(stream: ClientStream) -> tuple[bytes, h11.Request | None]:
    """Return what was read of the stream, and the request in it, if there is one."""
    parser, read = h11.Connection(h11.SERVER), b""
    while len(read) < _MOST_HEAD:
        piece = await stream.receive_some(_RECEIVE)
        if not piece:
            break
        read += piece
        try:
            parser.receive_data(bytes(piece))
            event = parser.next_event()
        except h11.RemoteProtocolError:
            break  # hypercorn says what is wrong with it
        if isinstance(event, h11.Request):
            return read, event
    return read, None


def _wants_socket(request: h11.Request) -> bool:
    return request.target.partition(b"?")[0] == PATH.encode()


def _is_upgrade(headers: dict[str, str]) -> bool:
    return headers.get("upgrade", "").lower() == "websocket"


def _refusal_text(refused: RequestRefusal) -> bytes:
    body = json.dumps({"error": refused.message}).encode()
    status = HTTPStatus(refused.status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
