"""Listening at an address, and HTTP on the connections that come.

hypercorn speaks HTTP on each connection. The connections themselves are ours, because
hypercorn waits without end for a client that does not read, and does not bound their
number.
"""

from __future__ import annotations

import errno
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

import attrs
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.servers.definition import CannotServe

from .connections import BoundedListener, Connection
from .limits import Limits
from .options import HttpOptions, is_loopback

logger = logging.getLogger(__name__)

_LAST_WORDS = 1.0  # seconds for idle connections to close by themselves
_TRIES = 10  # attempts to find a port that is free for IPv4 and IPv6

ClientStream: TypeAlias = "Connection | trio.SSLStream[Connection]"


class Connections(Protocol):
    """Serves the connections of a listener."""

    async def serve(self, stream: ClientStream) -> None:
        """Serve a connection until it is closed. Raises nothing on purpose."""
        ...

    async def stop(self) -> None:
        """Have connections end that are idle. The others have a second."""
        ...


@attrs.define(eq=False)
class HttpConnections:
    """Serves an ASGI application by HTTP/1.1."""

    _app: Any
    _limits: Limits
    _context: WorkerContext = attrs.field(
        factory=lambda: WorkerContext(None), init=False
    )
    _config: Config = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._config = Config()
        self._config.keep_alive_timeout = self._limits.head_within
        self._config.ssl_handshake_timeout = self._limits.head_within
        self._config.include_server_header = False

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve a connection until it is closed."""
        app = ASGIWrapper(cast("ASGIFramework", self._app))
        try:
            await TCPServer(
                app,
                self._config,
                self._context,
                ConnectionState({}),
                stream,  # type: ignore[arg-type]
            )
        except Exception:  # border: hypercorn; an error ends its connection only
            logger.exception("a connection ended with an error")
        finally:
            await trio.aclose_forcefully(stream)

    async def stop(self) -> None:
        """Have connections without a request end."""
        await self._context.terminated.set()


@asynccontextmanager
async def open_listening(
    serving: Connections, options: HttpOptions
) -> AsyncIterator[str]:
    """Serve connections at the address of ``options`` until the block is left.

    Yields the URL, without a path.

    Raises:
      CannotServe: if the server cannot listen at the address, or the certificate
        cannot be used.
    """
    tls = _tls(options)
    listeners = await _listeners(options)
    port = listeners[0].socket.getsockname()[1]
    name = f"[{options.host}]" if ":" in options.host else options.host
    places = trio.Semaphore(options.limits.connections)
    bounded = [
        BoundedListener(listener, places, options.limits.write_within)
        for listener in listeners
    ]
    accepted: list[Any] = list(bounded)
    if tls is not None:
        accepted = [
            trio.SSLListener(listener, tls, https_compatible=True)
            for listener in bounded
        ]
    with lone_errors():
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(
                    partial(
                        trio.serve_listeners,
                        serving.serve,
                        accepted,
                        handler_nursery=connections,
                    )
                )
                yield f"http{'' if tls is None else 's'}://{name}:{port}"
                accepting.cancel_scope.cancel()
            # closes the connections that have no request
            await serving.stop()
            connections.cancel_scope.deadline = trio.current_time() + _LAST_WORDS


def _tls(options: HttpOptions) -> ssl.SSLContext | None:
    if options.certificate is None or options.key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(options.certificate, options.key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "not a certificate and its key, in PEM"
        if isinstance(error, ssl.SSLError):
            reason = "not a certificate and its key, in PEM"
        raise CannotServe(f"--tls-cert, --tls-key: {reason}") from None
    return context


async def _listeners(options: HttpOptions) -> list[trio.SocketListener]:
    """Open the listening sockets; ``localhost`` has two, at one port."""
    where = f"{options.option} {options.host}:{options.port}"
    for left in reversed(range(_TRIES)):
        try:
            return await _listen(options)
        except OSError as error:
            if options.port == 0 and error.errno == errno.EADDRINUSE and left:
                continue  # free for one address family, in use for the other
            reason = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                reason = "another program uses the port"
            raise CannotServe(f"{where}: {reason}") from None
    raise AssertionError("the last try raises")


async def _listen(options: HttpOptions) -> list[trio.SocketListener]:
    listeners = await trio.open_tcp_listeners(options.port, host=options.host)
    try:
        if not options.remote:
            for listener in listeners:
                address = listener.socket.getsockname()[0]
                if not is_loopback(address):
                    raise OSError(0, f"it is {address}, which other machines reach")
        if options.port == 0 and len(listeners) > 1:
            port = listeners[0].socket.getsockname()[1]
            for listener in listeners[1:]:
                await listener.aclose()
            first = listeners[0]
            listeners = [first]
            other = {"127.0.0.1": "::1", "::1": "127.0.0.1"}[
                first.socket.getsockname()[0]
            ]
            listeners += await trio.open_tcp_listeners(port, host=other)
    except BaseException:
        for listener in listeners:
            await trio.aclose_forcefully(listener)
        raise
    return listeners
