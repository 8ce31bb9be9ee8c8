"""The errors of the HTTP client, and what each of them says of a server."""

from __future__ import annotations

from functools import cache

from glyphoxa_trio.certificates import CertificatesUnreadable

from .llm import ErrorKind


@cache
def kinds_of_client_errors() -> tuple[
    tuple[tuple[type[Exception], ...], ErrorKind], ...
]:
    """Return the table of the client's errors; the first row that fits counts."""
    import httpx2

    return (
        (
            (
                httpx2.ConnectError,
                httpx2.ConnectTimeout,
                httpx2.PoolTimeout,
                httpx2.ProxyError,
                httpx2.UnsupportedProtocol,
                CertificatesUnreadable,
            ),
            ErrorKind.UNREACHABLE,
        ),
        ((httpx2.SSEError, httpx2.DecodingError), ErrorKind.MALFORMED),
        ((httpx2.InvalidURL, httpx2.LocalProtocolError), ErrorKind.BAD_REQUEST),
        ((httpx2.HTTPError, httpx2.StreamError), ErrorKind.INTERRUPTED),
    )
