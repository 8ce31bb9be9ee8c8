"""What may be asked of a session: each option as the vendor's types take it, and what
does not fit together or fit the model, before any socket is opened."""

from __future__ import annotations

from typing import Any

import pytest

from glyphoxa_trio.providers.openai_realtime import OpenAIRealtime, SessionOptions
from glyphoxa_trio.providers.openai_realtime.wire import RealtimeWire
from glyphoxa_trio.providers.s2s import Cancel, Respond, SpeechStopped

from .support import BY_HAND, SETUP, Talk


def session(**options: Any) -> dict[str, Any]:
    """The session that is sent, as the vendor's types take it."""
    talk = Talk(RealtimeWire(setup=SETUP, options=SessionOptions(**options)))
    talk.hear("session.created", session={"type": "realtime"})
    [update] = talk.sent()
    sent: dict[str, Any] = update["session"]
    return sent


def test_a_server_hears_by_silence_and_is_told_how() -> None:
    hears = session(
        threshold=0.7, prefix_padding_ms=200, silence_ms=800, idle_timeout_ms=6000
    )["audio"]["input"]
    assert hears["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.7,
        "prefix_padding_ms": 200,
        "silence_duration_ms": 800,
        "idle_timeout_ms": 6000,
        "create_response": True,
        "interrupt_response": True,
    }


def test_or_by_what_is_said() -> None:
    hears = session(turn_detection="semantic_vad", eagerness="low")["audio"]["input"]
    assert hears["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "low",
        "create_response": True,
        "interrupt_response": True,
    }


def test_it_is_told_not_to_answer_and_not_to_stop() -> None:
    hears = session(create_response=False, interrupt_response=False)["audio"]["input"]
    assert hears["turn_detection"]["create_response"] is False
    assert hears["turn_detection"]["interrupt_response"] is False
    model = OpenAIRealtime(model="m", options=SessionOptions(create_response=False))
    assert not model.capabilities.answers_speech
    assert OpenAIRealtime(model="m").capabilities.answers_speech


def test_what_guides_transcripts_noise_speed_and_thoughts_is_said() -> None:
    sent = session(
        transcription="gpt-4o-transcribe",
        transcription_prompt="A tavern.",
        noise_reduction="far_field",
        speed=1.25,
        thinking="low",
    )
    hears = sent["audio"]["input"]
    assert hears["transcription"] == {
        "model": "gpt-4o-transcribe",
        "prompt": "A tavern.",
    }
    assert hears["noise_reduction"] == {"type": "far_field"}
    assert sent["audio"]["output"]["speed"] == 1.25
    assert sent["reasoning"] == {"effort": "low"}


def test_what_is_not_said_is_left_to_the_vendor() -> None:
    sent = session()
    assert "reasoning" not in sent
    assert "noise_reduction" not in sent["audio"]["input"]
    assert [*sent["audio"]["input"]["transcription"]] == ["model"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"threshold": 1.7}, "threshold: 0 to 1, got 1.7"),
        ({"speed": 2.0}, "speed: 0.25 to 1.5, got 2"),
        ({"idle_timeout_ms": 100}, "idle_timeout_ms: 5000 to 30000, got 100"),
        ({"turn_detection": "vad"}, "turn_detection: one of server_vad, semantic_vad"),
        ({"eagerness": "low"}, "eagerness is for turn_detection: semantic_vad"),
        (
            {"turn_detection": "semantic_vad", "silence_ms": 300},
            "silence_ms is for turn_detection: server_vad; semantic_vad has eagerness",
        ),
        (
            {"transcription": None, "transcription_prompt": "x"},
            "transcription_prompt needs transcription",
        ),
        ({"extra": {"reasoning": {}}}, "set thinking for reasoning"),
    ],
)
def test_what_cannot_be_says_so(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SessionOptions(**options)


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("gpt-realtime-2", True),
        ("gpt-realtime-2.1-mini", True),
        ("somebody-elses", True),
        ("gpt-realtime", False),
        ("gpt-realtime-mini", False),
        ("gpt-realtime-1.5", False),
        ("gpt-realtime-2025-08-28", False),
    ],
)
def test_a_model_that_does_not_think_is_not_asked_to(model: str, thinks: bool) -> None:
    options = SessionOptions(thinking="high")
    if thinks:
        OpenAIRealtime(model=model, options=options)
        return
    with pytest.raises(ValueError, match=rf"thinking: {model} does not think; leave"):
        OpenAIRealtime(model=model, options=options)


def test_a_response_that_the_server_does_not_make_is_asked_for_at_once() -> None:
    # Else it would wait ten seconds for one that the server is not going to make.
    options = SessionOptions(turn_detection="semantic_vad", create_response=False)
    talk = Talk.ready(options=options)
    talk.hear("input_audio_buffer.speech_started", audio_start_ms=0, item_id="i")
    assert talk.do(Respond()) == []  # somebody speaks
    stopped = talk.hear(
        "input_audio_buffer.speech_stopped", audio_end_ms=900, item_id="i"
    )
    assert stopped == [SpeechStopped("i")]
    assert [message["type"] for message in talk.sent()] == ["response.create"]


def test_a_server_that_does_not_stop_by_itself_is_told_to() -> None:
    for interrupts, told in ((True, []), (False, ["response.cancel"])):
        talk = Talk.ready(options=SessionOptions(interrupt_response=interrupts))
        talk.starts()
        talk.hear("input_audio_buffer.speech_started", audio_start_ms=0, item_id="i")
        assert [message["type"] for message in talk.do(Cancel())] == told


def test_a_session_by_hand_detects_nothing_whatever_the_options() -> None:
    wire = RealtimeWire(setup=BY_HAND, options=SessionOptions(silence_ms=300))
    talk = Talk(wire)
    talk.hear("session.created", session={"type": "realtime"})
    [update] = talk.sent()
    assert update["session"]["audio"]["input"]["turn_detection"] is None
