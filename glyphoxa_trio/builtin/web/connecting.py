"""Connections to addresses that were checked, and to no other.

A name is resolved once, all its addresses are checked, and one of them is connected to.
So a name server that answers differently the second time gains nothing. TLS is for the
name: it is sent, and the certificate must be for it.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import attrs
import httpcore2

import trio

from .addresses import Allowed
from .refusals import PageRefused, SiteFails

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

_MOST_ADDRESSES: Final = 4  # addresses that are tried, one after the other
_CONNECT: Final = 1.5  # seconds for one of them
_CONNECTIONS: Final = 4  # of one fetch: a page, its robots.txt, and redirects


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as this machine resolves names.

    Raises:
      OSError: if there are none.
    """
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@attrs.frozen(eq=False)
class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connections for httpcore2, each to an address that was checked."""

    allowed: Allowed
    resolver: Resolver = resolve
    _dialler: httpcore2.TrioBackend = attrs.field(factory=httpcore2.TrioBackend)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore2 has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that answers.

        Raises:
          Refused: if an address of the host may not be fetched from.
          SiteFails: if the host does not exist or cannot be reached.
        """
        try:
            addresses = await self.resolver(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise SiteFails(f"There is no site called {host}.")
        refusal = self.allowed.refusal(host, addresses)
        if refusal is not None:
            raise PageRefused(f"That page cannot be fetched: {refusal}.")
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                return await self._dialler.connect_tcp(address, port, timeout=_CONNECT)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        raise SiteFails(f"The site {host} cannot be reached.")


def open_pool(
    backend: CheckedBackend, tls: ssl.SSLContext
) -> AbstractAsyncContextManager[httpcore2.AsyncConnectionPool]:
    """Return the connections for one fetch.

    No proxy is used, whatever the environment says: a proxy would choose the address.
    """
    return httpcore2.AsyncConnectionPool(
        ssl_context=tls,
        max_connections=_CONNECTIONS,
        keepalive_expiry=5.0,
        network_backend=backend,
    )
