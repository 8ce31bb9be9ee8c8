"""The messages that a client of OpenAI Realtime may send: eleven events, by fields."""

from __future__ import annotations

from typing import Any, Final

from ..voice.shapes import (
    Shape,
    ShapeMismatch,
    anything,
    by,
    either,
    fields,
    flag,
    many,
    mapping,
    nullable,
    number,
    one_of,
    pattern,
    text,
    values,
    whole,
)

MAX_TOOLS: Final = 128
MAX_METADATA: Final = 16

FORMAT: Final = by(
    "type",
    {
        # 24 kHz is the only rate that it has.
        "audio/pcm": fields({"type": text, "rate": one_of(24_000)}),
        "audio/pcmu": fields({"type": text}),
        "audio/pcma": fields({"type": text}),
    },
)
TURN_DETECTION: Final = by(
    "type",
    {
        "server_vad": fields(
            {
                "type": text,
                "threshold": number(0, 1),
                "prefix_padding_ms": whole(0),
                "silence_duration_ms": whole(0),
                "idle_timeout_ms": nullable(whole(5000, 30_000)),
                "create_response": flag,
                "interrupt_response": flag,
            }
        ),
        "semantic_vad": fields(
            {
                "type": text,
                "eagerness": one_of("low", "medium", "high", "auto"),
                "create_response": flag,
                "interrupt_response": flag,
            }
        ),
    },
)


def _parameters(value: Any, path: str) -> Any:
    schema = mapping(value, path)
    if schema.get("type") != "object":
        raise ShapeMismatch(
            "value", path, "the schema of a function must be of an object"
        )
    return schema


TOOL: Final = by(
    "type",
    {
        "function": fields(
            {
                "type": text,
                "name": pattern("[a-zA-Z0-9_-]{1,64}"),
                "description": text,
                "parameters": _parameters,
            },
            required=("name",),
        ),
        "mcp": fields(
            {
                "type": text,
                "server_label": text,
                "server_url": text,
                "server_description": text,
                "connector_id": text,
                "tunnel_id": text,
                "authorization": text,
                "headers": nullable(values(text)),
                "allowed_tools": anything,
                "require_approval": anything,
                "defer_loading": flag,
            },
            required=("server_label",),
        ),
    },
)
TOOLS: Final = many(TOOL, most=MAX_TOOLS)


def _tool_choice(value: Any, path: str) -> Any:
    if isinstance(value, str):
        return one_of("auto", "none", "required")(value, path)
    return by(
        "type",
        {
            "function": fields({"type": text, "name": text}, required=("name",)),
            "mcp": fields(
                {"type": text, "server_label": text, "name": nullable(text)},
                required=("server_label",),
            ),
        },
    )(value, path)


def _modalities(value: Any, path: str) -> Any:
    found = many(one_of("text", "audio"))(value, path)
    if len(found) != 1:
        raise ShapeMismatch("value", path, "either ['audio'] or ['text'], never both")
    return found


def _max_tokens(value: Any, path: str) -> Any:
    return value if value == "inf" else whole(1, 4096)(value, path)


def _metadata(value: Any, path: str) -> Any:
    found = values(text)(value, path)
    if len(found) > MAX_METADATA:
        raise ShapeMismatch("length", path, f"at most {MAX_METADATA} pairs")
    return found


