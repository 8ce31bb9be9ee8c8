"""The entrance of a fake speech-to-speech server: sockets on loopback and in memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs
from trio_websocket import ConnectionClosed, WebSocketRequest, wrap_server_stream
from wsproto.utilities import LocalProtocolError

import trio
from trio.testing import memory_stream_pair

from .loopback import listen, open_background
from .voice.gate import ClosableStream
from .voice.service import Violation, VoiceService
from .voice.steps import Refuse
from .voice.wire import MAX_MESSAGE, Habits, SocketWriter

_HANDSHAKE: Final = 30.0  # seconds that a client has for its handshake
_LEAVING: Final = 1.0


class VoiceSession(Protocol):
    """The conversation on one socket, which ends with it."""

    wire: SocketWriter

    async def run(self) -> None: ...


S = TypeVar("S", bound=VoiceSession)


@attrs.define(eq=False)
class Front(Generic[S]):
    """A server that accepts sockets, and keeps the session of each.

    Args:
      sessions: one per accepted socket, in order.
      refused: the number of refused sockets.
    """

    base_url: str = ""
    sessions: list[S] = attrs.field(factory=list, repr=False)
    refused: int = 0
    service: VoiceService = attrs.field(kw_only=True, repr=False)
    habits: Habits = attrs.field(kw_only=True, repr=False)
    _handshakes: list[Refuse | None] = attrs.field(factory=list, repr=False)
    _ssl: SSLContext | None = attrs.field(default=None, repr=False)
    _nursery: trio.Nursery = attrs.field(init=False, repr=False)
    _changed: trio.Condition = attrs.field(factory=trio.Condition, repr=False)

    @property
    def violations(self) -> list[Violation]:
        """The forbidden things that clients did."""
        return self.service.violations

    @property
    def warnings(self) -> list[Violation]:
        """The things that clients did that are allowed, but usually a mistake."""
        return self.service.warnings

    def dial(self) -> trio.abc.Stream:
        """Open a new connection, in memory; return the client's end. Never TLS."""
        ours, theirs = memory_stream_pair()
        self._nursery.start_soon(self._serve, ours)
        return theirs

    async def wait_sessions(self, count: int) -> S:
        """Return the last of the first ``count`` sessions, once there are so many."""
        async with self._changed:
            while len(self.sessions) < count:
                await self._changed.wait()
        return self.sessions[count - 1]

    def admit(self, request: WebSocketRequest) -> Refuse | None:
        """Return None for an acceptable client, else a refusal. To be overridden."""
        raise NotImplementedError

    def _note(self, code: str, detail: str) -> None:
        """Note a violation by the client that asks for the next socket."""
        self.service.violate(len(self.sessions), code, detail, {})

    def open_session(self, wire: SocketWriter, nursery: trio.Nursery) -> S:
        """Return the conversation of a new socket. Subclasses implement it."""
        raise NotImplementedError

    async def _serve_tcp(self, stream: trio.SocketStream) -> None:
        if self._ssl is None:
            await self._serve(stream)
            return
        tls = trio.SSLStream(stream, self._ssl, server_side=True, https_compatible=True)
        with trio.move_on_after(_HANDSHAKE) as scope:
            try:
                await tls.do_handshake()
            except trio.BrokenResourceError:
                return  # the client does not trust us, or speaks another protocol
        if not scope.cancelled_caught:
            await self._serve(tls)

    async def _serve(self, connection: trio.abc.Stream) -> None:
        stream = ClosableStream(connection)
        try:
            async with trio.open_nursery() as nursery:
                request: WebSocketRequest | None = None
                with trio.move_on_after(_HANDSHAKE):
                    request = await wrap_server_stream(
                        nursery,
                        stream,
                        max_message_size=MAX_MESSAGE,
                    )
                if request is not None:
                    with suppress(ConnectionClosed):
                        await self._greet(request, stream)
                nursery.cancel_scope.cancel()
        except* LocalProtocolError:
            pass  # a ping that arrives while we close
        finally:
            with trio.move_on_after(_LEAVING, shield=True):
                await trio.aclose_forcefully(stream)

    async def _greet(self, request: WebSocketRequest, stream: ClosableStream) -> None:
        refusal = self._handshakes.pop(0) if self._handshakes else None
        refusal = refusal or self.admit(request)
        if refusal is not None:
            self.refused += 1
            headers = {"content-type": "application/json", **refusal.headers}
            pairs = [(k.encode(), v.encode()) for k, v in headers.items()]
            body = json.dumps(refusal.body).encode()
            await request.reject(refusal.status, extra_headers=pairs, body=body)
            return
        socket = await request.accept()
        wire = SocketWriter(
            len(self.sessions),
            request.path,
            headers_of(request),
            socket,
            stream,
            self.habits,
        )
        async with trio.open_nursery() as nursery:
            session = self.open_session(wire, nursery)
            self.sessions.append(session)  # at once: the next one counts them
            async with self._changed:
                self._changed.notify_all()
            try:
                await session.run()
            finally:
                with trio.move_on_after(_LEAVING):
                    await socket.aclose()
            nursery.cancel_scope.cancel()


def headers_of(request: WebSocketRequest) -> dict[str, str]:
    return {k.decode().lower(): v.decode("latin-1") for k, v in request.headers}


F = TypeVar("F", bound="Front[Any]")


@asynccontextmanager
async def open_front(
    server: F, path: str, *, in_memory: bool, host: str = "127.0.0.1"
) -> AsyncIterator[F]:
    """Serve until the block is left. Errors are raised as by `open_background`."""
    async with open_background() as nursery:
        server._nursery = nursery
        if in_memory:
            server.base_url = f"http://memory{path}"
        else:
            port = await listen(nursery, server._serve_tcp)
            scheme = "https" if server._ssl else "http"
            server.base_url = f"{scheme}://{host}:{port}{path}"
        yield server
