"""As much of Discord as a bot needs, over loopback: its HTTP API and its gateway.

What a bot posts is refused where Discord refuses it, and kept with its time.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import attrs
import discord
import pytest
import yarl
from aiohttp import WSMsgType, web

BOT, GUILD, MASTERS = 100, 200, 201
LONGEST = 2000
LIMIT = 60.0
_ids = count(1_000_000)


def user(key: int, name: str, *, bot: bool = False) -> dict[str, Any]:
    return {
        "id": str(key),
        "username": name.lower(),
        "global_name": name,
        "discriminator": "0",
        "avatar": None,
        "bot": bot,
    }


def member(roles: list[int]) -> dict[str, Any]:
    return {
        "roles": [str(x) for x in roles],
        "joined_at": "2026-01-01T00:00:00+00:00",
        "deaf": False,
        "mute": False,
        "flags": 0,
        "permissions": "0",
    }


def role(key: int, name: str) -> dict[str, Any]:
    rights = {"permissions": "0", "position": 0, "color": 0, "hoist": False}
    return {
        "id": str(key),
        "name": name,
        "managed": False,
        "mentionable": False,
    } | rights


def _json(value: Any, status: int = 200) -> web.Response:
    # Without a charset, by which discord.py would not know it.
    kind = {"Content-Type": "application/json"}
    return web.Response(body=json.dumps(value).encode(), status=status, headers=kind)


@attrs.define
class Request:
    at: float
    method: str
    path: str
    body: dict[str, Any]


@attrs.define
class FakeDiscord:
    """A server with some channels. Ids are numbers."""

    channels: tuple[int, ...]
    port: int = 0
    requests: list[Request] = attrs.field(factory=list)
    messages: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    socket: web.WebSocketResponse | None = None
    refuse: bool = False
    _told: int = 0

    # -- what people do

    async def say(self, channel: int, who: int, name: str, text: str) -> None:
        """Post a message of a person; ``@bot`` mentions the bot."""
        message = self._message(channel, user(who, name), text)
        message["content"] = text.replace("@bot", f"<@{BOT}>")
        message["mentions"] = [user(BOT, "Bot", bot=True)] if "@bot" in text else []
        await self._dispatch("MESSAGE_CREATE", message)

    async def command(
        self, channel: int, who: int, name: str, command: str, options: dict[str, str]
    ) -> None:
        given = [{"name": x, "type": 3, "value": y} for x, y in options.items()]
        data = {"id": "7", "name": command, "type": 1, "options": given}
        await self._interact(channel, who, name, 2, data, [])

    async def press(
        self, message: dict[str, Any], label: str, who: int, name: str, roles: list[int]
    ) -> None:
        rows = message["components"]
        buttons = [button for row in rows for button in row["components"]]
        (pressed,) = [x["custom_id"] for x in buttons if x["label"] == label]
        data = {"custom_id": pressed, "component_type": 2}
        channel = int(message["channel_id"])
        await self._interact(channel, who, name, 3, data, roles, message=message)

    def posted(self, channel: int) -> list[str]:
        """What the bot has in a channel, oldest first, as it reads now."""
        return [
            x["content"]
            for x in self.messages.values()
            if x["channel_id"] == str(channel)
        ]

    def answers(self) -> list[str]:
        """What interactions were answered with."""
        return [
            x.body["data"]["content"]
            for x in self.requests
            if x.path.endswith("/callback")
        ]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    # -- the server

    def _message(
        self, channel: int, author: dict[str, Any], text: str
    ) -> dict[str, Any]:
        return {
            "id": str(next(_ids)),
            "channel_id": str(channel),
            "guild_id": str(GUILD),
            "author": author,
            "member": member([]),
            "content": text,
            "timestamp": "2026-01-01T00:00:00+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "components": [],
            "pinned": False,
            "type": 0,
        }

    async def _interact(
        self,
        channel: int,
        who: int,
        name: str,
        kind: int,
        data: dict[str, Any],
        roles: list[int],
        **more: Any,
    ) -> None:
        key = next(_ids)
        interaction = {
            "id": str(key),
            "application_id": str(BOT),
            "type": kind,
            "data": data,
            "guild_id": str(GUILD),
            "channel_id": str(channel),
            "channel": self._channel(channel),
            "member": member(roles) | {"user": user(who, name)},
            "token": f"token-{key}",
            "version": 1,
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 1000,
        }
        await self._dispatch("INTERACTION_CREATE", interaction | more)

    def _channel(self, key: int) -> dict[str, Any]:
        return {
            "id": str(key),
            "type": 0,
            "guild_id": str(GUILD),
            "name": f"table-{key}",
            "position": 0,
            "permission_overwrites": [],
            "permissions": "0",
        }

    def _guild(self) -> dict[str, Any]:
        return {
            "id": str(GUILD),
            "name": "The tavern",
            "owner_id": "1",
            "roles": [role(GUILD, "@everyone"), role(MASTERS, "Game Master")],
            "channels": [self._channel(key) for key in self.channels],
            "members": [],
            "member_count": 3,
            **{name: [] for name in ("emojis", "stickers", "features", "threads")},
            **{name: [] for name in ("voice_states", "presences", "stage_instances")},
            **dict.fromkeys(("verification_level", "mfa_level", "nsfw_level"), 0),
            "preferred_locale": "en-US",
        }

    async def _dispatch(self, event: str, data: Any) -> None:
        assert self.socket is not None
        self._told += 1
        await self.socket.send_json({"op": 0, "t": event, "s": self._told, "d": data})

    async def gateway(self, request: web.Request) -> web.WebSocketResponse:
        self.socket = socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 30_000}})
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                continue
            message = json.loads(frame.data)
            if message["op"] == 1:
                await socket.send_json({"op": 11})
            elif message["op"] == 2:
                assert message["d"]["token"] == "the-token-of-discord"
                ready = {
                    "v": 10,
                    "user": user(BOT, "Bot", bot=True),
                    "guilds": [{"id": str(GUILD), "unavailable": True}],
                    "session_id": "s",
                    "resume_gateway_url": f"ws://127.0.0.1:{self.port}/gateway",
                    "application": {"id": str(BOT), "flags": 0},
                }
                await self._dispatch("READY", ready)
                await self._dispatch("GUILD_CREATE", self._guild())
        return socket

    async def api(self, request: web.Request) -> web.Response:
        path = request.path.removeprefix("/api/v10")
        text = await request.text()
        body = json.loads(text) if text else {}
        kept = Request(time.monotonic(), request.method, path, body)
        self.requests.append(kept)
        match request.method, path.strip("/").split("/"):
            case "GET", ["users", "@me"]:
                return _json(user(BOT, "Bot", bot=True))
            case "GET", ["oauth2", "applications", "@me"]:
                return _json(
                    {"id": str(BOT), "name": "Bot", "description": "", "icon": None}
                    | {"bot_public": True, "bot_require_code_grant": False}
                    | {"verify_key": "", "flags": 0, "owner": user(1, "Owner")}
                )
            case "PUT", ["applications", _, "commands"]:
                own = {"application_id": str(BOT), "version": "1"}
                return _json(
                    [{**own, "id": str(next(_ids)), **command} for command in body]
                )
            case "POST", ["channels", channel, "messages"]:
                return self._post(int(channel), body)
            case "PATCH", ["channels", _, "messages", key]:
                return self._changed(self.messages[int(key)], body)
            case "POST", ["interactions", _, _, "callback"]:
                return _json(
                    {"interaction": {"id": "1", "type": 2, "response_message_id": "2"}}
                )
        return _json({"code": 0, "message": f"no {path}"}, status=404)

    def _post(self, channel: int, body: dict[str, Any]) -> web.Response:
        message = self._message(channel, user(BOT, "Bot", bot=True), "")
        self.messages[int(message["id"])] = message
        answer = self._changed(message, body)
        if answer.status != 200:
            del self.messages[int(message["id"])]
        return answer

    def _changed(self, message: dict[str, Any], body: dict[str, Any]) -> web.Response:
        text = body.get("content") or ""
        if self.refuse:
            why = {"code": 50013, "message": "Missing Permissions"}
            return _json(why, status=403)
        if not 0 < len(text.strip()) <= LONGEST:
            why = {"code": 50035, "message": "Invalid Form Body"}
            return _json(why, status=400)
        message["content"] = text
        message["components"] = body.get("components") or []
        return _json(message)


@asynccontextmanager
async def fake_discord(
    monkeypatch: pytest.MonkeyPatch, *channels: int
) -> AsyncGenerator[FakeDiscord]:
    """Serve it, and have discord.py use it in place of the real one."""
    fake = FakeDiscord(channels)
    app = web.Application()
    app.router.add_get("/gateway", fake.gateway)
    app.router.add_route("*", "/api/v10/{path:.*}", fake.api)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        fake.port = runner.addresses[0][1]
        address = f"http://127.0.0.1:{fake.port}/api/v10"
        monkeypatch.setattr(discord.http.Route, "BASE", address)
        gateway = yarl.URL(f"ws://127.0.0.1:{fake.port}/gateway")
        monkeypatch.setattr(
            discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", gateway
        )
        yield fake
    finally:
        await runner.cleanup()
