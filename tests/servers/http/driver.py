"""A client of an ASGI application, without sockets: it sends what it likes, when it
likes, leaves when it likes, and insists that it is answered as ASGI says.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.servers.dispatch import Dispatch
from glyphoxa_trio.servers.http.app import HttpApp, HttpService, open_service
from glyphoxa_trio.servers.http.limits import LOCAL_HOSTS, Access, Limits

Message = MutableMapping[str, Any]
LOCAL = Access(hosts=LOCAL_HOSTS)


@attrs.define(eq=False)
class Exchange:
    """One request, and what has been answered to it so far."""

    pieces: list[Message]
    status: int = 0
    headers: dict[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    done: bool = False
    stalled: trio.Event | None = None  # set: the client reads on
    _left: trio.Event = attrs.field(factory=trio.Event)
    _more: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """The Server-Sent Events so far: id and message, None for one without."""
        found = []
        for event in self.body.decode().split("\r\n\r\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in event.split("\r\n") if line)
            if "data" in fields:
                data = fields["data"]
                found.append((fields.get("id", ""), json.loads(data) if data else None))
        return found

    @property
    def messages(self) -> list[Any]:
        return [message for _, message in self.events if message is not None]

    @property
    def answer(self) -> Any:
        """The one message that answers, in whichever form it came."""
        if not self.headers["content-type"].startswith("text/event-stream"):
            return self.json
        (answer,) = [m for m in self.messages if "result" in m or "error" in m]
        return answer

    async def receive(self) -> Message:
        await trio.lowlevel.checkpoint()
        if self.pieces:
            return self.pieces.pop(0)
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if self._left.is_set():
            return
        if self.stalled is not None:
            await self.stalled.wait()
        if message["type"] == "http.response.start":
            assert not self.status, "two answers"
            self.status = message["status"]
            for name, value in message["headers"]:
                assert name == name.lower()
                self.headers[name.decode()] = value.decode()
        else:
            assert message["type"] == "http.response.body"
            assert self.status, "a body without a beginning"
            assert not self.done, "more after the end"
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                self.done = True
                self._left.set()
        self._more.unpark_all()

    def leave(self) -> None:
        """Hang up."""
        self._left.set()
        self._more.unpark_all()

    async def until(self, messages: int = 0) -> None:
        """Wait for the answer to begin, and for so many messages in it."""
        while not self.status or len(self.messages) < messages:
            assert not self.done, (self.status, self.body)
            await self._more.park()

    async def until_done(self) -> None:
        while not (self.done or self._left.is_set()):
            await self._more.park()


@attrs.define(eq=False)
class Peer:
    """A client, with a jar of one cookie if it likes."""

    gate: HttpApp
    headers: dict[str, str] = attrs.field(factory=dict)
    jar: bool = False
    address: str = "127.0.0.1"
    _last: int = 0

    def exchange(
        self,
        method: str,
        body: bytes | Iterable[Message] = b"",
        *,
        path: str = "/mcp",
        headers: Iterable[tuple[bytes, bytes]] | None = None,
        **named: str | None,
    ) -> tuple[Exchange, dict[str, Any]]:
        """A request that is not yet sent, and its scope."""
        default = {"host": "localhost:8081", **self.headers}
        if method == "POST":
            default.setdefault("content-type", "application/json")
        for name, text in named.items():
            default[name.replace("_", "-")] = text  # type: ignore[assignment]
        raw = (
            [(n.encode(), v.encode()) for n, v in default.items() if v is not None]
            if headers is None
            else list(headers)
        )
        pieces: list[Message] = (
            [{"type": "http.request", "body": body, "more_body": False}]
            if isinstance(body, bytes)
            else list(body)
        )
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.1"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": raw,
            "client": (self.address, 4711),
            "server": ("127.0.0.1", 8081),
            "state": {},
            "extensions": {},
        }
        return Exchange(pieces), scope

    async def play(self, exchange: Exchange, scope: dict[str, Any]) -> Exchange:
        await self.gate.asgi(scope, exchange.receive, exchange.send)
        exchange.leave()
        if self.jar and "set-cookie" in exchange.headers:
            cookie = exchange.headers["set-cookie"].partition(";")[0]
            self.headers["cookie"] = cookie
        return exchange

    async def ask(self, method: str, *args: Any, **named: Any) -> Exchange:
        return await self.play(*self.exchange(method, *args, **named))

    def begin(
        self, nursery: trio.Nursery, method: str, *args: Any, **named: Any
    ) -> Exchange:
        """Send a request, and do not wait for its answer."""
        exchange, scope = self.exchange(method, *args, **named)
        nursery.start_soon(self.play, exchange, scope)
        return exchange

    def request(self, method: str, params: Any = None, id: Any = None) -> bytes:  # noqa: A002
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last if id is None else id}
        return json.dumps(
            {**message, "method": method, "params": params or {}}
        ).encode()

    async def call(self, tool: str, **arguments: Any) -> Any:
        params = {"name": tool, "arguments": arguments}
        return (await self.ask("POST", self.request("tools/call", params))).answer

    async def greet(self, version: str = "2025-11-25", **capabilities: Any) -> None:
        """Shake hands, as a current client does."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "driver", "version": "1"},
        }
        self.headers["accept"] = "application/json, text/event-stream"
        answered = await self.ask("POST", self.request("initialize", params))
        assert "result" in answered.answer, answered.body
        self.headers["mcp-session-id"] = answered.headers["mcp-session-id"]
        self.headers["mcp-protocol-version"] = version
        assert (await self.notify("notifications/initialized")).status == 202

    async def notify(self, method: str, params: Any = None) -> Exchange:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        return await self.ask("POST", json.dumps(message).encode())


@attrs.define(eq=False)
class Served:
    gate: HttpApp
    service: HttpService

    def peer(self, **settings: Any) -> Peer:
        return Peer(self.gate, **settings)

    async def greeted(self, **settings: Any) -> Peer:
        peer = self.peer(**settings)
        await peer.greet()
        return peer


@asynccontextmanager
async def open_served(
    offer: ServerDefinition, *, access: Access = LOCAL, **limits: Any
) -> AsyncIterator[Served]:
    async with trio.open_nursery() as nursery:
        dispatch = Dispatch(offer, SharedTasks(nursery))
        gate = HttpApp(access=access)
        async with open_service(dispatch, "1", access, Limits(**limits)) as service:
            gate.service = service
            yield Served(gate, service)
        nursery.cancel_scope.cancel()
