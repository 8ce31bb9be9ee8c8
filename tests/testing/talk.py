"""A bare client for the fakes: what it says is written out in the test."""

from __future__ import annotations

import json
import math
from array import array
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

import trio
from trio.testing import lockstep_stream_pair

from glyphoxa_trio.testing.loopback import open_background
from glyphoxa_trio.testing.voice_front import Front

Message = dict[str, Any]


@attrs.define(eq=False)
class Talk:
    """One socket. ``seen`` is all that came so far."""

    socket: WebSocketConnection
    seen: list[Message] = attrs.field(factory=list)

    async def say(self, *messages: Mapping[str, Any]) -> None:
        for message in messages:
            await self.socket.send_message(json.dumps(message))

    async def hear(self) -> Message:
        message: Message = json.loads(await self.socket.get_message())
        self.seen.append(message)
        return message

    async def until(self, wanted: str | Callable[[Message], bool]) -> Message:
        """The next message of that type, or that fits."""
        while True:
            message = await self.hear()
            if isinstance(wanted, str):
                if wanted in (message.get("type"), *message):
                    return message
            elif wanted(message):
                return message

    async def rest(self) -> list[Message]:
        """All that comes until the socket is closed."""
        before = len(self.seen)
        with suppress(ConnectionClosed):
            while True:
                await self.hear()
        return self.seen[before:]

    async def quiet(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        with trio.move_on_after(seconds):
            await self.hear()
            return False
        return True

    def types(self) -> list[str]:
        return [message["type"] for message in self.seen]


@asynccontextmanager
async def dialled(
    server: Front[Any],
    path: str,
    headers: Mapping[str, str],
    *,
    lockstep: bool = False,
) -> AsyncIterator[Talk]:
    """A socket in memory; with ``lockstep`` nothing is sent that is not read."""
    pairs = [(key.encode(), value.encode()) for key, value in headers.items()]
    async with open_background() as nursery:
        stream: trio.abc.Stream
        if lockstep:
            ours, stream = lockstep_stream_pair()
            nursery.start_soon(server._serve, ours)
        else:
            stream = server.dial()
        socket = await wrap_client_stream(
            nursery,
            stream,  # type: ignore[arg-type]  # any stream will do
            "memory",
            path,
            extra_headers=pairs,
        )
        yield Talk(socket)
        with trio.move_on_after(1):
            await socket.aclose()


@asynccontextmanager
async def realtime(
    server: Front[Any],
    *,
    model: str = "gpt-realtime-2",
    headers: Mapping[str, str] | None = None,
    lockstep: bool = False,
) -> AsyncIterator[Talk]:
    path = f"/v1/realtime?model={model}"
    keys = {"Authorization": "Bearer k", **(headers or {})}
    async with dialled(server, path, keys, lockstep=lockstep) as talk:
        yield talk


ROLL: Message = {
    "type": "function",
    "name": "roll",
    "description": "Roll dice.",
    "parameters": {"type": "object", "properties": {"dice": {"type": "string"}}},
}


def update(**session: Any) -> Message:
    fields = {"type": "realtime", "tools": [ROLL], **session}
    return {"type": "session.update", "event_id": "cfg", "session": fields}


def user(text: str) -> Message:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    return {"type": "conversation.item.create", "item": item}


def output(call_id: str, text: str) -> Message:
    item = {"type": "function_call_output", "call_id": call_id, "output": text}
    return {"type": "conversation.item.create", "item": item}


RESPOND: Message = {"type": "response.create"}


@asynccontextmanager
async def gemini(server: Front[Any], *, version: str = "v1beta") -> AsyncIterator[Talk]:
    service = f"google.ai.generativelanguage.{version}.GenerativeService"
    path = f"/ws/{service}.BidiGenerateContent"
    async with dialled(server, path, {"x-goog-api-key": "k"}) as talk:
        yield talk


def set_up(model: str = "gemini-3.8-live", **setup: Any) -> Message:
    declared = {
        "name": "roll",
        "description": "Roll dice.",
        "parameters": {"type": "OBJECT", "properties": {"dice": {"type": "STRING"}}},
    }
    fields = {
        "model": f"models/{model}",
        "generationConfig": {"responseModalities": ["AUDIO"]},
        "tools": [{"functionDeclarations": [declared]}],
        "outputAudioTranscription": {},
        "inputAudioTranscription": {},
    }
    return {"setup": fields | setup}


def spoken(text: str) -> Message:
    return {"realtimeInput": {"text": text}}


def answer(call: Mapping[str, Any], output: Any, **more: Any) -> Message:
    response = {"id": call["id"], "name": call["name"], "response": {"output": output}}
    return {"toolResponse": {"functionResponses": [response | more]}}


def is_over(message: Message) -> bool:
    content = message.get("serverContent", {})
    return bool(content.get("turnComplete"))


def tone(ms: int, rate: int = 24_000) -> bytes:
    """Something loud enough to be speech."""
    samples = (int(8000 * math.sin(i / 10)) for i in range(rate * ms // 1000))
    return array("h", samples).tobytes()


def append(pcm: bytes) -> Message:
    return {"type": "input_audio_buffer.append", "audio": b64encode(pcm).decode()}


def audio(pcm: bytes, rate: int = 16_000) -> Message:
    blob = {"mimeType": f"audio/pcm;rate={rate}", "data": b64encode(pcm).decode()}
    return {"realtimeInput": {"audio": blob}}
