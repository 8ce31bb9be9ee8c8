"""Connections that end: a bounded number of them, and none that waits for ever for a
client to read.
"""

from __future__ import annotations

import attrs

import trio

_PIECE = 64 * 1024  # bytes that must be taken in the time for one


@attrs.define(eq=False)
class Connection(trio.abc.HalfCloseableStream):
    """A client's socket; what it does not read in time cuts it off."""

    _stream: trio.SocketStream
    _within: float
    _places: trio.Semaphore
    _closed: bool = attrs.field(default=False, init=False)

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._stream.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Raises `trio.BrokenResourceError` as well when the client stopped reading."""
        view = memoryview(data)
        for start in range(0, max(1, len(view)), _PIECE):
            with trio.move_on_after(self._within) as scope:
                await self._stream.send_all(view[start : start + _PIECE])
            if scope.cancelled_caught:
                await trio.aclose_forcefully(self)
                raise trio.BrokenResourceError("the client does not read")

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._places.release()
        await self._stream.aclose()


@attrs.define(eq=False)
class BoundedListener(trio.abc.Listener[Connection]):
    """Accepts while there are places; clients beyond wait in the kernel's queue."""

    _listener: trio.SocketListener
    _places: trio.Semaphore
    _within: float

    async def accept(self) -> Connection:
        await self._places.acquire()
        try:
            stream = await self._listener.accept()
        except BaseException:
            self._places.release()
            raise
        return Connection(stream, self._within, self._places)

    async def aclose(self) -> None:
        await self._listener.aclose()
