"""The gateway: game servers, browsers and bots speak with NPCs through a WebSocket.

What is said is in `service.protocol`; `service.requests` carries it out.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from enum import IntEnum
from functools import partial
from importlib.metadata import version
from typing import TypeAlias

import attrs
from trio_websocket import ConnectionClosed, WebSocketConnection

import trio

from glyphoxa_trio.actors import lone_errors

from . import protocol as p
from .admission import ClientAdmission, bearer_of
from .approval_desk import TurnWatch
from .backend import NpcBackend
from .delivery import WINDOW
from .limits import ServiceLimits
from .outbox import Outbox
from .rates import ClientRates
from .requests import ClientRequests
from .rights import ServiceClient, TokenRefused
from .utterances import Utterances

_LONGEST_REASON = 120  # bytes of a close frame's reason

Frame: TypeAlias = "str | bytes"


class CloseCode(IntEnum):
    """The codes with which the service closes a connection."""

    GOING_AWAY = 1001
    POLICY = 1008  # too much, or too many messages that are none
    NO_HELLO = 4000
    REFUSED = 4001  # the token, or its absence
    VERSION = 4002
    SILENT = 4003
    MOVED = 4004  # the session is not here any more
    TOO_SLOW = 4008


class _ConnectionClosing(Exception):
    """The connection is to be closed, with this code and reason."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


@attrs.define(eq=False)
class NpcGateway:
    """All WebSockets of a service.

    Args:
      admission: says which clients may come in, and as whom.
      watched: the turns for clients that watch; None if that cannot be done here.
    """

    backend: NpcBackend
    admission: ClientAdmission
    watched: TurnWatch | None = None
    limits: ServiceLimits = attrs.field(factory=ServiceLimits)
    rates: ClientRates = attrs.field(init=False)
    utterances: Utterances = attrs.field(factory=Utterances, init=False)
    _open: set[ClientConnection] = attrs.field(factory=set, init=False)
    _whose: Counter[str] = attrs.field(factory=Counter, init=False)

    def __attrs_post_init__(self) -> None:
        self.rates = ClientRates(self.limits.rate)

    @property
    def connections(self) -> int:
        """The number of connections that are open."""
        return len(self._open)

    async def serve(
        self, socket: WebSocketConnection, *, headers: dict[str, str], address: str
    ) -> None:
        """Serve a client until it leaves, or is closed for a reason.

        Args:
          headers: those of its HTTP request, which may have a token or a cookie.
          address: where it comes from, for limits.
        """
        connection = ClientConnection(self, socket, headers, address)
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)

    def count(self, whose: str, step: int) -> int:
        """Count a client's connections up or down; return how many there are."""
        self._whose[whose] += step
        left = self._whose[whose]
        if not left:
            del self._whose[whose]
        return left

    def close_all(self) -> None:
        """Close all connections, since the service stops."""
        for connection in list(self._open):
            connection.close(CloseCode.GOING_AWAY, "the service stops")