_VOICE: Final = either(fields({"id": text}, required=("id",)), text)
_REASONING: Final = fields(
    {"effort": one_of("minimal", "low", "medium", "high", "xhigh")}
)
_OUTPUT: Final[dict[str, Shape]] = {"format": FORMAT, "voice": _VOICE}
_TRUNCATION: Final = either(
    fields(
        {
            "type": one_of("retention_ratio"),
            "retention_ratio": number(0, 1),
            "token_limits": fields({"post_instructions": whole(0)}),
        },
        required=("type", "retention_ratio"),
    ),
    one_of("auto", "disabled"),
)
SESSION: Final = fields(
    {
        "type": one_of("realtime"),
        "model": text,
        "output_modalities": _modalities,
        "instructions": text,
        "tools": TOOLS,
        "tool_choice": _tool_choice,
        "parallel_tool_calls": flag,
        "reasoning": _REASONING,
        "max_output_tokens": _max_tokens,
        "truncation": _TRUNCATION,
        "tracing": anything,
        "prompt": anything,
        "include": many(one_of("item.input_audio_transcription.logprobs")),
        "audio": fields(
            {
                "input": fields(
                    {
                        "format": FORMAT,
                        "transcription": nullable(
                            fields(
                                {
                                    "model": text,
                                    "language": text,
                                    "languages": many(text),
                                    "prompt": text,
                                    "keywords": many(text),
                                    "delay": text,
                                }
                            )
                        ),
                        "noise_reduction": nullable(
                            fields(
                                {
                                    "type": one_of("near_field", "far_field"),
                                    "strength": number(0, 1),
                                }
                            )
                        ),
                        "turn_detection": nullable(TURN_DETECTION),
                    }
                ),
                "output": fields(_OUTPUT | {"speed": number(0.25, 1.5)}),
            }
        ),
    },
    required=("type",),
)

_HEAD: Final[dict[str, Shape]] = {
    "type": text,
    "id": text,
    "object": one_of("realtime.item"),
    "status": one_of("completed", "incomplete", "in_progress"),
}


def _message(value: Any, path: str) -> Any:
    system = fields({"type": one_of("input_text"), "text": text}, required=("text",))
    roles = {
        "system": system,
        "user": by(
            "type",
            {
                "input_text": fields({"type": text, "text": text}, required=("text",)),
                "input_audio": fields(
                    {"type": text, "audio": text, "transcript": text},
                    required=("audio",),
                ),
                "input_image": fields(
                    {"type": text, "image_url": text, "detail": text},
                    required=("image_url",),
                ),
            },
        ),
        # Spoken messages of the model cannot be written by the client.
        "assistant": fields(
            {"type": one_of("output_text"), "text": text}, required=("type", "text")
        ),
    }
    shapes = {
        role: fields(
            _HEAD | {"role": text, "content": many(content)},
            required=("content",),
        )
        for role, content in roles.items()
    }
    return by("role", shapes)(value, path)


ITEM: Final = by(
    "type",
    {
        "message": _message,
        "function_call": fields(
            _HEAD | {"call_id": text, "name": text, "arguments": text},
            required=("call_id", "name", "arguments"),
        ),
        "function_call_output": fields(
            _HEAD | {"call_id": text, "output": text}, required=("call_id", "output")
        ),
    },
)
_REFERENCE: Final = fields({"type": text, "id": text}, required=("id",))


def _input(value: Any, path: str) -> Any:
    if mapping(value, path).get("type") == "item_reference":
        return _REFERENCE(value, path)
    return ITEM(value, path)


RESPONSE: Final = fields(
    {
        "instructions": text,
        "tools": TOOLS,
        "tool_choice": _tool_choice,
        "parallel_tool_calls": flag,
        "reasoning": _REASONING,
        "output_modalities": _modalities,
        "max_output_tokens": _max_tokens,
        "metadata": nullable(_metadata),
        "conversation": one_of("auto", "none"),
        "input": many(_input),
        "audio": fields({"output": fields(_OUTPUT)}),
        "prompt": anything,
    }
)


def _event(table: dict[str, Shape], *required: str) -> Shape:
    return fields({"type": text, "event_id": text} | table, required=required)


CLIENT: Final = by(
    "type",
    {
        "session.update": _event({"session": SESSION}, "session"),
        "input_audio_buffer.append": _event({"audio": text}, "audio"),
        "input_audio_buffer.commit": _event({}),
        "input_audio_buffer.clear": _event({}),
        "conversation.item.create": _event(
            {"item": ITEM, "previous_item_id": nullable(text)}, "item"
        ),
        "conversation.item.retrieve": _event({"item_id": text}, "item_id"),
        "conversation.item.truncate": _event(
            {"item_id": text, "content_index": whole(0), "audio_end_ms": whole(0)},
            "item_id",
            "content_index",
            "audio_end_ms",
        ),
        "conversation.item.delete": _event({"item_id": text}, "item_id"),
        "response.create": _event({"response": RESPONSE}),
        "response.cancel": _event({"response_id": text}),
        "output_audio_buffer.clear": _event({}),
    },
)
