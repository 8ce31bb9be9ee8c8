"""A registry over HTTP, for a scraper on this machine, at one path.

One request a connection, which suits a scrape every fifteen seconds: there is no
idle connection to keep, and each has an end. What Prometheus' library writes, it
writes in a worker thread. Every user of this machine may read it, so it has nothing
secret in it. A web page that a browser on this machine shows may not read it, whatever
name it gives to this address.
"""

from __future__ import annotations

import errno
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import attrs
import h11

import trio

from glyphoxa_trio.actors import lone_errors

from .family import MetricsError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PATH: Final = "/metrics"
MOST_CLIENTS: Final = 8
_MOST_REFUSED: Final = 32  # refused clients that are told why, at a time
PATIENCE: Final = 10.0  # seconds for a client to ask, and again to take its answer
_GOODBYE: Final = 1.0  # seconds to hear out a client that has its answer
_RECEIVE: Final = 64 * 1024  # bytes at a time, and of a body that is not read
_HEARD_OUT: Final = 1024 * 1024  # bytes more, of a client that has its answer
_HERE: Final = r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?"
_HOST: Final = re.compile(_HERE, re.IGNORECASE)
_ORIGIN: Final = re.compile(f"https?://{_HERE}", re.IGNORECASE)


@asynccontextmanager
async def open_exposition(
    registry: CollectorRegistry, *, port: int = 0
) -> AsyncGenerator[str]:
    """Serve ``registry`` on 127.0.0.1 until the block is left; yields the address.

    In the text format, or as OpenMetrics for those who accept it.

    Args:
      port: 0 is any that is free.

    Raises:
      MetricsError: if it cannot be had.
    """
    if not 0 <= port <= 65535:
        raise MetricsError(f"there is no port {port}")
    try:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "is taken" if taken else f"cannot be had: {error.strerror}"
        raise MetricsError(f"port {port} {why}") from None
    with lone_errors():
        async with trio.open_nursery() as nursery:
            desk = _Desk(registry)
            nursery.start_soon(trio.serve_listeners, desk.attend, listeners)
            port = listeners[0].socket.getsockname()[1]
            yield f"http://127.0.0.1:{port}{PATH}"
            nursery.cancel_scope.cancel("the block was left")


