"""Ways to a server that can be cut, held, or cut in the middle of what is sent.

Each `Link` is a port of this machine. What connects there is connected with the server,
and the two never know that somebody stands between them, until he does something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

import attrs

import trio

_AT_ONCE: Final = 64 * 1024  # bytes


class Fault(StrEnum):
    """Something that happens to a link. ``TO`` is from whoever connects."""

    CUT = "cut"
    HOLD = "held"
    HOLD_TO = "held one way"
    HOLD_FROM = "held the other way"
    HALVE = "halved"


Dial = Callable[[], Awaitable[trio.SocketStream]]


@attrs.define(eq=False)
class Link:
    """One way to a server, over any number of connections."""

    name: str
    dial: Dial
    port: int
    _open: set[trio.CancelScope] = attrs.field(factory=set, init=False)
    _fault: Fault | None = attrs.field(default=None, init=False)
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def is_whole(self) -> bool:
        return self._fault is None

    async def suffer(self, fault: Fault, seconds: float) -> None:
        """Have a fault for so long; then everything is as before.

        A cut ends all connections, and refuses new ones. A halved link passes on half
        of the next piece of each connection, and cuts this one then.
        """
        self._fault, self._over = fault, trio.Event()
        if fault is Fault.CUT:
            for scope in self._open:
                scope.cancel()
        try:
            await trio.sleep(seconds)
        finally:
            self._fault = None
            self._over.set()

    async def serve(self, client: trio.SocketStream) -> None:
        """Pass on what one connection sends, until it ends."""
        if self._fault is Fault.CUT:
            return
        try:
            server = await self.dial()
        except OSError:
            return
        async with server, trio.open_nursery() as nursery:
            scope = nursery.cancel_scope
            self._open.add(scope)
            try:
                nursery.start_soon(self._pass, client, server, Fault.HOLD_TO, scope)
                await self._pass(server, client, Fault.HOLD_FROM, scope)
            finally:
                self._open.discard(scope)

    async def _pass(
        self,
        source: trio.SocketStream,
        target: trio.SocketStream,
        way: Fault,
        scope: trio.CancelScope,
    ) -> None:
        try:
            while data := await source.receive_some(_AT_ONCE):
                while self._fault in (Fault.HOLD, way):
                    await self._over.wait()
                if self._fault is Fault.HALVE:
                    await target.send_all(data[: len(data) // 2])
                    break
                await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


async def open_link(nursery: trio.Nursery, name: str, dial: Dial) -> Link:
    """Open a link, as long as the nursery runs."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    link = Link(name, dial, listener.socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, link.serve, [listener])
    return link
