"""Read connections in small pieces, so that other tasks can run.

The HTTP client parses all that one read has brought before another task can run: 64 KiB
of "100 Continue" responses, or of chunks of one byte, block the event loop for a third
of a second. No model writes so fast that small reads slow it down.
"""

from __future__ import annotations

import ssl
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore2
import httpx2

READ: Final = 512  # bytes at a time; some milliseconds of work at worst


def client_for(base_url: str, tls: ssl.SSLContext, **more: Any) -> httpx2.AsyncClient:
    """Return a new client for a server. It obeys the proxies of the environment, except
    for a server on this machine, which no proxy reaches."""
    host = urlsplit(base_url).hostname or ""
    local = host in ("localhost", "::1") or host.startswith("127.")
    made = httpx2.AsyncClient(verify=tls, trust_env=not local, **more)
    return read_in_small_pieces(made)


def read_in_small_pieces(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """Make the client's connections read a few bytes at a time; return the client."""
    # The library offers no way to set this beside proxies; remove this when it does.
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.AsyncHTTPTransport):
            pool = transport._pool
            pool._network_backend = _Backend(pool._network_backend)
    return client


class _Backend(httpcore2.AsyncNetworkBackend):
    """A network backend whose streams read little at a time."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(self, *args: Any, **more: Any) -> _Stream:
        return _Stream(await self._backend.connect_tcp(*args, **more))

    async def connect_unix_socket(self, *args: Any, **more: Any) -> _Stream:
        return _Stream(await self._backend.connect_unix_socket(*args, **more))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    """A stream that reads at most `READ` bytes at a time."""

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
