"""The messages that a client of Gemini Live may send: five, field by field.

Names may be written in either way, as in all JSON of protocol buffers; the result has
the names of the documentation. One unknown name anywhere closes the socket.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from ..voice.shapes import (
    Shape,
    ShapeMismatch,
    anything,
    either,
    fields,
    flag,
    many,
    mapping,
    number,
    pattern,
    text,
    values,
    whole,
)

MAX_TOOLS: Final = 128

_message = partial(fields, proto=True)
_integer: Final = either(pattern(r"-?\d+"), whole())  # 64 bits: as text, or as a number
_NUMBERS: Final = {"INTEGER": {"int32", "int64"}, "NUMBER": {"float", "double"}}
_FORMATS: Final = {"STRING": {"enum", "date-time"}, **_NUMBERS}


def _enum(*names: str) -> Shape:
    def check(value: Any, path: str) -> str:
        if not isinstance(value, str) or value.upper() not in names:
            raise ShapeMismatch(
                "value", path, f"{value!r} is not one of {', '.join(names)}"
            )
        return value.upper()

    return check


_SCHEMA_FIELDS: Final = {
    "type": _enum("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"),
    "format": text,
    "title": text,
    "description": text,
    "default": anything,
    "example": anything,
    "enum": many(text),
    "nullable": flag,
    "items": lambda value, path: schema(value, path),
    "minItems": _integer,
    "maxItems": _integer,
    "properties": lambda value, path: values(schema)(value, path),
    "required": many(text),
    "propertyOrdering": many(text),
    "minProperties": _integer,
    "maxProperties": _integer,
    "minLength": _integer,
    "maxLength": _integer,
    "minimum": number(),
    "maximum": number(),
    "pattern": text,
    "anyOf": lambda value, path: many(schema)(value, path),
}
_schema_fields: Final = _message(_SCHEMA_FIELDS)


def schema(value: Any, path: str) -> dict[str, Any]:
    """Check a schema against the subset of OpenAPI that the service knows."""
    found: dict[str, Any] = _schema_fields(value, path)
    kind = found.get("type")
    if kind is None and "anyOf" not in found:
        raise ShapeMismatch("missing", f"{path}.type", "should be specified")
    if kind == "OBJECT" and not found.get("properties"):
        raise ShapeMismatch(
            "value", f"{path}.properties", "should be non-empty for OBJECT"
        )
    if kind == "ARRAY" and "items" not in found:
        raise ShapeMismatch("missing", f"{path}.items", "missing field")
    if "enum" in found and kind != "STRING":
        raise ShapeMismatch("value", f"{path}.enum", "only allowed for STRING type")
    if "format" in found and found["format"] not in _FORMATS.get(str(kind), ()):
        raise ShapeMismatch("value", f"{path}.format", f"not supported for {kind}")
    for name in found.get("required", ()):
        if name not in found.get("properties", {}):
            raise ShapeMismatch("value", f"{path}.required", f"{name} is not defined")
    for name in found.get("properties", {}):
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,63}", name):
            raise ShapeMismatch("value", f"{path}.properties", f"invalid name {name!r}")
    return found


DECLARATION: Final = _message(
    {
        "name": pattern(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}"),
        "description": text,
        "parameters": schema,
        "response": schema,
        "behavior": _enum("UNSPECIFIED", "BLOCKING", "NON_BLOCKING"),
    },
    required=("name",),
)
TOOL: Final = _message(
    {
        "functionDeclarations": many(DECLARATION),
        "googleSearch": mapping,
        "codeExecution": mapping,
        "urlContext": mapping,
    }
)


def tools(value: Any, path: str) -> list[Any]:
    """Check declarations: without duplicates, and not together with searching."""
    found: list[Any] = many(TOOL)(value, path)
    declared = [d["name"] for t in found for d in t.get("functionDeclarations", ())]
    for name in declared:
        if declared.count(name) > 1:
            raise ShapeMismatch(
                "value", path, f"duplicate function declaration: {name}"
            )
    if len(declared) > MAX_TOOLS:
        raise ShapeMismatch(
            "length", path, f"at most {MAX_TOOLS} function declarations"
        )
    if declared and any("googleSearch" in tool for tool in found):
        raise ShapeMismatch("value", path, "search and functions cannot be combined")
    return found


_BLOB: Final = _message({"mimeType": text, "data": text, "displayName": text})
_PART: Final = _message(
    {
        "text": text,
        "inlineData": _BLOB,
        "functionCall": _message({"id": text, "name": text, "args": mapping}),
        "functionResponse": _message({"id": text, "name": text, "response": mapping}),
        "thought": flag,
    }
)


def _role(value: Any, path: str) -> str:
    if value not in ("user", "model"):
        raise ShapeMismatch("value", path, "please use a valid role: user, model")
    return str(value)


CONTENT: Final = _message({"parts": many(_PART), "role": _role})
# The role of a system instruction is not checked.
_INSTRUCTION: Final = _message({"parts": many(_PART), "role": text})


def _modalities(value: Any, path: str) -> list[Any]:
    found: list[Any] = many(_enum("TEXT", "AUDIO", "IMAGE"))(value, path)
    if found != ["AUDIO"]:
        raise ShapeMismatch("value", path, "this model answers in AUDIO, and only that")
    return found


_TRANSCRIPTION: Final = _message(
    {
        "languageCodes": many(text),
        "languageHints": _message({"languageCodes": many(text)}),
        "languageAuto": mapping,
        "adaptationPhrases": many(text),
        "customVocabulary": many(text),
    }
)
_VOICE: Final = _message({"prebuiltVoiceConfig": _message({"voiceName": text})})
_GENERATION: Final = _message(
    {
        "responseModalities": _modalities,
        "speechConfig": _message({"voiceConfig": _VOICE, "languageCode": text}),
        "temperature": number(0, 2),
        "topP": number(0, 1),
        "topK": number(0),
        "maxOutputTokens": whole(1),
        "candidateCount": whole(1, 1),
        "seed": whole(),
        "presencePenalty": number(),
        "frequencyPenalty": number(),
        "mediaResolution": text,
        "enableAffectiveDialog": flag,
        "thinkingConfig": _message(
            {
                "thinkingLevel": _enum("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"),
                "thinkingBudget": whole(),
                "includeThoughts": flag,
            }
        ),
    }
)
_DETECTION: Final = _message(
    {
        "disabled": flag,
        "startOfSpeechSensitivity": _enum(
            "START_SENSITIVITY_HIGH", "START_SENSITIVITY_LOW"
        ),
        "endOfSpeechSensitivity": _enum("END_SENSITIVITY_HIGH", "END_SENSITIVITY_LOW"),
        "prefixPaddingMs": whole(0),
        "silenceDurationMs": whole(0),
    }
)
SETUP: Final = _message(
    {
        "model": text,
        "generationConfig": _GENERATION,
        "systemInstruction": _INSTRUCTION,
        "tools": tools,
        "realtimeInputConfig": _message(
            {
                "automaticActivityDetection": _DETECTION,
                "activityHandling": _enum(
                    "START_OF_ACTIVITY_INTERRUPTS", "NO_INTERRUPTION"
                ),
                "turnCoverage": _enum(
                    "TURN_INCLUDES_ONLY_ACTIVITY", "TURN_INCLUDES_ALL_INPUT"
                ),
            }
        ),
        # `transparent` exists only on the vendor's other platform.
        "sessionResumption": _message({"handle": text}),
        "contextWindowCompression": _message(
            {
                "triggerTokens": _integer,
                "slidingWindow": _message({"targetTokens": _integer}),
            }
        ),
        "inputAudioTranscription": _TRANSCRIPTION,
        "outputAudioTranscription": _TRANSCRIPTION,
        "proactivity": _message({"proactiveAudio": flag}),
        "historyConfig": _message({"initialHistoryInClientContent": flag}),
        "explicitVadSignal": flag,
        "safetySettings": many(mapping),
    },
    required=("model",),
)
RESPONSE: Final = _message(
    {
        "id": text,
        "name": text,
        "response": mapping,
        "scheduling": _enum("SILENT", "WHEN_IDLE", "INTERRUPT"),
        "willContinue": flag,
    },
    required=("id", "name", "response"),
)
_REALTIME: Final = _message(
    {
        "audio": _BLOB,
        "video": _BLOB,
        "text": text,
        "audioStreamEnd": flag,
        "activityStart": _message({}),
        "activityEnd": _message({}),
        "mediaChunks": many(_BLOB),
    }
)


def _realtime(value: Any, path: str) -> dict[str, Any]:
    found: dict[str, Any] = _REALTIME(value, path)
    if len(found) != 1:
        raise ShapeMismatch("value", path, "exactly one field in each message")
    return found


_CLIENT: Final = _message(
    {
        "setup": SETUP,
        "clientContent": _message({"turns": many(CONTENT), "turnComplete": flag}),
        "realtimeInput": _realtime,
        "toolResponse": _message(
            {"functionResponses": many(RESPONSE)}, required=("functionResponses",)
        ),
        "contextUpdate": _message(
            {
                "tools": _message({"tools": tools}),
                "systemInstruction": _INSTRUCTION,
            }
        ),
    }
)


def client(value: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of a message and its content. Raises `ShapeMismatch`."""
    found: dict[str, Any] = _CLIENT(value, "")
    if len(found) != 1:
        raise ShapeMismatch("value", "", "exactly one message in each frame")
    return next(iter(found.items()))
