"""The certificates that this machine trusts, read once for the whole process.

Reading them takes 20 to 80 ms of processor, in which no task would run. So a thread
does it when a connection first needs them, and all clients share what it read.
Authorities that are installed on the machine later are known after a restart.

``SSL_CERT_FILE``, a file in PEM, and ``SSL_CERT_DIR``, a folder as `openssl rehash`
makes it, replace the authorities of the machine. Both are looked at for every
connection, so that a change of one of them counts at once.
"""

from __future__ import annotations

import os
import ssl
import threading
from functools import cache
from typing import Final
from urllib.parse import urlsplit

import attrs

import trio

from .errors import GlyphoxaError

_HTTP: Final = ("http/1.1",)


class CertificatesUnreadable(GlyphoxaError, OSError):
    """A file that ``SSL_CERT_FILE`` names cannot be read, or has no certificates."""


async def trusted(*, http: bool = True) -> ssl.SSLContext:
    """Return the context for connections to servers. It is shared: do not change it.

    If cancelled, returns at once; the next caller gets what the thread has read.

    Args:
      http: offer HTTP/1.1 to the server, as HTTP clients and WebSockets do. The HTTP
        client would set the same, so it changes nothing.

    Raises:
      CertificatesUnreadable: the environment names a file that is no such file.
    """
    wanted = _Wanted(
        file=os.environ.get("SSL_CERT_FILE", ""),
        folder=os.environ.get("SSL_CERT_DIR", ""),
        protocols=_HTTP if http else (),
    )
    if (kept := _kept.get(wanted)) is not None:
        return kept
    async with _line():
        if (kept := _kept.get(wanted)) is not None:
            return kept
        return await trio.to_thread.run_sync(_once, wanted, abandon_on_cancel=True)


async def trusted_for(url: str) -> ssl.SSLContext:
    """Return the context for requests to one address, without redirects to others.

    Nothing is read for an address with ``http://``: its context trusts no server.

    Raises:
      CertificatesUnreadable: see `trusted`.
    """
    return _nothing() if urlsplit(url).scheme == "http" else await trusted()


@attrs.frozen
class _Wanted:
    """The source of a context, and what it offers to servers."""

    file: str
    folder: str
    protocols: tuple[str, ...]


_kept: Final[dict[_Wanted, ssl.SSLContext]] = {}
# Several runs of trio may be in one process, and an abandoned thread goes on.
_reading: Final = threading.Lock()
_lines: Final[trio.lowlevel.RunVar[trio.Lock]] = trio.lowlevel.RunVar("certificates")


def _line() -> trio.Lock:
    """Return the lock of this run: tasks that wait for a reading need no threads."""
    try:
        return _lines.get()
    except LookupError:
        _lines.set(lock := trio.Lock())
        return lock


def _once(wanted: _Wanted) -> ssl.SSLContext:
    with _reading:
        if (kept := _kept.get(wanted)) is not None:
            return kept
        read = _read(wanted)
        for other in tuple(_kept):
            if (other.file, other.folder) != (wanted.file, wanted.folder):
                del _kept[other]
        _kept[wanted] = read
        return read


def _read(wanted: _Wanted) -> ssl.SSLContext:
    if wanted.file or wanted.folder:
        context = _of_environment(wanted)
    else:
        # It knows where Linux distributions have them, and reads those of macOS.
        import httpx2

        context = httpx2.create_ssl_context(trust_env=False)
    if wanted.protocols:
        context.set_alpn_protocols(list(wanted.protocols))
    return context


def _of_environment(wanted: _Wanted) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(wanted.file or None, wanted.folder or None)
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            why = "has no certificates in PEM"
        else:
            why = f"cannot be read: {error.strerror or error}"
        raise CertificatesUnreadable(
            f"SSL_CERT_FILE: {why}; name another file, or unset it @ {wanted.file}"
        ) from None
    return context


@cache
def _nothing() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
