"""Build the messages of a Realtime client (GA shapes), without I/O."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from glyphoxa_trio.providers import g711
from glyphoxa_trio.providers.g711 import Law
from glyphoxa_trio.providers.s2s import (
    Respond,
    S2STool,
    SendResult,
    Setup,
    TranscriptLine,
)
from glyphoxa_trio.providers.schemas.forms import SchemaForm, tool_in
from glyphoxa_trio.tools.naming import MAX_LENGTH, is_exposed_name

from .options import SessionOptions

MAX_TOOLS: Final = 128
MAX_RESULT: Final = 16 * 1024  # bytes of UTF-8
MAX_APPEND: Final = 1024 * 1024  # bytes of PCM in one frame; the vendor accepts 15 MiB
MIN_UTTERANCE: Final = 0.1  # seconds; a shorter utterance cannot be committed


def encoded(event: Mapping[str, Any]) -> str:
    """Encode an event as JSON in ASCII, so that a lone surrogate cannot break it."""
    return json.dumps(event, default=dict, separators=(",", ":"))


def session_of(setup: Setup, options: SessionOptions) -> dict[str, Any]:
    """Return the whole session, as it is sent when a socket is opened.

    Raises:
      ValueError: for tools that cannot be declared; see `tools_of`.
    """
    form = _format(options)
    detection = options.detection() if setup.automatic else None
    heard: dict[str, Any] = {"format": form, "turn_detection": detection}
    if options.transcription is not None:
        heard["transcription"] = {"model": options.transcription}
        if options.transcription_prompt is not None:
            heard["transcription"]["prompt"] = options.transcription_prompt
        if setup.language:  # the vendor accepts en, but not en-GB
            language = setup.language.replace("_", "-").partition("-")[0].lower()
            heard["transcription"]["language"] = language
    if options.noise_reduction is not None:
        heard["noise_reduction"] = {"type": options.noise_reduction}
    audio: dict[str, Any] = {"input": heard}
    if setup.speaks:
        audio["output"] = {"format": form}
        if setup.voice is not None:
            audio["output"]["voice"] = setup.voice
        if options.speed is not None:
            audio["output"]["speed"] = options.speed
    more = dict(options.extra)
    if options.thinking is not None:
        more["reasoning"] = {"effort": options.thinking}
    return {
        "output_modalities": ["audio" if setup.speaks else "text"],
        "instructions": setup.instructions,
        "tools": tools_of(setup.tools),
        "tool_choice": "auto",
        "audio": audio,
        **more,
    }


def _format(options: SessionOptions) -> dict[str, Any]:
    """Return the format of the audio, in both directions."""
    if options.law is not None:
        return {"type": f"audio/{options.law}"}
    return {"type": "audio/pcm", "rate": options.rate}


def session_update(event_id: str, session: Mapping[str, Any]) -> str:
    """Return an update of the session. Only fields that are present change."""
    whole = {"type": "realtime", **session}
    return encoded({"type": "session.update", "event_id": event_id, "session": whole})


def tools_of(tools: Sequence[S2STool]) -> list[dict[str, Any]]:
    """Return the tools as they are declared: flat, unlike in chat completions.

    Raises:
      ValueError: for a name that no vendor accepts, for the same name twice, and for
        more than `MAX_TOOLS`.
    """
    if len(tools) > MAX_TOOLS:
        raise ValueError(f"{len(tools)} tools; at most {MAX_TOOLS} can be declared")
    seen: set[str] = set()
    for tool in tools:
        name = tool.spec.name
        if not is_exposed_name(name):
            raise ValueError(
                f"tool {name!r}: a name has 1 to {MAX_LENGTH} letters, digits, _ or -,"
                " and starts with a letter or _"
            )
        if name in seen:
            raise ValueError(f"tool {name!r} is declared twice")
        seen.add(name)
    taken = (tool_in(SchemaForm.PLAIN, tool.spec) for tool in tools)
    return [
        {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
        }
        for spec in taken
    ]


def append(pcm: bytes, law: Law | None = None) -> str:
    """Return a frame of audio. Its JSON is built by hand: there are 50 a second."""
    data = pcm if law is None else g711.encoded(pcm, law)
    audio = b64encode(data).decode("ascii")
    return f'{{"type":"input_audio_buffer.append","audio":"{audio}"}}'


def message(event_id: str, line: TranscriptLine, item_id: str | None = None) -> str:
    """Return a message in text, for the end of the conversation."""
    part = "output_text" if line.role == "assistant" else "input_text"
    item: dict[str, Any] = {
        "type": "message",
        "role": line.role,
        "content": [{"type": part, "text": line.text}],
    }
    if item_id is not None:
        item["id"] = item_id
    return _item(event_id, item)


def delete(event_id: str, item_id: str) -> str:
    """Return a request to delete an item."""
    kind = "conversation.item.delete"
    return encoded({"type": kind, "event_id": event_id, "item_id": item_id})


def output(event_id: str, result: SendResult) -> str:
    """Return the answer to a call."""
    item = {
        "type": "function_call_output",
        "call_id": result.call_id,
        "output": result.output,
    }
    return _item(event_id, item)


def create(event_id: str, respond: Respond, instructions: str) -> str:
    """Return a request for a response.

    ``instructions`` are the session's. The instructions of a response replace them, so
    they are repeated before its own.
    """
    event: dict[str, Any] = {"type": "response.create", "event_id": event_id}
    response: dict[str, Any] = {}
    if respond.instructions is not None:
        parts = filter(None, (instructions, respond.instructions))
        response["instructions"] = "\n\n".join(parts)
    if respond.tools_forbidden:
        response["tool_choice"] = "none"
    if response:
        event["response"] = response
    return encoded(event)


def cancel(event_id: str, response: str | None) -> str:
    """Return a request to stop a response, or the current one."""
    event = {"type": "response.cancel", "event_id": event_id}
    return encoded(event if response is None else event | {"response_id": response})


def truncate(event_id: str, item: str, content_index: int, heard_ms: int) -> str:
    """Return a request to keep only the first ``heard_ms`` of an item's audio."""
    return encoded(
        {
            "type": "conversation.item.truncate",
            "event_id": event_id,
            "item_id": item,
            "content_index": content_index,
            "audio_end_ms": heard_ms,
        }
    )


def plain(event_id: str, kind: str) -> str:
    """Return an event that has only its type."""
    return encoded({"type": kind, "event_id": event_id})


def _item(event_id: str, item: Mapping[str, Any]) -> str:
    """Return a request to add an item."""
    kind = "conversation.item.create"
    return encoded({"type": kind, "event_id": event_id, "item": item})