@attrs.define(eq=False)
class ClientConnection:
    """One client of the gateway, from its hello to its close."""

    _gateway: NpcGateway
    _socket: WebSocketConnection
    _headers: dict[str, str]
    _address: str
    _outbox: Outbox = attrs.field(init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _closing: _ConnectionClosing | None = attrs.field(default=None, init=False)
    _bad: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._outbox = Outbox(self._too_slow)

    def close(self, code: CloseCode, reason: str) -> None:
        """Close the connection; what runs for it is interrupted. The first reason
        counts."""
        if self._closing is None:
            self._closing = _ConnectionClosing(code, reason)
            self._scope.cancel(reason)

    def _too_slow(self) -> None:
        self.close(CloseCode.TOO_SLOW, "too much waits that was not acknowledged")

    async def run(self) -> None:
        """Serve the client until it leaves, or is closed for a reason."""
        try:
            with self._scope, lone_errors():
                await self._serve(await self._greet())
        except ConnectionClosed:
            return  # it has left
        except _ConnectionClosing as closing:
            self._closing = closing
        if self._closing is None:
            return
        why = self._closing.reason.encode()[:_LONGEST_REASON].decode(errors="ignore")
        with trio.move_on_after(self._gateway.limits.goodbye, shield=True):
            with suppress(ConnectionClosed):
                await self._outbox.flush(self._socket.send_message)
                await self._socket.aclose(int(self._closing.code), why)

    async def _greet(self) -> ServiceClient:
        limits = self._gateway.limits
        frame = await self._next(limits.hello_within, CloseCode.NO_HELLO, "no hello")
        try:
            hello = p.read_hello(frame)
        except p.InvalidRequest as error:
            raise _ConnectionClosing(CloseCode.NO_HELLO, str(error)) from None
        if hello.protocol != p.VERSION:
            raise _ConnectionClosing(CloseCode.VERSION, f"this is version {p.VERSION}")
        admission, shown = self._gateway.admission, hello.token
        try:
            if shown is None:  # browsers do not let pages set headers of WebSockets
                client = admission.client_of(self._headers, "CONNECT")
                shown = bearer_of(self._headers)
            else:
                client = admission.tokens.client_of(shown)
        except TokenRefused as error:
            raise _ConnectionClosing(CloseCode.REFUSED, str(error)) from None
        if client is None:
            why = "a token is needed" if shown is None else "the token is not valid"
            raise _ConnectionClosing(CloseCode.REFUSED, why)
        welcome = p.WelcomeReply(
            version=version("glyphoxa-trio"),
            role=client.role,
            session=client.session,
            speaker=client.speaker,
            heartbeat_ms=round(limits.heartbeat * 1000),
            window=WINDOW,
        )
        self._outbox.put(welcome)
        return client

    async def _serve(self, client: ServiceClient) -> None:
        gateway = self._gateway
        whose = client.name or self._address
        try:
            if gateway.count(whose, 1) > gateway.limits.sockets:
                raise _ConnectionClosing(
                    CloseCode.POLICY, "too many connections of this client"
                )
            leave = partial(self.close, CloseCode.MOVED)
            with gateway.backend.serving(client, leave) as backend:
                await self._converse(backend, client, whose)
        finally:
            gateway.count(whose, -1)

    async def _converse(
        self, backend: NpcBackend, client: ServiceClient, whose: str
    ) -> None:
        gateway = self._gateway
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            requests = ClientRequests(
                backend,
                client,
                self._outbox,
                gateway.limits,
                gateway.utterances,
                gateway.watched,
                nursery,
                self._too_slow,
            )
            while True:
                heartbeat = gateway.limits.heartbeat
                frame = await self._next(heartbeat, CloseCode.SILENT, "silent")
                await self._take(frame, requests, whose)

    async def _write(self) -> None:
        with suppress(ConnectionClosed):  # whoever reads notices that as well
            await self._outbox.run(self._socket.send_message)

    async def _take(self, frame: Frame, requests: ClientRequests, whose: str) -> None:
        try:
            if isinstance(frame, bytes):
                requests.hear(frame)
                return
            request = p.read_request(frame)
        except p.InvalidRequest as error:
            self._bad += 1
            if self._bad > self._gateway.limits.bad:
                raise _ConnectionClosing(
                    CloseCode.POLICY, "too many bad messages"
                ) from None
            told = p.FailedReply(id=error.id, code="bad_message", message=str(error))
            self._outbox.put(told)
            return
        if not isinstance(request, p.AckRequest | p.PingRequest):
            wait = self._gateway.rates.take(whose)
            if wait > 0:
                why = f"too many requests; wait {wait:.1f} s"
                id_ = getattr(request, "id", None)
                self._outbox.put(p.FailedReply(id=id_, code="too_many", message=why))
                return
        await requests.carry_out(request)

    async def _next(self, within: float, code: CloseCode, what: str) -> Frame:
        with trio.move_on_after(within):
            return await self._socket.get_message()
        raise _ConnectionClosing(code, f"{what} for {within:g} s")
