"""The campaign server over HTTP: each client has a context of its own.

A real process and real sockets on loopback; an absolute limit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest

import trio

from ..processes import LIMIT, over_http

pytestmark = pytest.mark.border


@attrs.define(eq=False)
class Player:
    """A client with a session, over HTTP."""

    http: httpx2.AsyncClient
    url: str
    headers: dict[str, str] = attrs.field(factory=dict)

    async def greet(self) -> None:
        about = {"name": "test", "version": "1"}
        response = await self._post(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo=about,
        )
        self.headers = {
            "Mcp-Session-Id": response.headers["mcp-session-id"],
            "MCP-Protocol-Version": "2025-06-18",
        }

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        response = await self._post("tools/call", name=tool, arguments=arguments)
        text = response.text
        if response.headers["content-type"].startswith("text/event-stream"):
            lines = [x for x in text.splitlines() if x.startswith("data: {")]
            text = lines[-1].removeprefix("data: ")
        return json.loads(text)["result"]["structuredContent"]

    async def _post(self, method: str, **params: Any) -> httpx2.Response:
        accepted = {"Accept": "application/json, text/event-stream"}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = await self.http.post(
            self.url, json=message, headers=accepted | self.headers
        )
        assert response.status_code == 200, response.text
        return response


async def test_clients_over_http_play_one_game_and_each_chooses_for_itself(
    tmp_path: Path,
) -> None:
    # F7, F16, F25
    with trio.fail_after(LIMIT):
        async with (
            over_http("campaign", "--db", str(tmp_path / "c.db")) as url,
            httpx2.AsyncClient(timeout=60) as first,
            httpx2.AsyncClient(timeout=60) as second,
        ):
            ann, bob = Player(first, url), Player(second, url)
            await ann.greet()
            await bob.greet()
            ids = []
            for name in ("One", "Other"):
                made = await ann.call("campaign_create", name=name, gm_mode="AI")
                ids.append(made["id"])
            for player, campaign in ((ann, ids[0]), (bob, ids[1])):
                of = {"campaign_id": campaign}
                assert await player.call("set_context", **of) == {"context": of}
            for player, campaign in ((ann, ids[0]), (bob, ids[1])):
                actor = await player.call("actor_create", name="A", kind="PC")
                assert actor["campaign_id"] == campaign
            # Who leaves is forgotten, and nobody else is.
            gone = await first.delete(url, headers=ann.headers)
            assert gone.status_code in (200, 204)
            await ann_again(Player(first, url))
            assert (await bob.call("campaign_get"))["name"] == "Other"


async def ann_again(ann: Player) -> None:
    ann.http.cookies.clear()
    await ann.greet()
    refused = await ann.call("actor_list")
    assert refused["error"]["code"] == "InvalidArgument"
