"""A whole turn, frame by frame: what is said is the sample's, what comes is events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.genai import types

from glyphoxa_trio.providers.llm import Usage
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    CallReady,
    CallsCancelled,
    Event,
    GoingAway,
    HandleIssued,
    Heard,
    InteractionEnded,
    Interrupted,
    Ready,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SendAudio,
    SendResult,
    SendText,
    SetTools,
    Spoken,
    ToolsInForce,
    TranscriptLine,
    UsageSeen,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .support import Talk, judged, tool, wire_of

SAMPLE = Path(__file__).parent.parent / "samples" / "gemini_turn.jsonl"
LINES = [json.loads(line) for line in SAMPLE.read_text().splitlines()]


def test_the_sample_is_what_the_vendor_says() -> None:
    for line in LINES:
        if line["dir"] == "s":
            types.LiveServerMessage.model_validate(line["msg"])
        else:
            judged(line["msg"])


def test_every_client_frame_of_the_sample_is_said_by_a_command() -> None:
    theirs = [line["msg"] for line in LINES if line["dir"] == "c"]
    talk = Talk(wire_of(voice="Puck"))
    ours: list[dict[str, Any]] = [talk.opened()]
    talk.hear({"setupComplete": {}}, *(m for m in messages() if "toolCall" in m))
    ours += talk.send(
        SendAudio(bytes(4)),
        SendText(TranscriptLine("user", "roll a d20")),
        SendResult(call_id="fc-1", name="dice__roll", output='{"total": 17}'),
        SetTools((tool(),), 2),
    )
    assert ours == theirs


def messages() -> list[dict[str, Any]]:
    return [line["msg"] for line in LINES if line["dir"] == "s"]


def test_every_server_frame_of_the_sample_means_something() -> None:
    talk = Talk(wire_of(voice="Puck"))
    talk.opened()
    calls = tuple(
        ToolCall(id_, "dice__roll", json.dumps({"expression": what}))
        for id_, what in (("fc-1", "1d20"), ("fc-2", "1d6"))
    )
    first = ResponseEnded(response="t.1", end=ResponseEnd.COMPLETED, calls=calls)
    expected: list[list[Event]] = [
        [Ready(resumed=False)],
        [Heard("roll a d20", False, "t.said-1")],
        [
            ResponseStarted("t.1", heard="t.said-1"),
            Heard("roll a d20", True, "t.said-1"),
            CallReady("t.1", calls[0], more=True),
            CallReady("t.1", calls[1]),
            first,
        ],
        [HandleIssued(None)],
        [
            ResponseStarted("t.2"),
            AudioOut("t.2", "t.2", bytes(4)),
            Spoken("t.2", "t.2", "One moment."),
        ],
        [CallsCancelled(("fc-2",))],
        [
            Interrupted(),
            ResponseEnded(response="t.2", end=ResponseEnd.CANCELLED),
        ],
        [InteractionEnded()],
        [],  # the end of a generation: that of its turn is what counts
        [HandleIssued("h-123")],
        [UsageSeen(Usage(input_tokens=120, output_tokens=0))],
        [GoingAway(50.0)],
    ]
    for message, events in zip(messages(), expected, strict=True):
        assert talk.hear(message) == events, message
        if "modelTurn" in message.get("serverContent", {}):
            output = '{"total": 17}'
            talk.send(SendResult(call_id="fc-1", name="dice__roll", output=output))
    assert not talk.wire.unknown
    # The server wants no answer to this one any more, and gets none.
    assert not talk.send(SendResult(call_id="fc-2", name="dice__roll", output="{}"))
    talk.send(SetTools((tool(),), 2))
    assert talk.wait(0) == [ToolsInForce(2)]
