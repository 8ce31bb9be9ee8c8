"""OpenAI's own client in a conversation: ``python openai_client.py BASE_URL``.

Prints what it saw as JSON. It imports nothing of ours.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from array import array
from base64 import b64decode, b64encode
from typing import Any

from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection


def tone(ms: int) -> bytes:
    samples = (8000 * math.sin(i / 10) for i in range(24 * ms))
    return array("h", map(int, samples)).tobytes()


def tool(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"dice": {"type": "string"}}}
    return {"type": "function", "name": name, "parameters": parameters}


async def until(connection: AsyncRealtimeConnection, kind: str) -> Any:
    async for event in connection:
        if event.type == "error":
            raise RuntimeError(event.error.message)
        if event.type == kind:
            return event
    raise RuntimeError(f"no {kind}")


async def configure(connection: AsyncRealtimeConnection, *tools: str) -> list[str]:
    session: Any = {
        "type": "realtime",
        "instructions": "You are Greymantle.",
        "tools": [tool(name) for name in tools],
        "audio": {"input": {"transcription": {"model": "gpt-transcribe"}}},
    }
    await connection.session.update(session=session)
    updated = await until(connection, "session.updated")
    return [each.name for each in updated.session.tools]


async def ask(connection: AsyncRealtimeConnection, text: str) -> None:
    content: Any = [{"type": "input_text", "text": text}]
    item: Any = {"type": "message", "role": "user", "content": content}
    await connection.conversation.item.create(item=item)
    await connection.response.create()


async def listen(connection: AsyncRealtimeConnection) -> tuple[str, int, Any]:
    """What is said in one response: words, bytes of audio, and its end."""
    words, size = "", 0
    async for event in connection:
        if event.type == "response.output_audio_transcript.delta":
            words += event.delta
        elif event.type == "response.output_audio.delta":
            size += len(b64decode(event.delta))
        elif event.type == "response.done":
            return words, size, event.response
    raise RuntimeError("no response.done")


async def talk(connection: AsyncRealtimeConnection) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    await until(connection, "session.created")
    seen["tools"] = await configure(connection, "roll")

    await ask(connection, "Roll for me.")
    _, _, response = await listen(connection)
    call = response.output[-1]
    seen["call"] = [call.name, call.arguments, call.status]
    item: Any = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": json.dumps({"total": 7}),
    }
    await connection.conversation.item.create(item=item)
    await connection.response.create()
    words, size, response = await listen(connection)
    seen["answer"] = [words, size, response.status]

    seen["updated"] = await configure(connection, "roll", "search")
    await ask(connection, "Search the room.")
    _, _, response = await listen(connection)
    seen["second"] = response.output[-1].name
    item["call_id"] = response.output[-1].call_id
    await connection.conversation.item.create(item=item)

    # The model is in the middle of a long line when somebody begins to speak.
    await connection.response.create()
    delta = await until(connection, "response.output_audio.delta")
    audio = b64encode(tone(200)).decode()
    await connection.input_audio_buffer.append(audio=audio)
    await until(connection, "input_audio_buffer.speech_started")
    _, _, response = await listen(connection)
    seen["interrupted"] = [response.status, response.status_details.reason]
    await connection.conversation.item.truncate(
        item_id=delta.item_id, content_index=0, audio_end_ms=20
    )
    await until(connection, "conversation.item.truncated")
    silence = b64encode(bytes(48 * 600)).decode()
    await connection.input_audio_buffer.append(audio=silence)
    heard = await until(
        connection, "conversation.item.input_audio_transcription.completed"
    )
    words, _, _ = await listen(connection)
    seen["afterwards"] = [heard.transcript, words]
    return seen


async def main(base_url: str) -> None:
    client = AsyncOpenAI(base_url=base_url, api_key="k")
    async with client.realtime.connect(model="gpt-realtime-2") as connection:
        async with asyncio.timeout(30):
            seen = await talk(connection)
    json.dump(seen, sys.stdout)


asyncio.run(main(sys.argv[1]))
