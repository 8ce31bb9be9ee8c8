"""The client flow of seed 002 in every version of MCP that has a handshake, written by
hand, over both transports: real processes, real sockets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import attrs
import httpx2
import pytest

import trio

from tests.conformance.servers import PROGRAMS, serving

pytestmark = pytest.mark.border

COMMAND: Final = PROGRAMS["campaign"]
PATIENCE: Final = 60.0

VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATER: Final = "2031-01-01"


class Wire(Protocol):
    """One client's way to a server."""

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]: ...
    async def tell(self, message: dict[str, Any]) -> None: ...


@attrs.define(eq=False)
class Pipes:
    process: trio.Process
    _rest: bytes = b""

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        await self.tell(message)
        while True:
            answer = await self._read()
            if "method" not in answer:  # it also tells of changes
                return answer

    async def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(json.dumps(message).encode() + b"\n")

    async def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            chunk = await self.process.stdout.receive_some()
            assert chunk, "the server hung up"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


@attrs.define(eq=False)
class Posts:
    """As curl with a jar of cookies: no header of MCP's, and JSON is what it takes."""

    http: httpx2.AsyncClient
    url: str

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        response = await self._post(message)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("application/json")
        answer: dict[str, Any] = response.json()
        return answer

    async def tell(self, message: dict[str, Any]) -> None:
        response = await self._post(message)
        assert (response.status_code, response.content) == (202, b"")

    async def _post(self, message: dict[str, Any]) -> httpx2.Response:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        body = json.dumps(message).encode()
        return await self.http.post(self.url, content=body, headers=headers)


@asynccontextmanager
async def piped() -> AsyncGenerator[Pipes]:
    pipe = subprocess.PIPE
    process = await trio.lowlevel.open_process(COMMAND, stdin=pipe, stdout=pipe)
    try:
        yield Pipes(process)
        assert process.stdin is not None
        await process.stdin.aclose()
        assert await process.wait() == 0
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def hello(version: str) -> dict[str, Any]:
    """As the seed writes it: without capabilities."""
    who = {"name": "curl", "version": "1"}
    return request(1, "initialize", protocolVersion=version, clientInfo=who)


async def flow(wire: Wire, version: str, agreed: str) -> None:
    """What a client does in one version, and the version that it is answered with."""
    greeting = (await wire.ask(hello(version)))["result"]
    assert greeting["protocolVersion"] == agreed
    assert greeting["serverInfo"]["name"]
    assert {"tools", "resources"} <= greeting["capabilities"].keys()
    await wire.tell({"jsonrpc": "2.0", "method": "initialized"})
    assert (await wire.ask(request(2, "ping")))["result"] == {}

    listed = (await wire.ask(request(3, "tools/list")))["result"]["tools"]
    assert {"campaign_create", "duality_outcome", "set_context"} <= {
        tool["name"] for tool in listed
    }
    arguments = {"name": f"Of {version}", "gm_mode": "HUMAN"}
    call = request(4, "tools/call", name="campaign_create", arguments=arguments)
    made = (await wire.ask(call))["result"]
    assert not made.get("isError")
    # Versions before 2025-06-18 know no structured content: it is text as well.
    campaign = json.loads(made["content"][0]["text"])
    assert campaign["name"] == f"Of {version}"
    assert made.get("structuredContent", campaign) == campaign

    read = await wire.ask(request(5, "resources/read", uri="campaigns://list"))
    (content,) = read["result"]["contents"]
    there = json.loads(content["text"])["campaigns"]
    assert campaign["id"] in [known["id"] for known in there]

    missing = await wire.ask(request(6, "resources/read", uri="campaign://nobody"))
    assert missing["error"]["code"] == -32002
    unknown = await wire.ask(request(7, "tools/dance"))
    assert (unknown["id"], unknown["error"]["code"]) == (7, -32601)


# What a client asks for, and what it is answered: the latest, if nobody knows it.
AGREED: Final = {version: version for version in VERSIONS} | {LATER: VERSIONS[-1]}


@pytest.mark.parametrize("version", AGREED)
async def test_the_flow_of_the_seed_goes_in_every_version(version: str) -> None:
    # F1, F12, F14
    with trio.fail_after(PATIENCE):
        async with piped() as wire:
            await flow(wire, version, AGREED[version])


async def test_clients_of_every_version_share_a_server_over_http() -> None:
    # F7, F8, F9, F12, F14
    async def one(url: str, version: str) -> None:
        async with httpx2.AsyncClient(timeout=60) as http:
            await flow(Posts(http, url), version, AGREED[version])

    with trio.fail_after(PATIENCE):
        async with serving(*COMMAND) as server, trio.open_nursery() as nursery:
            for version in AGREED:
                nursery.start_soon(one, server.url, version)
