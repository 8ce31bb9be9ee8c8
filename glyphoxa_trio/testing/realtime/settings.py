"""The settings of one Realtime session, and their changes."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from ..voice.shapes import ShapeMismatch

_DETECTION: Final[dict[str, dict[str, Any]]] = {
    "server_vad": {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    },
    "semantic_vad": {
        "type": "semantic_vad",
        "eagerness": "auto",
        "create_response": True,
        "interrupt_response": True,
    },
}
# Only models that think before they speak accept these two.
_REASONS: Final = re.compile(r"gpt-realtime-2(\.\d+)?(-mini)?")
_OF_REASONING: Final = ("reasoning", "parallel_tool_calls")
_SEMANTIC_SILENCE_MS: Final = 500


@attrs.define(eq=False)
class Settings:
    """All settings in force. ``spoken``: the model has spoken audio."""

    model: str
    now: dict[str, Any] = attrs.field(init=False)
    spoken: bool = False

    def __attrs_post_init__(self) -> None:
        pcm = {"type": "audio/pcm", "rate": 24_000}
        self.now = {
            "type": "realtime",
            "model": self.model,
            "output_modalities": ["audio"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
            "truncation": "auto",
            "audio": {
                "input": {
                    "format": pcm,
                    "transcription": None,
                    "noise_reduction": None,
                    "turn_detection": _DETECTION["server_vad"],
                },
                "output": {"format": pcm, "voice": "marin", "speed": 1.0},
            },
        }

    def update(self, partial: Mapping[str, Any], *, speaking: bool) -> None:
        """Apply the settings that are present: all of them, or none.

        Raises:
          ShapeMismatch: if one of them may not change, or not now (``speaking``).
        """
        self.check_reasoning(partial, "session")
        output = partial.get("audio", {}).get("output", {})
        before = self.now["audio"]["output"]
        if partial.get("model", self.model) != self.model:
            raise ShapeMismatch("value", "session.model", "the model cannot be changed")
        if self.spoken and output.get("voice", before["voice"]) != before["voice"]:
            raise ShapeMismatch(
                "value",
                "session.audio.output.voice",
                "the voice cannot be changed once it was heard",
            )
        if speaking and output.get("speed", before["speed"]) != before["speed"]:
            raise ShapeMismatch(
                "value",
                "session.audio.output.speed",
                "the speed can only be changed between turns",
            )
        tracing = self.now.get("tracing")
        if tracing and partial.get("tracing", tracing) != tracing:
            raise ShapeMismatch("value", "session.tracing", "is on, and stays as it is")
        after = copy.deepcopy(self.now)
        _merge(after, partial)
        self.now = after

    def check_reasoning(self, partial: Mapping[str, Any], path: str) -> None:
        """Raise `ShapeMismatch` for settings that only reasoning models accept."""
        for key in _OF_REASONING:
            if key in partial and not _REASONS.fullmatch(self.model):
                raise ShapeMismatch(
                    "value", f"{path}.{key}", f"{self.model} does not take it"
                )

    def speak(self) -> None:
        """Mark that the model speaks audio: from now on its voice cannot change."""
        self.spoken = True

    @property
    def detection(self) -> dict[str, Any] | None:
        """The settings of turn detection; None for push to talk."""
        found: dict[str, Any] | None = self.now["audio"]["input"]["turn_detection"]
        return found

    @property
    def transcribes(self) -> bool:
        return self.now["audio"]["input"]["transcription"] is not None

    @property
    def silence_ms(self) -> int:
        detection = self.detection or {}
        return int(detection.get("silence_duration_ms", _SEMANTIC_SILENCE_MS))

    def of_response(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings in force for one response that overrides some."""
        both = copy.deepcopy(self.now)
        keys = both.keys() | {"metadata", "parallel_tool_calls", "reasoning"}
        _merge(both, {key: request[key] for key in keys if key in request})
        return both


def _merge(into: dict[str, Any], partial: Mapping[str, Any]) -> None:
    """Merge objects field by field; lists, and what can be switched off, as a whole."""
    for key, value in partial.items():
        if key == "turn_detection" and value is not None:
            old = into.get(key) or {}
            kept = (
                old if old.get("type") == value["type"] else _DETECTION[value["type"]]
            )
            into[key] = {**kept, **value}
        elif key in ("audio", "input", "output") and isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = copy.deepcopy(value)
