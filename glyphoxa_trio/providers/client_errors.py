"""The errors of the HTTP client, and what each of them says of a server."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from functools import cache

import trio

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


def may_pass(error: BaseException | None) -> bool:
    """Return whether the server, which sent nothing, may take a request in a moment.

    It has reset or closed the connection, also one that was kept, or has not accepted
    it in time. A server that is not there refuses it, which does not pass.
    """
    import httpx2

    match error:
        case (
            httpx2.ConnectTimeout()
            | httpx2.ReadError()
            | httpx2.WriteError()
            | httpx2.CloseError()
            | httpx2.RemoteProtocolError()
        ):
            return True
        case httpx2.ConnectError():
            reasons = list(_reasons(error))
            if any(isinstance(x, ssl.SSLCertVerificationError) for x in reasons):
                return False
            return any(
                isinstance(x, trio.BrokenResourceError)
                or (isinstance(x, OSError) and x.errno in _RESET)
                for x in reasons
            )
    return False


_RESET = (errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE)


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and everything that has led to it."""
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [x for x in (one.__cause__, one.__context__) if x is not None]
        left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
