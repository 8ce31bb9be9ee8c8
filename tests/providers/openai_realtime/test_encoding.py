"""What we say: every frame is one that the vendor's types take, and no key more."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.live_wire import Lane
from glyphoxa_trio.providers.llm import ToolSpec
from glyphoxa_trio.providers.openai_realtime import SessionOptions
from glyphoxa_trio.providers.openai_realtime.encoding import (
    MAX_APPEND,
    append,
)
from glyphoxa_trio.providers.openai_realtime.wire import RealtimeWire
from glyphoxa_trio.providers.s2s import (
    Cancel,
    Command,
    DropAudio,
    ForgetText,
    Respond,
    SendAudio,
    SendResult,
    SendText,
    SetInstructions,
    SetTools,
    Setup,
    SpeechBegins,
    SpeechEnds,
    TranscriptLine,
    Truncate,
)

from ..openai_types import client_event
from .support import BY_HAND, SETUP, Talk, function_call, text, tool


def session(setup: Setup, **options: Any) -> dict[str, Any]:
    """The session that is sent for this setup, as the vendor's types take it."""
    talk = Talk(RealtimeWire(setup=setup, options=SessionOptions(**options)))
    talk.hear("session.created", session={"type": "realtime"})
    [update] = talk.sent()
    sent: dict[str, Any] = update["session"]
    return sent


def test_an_automatic_session_hears_answers_and_stops_by_itself() -> None:
    hears = session(SETUP)["audio"]["input"]
    assert hears["format"] == {"type": "audio/pcm", "rate": 24000}
    assert hears["turn_detection"] == {
        "type": "server_vad",
        "create_response": True,
        "interrupt_response": True,
    }


def test_a_session_by_hand_has_no_turn_detection() -> None:
    hears = session(BY_HAND)["audio"]["input"]
    assert hears["turn_detection"] is None  # null is what switches it off


def test_a_session_speaks_or_writes_never_both() -> None:
    speaks = session(attrs.evolve(SETUP, voice="marin"), speed=1.25)
    assert speaks["output_modalities"] == ["audio"]
    assert speaks["audio"]["output"] == {
        "format": {"type": "audio/pcm", "rate": 24000},
        "voice": "marin",
        "speed": 1.25,
    }
    writes = session(attrs.evolve(SETUP, voice="marin", speaks=False))
    assert writes["output_modalities"] == ["text"]
    assert "output" not in writes["audio"]


@pytest.mark.parametrize(
    ("language", "sent"), [("en-GB", "en"), ("de", "de"), ("pt_BR", "pt"), (None, None)]
)
def test_the_transcription_takes_the_bare_language(
    language: str | None, sent: str | None
) -> None:
    hears = session(attrs.evolve(SETUP, language=language))["audio"]["input"]
    assert hears["transcription"].get("language") == sent
    silent = session(attrs.evolve(SETUP, language=language), transcription=None)
    assert "transcription" not in silent["audio"]["input"]


def test_further_options_reach_the_session_but_do_not_take_it_over() -> None:
    sent = session(SETUP, extra={"truncation": "auto"})
    assert sent["truncation"] == "auto"
    with pytest.raises(ValueError, match="audio, tools cannot be set here"):
        SessionOptions(extra={"tools": [], "audio": {}})


def test_tools_are_flat_and_keep_their_schema() -> None:
    [declared] = session(attrs.evolve(SETUP, tools=(tool(),)))["tools"]
    assert declared == {
        "type": "function",
        "name": "roll",
        "description": "Rolls dice.",
        "parameters": tool().spec.parameters,
    }


@pytest.mark.parametrize(
    "name", ["", "dice.roll", "1st", "-x", "a" * 65, "würfeln", "a b", "roll\n"]
)
def test_a_name_that_some_vendor_refuses_is_refused_here(name: str) -> None:
    bad = attrs.evolve(tool(), spec=ToolSpec(name=name, description="", parameters={}))
    with pytest.raises(ValueError, match="letters"):
        RealtimeWire(setup=attrs.evolve(SETUP, tools=(bad,)))
    talk = Talk.ready()
    with pytest.raises(ValueError, match="letters"):
        talk.do(SetTools((bad,), 1))
    assert talk.sent() == []


def test_too_many_tools_and_one_name_twice_are_refused() -> None:
    many = tuple(tool(f"tool_{number}") for number in range(128))
    assert len(session(attrs.evolve(SETUP, tools=many))["tools"]) == 128
    with pytest.raises(ValueError, match="at most 128"):
        session(attrs.evolve(SETUP, tools=(*many, tool())))
    with pytest.raises(ValueError, match="declared twice"):
        session(attrs.evolve(SETUP, tools=(tool(), tool())))


def test_audio_is_a_frame_that_may_be_dropped_and_its_end_may_not() -> None:
    talk = Talk.ready(BY_HAND)
    talk.do(SpeechBegins())
    pcm = bytes(4800)
    for command in (SendAudio(pcm), SpeechEnds(), SendAudio(pcm), DropAudio()):
        talk.wire.send(command, 0)
    assert talk.lanes() == [
        ("input_audio_buffer.append", Lane.AUDIO),
        ("input_audio_buffer.commit", Lane.AFTER_AUDIO),
        ("input_audio_buffer.append", Lane.AUDIO),
        ("input_audio_buffer.clear", Lane.AFTER_AUDIO),
    ]


