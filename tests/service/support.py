"""A service on real sockets, over a runtime with a scripted model, and raw clients."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from trio_websocket import ConnectionClosed, WebSocketConnection, open_websocket_url

import trio

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.service import ClientRole, Service, ServiceOptions, open_service
from glyphoxa_trio.service.limits import ServiceLimits
from glyphoxa_trio.service.options import service_options

from ..npc.support import ScriptedLLM

CONFIG = Config(
    npcs=(NpcConfig(name="Bo", tools=("*",)), NpcConfig(name="Ann", tools=("*",))),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
)
LIMIT = 60.0

TOKENS = {
    ClientRole.PLAYER: "player-of-table-one",
    ClientRole.GAME_MASTER: "the-game-master-token",
    ClientRole.OPERATOR: "the-operators-token",
}


def token_file(folder: Path) -> Path:
    file = folder / "tokens"
    roles = {ClientRole.PLAYER: "player:one"}
    lines = [f"{roles.get(role, role)} {token}" for role, token in TOKENS.items()]
    file.write_text("# tokens of a test\n\n" + "\n".join(lines) + "\n")
    return file


def bytes_of(folder: Path, pattern: str) -> bytes:
    """What the files of a folder have, such as those of a memory."""
    return b"".join(file.read_bytes() for file in folder.glob(pattern))


def echo(request: LLMRequest) -> list[Any]:
    """The model repeats what it was told last, in two sentences."""
    return [f"You said {request.messages[-1].content}.", " So it is."]


@attrs.frozen
class Served:
    runtime: Runtime
    service: Service
    llm: ScriptedLLM

    @property
    def url(self) -> str:
        return self.service.url

    @property
    def ws(self) -> str:
        return f"{self.service.url.replace('http', 'ws', 1)}/ws"


@asynccontextmanager
async def serving(
    script: Callable[[LLMRequest], list[Any]] = echo,
    *,
    config: Config = CONFIG,
    options: ServiceOptions | None = None,
    limits: ServiceLimits | None = None,
    **runtime: Any,
) -> AsyncGenerator[Served]:
    chosen = options or service_options(http="127.0.0.1:0")
    if limits is not None:
        chosen = attrs.evolve(chosen, limits=limits)
    llm = ScriptedLLM(script)
    async with open_runtime(config, llm=llm, **runtime) as opened:
        async with open_service(opened, chosen) as service:
            with trio.fail_after(60):
                yield Served(opened, service, llm)


@attrs.define
class RawClient:
    """A client that says what it is told to, and keeps what it is told."""

    socket: WebSocketConnection
    events: list[dict[str, Any]] = attrs.field(factory=list)
    messages: int = 0

    async def send(self, **message: Any) -> None:
        await self.socket.send_message(json.dumps(message))

    async def receive(self) -> dict[str, Any] | bytes:
        with trio.fail_after(LIMIT):
            frame = await self.socket.get_message()
        self.messages += 1
        return frame if isinstance(frame, bytes) else json.loads(frame)

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next message of a kind; events on the way are kept."""
        while True:
            message = await self.receive()
            if isinstance(message, bytes):
                continue
            if message["type"] == "events":
                self.events += message["events"]
            if message["type"] == kind and fields.items() <= message.items():
                return message

    async def until_event(self, kind: str) -> dict[str, Any]:
        while not any(event["event"] == kind for event in self.events):
            await self.until("events")
        return next(event for event in self.events if event["event"] == kind)

    async def closed(self) -> tuple[int, str]:
        """Wait for the close, and return its code and reason."""
        with trio.fail_after(LIMIT):
            with pytest.raises(ConnectionClosed):
                while True:
                    await self.socket.get_message()
        closed = self.socket.closed
        assert closed is not None
        return closed.code, closed.reason or ""


@asynccontextmanager
async def raw_client(
    served: Served, *, hello: bool = True, token: str | None = None
) -> AsyncGenerator[RawClient]:
    with trio.CancelScope() as leaving:
        async with open_websocket_url(served.ws) as socket:
            client = RawClient(socket)
            try:
                if hello:
                    shown = {} if token is None else {"token": token}
                    await client.send(type="hello", protocol=1, **shown)
                    await client.until("welcome")
                yield client
            finally:  # which trio_websocket leaves open if the service closed it
                await trio.aclose_forcefully(socket._stream)
                # And it would wait for messages that nobody reads.
                leaving.cancel()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another task does."""
    with trio.fail_after(LIMIT):
        while not holds():  # noqa: ASYNC110
            await trio.sleep(0.005)
