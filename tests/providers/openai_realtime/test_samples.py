"""The sample conversations, frame by frame: what each means, and what we answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.providers.llm import ErrorKind, ToolSpec, Usage
from glyphoxa_trio.providers.openai_realtime import SessionOptions
from glyphoxa_trio.providers.openai_realtime.wire import RealtimeWire
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    Calling,
    CallReady,
    Committed,
    Complaint,
    Event,
    InteractionEnded,
    LinkClosed,
    Ready,
    Respond,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    S2STool,
    Setup,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    Truncate,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .support import Talk, result, text

SAMPLES = Path(__file__).parent.parent / "samples"
ROLL = ToolCall("call_1", "dice__roll", '{"expression":"1d20"}')
QUERY = ToolCall("call_2", "memory__query_entities", '{"name":"Mira"}')
USAGE = Usage(input_tokens=60, output_tokens=30)


def sides(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in (SAMPLES / f"{name}.jsonl").read_text().splitlines():
        side = json.loads(line)
        yield side["dir"], side["msg"]


def played(talk: Talk, message: dict[str, Any]) -> list[Event]:
    fields = {k: v for k, v in message.items() if k not in ("type", "event_id")}
    return talk.hear(message["type"], **fields)


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "event_id"}


def sample_setup(update: dict[str, Any]) -> tuple[Setup, SessionOptions]:
    """What our side must be asked for, to say the sample's session."""
    session = update["session"]
    hears = session["audio"]["input"]
    tools = tuple(
        S2STool(
            spec=ToolSpec(
                name=tool["name"],
                description=tool["description"],
                parameters=tool["parameters"],
            ),
            calling=Calling.BLOCKING,
        )
        for tool in session["tools"]
    )
    setup = Setup(
        instructions=session["instructions"],
        tools=tools,
        voice=session["audio"]["output"]["voice"],
    )
    extra = ("parallel_tool_calls", "max_output_tokens", "truncation")
    options = SessionOptions(
        transcription=hears["transcription"]["model"],
        turn_detection=hears["turn_detection"]["type"],
        threshold=hears["turn_detection"]["threshold"],
        prefix_padding_ms=hears["turn_detection"]["prefix_padding_ms"],
        silence_ms=hears["turn_detection"]["silence_duration_ms"],
        speed=1.0,
        extra={key: session[key] for key in extra},
    )
    return setup, options


def test_two_calls_in_one_response_frame_by_frame() -> None:
    messages = list(sides("openai_two_calls"))
    setup, options = sample_setup(messages[1][1])
    talk = Talk(RealtimeWire(setup=setup, options=options))
    events: list[Event] = []
    sent: list[dict[str, Any]] = []
    for side, message in messages:
        if side == "s":
            events += played(talk, message)
            sent += talk.sent()
            continue
        match message["type"], message.get("item", {}).get("type"):
            case ("session.update", _):
                pass  # it says that by itself
            case ("conversation.item.create", "message"):
                sent += talk.do(text(message["item"]["content"][0]["text"]))
            case ("conversation.item.create", "function_call_output"):
                item = message["item"]
                sent += talk.do(result(item["call_id"], item["output"]))
            case ("response.create", _):
                sent += talk.do(Respond())
        expected = without_ids(message)
        if message["type"] == "session.update":  # null is what says nothing
            assert expected["session"]["audio"]["input"].pop("noise_reduction") is None
        assert without_ids(sent.pop(0)) == expected
    assert sent == []
    assert events == [
        Ready(),
        ResponseStarted("resp_1"),
        Spoken("resp_1", "item_a1", "One moment."),
        AudioOut("resp_1", "item_a1", bytes(4)),
        CallReady("resp_1", ROLL),
        CallReady("resp_1", QUERY),
        ResponseEnded(
            response="resp_1",
            end=ResponseEnd.COMPLETED,
            calls=(ROLL, QUERY),
            usage=USAGE,
        ),
        ResponseStarted("resp_2"),
        Spoken("resp_2", "item_a2", "A seventeen!"),
        ResponseEnded(response="resp_2", end=ResponseEnd.COMPLETED, usage=USAGE),
        InteractionEnded(),
    ]
    assert not talk.wire.unknown


def test_an_interruption_and_errors_frame_by_frame() -> None:
    talk = Talk.ready()
    talk.starts("resp_8")
    talk.speaks(bytes(48 * 2000), response="resp_8", item="item_a8")
    talk.ends("resp_8")
    events: list[Event] = []
    with pytest.raises(LinkClosed, match="session_expired") as caught:
        for side, message in sides("openai_barge_in_and_errors"):
            if side == "s":
                events += played(talk, message)
                assert talk.sent() == []
            elif message["type"] == "conversation.item.truncate":
                [sent] = talk.do(Truncate(message["item_id"], 1500))
                assert without_ids(sent) == without_ids(message)
    assert caught.value.retryable
    assert caught.value.kind is ErrorKind.INTERRUPTED
    assert events[:7] == [
        ResponseStarted("resp_9"),
        SpeechStarted(),
        ResponseEnded(
            response="resp_9",
            end=ResponseEnd.CANCELLED,
            void=("call_9",),
            detail="turn_detected",
            usage=USAGE,
        ),
        InteractionEnded(),
        SpeechStopped("item_u9"),
        Committed("item_u9"),
        Complaint(
            kind=ErrorKind.BAD_REQUEST,
            code="response_cancel_not_active",
            detail="Cancellation failed: no active response found",
        ),
    ]
    # Neither error is about anything that this side sent, so both are told.
    [about_active] = events[7:]
    assert isinstance(about_active, Complaint)
    assert about_active.code == "conversation_already_has_active_response"