def test_an_utterance_without_audio_is_not_committed() -> None:
    talk = Talk.ready(BY_HAND)
    assert talk.do(SpeechBegins(), SpeechEnds()) == []
    assert len(talk.do(SendAudio(b"\0\0"), DropAudio(), SpeechEnds())) == 2
    assert len(talk.do(SendAudio(bytes(4800)), SpeechEnds(), SpeechEnds())) == 2


def test_an_utterance_that_is_too_short_to_commit_ends_in_silence() -> None:
    talk = Talk.ready(BY_HAND)
    *audio, commit = talk.do(SendAudio(b"\1\2" * 100), SpeechEnds())
    heard = b"".join(b64decode(frame["audio"]) for frame in audio)
    assert heard == b"\1\2" * 100 + bytes(4600)
    assert commit["type"] == "input_audio_buffer.commit"


@given(st.binary(max_size=200).filter(lambda pcm: len(pcm) % 2 == 0))
def test_audio_arrives_as_it_is(pcm: bytes) -> None:
    client_event(append(pcm))
    assert b64decode(json.loads(append(pcm))["audio"]) == pcm


def test_a_large_piece_of_audio_is_several_frames_and_half_a_sample_is_none() -> None:
    talk = Talk.ready()
    pcm = bytes(range(256)) * (MAX_APPEND // 128 + 1)
    frames = talk.do(SendAudio(pcm))
    assert len(frames) == 3
    assert b"".join(b64decode(frame["audio"]) for frame in frames) == pcm
    assert talk.do(SendAudio(b"")) == []
    with pytest.raises(ValueError, match="PCM16"):
        talk.do(SendAudio(b"\0\0\0"))


@pytest.mark.parametrize("command", [SpeechBegins(), SpeechEnds()])
def test_a_server_that_hears_by_itself_is_not_told(command: Command) -> None:
    with pytest.raises(ValueError, match="by itself"):
        Talk.ready().do(command)


@pytest.mark.parametrize(
    ("role", "part"),
    [("user", "input_text"), ("system", "input_text"), ("assistant", "output_text")],
)
def test_a_line_says_whose_it_is(role: Any, part: str) -> None:
    [sent] = Talk.ready().do(SendText(TranscriptLine(role, "So be it.")))
    assert sent["item"]["role"] == role
    assert sent["item"]["content"] == [{"type": part, "text": "So be it."}]


def test_a_line_with_a_name_can_be_taken_back() -> None:
    line = TranscriptLine("user", "It rains.")
    [sent] = Talk.ready().do(SendText(line, reply=False, item="known_1"))
    assert sent["item"]["id"] == "known_1"
    [sent] = Talk.ready().do(ForgetText("known_1"))
    assert (sent["type"], sent["item_id"]) == ("conversation.item.delete", "known_1")


def test_history_goes_out_first_oldest_first() -> None:
    history = (
        TranscriptLine("user", "Who are you?"),
        TranscriptLine("assistant", "Nobody."),
    )
    talk = Talk(RealtimeWire(setup=attrs.evolve(SETUP, history=history)))
    talk.do(Respond())
    talk.hear("session.created", session={"type": "realtime"})
    talk.sent()
    talk.hear("session.updated", session={"type": "realtime"})
    said = [frame.get("item", frame) for frame in talk.sent()]
    assert [item.get("role", item["type"]) for item in said] == [
        "user",
        "assistant",
        "response.create",
    ]


def test_a_response_of_its_own_instructions_remembers_who_it_is() -> None:
    talk = Talk.ready()
    [plain] = talk.do(Respond())
    assert "response" not in plain
    talk.do(SetInstructions("You are Bartok."))
    talk.starts()
    talk.do(Respond(instructions="Say hello.", tools_forbidden=True))
    talk.ends()
    [create] = talk.sent()
    assert create["response"] == {
        "instructions": "You are Bartok.\n\nSay hello.",
        "tool_choice": "none",
    }


def test_every_event_but_audio_has_a_name_of_its_own() -> None:
    talk = Talk.ready(BY_HAND)
    talk.starts()
    talk.speaks(bytes(480))
    talk.calls()
    sent = talk.do(
        text("a"),
        text("a"),
        SetTools((), 1),
        SetInstructions(""),
        Truncate("item_1", 5),
        DropAudio(),
        Cancel(),
    )
    talk.ends(status="cancelled", output=[function_call("call_1")])
    sent += talk.do(SendResult(call_id="call_1", name="roll", output="{}"), Respond())
    names = [frame["event_id"] for frame in sent]
    assert len(names) == len(set(names)) == 9


def test_half_a_character_does_not_break_a_frame() -> None:
    [sent] = Talk.ready().do(text("\ud83d alone"))
    assert sent["item"]["content"][0]["text"]
