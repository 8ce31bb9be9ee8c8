"""A scripted HTTP server on loopback: one function answers every request.

    def answer(request: Request) -> Reply:
        return Status(429, {"Retry-After": "2"})

    async with open_http_server(answer) as server:
        ...  # at server.origin
    assert server.requests[0].headers["authorization"] == "Bearer t"

A reply may be good, bad, late or missing. `open_mcp_server` and `open_token_server` are
made from it.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import attrs
import h11

import trio

from glyphoxa_trio.renamed import renamed

from .loopback import HttpConnection, open_loopback

_JSON: Final = {"Content-Type": "application/json"}
_STREAM: Final = {"Content-Type": "text/event-stream"}


@attrs.frozen
class ReceivedRequest:
    """A request of a client. Names of ``headers`` are in lower case.

    Args:
      message: the body, if it is a JSON object.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    message: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def called(self) -> str:
        """The MCP method of a POST, else the HTTP method."""
        return str(self.message.get("method", self.method))


@attrs.frozen
class StatusReply:
    """An answer with a status, headers and a body; data is sent as JSON."""

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: Any = b""


@attrs.frozen
class EventStreamReply:
    """An event stream of MCP messages; ``then`` it ends, dies, or stays open."""

    messages: Sequence[Any] = ()
    then: str = "end"


@attrs.frozen
class Pieces:
    """A body that is sent in pieces, ``pause`` seconds apart; it may have no end.

    Args:
      pieces: makes the pieces, for each request anew.
    """

    pieces: Callable[[], Iterable[bytes]]
    headers: Mapping[str, str] = attrs.field(factory=dict)
    pause: float = 0.0


@attrs.frozen
class RawBytes:
    """Bytes to send in place of HTTP; then the connection is closed."""

    data: bytes


@attrs.frozen
class NoAnswer:
    """No answer, while the client waits."""


@attrs.frozen
class CloseConnection:
    """Closing the connection without an answer."""


@attrs.frozen
class LateReply:
    """A reply after some seconds."""

    seconds: float
    reply: Reply


Reply = (
    StatusReply
    | EventStreamReply
    | Pieces
    | RawBytes
    | NoAnswer
    | CloseConnection
    | LateReply
)
Answer = Callable[[ReceivedRequest], Reply | Awaitable[Reply]]


@attrs.define(eq=False)
class HttpServer:
    """A running server, and its requests so far.

    ``hangups`` counts the replies during which the client disconnected.
    """

    origin: str
    requests: list[ReceivedRequest] = attrs.field(factory=list)
    connections: int = 0
    hangups: int = 0
    _changed: trio.Condition = attrs.field(factory=trio.Condition, repr=False)

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Return once ``condition`` is true; it is called after every change here."""
        async with self._changed:
            while not condition():
                await self._changed.wait()

    async def _note(self, change: Callable[[], None]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()


@asynccontextmanager
async def open_http_server(
    answer: Answer, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpServer]:
    """Answer requests on a free port of 127.0.0.1 until the block is left.

    Args:
      tls: speak HTTPS, with the certificate of this context.
    """

    async def serve(stream: trio.SocketStream) -> None:
        server.connections += 1
        wire: trio.abc.Stream = stream
        if tls is not None:
            wire = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        await _HttpConnection(HttpConnection(wire), server, answer).serve()

    async with open_loopback(serve) as origin:
        server = HttpServer(origin if tls is None else f"https{origin[4:]}")
        yield server


@attrs.define(eq=False)
class _HttpConnection:
    """One client's connection: its requests, and their answers."""

    _client: HttpConnection
    _server: HttpServer
    _answer: Answer

    async def serve(self) -> None:
        await self._client.serve(self._one)

    async def _one(self) -> bool:
        """Answer one request. Return False when the connection is over."""
        asked = await self._client.request()
        if asked is None:
            return False
        request = _request(*asked)
        await self._server._note(lambda: self._server.requests.append(request))
        reply = self._answer(request)
        if isinstance(reply, Awaitable):
            reply = await reply
        whole, left = await self._client.unless_left(partial(self._give, reply))
        if left and not whole:
            await self._server._note(self._hangup)
        return whole and not left and self._client.is_done

    def _hangup(self) -> None:
        self._server.hangups += 1

    async def _give(self, reply: Reply) -> bool:
        match reply:
            case LateReply(seconds, then):
                await trio.sleep(seconds)
                return await self._give(then)
            case RawBytes(data):
                await self._client.stream.send_all(data)
            case NoAnswer():
                await trio.sleep_forever()
            case StatusReply(status, headers, body):
                if not isinstance(body, bytes):
                    headers, body = {**_JSON, **headers}, json.dumps(body).encode()
                length = {"Content-Length": str(len(body))}
                head = _head(status, {**length, **headers})
                # In one write, since a client that has read enough may disconnect.
                await self._client.send(head, h11.Data(data=body), h11.EndOfMessage())
                return True
            case Pieces(pieces, headers, pause):
                await self._client.send(_head(200, headers))
                for piece in pieces():
                    await self._client.send(h11.Data(data=piece))
                    await trio.sleep(pause)
                await self._client.send(h11.EndOfMessage())
                return True
            case EventStreamReply(messages, then):
                await self._client.send(_head(200, _STREAM))
                for message in messages:
                    text = f"event: message\ndata: {json.dumps(message)}\n\n"
                    await self._client.send(h11.Data(data=text.encode()))
                if then == "stay":
                    await trio.sleep_forever()
                if then == "end":
                    await self._client.send(h11.EndOfMessage())
                    return True
        return False


def _head(status: int, headers: Mapping[str, str]) -> h11.Response:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = ""
    return h11.Response(
        status_code=status, headers=list(headers.items()), reason=reason.encode()
    )


def _request(head: h11.Request, body: bytes) -> ReceivedRequest:
    path, _, query = head.target.decode("latin-1").partition("?")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        message = None
    return ReceivedRequest(
        method=head.method.decode(),
        path=path,
        query=query,
        headers={k.decode(): v.decode("latin-1") for k, v in head.headers},
        body=body,
        message=message if isinstance(message, dict) else {},
    )


if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__,
        Die="CloseConnection",
        Events="EventStreamReply",
        Hang="NoAnswer",
        Late="LateReply",
        Raw="RawBytes",
        Request="ReceivedRequest",
        Status="StatusReply",
    )
