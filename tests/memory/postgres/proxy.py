"""A way to a real server that can lose its answers, or be closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import psycopg

import trio

FAREWELL = b"X\0\0\0\4"  # of a client that closes its connection


@attrs.define(eq=False)
class Proxy:
    """Forwards connections of the loopback to a server's socket.

    ``losing``: when a client has sent something with this in it, the answer is waited
    for and thrown away, and the connection is cut; with ``closes`` all of them are.
    With ``lingers``, the server does not learn that a client has closed a connection.
    """

    socket: Path
    losing: bytes = b""
    closes: bool = False
    lingers: bool = False
    lost: int = 0
    closed: bool = False
    _open: set[trio.CancelScope] = attrs.field(factory=set)

    def close(self) -> None:
        """Cut all connections, and refuse new ones."""
        self.closed = True
        for scope in self._open:
            scope.cancel()

    async def serve(self, client: trio.SocketStream) -> None:
        if self.closed:
            return
        server = await trio.open_unix_socket(self.socket)
        way = _Way(self, client, server)
        async with server, trio.open_nursery() as nursery:
            self._open.add(nursery.cancel_scope)
            nursery.start_soon(way.forth)
            await way.back()
            nursery.cancel_scope.cancel()
        self._open.discard(nursery.cancel_scope)


@attrs.define(eq=False)
class _Way:
    """One connection."""

    proxy: Proxy
    client: trio.SocketStream
    server: trio.SocketStream
    loses: bool = False

    async def forth(self) -> None:
        last = b""
        with suppress(trio.BrokenResourceError):
            async for part in self.client:
                last = last[-100:] + part
                self.loses = bool(self.proxy.losing) and self.proxy.losing in last
                if self.proxy.lingers:
                    part = part.removesuffix(FAREWELL)
                await self.server.send_all(part)
        if self.proxy.lingers:
            await trio.sleep_forever()
        with suppress(trio.BrokenResourceError):
            await self.server.send_eof()

    async def back(self) -> None:
        with suppress(trio.BrokenResourceError):
            async for part in self.server:
                if self.loses:
                    self.proxy.lost += 1
                    if self.proxy.closes:
                        self.proxy.close()
                    return
                await self.client.send_all(part)


@asynccontextmanager
async def a_proxy(address: str) -> AsyncGenerator[tuple[Proxy, str]]:
    """Open a way to the database of an address; with the address that leads there."""
    folder = psycopg.conninfo.conninfo_to_dict(address)["host"]
    proxy = Proxy(Path(str(folder), ".s.PGSQL.5432"))
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        port = listener.socket.getsockname()[1]
        yield (
            proxy,
            psycopg.conninfo.make_conninfo(address, host="127.0.0.1", port=port),
        )
        nursery.cancel_scope.cancel()
