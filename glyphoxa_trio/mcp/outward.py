"""A client for addresses that a server has chosen: they lead out, never in.

A server says where its tokens come from, and we go there before anybody looks. So what
it names has to be on the public internet, unless the operator named that host, too. The
address is checked that is connected to: a name that answers otherwise a moment later
gains nothing.
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
    """What may be gone to beside the public internet: the hosts of ``urls``, which the
    operator gave. Whoever named this machine named all of its names."""
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
    async def connect_tcp(
        self, host: str, port: int, *args: Any, **more: Any
    ) -> httpcore2.AsyncNetworkStream:
        """Raises `NoToken` for an address inside, `ConnectError` if nobody is there."""
        try:
            return await super().connect_tcp(host, port, *args, **more)
        except PageRefused:
            raise NoToken(
                f"the server sends us to {host}:{port} for a token, which is not on the"
                " public internet and which nobody named here: if it is right, give"
                " auth.oauth.token_url"
            ) from None
        except SiteFails as error:
            raise httpcore2.ConnectError(str(error)) from None


class OutwardTransport(httpx2.AsyncHTTPTransport):
    """Connects only to what `Allowed` says. No proxy: it would choose the address."""

    def __init__(self, allowed: Allowed, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls)
        # The library has no way to be given another one; it goes when there is.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=4,
            keepalive_expiry=5.0,
            network_backend=_Outward(allowed),
        )