def scraped(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the metrics in the format that a client accepts, and its media type.

    Meant for a worker thread: it waits for the registry's collectors.
    """
    from prometheus_client.exposition import choose_encoder

    try:
        encode, kind = choose_encoder(accept)
    except Exception:  # border: a version that is none, in several ways
        encode, kind = choose_encoder("")
    return encode(registry), kind


@attrs.frozen
class _HttpAnswer:
    status: HTTPStatus
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    more: tuple[tuple[str, str], ...] = ()


class _BadRequest(Exception):
    """The request cannot be answered as it was meant."""

    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        super().__init__(why)
        body = f"{why}\n".encode()
        self.answer = _HttpAnswer(status, body, more=tuple(headers.items()))


class _Left(Exception):
    """The client has gone without a word."""


@attrs.define(eq=False)
class _Desk:
    """Answers clients, a few at a time."""

    _registry: CollectorRegistry
    _clients: int = attrs.field(default=0, init=False)
    # One scrape at a time, in a thread of its own.
    _writing: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(1), init=False
    )

    async def attend(self, stream: trio.SocketStream) -> None:
        """One client, until it has its answer or takes too long."""
        self._clients += 1
        try:
            async with stream:
                if self._clients > MOST_CLIENTS + _MOST_REFUSED:
                    return
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._converse(_MetricsClient(stream))
        finally:
            self._clients -= 1

    async def _converse(self, client: _MetricsClient) -> None:
        no = _BadRequest(HTTPStatus.REQUEST_TIMEOUT, "that took too long")
        answer = no.answer
        with trio.move_on_after(PATIENCE):
            try:
                answer = await self._answer(client)
            except _Left:
                return
            except _BadRequest as error:
                answer = error.answer
            except h11.RemoteProtocolError as error:
                status = HTTPStatus(error.error_status_hint)
                answer = _BadRequest(status, str(error)).answer
            except Exception as bug:  # border: a registry may have foreign collectors
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                answer = _BadRequest(status, type(bug).__name__).answer
        await client.take(answer)

    async def _answer(self, client: _MetricsClient) -> _HttpAnswer:
        if self._clients > MOST_CLIENTS:
            status = HTTPStatus.SERVICE_UNAVAILABLE
            raise _BadRequest(status, f"there are {MOST_CLIENTS} clients already")
        request = await client.request()
        _check(request)
        return await trio.to_thread.run_sync(
            self._scraped,
            ", ".join(_values(request, b"accept")),
            abandon_on_cancel=True,
            limiter=self._writing,
        )

    def _scraped(self, accept: str) -> _HttpAnswer:
        """In a worker thread."""
        return _HttpAnswer(HTTPStatus.OK, *scraped(self._registry, accept))


@attrs.define(eq=False)
class _MetricsClient:
    """One connection: a request, its answer, and the end."""

    _stream: trio.SocketStream
    _http: h11.Connection = attrs.field(
        factory=lambda: h11.Connection(h11.SERVER), init=False
    )
    _wants_head: bool = attrs.field(default=False, init=False)

    async def request(self) -> h11.Request:
        """Read the request, until all of it is here.

        Raises:
          h11.RemoteProtocolError: if it is none.
          _BadRequest: if it has a body, which is never read.
          _Left: if there is none.
        """
        request: h11.Request | None = None
        unwanted = 0
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    self._expect_nothing()
                    self._http.receive_data(await self._stream.receive_some(_RECEIVE))
                case h11.Request() as request:
                    self._wants_head = request.method == b"HEAD"
                case h11.Data(data=data):
                    unwanted += len(data)
                    if unwanted > _RECEIVE:
                        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                        raise _BadRequest(status, "no body is wanted here")
                case h11.EndOfMessage() if request is not None:
                    return request
                case _:
                    raise _Left

    def _expect_nothing(self) -> None:
        """Refuse a client that waits to be asked for its body."""
        if self._http.they_are_waiting_for_100_continue:
            raise _BadRequest(HTTPStatus.EXPECTATION_FAILED, "no body is wanted here")

    async def take(self, answer: _HttpAnswer) -> None:
        """Send the answer, and see to it that it arrives."""
        with trio.move_on_after(PATIENCE):
            await self._stream.send_all(self._written(answer))
            await self._stream.send_eof()
        # Closed with something unread, the answer might never arrive.
        with trio.move_on_after(_GOODBYE):
            unread = _HEARD_OUT
            while unread > 0:
                data = await self._stream.receive_some(_RECEIVE)
                unread = unread - len(data) if data else 0

    def _written(self, answer: _HttpAnswer) -> bytes:
        """The whole answer as bytes; for HEAD without its body."""
        headers = [
            ("Content-Type", answer.kind),
            ("Content-Length", str(len(answer.body))),
            ("Connection", "close"),
            ("Cache-Control", "no-store"),
            *answer.more,
        ]
        status = answer.status
        events: tuple[h11.Event, ...] = (
            h11.Response(
                status_code=status, reason=status.phrase.encode(), headers=headers
            ),
            *(() if self._wants_head else (h11.Data(data=answer.body),)),
            h11.EndOfMessage(),
        )
        return b"".join(self._http.send(event) or b"" for event in events)


def _check(request: h11.Request) -> None:
    """Raises `_BadRequest` unless it asks for the metrics, from this machine."""
    hosts, origins = _values(request, b"host"), _values(request, b"origin")
    if not hosts or not all(map(_HOST.fullmatch, hosts)):
        raise _BadRequest(HTTPStatus.FORBIDDEN, "this is served to this machine only")
    if not all(map(_ORIGIN.fullmatch, origins)):
        raise _BadRequest(HTTPStatus.FORBIDDEN, "this is not for pages of the web")
    if request.target.partition(b"?")[0] != PATH.encode():
        raise _BadRequest(HTTPStatus.NOT_FOUND, f"the metrics are at {PATH}")
    if request.method not in (b"GET", b"HEAD"):
        status = HTTPStatus.METHOD_NOT_ALLOWED
        raise _BadRequest(status, "metrics can only be read", Allow="GET, HEAD")


def _values(request: h11.Request, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in request.headers if key == name]
