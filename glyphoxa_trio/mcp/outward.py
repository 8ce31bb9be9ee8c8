"""An HTTP client for addresses that a server chose: it connects to public hosts only.

A server says where its tokens come from, and we connect there without asking anyone. So
the address must be on the public internet, unless the operator named that host, too.
The check is made on the IP address that is connected to, so a name that resolves
differently a moment later gains nothing.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

from glyphoxa_trio.builtin.web.addresses import Allowed
from glyphoxa_trio.builtin.web.connecting import CheckedBackend
from glyphoxa_trio.builtin.web.refusals import PageRefused, SiteFails

from .discovery import NoToken

_THIS_MACHINE = ("127.0.0.0/8", "::1/128", "localhost")


def allowed_by(urls: Iterable[str]) -> Allowed:
    """Return the hosts that are allowed beside the public internet: those of ``urls``.

    The operator gave these addresses. One of them that names this machine allows all
    names of this machine.
    """
    entries: list[str] = []
    for url in urls:
        host = (urlsplit(url).hostname or "").rstrip(".").partition("%")[0]
        try:
            local = ipaddress.ip_address(host).is_loopback
        except ValueError:
            local = host == "localhost" or host.endswith(".localhost")
        entries += [host, *(_THIS_MACHINE if local else ())]
    return Allowed.of(entry for entry in entries if entry)


class _Outward(CheckedBackend):
    """A network backend that refuses private addresses with `NoToken`."""

    async def connect_tcp(
        self, host: str, port: int, *args: Any, **more: Any
    ) -> httpcore2.AsyncNetworkStream:
        """Connect, if the address is allowed.

        Raises:
          NoToken: if the address is not public.
          ConnectError: if the connection fails.
        """
        try:
            return await super().connect_tcp(host, port, *args, **more)
        except PageRefused:
            raise NoToken(
                f"the server sends us to {host}:{port} for a token, which is not on the"
                " public internet and not configured here: if it is right, set"
                " auth.oauth.token_url"
            ) from None
        except SiteFails as error:
            raise httpcore2.ConnectError(str(error)) from None


class OutwardTransport(httpx2.AsyncHTTPTransport):
    """A transport that connects only to `Allowed` addresses.

    It uses no proxy, because a proxy would choose the address.
    """

    def __init__(self, allowed: Allowed, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls)
        # The library offers no way to pass another pool; remove this when it does.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=4,
            keepalive_expiry=5.0,
            network_backend=_Outward(allowed),
        )
