"""The judge of the Realtime wire takes what is right and refuses the past."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from .openai_types import client_event, server_event

SAMPLES = sorted((Path(__file__).parent / "samples").glob("openai_*.jsonl"))


@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_the_samples_are_what_the_vendor_says(path: Path) -> None:
    for line in path.read_text().splitlines():
        side = json.loads(line)
        judge = {"c": client_event, "s": server_event}[side["dir"]]
        judge(side["msg"])


SESSION = {"type": "session.update", "session": {"type": "realtime"}}
FLAT = {"type": "function", "name": "roll", "parameters": {}}


@pytest.mark.parametrize(
    "session",
    [
        {"modalities": ["audio"]},
        {"temperature": 0.8},
        {"input_audio_format": "pcm16"},
        {"tools": [{"type": "function", "function": {"name": "roll"}}]},
        {"tools": [FLAT | {"strict": True}]},
    ],
    ids=["modalities", "temperature", "format", "chat tool", "strict"],
)
def test_shapes_of_the_beta_and_of_chat_are_unknown_keys(
    session: dict[str, Any],
) -> None:
    client_event(SESSION)
    with pytest.raises(AssertionError, match="unknown"):
        client_event({**SESSION, "session": {"type": "realtime"} | session})


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValidationError):
        client_event({"type": "session.update", "session": {}})
    output = {"type": "function_call_output", "call_id": "call_1", "output": {}}
    with pytest.raises(ValidationError):
        client_event({"type": "conversation.item.create", "item": output})
    with pytest.raises(AssertionError, match="no event type"):
        client_event({"type": "session.start"})
