"""Discord on the loopback: its REST interface and its gateway, for py-cord itself.

Sockets, frames and JSON are real. What it knows are one server (a guild) with two
channels, and the members that a case lets speak.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import WSMsgType, web
from discord.http import HTTPClient, Route

from .discord_voice_fakes import FakeVoiceServer

WITHIN: Final = 15.0  # seconds to wait for anything
TOKEN: Final = "bot-token-not-to-be-seen-012345"
BOT, GUILD, TEXT, VOICE, THREAD = 900, 100, 200, 300, 400
ROLE: Final = 500
DM, ANN, BEN = 1, 2, 3
NAMES: Final = {DM: "Dana", ANN: "Ann", BEN: "Ben"}
WRITING: Final = str(0b1111 << 9 | 1 << 10 | 1 << 11 | 1 << 16 | 0b11 << 20)


def user(id_: int) -> dict[str, Any]:
    return {
        "id": str(id_),
        "username": "npcs" if id_ == BOT else NAMES[id_].casefold(),
        "discriminator": "0",
        "avatar": None,
        "bot": id_ == BOT,
    }


def member(id_: int) -> dict[str, Any]:
    return {
        "user": user(id_),
        "nick": None if id_ == BOT else NAMES[id_],
        "roles": [str(ROLE)] if id_ == DM else [],
        "joined_at": "2026-01-01T00:00:00+00:00",
        "deaf": False,
        "mute": False,
        "permissions": WRITING,
        "flags": 0,
    }


def role(id_: int, name: str) -> dict[str, Any]:
    return {
        "id": str(id_),
        "name": name,
        "color": 0,
        "colors": {"primary_color": 0},
        "hoist": False,
        "position": 0,
        "permissions": str((1 << 53) - 1 if id_ == GUILD else 0),
        "managed": False,
        "mentionable": False,
        "flags": 0,
    }


def channel(id_: int, kind: int, **more: Any) -> dict[str, Any]:
    return {
        "id": str(id_),
        "guild_id": str(GUILD),
        "type": kind,
        "name": f"channel-{id_}",
        "position": 0,
        "permission_overwrites": [],
        **more,
    }


def guild() -> dict[str, Any]:
    return {
        "id": str(GUILD),
        "name": "The Prancing Pony",
        "owner_id": str(DM),
        "roles": [role(GUILD, "@everyone"), role(ROLE, "Game Master")],
        "emojis": [],
        "stickers": [],
        "features": [],
        "channels": [channel(TEXT, 0), channel(VOICE, 2, bitrate=64000, user_limit=0)],
        "threads": [],
        "members": [member(x) for x in (BOT, DM, ANN, BEN)],
        "member_count": 4,
        "voice_states": [
            {"user_id": str(ANN), "channel_id": str(VOICE), "session_id": "a"}
            | dict.fromkeys(("deaf", "mute", "self_deaf", "self_mute"), False)
            | dict.fromkeys(("self_video", "suppress"), False)
        ],
        "presences": [],
        "afk_timeout": 60,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "premium_tier": 0,
        "system_channel_flags": 0,
        "preferred_locale": "en-US",
        "large": False,
        "unavailable": False,
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }


class FakeDiscord:
    """What the bot has sent, and ways to let something happen."""

    def __init__(self) -> None:
        self.sent: dict[int, dict[str, Any]] = {}  # messages by id, as they are now
        self.edits = 0
        self.answers: list[dict[str, Any]] = []  # to interactions
        self.commands: list[dict[str, Any]] = []
        self.identified = self.resumed = 0
        self.forbidden: set[int] = set()  # channels where the bot may not write
        self.refused_token = False
        self.close_code = 0  # with which the gateway answers an identification
        self.gateway: web.WebSocketResponse | None = None
        self.voice = FakeVoiceServer()
        self._changed = asyncio.Event()
        self._id = 1000
        self._sequence = 0
        self._base = ""

    def next_id(self) -> int:
        self._id += 1
        return self._id

    # What happens at Discord.

    async def dispatch(self, event: str, data: dict[str, Any]) -> None:
        assert self.gateway is not None
        self._sequence += 1
        packet = {"op": 0, "t": event, "s": self._sequence, "d": data}
        await self.gateway.send_str(json.dumps(packet))

    async def write(
        self, author: int, text: str, *, where: int = TEXT, **more: Any
    ) -> None:
        """Somebody writes; @ at the beginning mentions the bot."""
        mentions = [user(BOT)] if text.startswith("@") else []
        content = f"<@{BOT}>{text[1:]}" if mentions else text
        message = self.message(self.next_id(), author, where, content)
        message |= {"mentions": mentions, "guild_id": str(GUILD)}
        who = {x: y for x, y in member(author).items() if x != "user"}
        await self.dispatch("MESSAGE_CREATE", message | {"member": who} | more)

    def message(self, id_: int, author: int, where: int, text: str) -> dict[str, Any]:
        return {
            "id": str(id_),
            "channel_id": str(where),
            "author": user(author),
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

    async def command(
        self, author: int, words: str, *, where: int = TEXT, **options: Any
    ) -> None:
        """Somebody gives a slash command, such as ``gm mute``."""
        name, _, sub = words.partition(" ")
        given = [{"name": x, "type": _kind(y), "value": y} for x, y in options.items()]
        if sub:
            given = [{"name": sub, "type": 1, "options": given}]
        [known] = [x for x in self.commands if x["name"] == name]
        data = {"id": known["id"], "name": name, "type": 1, "options": given}
        at = channel(where, 2 if where == VOICE else 0)
        await self._interact(author, 2, data, channel_id=str(where), channel=at)

    async def press(self, author: int, label: str) -> None:
        """Somebody presses a button of the last message that has one of that label."""
        for message in reversed(self.sent.values()):
            for row in message.get("components", []):
                for button in row["components"]:
                    if button["label"] == label:
                        data = {"custom_id": button["custom_id"], "component_type": 2}
                        await self._interact(author, 3, data, message=message)
                        return
        raise AssertionError(f"no button {label}")

    async def _interact(
        self, author: int, kind: int, data: dict[str, Any], **more: Any
    ) -> None:
        interaction = {
            "id": str(self.next_id()),
            "application_id": str(BOT),
            "type": kind,
            "token": "interaction",
            "version": 1,
            "guild_id": str(GUILD),
            "channel_id": str(TEXT),
            "channel": channel(TEXT, 0),
            "member": member(author),
            "data": data,
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 1000,
            **more,
        }
        await self.dispatch("INTERACTION_CREATE", interaction)

    # What a case waits for.

    async def until(self, what: Callable[[], Any]) -> Any:
        async with asyncio.timeout(WITHIN):
            while not (found := what()):
                self._changed.clear()
                await self._changed.wait()
        return found

    def texts(self, where: int = TEXT) -> list[str]:
        """The messages of the bot in a channel, in their order."""
        return [x["content"] for x in self.sent.values() if x["at"] == where]

    async def text(self, part: str, where: int = TEXT) -> str:
        """Wait for a message that has these words."""

        def find() -> str | None:
            return next((x for x in self.texts(where) if part in x), None)

        found: str = await self.until(find)
        return found

    async def answer(self, since: int) -> str:
        """Wait for one more answer to an interaction than there were."""
        await self.until(lambda: len(self.answers) > since)
        content: str = self.answers[since].get("content", "")
        return content

    async def drop(self) -> None:
        """The connection breaks, so that the bot may resume."""
        assert self.gateway is not None
        before = self.resumed
        await self.gateway.close(code=4000)
        await self.until(lambda: self.resumed > before)

    # The interface.

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/gateway", self._gateway)
        app.router.add_get("/voice/", self.voice.serve)
        app.add_routes([web.route("*", "/api/{path:.*}", self._api)])
        return app

    def _note(self) -> None:
        self._changed.set()

    async def _api(self, request: web.Request) -> web.Response:
        match [request.method, *request.match_info["path"].split("/")]:
            case ["GET", "users", "@me"]:
                if self.refused_token:
                    return _json({"message": "401", "code": 0}, status=401)
                assert request.headers["Authorization"] == f"Bot {TOKEN}"
                return _json(user(BOT))
            case ["GET", "soundboard-default-sounds"]:
                return _json([])
            case ["GET", "gateway"]:
                return _json({"url": f"ws://{self._base}/gateway"})
            case ["GET", "applications", _, *_]:
                return _json(self.commands)
            case ["PUT", "applications", _, *_]:
                given = await request.json()
                self.commands = [
                    {"type": 1}
                    | x
                    | {"id": str(self.next_id()), "application_id": str(BOT)}
                    | {"version": "1", "default_member_permissions": None}
                    for x in given
                ]
                self._note()
                return _json(self.commands)
            case ["POST", "channels", where, "messages"]:
                return await self._posted(request, int(where))
            case ["PATCH", "channels", _, "messages", id_]:
                message = self.sent[int(id_)]
                message |= await request.json()
                self.edits += 1
                self._note()
                return _json(message)
            case ["POST", "interactions", _, _, "callback"]:
                given = await _given(request)
                self.answers.append(given.get("data") or {})
                self._note()
                return _json({"interaction": {"id": "1", "type": 2}})
            case ["POST" | "PATCH", "webhooks", *_]:
                given = await _given(request)
                self.answers.append(given)
                self._note()
                message = self.message(self.next_id(), BOT, TEXT, given["content"])
                return _json(message)
            case ["POST", "users", "@me", "channels"]:
                whom = (await request.json())["recipient_id"]
                private = {"id": f"7{whom}", "type": 1, "recipients": [user(int(whom))]}
                return _json(private)
            case _:
                return _json({"message": "?", "code": 0}, status=404)

    async def _posted(self, request: web.Request, where: int) -> web.Response:
        if where in self.forbidden:
            why = {"message": "Missing Permissions", "code": 50013}
            return _json(why, status=403)
        given = await _given(request)
        message = self.message(self.next_id(), BOT, where, "") | given | {"at": where}
        self.sent[int(message["id"])] = message
        self._note()
        return _json(message)

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        self.gateway = ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.send_str(json.dumps({"op": 10, "d": {"heartbeat_interval": 30000}}))
        async for frame in ws:
            if frame.type != WSMsgType.TEXT:
                continue
            packet = json.loads(frame.data)
            match packet["op"]:
                case 1:
                    await ws.send_str(json.dumps({"op": 11}))
                case 2:
                    if self.close_code:
                        await ws.close(code=self.close_code)
                        break
                    await self._ready()
                case 4:
                    await self._voice_state(packet["d"])
                case 6:
                    await self.dispatch("RESUMED", {})
                    self.resumed += 1
                    self._note()
        return ws

    async def _voice_state(self, asked: dict[str, Any]) -> None:
        """The bot joins a voice channel, or leaves it."""
        where = asked["channel_id"]
        await self.moves(BOT, where and int(where))
        if where:
            about = {"guild_id": str(GUILD), "token": "voice-token"}
            endpoint = {"endpoint": f"{self._base}/voice"}
            await self.dispatch("VOICE_SERVER_UPDATE", about | endpoint)

    async def moves(self, who: int, where: int | None) -> None:
        """Somebody has another voice channel, or none."""
        state = {
            "guild_id": str(GUILD),
            "user_id": str(who),
            "channel_id": where and str(where),
            "session_id": f"of-{who}",
            "member": member(who),
        }
        state |= dict.fromkeys(("deaf", "mute", "self_deaf", "self_mute"), False)
        state |= dict.fromkeys(("self_video", "suppress"), False)
        await self.dispatch("VOICE_STATE_UPDATE", state)

    async def _ready(self) -> None:
        about = {
            "v": 10,
            "user": user(BOT),
            "guilds": [{"id": str(GUILD), "unavailable": True}],
            "session_id": "session",
            "resume_gateway_url": f"ws://{self._base}/gateway",
            "application": {"id": str(BOT), "flags": 1 << 18},
            "private_channels": [],
        }
        await self.dispatch("READY", about)
        await self.dispatch("GUILD_CREATE", guild())
        self.identified += 1
        self._note()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Serve, and have py-cord come here."""
        runner = web.AppRunner(self.app())
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self._base = f"{host}:{port}"
        before, Route.API_BASE_URL = Route.API_BASE_URL, f"http://{self._base}/api"
        connect = HTTPClient.ws_connect

        def unsealed(client: HTTPClient, url: str, **options: Any) -> Any:
            # The library has wss:// in its code, and there is no certificate here.
            return connect(client, url.replace("wss://", "ws://"), **options)

        HTTPClient.ws_connect = unsealed
        try:
            async with self.voice.open():
                yield
        finally:
            Route.API_BASE_URL, HTTPClient.ws_connect = before, connect
            await runner.cleanup()


async def _given(request: web.Request) -> dict[str, Any]:
    """The body: JSON, or a form with a part of JSON."""
    if request.content_type == "application/json":
        given: dict[str, Any] = await request.json()
        return given
    form = await request.post()
    given = json.loads(str(form["payload_json"]))
    assert isinstance(given, dict)
    return given


def _json(data: Any, status: int = 200) -> web.Response:
    # Exactly this content type: py-cord knows no other.
    headers = {"content-type": "application/json"}
    return web.Response(body=json.dumps(data).encode(), status=status, headers=headers)


def _kind(value: object) -> int:
    return {str: 3, int: 4, bool: 5}[type(value)]
