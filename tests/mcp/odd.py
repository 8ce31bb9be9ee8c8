"""A server in the same process that says raw JSON, under a whole runtime.

Its lines go through memory instead of pipes; everything above them is what a real
server meets: the wire, the SDK, the connection, the host.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import pytest

import trio
from trio.testing import memory_stream_one_way_pair

from glyphoxa_trio import Config, Outcome, Runtime, Tier, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    RestartConfig,
    ServerSpec,
)
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.mcp import sdk as sessions
from glyphoxa_trio.mcp.condensing import Condenser
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.questions import Answers
from glyphoxa_trio.mcp.transport import ServerSession, SessionLost
from glyphoxa_trio.mcp.wire import PipeDispatcher
from glyphoxa_trio.runtime.environment import Environment

Said = Any
"""What the server says to a method: a result, an MCP error in `Wrong`, a raw line as
bytes with ``$id`` in it, or a function of the parameters and the server."""


@attrs.frozen
class Wrong:
    message: str
    code: int = -32602
    data: Any = None


@attrs.define(eq=False)
class OddServer:
    """One odd server; ``script`` says what it answers, by method."""

    script: dict[str, Said]
    heard: list[Mapping[str, Any]] = attrs.field(factory=list)
    prefix: bytes = b""
    _write: Callable[[bytes], Awaitable[None]] | None = None
    _counter: int = 0
    _asked: dict[str, tuple[trio.Event, list[Any]]] = attrs.field(factory=dict)

    def asked(self, method: str) -> list[Mapping[str, Any]]:
        """The parameters of each request of that method."""
        return [m.get("params", {}) for m in self.heard if m.get("method") == method]

    async def send(self, **message: Any) -> None:
        assert self._write is not None
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        await self._write(self.prefix + line + b"\n")

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the client, and return its whole answer."""
        self._counter += 1
        ident = f"server-{self._counter}"
        answered, found = self._asked[ident] = trio.Event(), []
        await self.send(id=ident, method=method, params=params)
        await answered.wait()
        return cast("Mapping[str, Any]", found[0])

    async def _answer(self, heard: Mapping[str, Any]) -> None:
        said = self.script.get(heard["method"], Wrong("no such method", -32601))
        if callable(said):
            said = await said(heard.get("params", {}), self)
        match said:
            case bytes():
                assert self._write is not None
                ident = json.dumps(heard["id"]).encode()
                await self._write(said.replace(b'"$id"', ident) + b"\n")
            case Wrong(message, code, data):
                error = {"code": code, "message": message}
                error |= {} if data is None else {"data": data}
                await self.send(id=heard["id"], error=error)
            case _:
                await self.send(id=heard["id"], result=said)

    async def serve(
        self, source: trio.abc.ReceiveStream, sink: trio.abc.SendStream
    ) -> None:
        one_at_a_time = trio.Lock()

        async def write(line: bytes) -> None:
            async with one_at_a_time:
                await sink.send_all(line)

        self._write = write
        rest = b""
        async with trio.open_nursery() as nursery:
            while chunk := await source.receive_some(2**16):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    heard = json.loads(line)
                    self.heard.append(heard)
                    if "method" not in heard:
                        answered, found = self._asked[heard["id"]]
                        found.append(heard)
                        answered.set()
                    elif "id" in heard:
                        nursery.start_soon(self._answer, heard)


def greeting(**capabilities: Any) -> dict[str, Any]:
    return {
        "protocolVersion": "2025-06-18",
        "capabilities": capabilities or {"tools": {}},
        "serverInfo": {"name": "odd", "version": "1"},
    }


def tool(name: str = "ask", **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


@attrs.define(eq=False)
class OddTable:
    """A runtime with one server, ``odd``."""

    server: OddServer
    runtime: Runtime
    warned: list[ServerWarning]

    @property
    def tools(self) -> list[str]:
        listed = self.runtime.host.tools(Tier.DEEP)
        return [x.definition.name for x in listed if x.definition.group == "odd"]

    @property
    def warnings(self) -> list[str]:
        return [w.text for w in self.warned]

    async def call(self, tool: str = "ask", /, **arguments: Any) -> Outcome:
        return await self.runtime.host.execute(f"odd.{tool}", arguments, tier=Tier.DEEP)


@asynccontextmanager
async def odd_table(
    monkeypatch: pytest.MonkeyPatch,
    script: Mapping[str, Said],
    *,
    npcs: tuple[NpcConfig, ...] = (),
    prefix: bytes = b"",
    wait: float = 30.0,
    runtime_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncGenerator[OddTable]:
    """Open a runtime with a server that speaks as ``script`` says."""
    server = OddServer({"initialize": greeting(), **script}, prefix=prefix)

    @asynccontextmanager
    async def open_wire(
        process: trio.Process, loss: SessionLost, said: LastLines, condenser: Condenser
    ) -> AsyncGenerator[PipeDispatcher]:
        async def fate() -> None:
            await trio.lowlevel.checkpoint()

        to_server, from_client = memory_stream_one_way_pair()
        to_client, from_server = memory_stream_one_way_pair()
        wire = PipeDispatcher(
            from_server,
            to_server,
            loss=loss,
            note=said.note,
            fate=fate,
            condenser=condenser,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, from_client, to_client)
            yield wire
            nursery.cancel_scope.cancel()

    @attrs.define
    class NoProcess:
        pid: int = 1

    @asynccontextmanager
    async def opened(
        spec: ServerSpec,
        *,
        on_tools_changed: Callable[[], None],
        stderr: LastLines,
        answers: Answers | None = None,
    ) -> AsyncGenerator[ServerSession]:
        async with sessions.open_session(
            spec,
            on_tools_changed=on_tools_changed,
            stderr=stderr,
            server=cast("Any", NoProcess()),
            answers=answers,
        ) as session:
            yield session

    monkeypatch.setattr(sessions, "open_wire", open_wire)
    options.setdefault("restart", RestartConfig(enabled=False))
    spec = ServerSpec(name="odd", command=("odd",), **options)
    config = Config(
        mcp=McpConfig(servers=(spec,), remember=False),
        calibration=CalibrationConfig(at_start=False),
        npcs=npcs,
    )
    warned: list[ServerWarning] = []
    with trio.fail_after(600):
        async with open_runtime(
            config,
            wait_for_servers=wait,
            on_warning=warned.append,
            environment=Environment(open_session=opened),
            **(runtime_options or {}),
        ) as runtime:
            yield OddTable(server, runtime, warned)
