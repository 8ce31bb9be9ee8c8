"""A scripted HTTP server on loopback: one function answers every request.

    def answer(request: Request) -> Reply:
        return Status(429, {"Retry-After": "2"})

    async with open_http_server(answer) as server:
        ...  # at server.origin
    assert server.requests[0].headers["authorization"] == "Bearer t"

A reply may be good, bad, late or none at all. `open_mcp_server` and
`open_token_server` are made of it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, Final

import attrs
import h11

import trio

_RECEIVE: Final = 64 * 1024  # bytes asked of the socket at a time
_JSON: Final = {"Content-Type": "application/json"}
_STREAM: Final = {"Content-Type": "text/event-stream"}


@attrs.frozen
class Request:
    """What a client sent. Names of ``headers`` are in small letters.

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
class Status:
    """An answer with a status, headers and a body; data is sent as JSON."""

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: Any = b""


@attrs.frozen
class Events:
    """An event stream of MCP messages; ``then`` it ends, dies, or stays open."""

    messages: Sequence[Any] = ()
    then: str = "end"


@attrs.frozen
class Raw:
    """These bytes in place of HTTP; then the connection is closed."""

    data: bytes


@attrs.frozen
class Hang:
    """No answer at all, while the client waits."""


@attrs.frozen
class Die:
    """The connection is closed without an answer."""


@attrs.frozen
class Late:
    """A reply after so many seconds."""

    seconds: float
    reply: Reply


Reply = Status | Events | Raw | Hang | Die | Late
Answer = Callable[[Request], Reply | Awaitable[Reply]]


@attrs.define(eq=False)
class HttpServer:
    """What was asked so far. ``hangups`` are replies that their client left."""

    origin: str
    requests: list[Request] = attrs.field(factory=list)
    connections: int = 0
    hangups: int = 0
    _changed: trio.Condition = attrs.field(factory=trio.Condition, repr=False)

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Return once ``condition`` holds; looked at after every change here."""
        async with self._changed:
            while not condition():
                await self._changed.wait()

    async def _note(self, change: Callable[[], None]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()


@asynccontextmanager
async def open_http_server(answer: Answer) -> AsyncIterator[HttpServer]:
    """Answer requests on a free port of 127.0.0.1 until the block is left."""
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server = HttpServer(f"http://127.0.0.1:{port}")

        async def serve(stream: trio.SocketStream) -> None:
            server.connections += 1
            await _Connection(stream, server, answer).serve()

        nursery.start_soon(trio.serve_listeners, serve, listeners)
        try:
            yield server
        except Exception as error:  # leaves the block as it is, not in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@attrs.define(eq=False)
class _Connection:
    """One client's connection: requests, and their answers."""

    _stream: trio.SocketStream
    _server: HttpServer
    _answer: Answer
    _http: h11.Connection = attrs.field(
        factory=lambda: h11.Connection(h11.SERVER), init=False
    )

    async def serve(self) -> None:
        async with self._stream:
            # A client that leaves halfway is nothing that a script has to know.
            with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
                while await self._one():
                    self._http.start_next_cycle()

    async def _one(self) -> bool:
        """Answer one request. False when the connection is over."""
        head = await self._next()
        if not isinstance(head, h11.Request):
            return False
        body = bytearray()
        while isinstance(data := await self._next(), h11.Data):
            body += data.data
        request = _request(head, bytes(body))
        await self._server._note(lambda: self._server.requests.append(request))
        reply = self._answer(request)
        if isinstance(reply, Awaitable):
            reply = await reply
        whole = await self._unless_left(reply)
        return whole and self._http.our_state is h11.DONE is self._http.their_state

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._stream.receive_some(_RECEIVE))
        return event

    async def _send(self, *events: h11.Event) -> None:
        data = b"".join(self._http.send(event) or b"" for event in events)
        await self._stream.send_all(data)

    async def _unless_left(self, reply: Reply) -> bool:
        """Give ``reply``; False if the connection is over with it."""
        left = whole = False
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal left
                with suppress(trio.BrokenResourceError):
                    while data := await self._stream.receive_some(_RECEIVE):
                        self._http.receive_data(data)  # an early next request
                left = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                whole = await self._give(reply)
            except trio.BrokenResourceError:
                left = True
            nursery.cancel_scope.cancel()
        if left and not whole:
            await self._server._note(self._hangup)
        return whole and not left

    def _hangup(self) -> None:
        self._server.hangups += 1

    async def _give(self, reply: Reply) -> bool:
        match reply:
            case Late(seconds, then):
                await trio.sleep(seconds)
                return await self._give(then)
            case Raw(data):
                await self._stream.send_all(data)
            case Hang():
                await trio.sleep_forever()
            case Status(status, headers, body):
                if not isinstance(body, bytes):
                    headers, body = {**_JSON, **headers}, json.dumps(body).encode()
                length = {"Content-Length": str(len(body))}
                head = _head(status, {**length, **headers})
                # At once: a client that has read enough may leave.
                await self._send(head, h11.Data(data=body), h11.EndOfMessage())
                return True
            case Events(messages, then):
                await self._send(_head(200, _STREAM))
                for message in messages:
                    text = f"event: message\ndata: {json.dumps(message)}\n\n"
                    await self._send(h11.Data(data=text.encode()))
                if then == "stay":
                    await trio.sleep_forever()
                if then == "end":
                    await self._send(h11.EndOfMessage())
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


def _request(head: h11.Request, body: bytes) -> Request:
    path, _, query = head.target.decode("latin-1").partition("?")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        message = None
    return Request(
        method=head.method.decode(),
        path=path,
        query=query,
        headers={k.decode(): v.decode("latin-1") for k, v in head.headers},
        body=body,
        message=message if isinstance(message, dict) else {},
    )
