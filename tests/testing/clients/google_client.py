"""Google's own client in a conversation: ``python google_client.py BASE_URL``.

Prints what it saw as JSON. It imports nothing of ours; it trusts ``SSL_CERT_FILE``.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from array import array
from collections.abc import Callable
from typing import Any

from google import genai
from google.genai import types
from google.genai.live import AsyncSession


def tone(ms: int) -> bytes:
    samples = (8000 * math.sin(i / 10) for i in range(16 * ms))
    return array("h", map(int, samples)).tobytes()


def tool(*names: str) -> types.Tool:
    dice = types.Schema(type=types.Type.STRING)
    schema = types.Schema(type=types.Type.OBJECT, properties={"dice": dice})
    return types.Tool(
        function_declarations=[
            types.FunctionDeclaration(name=name, parameters=schema) for name in names
        ]
    )


Seen = list[types.LiveServerMessage]


async def until(
    session: AsyncSession, wanted: Callable[[types.LiveServerMessage], Any]
) -> Seen:
    """Every message up to the one that is wanted."""
    seen: Seen = []
    while True:
        # Not `session.receive()`: that ends with a turn.
        message = await session._receive()
        seen.append(message)
        if wanted(message):
            return seen


def is_over(message: types.LiveServerMessage) -> Any:
    return message.server_content and message.server_content.turn_complete


def words(seen: Seen) -> str:
    contents = [m.server_content for m in seen if m.server_content]
    said = [c.output_transcription for c in contents if c.output_transcription]
    return "".join(s.text or "" for s in said)


def heard(seen: Seen) -> str:
    contents = [m.server_content for m in seen if m.server_content]
    said = [c.input_transcription for c in contents if c.input_transcription]
    return "".join(s.text or "" for s in said)


async def answer(session: AsyncSession, seen: Seen) -> list[str]:
    """Answer the calls of the last message; returns their names."""
    called = seen[-1].tool_call
    calls = (called.function_calls if called else None) or []
    await session.send_tool_response(
        function_responses=[
            types.FunctionResponse(
                id=call.id,
                name=call.name,
                response={"output": {"total": 7}},
                scheduling=types.FunctionResponseScheduling.WHEN_IDLE,
            )
            for call in calls
        ]
    )
    return [f"{call.name}{json.dumps(call.args)}" for call in calls]


async def talk(session: AsyncSession) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    content = types.Content(role="user", parts=[types.Part(text="Roll for me.")])
    await session.send_client_content(turns=content, turn_complete=True)
    turn = await until(session, lambda message: message.tool_call)
    seen["call"] = await answer(session, turn)
    await until(session, is_over)
    turn = await until(session, is_over)
    seen["answer"] = [words(turn), sum(len(m.data or b"") for m in turn)]

    await session.send_context_update(tools=[tool("roll", "search")])
    await session.send_realtime_input(text="Search the room.")
    turn = await until(session, lambda message: message.tool_call)
    seen["second"] = await answer(session, turn)
    await until(session, is_over)

    # The model is in the middle of a long line when somebody begins to speak.
    await until(session, lambda message: message.data)
    blob = types.Blob(data=tone(200), mime_type="audio/pcm;rate=16000")
    await session.send_realtime_input(audio=blob)
    turn = await until(session, is_over)
    contents = [m.server_content for m in turn if m.server_content]
    seen["interrupted"] = any(content.interrupted for content in contents)
    silence = types.Blob(data=bytes(32 * 600), mime_type="audio/pcm;rate=16000")
    await session.send_realtime_input(audio=silence)
    turn = await until(session, is_over)
    seen["afterwards"] = [heard(turn), words(turn)]
    await until(
        session,
        lambda message: (
            message.session_resumption_update
            and message.session_resumption_update.resumable
        ),
    )
    return seen


async def main(base_url: str) -> None:
    options = types.HttpOptions(base_url=base_url, api_version="v1beta")
    client = genai.Client(api_key="k", http_options=options)
    config = types.LiveConnectConfig(
        response_modalities=[types.Modality.AUDIO],
        system_instruction="You are Greymantle.",
        tools=[tool("roll")],
        input_audio_transcription=types.AudioTranscriptionConfig(),
        output_audio_transcription=types.AudioTranscriptionConfig(),
        session_resumption=types.SessionResumptionConfig(),
        realtime_input_config=types.RealtimeInputConfig(
            automatic_activity_detection=types.AutomaticActivityDetection(
                silence_duration_ms=400
            )
        ),
        context_window_compression=types.ContextWindowCompressionConfig(
            trigger_tokens=100_000,
            sliding_window=types.SlidingWindow(target_tokens=50_000),
        ),
        speech_config=types.SpeechConfig(
            voice_config=types.VoiceConfig(
                prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name="Puck")
            )
        ),
    )
    model = "gemini-3.8-live"
    async with client.aio.live.connect(model=model, config=config) as session:
        async with asyncio.timeout(30):
            seen = await talk(session)
    json.dump(seen, sys.stdout)


asyncio.run(main(sys.argv[1]))
