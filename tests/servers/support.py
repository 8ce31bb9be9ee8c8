"""A client that writes lines and reads lines, and servers for it in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs

import trio
import trio.testing

from glyphoxa_trio.actors import SharedTasks, Topic, lone_errors
from glyphoxa_trio.servers.definition import (
    Changed,
    Content,
    Resource,
    ResourceError,
    ResourcePage,
    ResourceTemplate,
    ServerDefinition,
)
from glyphoxa_trio.servers.dispatch import Dispatch
from glyphoxa_trio.servers.peer import Peer

STATELESS = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@attrs.define(eq=False)
class LineClient:
    """One line out, one line in. ``rest`` is what was read behind the last one."""

    stream: trio.StapledStream[Any, Any]
    rest: bytearray = attrs.field(factory=bytearray)

    async def write(self, line: bytes) -> None:
        await self.stream.send_all(line + b"\n")

    async def send(self, method: str, ident: Any = None, /, **params: Any) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if ident is not None:
            message["id"] = ident
        await self.write(json.dumps(message).encode())

    async def read(self) -> dict[str, Any]:
        """The next message. Raises `trio.EndOfChannel` if there is none."""
        while b"\n" not in self.rest:
            chunk = await self.stream.receive_some()
            if not chunk:
                raise trio.EndOfChannel
            self.rest += chunk
        line, _, rest = bytes(self.rest).partition(b"\n")
        self.rest = bytearray(rest)
        message: dict[str, Any] = json.loads(line)
        return message

    async def ask(
        self, method: str, ident: Any = 1, /, **params: Any
    ) -> dict[str, Any]:
        """One request, and the next message, which should be its answer."""
        await self.send(method, ident, **params)
        answer = await self.read()
        assert answer.get("id") == ident, answer
        return answer

    async def shake_hands(
        self, version: str = "2025-11-25", capabilities: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        answer = await self.ask(
            "initialize",
            0,
            protocolVersion=version,
            clientInfo={"name": "test", "version": "1"},
            capabilities=dict(capabilities or {}),
        )
        await self.send("notifications/initialized")
        result: dict[str, Any] = answer["result"]
        return result

    async def hang_up(self) -> None:
        await self.stream.send_stream.aclose()


@asynccontextmanager
async def served(
    offer: ServerDefinition, *, lockstep: bool = False
) -> AsyncGenerator[LineClient]:
    """A client of ``offer`` in this process; left, the server has ended.

    Args:
      lockstep: each writer waits until the other has read; else whatever is written
        fits between the two.
    """
    ours, theirs = (
        trio.testing.lockstep_stream_pair()
        if lockstep
        else trio.testing.memory_stream_pair()
    )
    async with AsyncExitStack() as stack:
        stack.enter_context(lone_errors())
        flights = await stack.enter_async_context(trio.open_nursery())
        dispatch = Dispatch(offer, SharedTasks(flights))
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await Peer(dispatch, "1.0").serve(theirs, theirs)
                await theirs.aclose()

            nursery.start_soon(serve)
            yield LineClient(ours)
            await ours.send_stream.aclose()
        flights.cancel_scope.cancel()


@attrs.define(eq=False)
class Notes:
    """Resources: texts under ``note://NAME``, two to a page."""

    texts: dict[str, str] = attrs.field(factory=dict)
    templates: tuple[ResourceTemplate, ...] = (
        ResourceTemplate(uri="note://{name}", name="note"),
    )
    changes: Topic[Changed] = attrs.field(factory=Topic)

    def put(self, name: str, text: str) -> None:
        new = name not in self.texts
        self.texts[name] = text
        self.changes.publish(Changed(f"note://{name}"))
        if new:
            self.changes.publish(Changed(None))

    async def page(self, after: str | None) -> ResourcePage:
        names = sorted(self.texts)
        if after is not None and after not in names:
            raise ResourceError("InvalidArgument", "no such page")
        rest = [name for name in names if after is None or name > after]
        found = [Resource(uri=f"note://{name}", name=name) for name in rest[:2]]
        return ResourcePage(found, rest[1] if len(rest) > 2 else None)

    async def read(self, uri: str, session: str) -> list[Content]:
        name = uri.removeprefix("note://")
        if name not in self.texts:
            raise ResourceError("NotFound", f"there is no {uri}")
        return [Content(uri=uri, data=self.texts[name], mime="text/plain")]
