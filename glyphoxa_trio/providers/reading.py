"""Connections that are read a little at a time.

The HTTP client takes apart all that one read has brought before anybody else has a
turn: 64 KiB of answers that only say "100 Continue", or of pieces of one byte, hold
everybody up for a third of a second. No model writes so fast that small reads are felt.
"""

from __future__ import annotations

from typing import Any, Final

import httpcore2
import httpx2

READ: Final = 512  # bytes at a time; some milliseconds of work at worst


def read_in_small_pieces(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, whose connections give others a turn after each few bytes."""
    # The library has no way to be given one beside proxies; this goes when it has.
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.AsyncHTTPTransport):
            pool = transport._pool
            pool._network_backend = _Backend(pool._network_backend)
    return client


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(self, *args: Any, **more: Any) -> _Stream:
        return _Stream(await self._backend.connect_tcp(*args, **more))

    async def connect_unix_socket(self, *args: Any, **more: Any) -> _Stream:
        return _Stream(await self._backend.connect_unix_socket(*args, **more))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, *args: Any, **more: Any) -> bytes:
        return await self._stream.read(min(max_bytes, READ), *args, **more)

    async def write(self, buffer: bytes, *args: Any, **more: Any) -> None:
        await self._stream.write(buffer, *args, **more)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *args: Any, **more: Any) -> _Stream:
        return _Stream(await self._stream.start_tls(*args, **more))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
