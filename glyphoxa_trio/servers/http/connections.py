"""Bounding the number of connections, and the time a client may take to read."""

from __future__ import annotations

import attrs

import trio

# bytes that the client must read within the time limit for one piece
_PIECE = 64 * 1024


@attrs.define(eq=False)
class Connection(trio.abc.HalfCloseableStream):
    """The socket of a client; it is closed if the client does not read in time."""

    _stream: trio.SocketStream
    _within: float
    _places: trio.Semaphore
    _closed: bool = attrs.field(default=False, init=False)

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._stream.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send data in pieces.

        Raises:
          trio.BrokenResourceError: if the client is gone, or did not read a piece
            within the time limit.
        """
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
    """A listener that accepts while there are free places.

    Clients beyond that wait in the kernel's queue.
    """

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
