"""HTTP on loopback for scripted servers: all of it but the script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import attrs
import h11

import trio

_RECEIVE: Final = 64 * 1024  # bytes read from the socket at a time


@asynccontextmanager
async def open_background() -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose tasks are cancelled when the block is left.

    An error of the block is raised as it is; one of a task ends the block, in an
    exception group.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:  # raised as it is, not in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def open_loopback(
    serve: Callable[[trio.SocketStream], Awaitable[None]],
) -> AsyncIterator[str]:
    """Serve a free port of 127.0.0.1 until the block is left; yield the origin.

    Errors are raised as by `open_background`.
    """
    async with open_background() as nursery:
        yield f"http://127.0.0.1:{await listen(nursery, serve)}"


async def listen(
    nursery: trio.Nursery, serve: Callable[[trio.SocketStream], Awaitable[None]]
) -> int:
    """Serve a free port of 127.0.0.1 in ``nursery``; return the port."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, listeners)
    port: int = listeners[0].socket.getsockname()[1]
    return port


@attrs.define(eq=False)
class HttpConnection:
    """One client's connection, with requests and answers as h11 events."""

    stream: trio.abc.Stream
    _http: h11.Connection = attrs.field(
        factory=lambda: h11.Connection(h11.SERVER), init=False
    )

    async def serve(self, one: Callable[[], Awaitable[bool]]) -> None:
        """Answer one request after the other with ``one``, until that returns False."""
        async with self.stream:
            # A client that disconnects between requests, or halfway through one, does
            # not concern the script.
            with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
                while await one():
                    self._http.start_next_cycle()

    async def request(self) -> tuple[h11.Request, bytes] | None:
        """Return the next request with its body; None if there is none."""
        head = await self._next()
        if not isinstance(head, h11.Request):
            return None
        body = bytearray()
        while isinstance(data := await self._next(), h11.Data):
            body += data.data
        return head, bytes(body)

    async def send(self, *events: h11.Event) -> None:
        data = b"".join(self._http.send(event) or b"" for event in events)
        await self.stream.send_all(data)

    async def unless_left(
        self, play: Callable[[], Awaitable[bool]]
    ) -> tuple[bool, bool]:
        """Run ``play``, cancelled if the client disconnects.

        Returns the value of ``play``, False if it was cancelled; and whether the client
        disconnected.
        """
        left = whole = False
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal left
                with suppress(trio.BrokenResourceError):
                    while data := await self.stream.receive_some(_RECEIVE):
                        self._http.receive_data(bytes(data))  # an early next request
                left = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                whole = await play()
            except trio.BrokenResourceError:
                left = True
            nursery.cancel_scope.cancel()
        return whole, left

    @property
    def is_done(self) -> bool:
        """True if both sides have finished, so that the next request may come."""
        return self._http.our_state is h11.DONE is self._http.their_state

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self.stream.receive_some(_RECEIVE)
            self._http.receive_data(bytes(data))
        return event
