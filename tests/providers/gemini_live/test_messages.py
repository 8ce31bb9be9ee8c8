"""What the wire says, by model: nothing that would close the socket."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from glyphoxa_trio.providers.gemini_live.profiles import profile_of
from glyphoxa_trio.providers.gemini_live.wire import MAX_HELD
from glyphoxa_trio.providers.live_wire import Lane
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    Calling,
    Cancel,
    Command,
    Complaint,
    DropAudio,
    Respond,
    Schedule,
    SendAudio,
    SendResult,
    SendText,
    SetInstructions,
    SetTools,
    SpeechBegins,
    SpeechEnds,
    ToolsInForce,
    TranscriptLine,
    Truncate,
)

from .support import (
    EXTENDED_3_8,
    FLASH_3_1,
    LIVE_3_8,
    MODELS,
    NATIVE_2_5,
    TURN_COMPLETE,
    UNKNOWN,
    Talk,
    called,
    spoken,
    talk,
    tool,
    wire_of,
)

SILENT = SendText(TranscriptLine("user", "Somebody sings."), reply=False)


def asked(text: str = "Who is there?") -> SendText:
    return SendText(TranscriptLine("user", text))


def result(call_id: str = "fc-1", **fields: Any) -> SendResult:
    values = {"name": "dice__roll", "output": '{"total": 17}'} | fields
    return SendResult(call_id=call_id, **values)


def turns(*lines: tuple[str, str], complete: bool) -> dict[str, Any]:
    contents = [{"role": role, "parts": [{"text": text}]} for role, text in lines]
    return {"clientContent": {"turns": contents, "turnComplete": complete}}


# The setup.


def test_a_setup_says_all_that_the_session_needs() -> None:
    setup = Talk(wire_of(LIVE_3_8, voice="Puck", automatic=False)).opened()["setup"]
    assert setup == {
        "model": "models/gemini-3.8-live",
        "generationConfig": {
            "responseModalities": ["AUDIO"],
            "speechConfig": {
                "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Puck"}}
            },
        },
        "systemInstruction": {"parts": [{"text": "You are Greymantle."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "dice__roll",
                        "description": "Roll dice",
                        "behavior": "NON_BLOCKING",
                        "parameters": {
                            "type": "OBJECT",
                            "properties": {"expression": {"type": "STRING"}},
                            "required": ["expression"],
                        },
                    }
                ]
            }
        ],
        "realtimeInputConfig": {
            "automaticActivityDetection": {"disabled": True},
            "activityHandling": "START_OF_ACTIVITY_INTERRUPTS",
        },
        "sessionResumption": {},
        "contextWindowCompression": {"slidingWindow": {}},
        "inputAudioTranscription": {},
        "outputAudioTranscription": {},
    }


# G36
@pytest.mark.parametrize(
    ("model", "wanted", "behavior"),
    [
        (NATIVE_2_5, Calling.BLOCKING, "BLOCKING"),
        (NATIVE_2_5, Calling.NON_BLOCKING, "NON_BLOCKING"),
        (FLASH_3_1, Calling.NON_BLOCKING, None),
        (LIVE_3_8, Calling.BLOCKING, "BLOCKING"),
        (LIVE_3_8, Calling.NON_BLOCKING, "NON_BLOCKING"),
        (EXTENDED_3_8, Calling.BLOCKING, None),
        (UNKNOWN, Calling.NON_BLOCKING, None),
    ],
)
def test_behavior_is_declared_where_there_is_a_choice(
    model: str, wanted: Calling, behavior: str | None
) -> None:
    tools = (tool(calling=wanted),)
    setup = Talk(wire_of(model, tools=tools)).opened()["setup"]
    (function,) = setup["tools"][0]["functionDeclarations"]
    assert function.get("behavior") == behavior


@pytest.mark.parametrize("model", MODELS)
def test_without_tools_there_are_none_in_the_setup(model: str) -> None:
    assert "tools" not in Talk(wire_of(model, tools=())).opened()["setup"]


def test_more_tools_than_are_allowed_are_cut() -> None:
    many = tuple(tool(f"tool_{i}") for i in range(200))
    setup = Talk(wire_of(tools=many)).opened()["setup"]
    assert len(setup["tools"][0]["functionDeclarations"]) == 128


HISTORY = (
    TranscriptLine("user", "Is it open?"),
    TranscriptLine("system", "It rains."),
    TranscriptLine("assistant", "No."),
)


@pytest.mark.parametrize("model", [FLASH_3_1, LIVE_3_8, EXTENDED_3_8])
def test_history_is_announced_and_follows_the_setup(model: str) -> None:
    # 20: on a socket that knows nothing, the history is told again
    found = Talk(wire_of(model, history=HISTORY))
    setup = found.opened()["setup"]
    assert setup["historyConfig"] == {"initialHistoryInClientContent": True}
    found.hear({"setupComplete": {}})
    said = {
        "role": "user",
        "parts": [{"text": "Is it open?"}, {"text": "Note: It rains."}],
    }
    ours = {"role": "model", "parts": [{"text": "No."}]}
    assert found.said() == [
        {"clientContent": {"turns": [said, ours], "turnComplete": True}}
    ]


def test_history_of_2_5_ends_with_the_user() -> None:
    found = Talk(wire_of(NATIVE_2_5, history=HISTORY[::2]))
    assert "historyConfig" not in found.opened()["setup"]
    found.hear({"setupComplete": {}})
    goes_on = "(The conversation goes on.)"
    lines = [("user", "Is it open?"), ("model", "No."), ("user", goes_on)]
    assert found.said() == [turns(*lines, complete=False)]


def test_a_model_that_is_not_known_reads_the_history_in_its_instructions() -> None:
    found = Talk(wire_of(UNKNOWN, history=HISTORY))
    setup = found.opened()["setup"]
    assert "historyConfig" not in setup
    (part,) = setup["systemInstruction"]["parts"]
    assert part["text"] == (
        "You are Greymantle.\n\nWhat was said before:\n"
        "They said: Is it open?\nNote: It rains.\nYou said: No."
    )
    found.hear({"setupComplete": {}})
    assert not found.said()


@pytest.mark.parametrize("model", MODELS)
def test_a_handle_stands_for_the_history(model: str) -> None:
    found = Talk(wire_of(model, history=HISTORY, handle="h-1"))
    setup = found.opened()["setup"]
    assert setup["sessionResumption"] == {"handle": "h-1"}
    assert setup["systemInstruction"]["parts"] == [{"text": "You are Greymantle."}]
    assert "historyConfig" not in setup
    found.hear({"setupComplete": {}})
    assert not found.said()


def test_a_path_is_a_model_as_it_is() -> None:
    path = "projects/p/locations/l/publishers/google/models/gemini-3.8-live"
    assert Talk(wire_of(path)).opened()["setup"]["model"] == path
    assert profile_of(path) == profile_of(LIVE_3_8)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gemini-live-2.5-flash-native-audio", NATIVE_2_5),
        ("models/gemini-2.5-flash-preview-native-audio-dialog", NATIVE_2_5),
        ("gemini-3.8-live-preview-11-2026", LIVE_3_8),
        ("gemini-3.8-live-extended-thinking-preview", EXTENDED_3_8),
        ("gemini-live-2.5-flash-preview", UNKNOWN),
        ("gemini-2.0-flash-live-001", UNKNOWN),
    ],
)
def test_a_family_is_told_by_the_name(name: str, family: str) -> None:
    assert profile_of(name) == profile_of(family)


def test_half_a_character_closes_no_socket() -> None:
    setup = Talk(wire_of(instructions="half \ud83d, whole \ud83d\ude00")).opened()
    (part,) = setup["setup"]["systemInstruction"]["parts"]
    assert part["text"] == "half \ufffd, whole \U0001f600"


# Text.


@pytest.mark.parametrize("model", MODELS)
def test_text_is_a_turn_or_real_time_input(model: str) -> None:
    said = talk(model).send(asked())
    if model == NATIVE_2_5:
        assert said == [turns(("user", "Who is there?"), complete=True)]
    else:
        assert said == [{"realtimeInput": {"text": "Who is there?"}}]


@pytest.mark.parametrize("model", [FLASH_3_1, LIVE_3_8])
def test_text_begins_and_ends_where_the_client_says_when(model: str) -> None:
    found = talk(model, automatic=False)
    said = [{"realtimeInput": {"text": "Who is there?"}}]
    begins: dict[str, Any] = {"realtimeInput": {"activityStart": {}}}
    ends: dict[str, Any] = {"realtimeInput": {"activityEnd": {}}}
    assert found.send(asked()) == [begins, *said, ends]
    assert found.send(SpeechBegins()) == [begins]
    assert found.send(asked()) == said
    assert found.send(SpeechEnds()) == [ends]


def test_what_is_not_the_users_is_a_turn_where_there_are_turns() -> None:
    note = SendText(TranscriptLine("system", "Result of the earlier call of roll: 17"))
    words = "Note: Result of the earlier call of roll: 17"
    for model in (NATIVE_2_5, LIVE_3_8, EXTENDED_3_8):
        assert talk(model).send(note) == [turns(("user", words), complete=True)]
    for model in (FLASH_3_1, UNKNOWN):
        assert talk(model).send(note) == [{"realtimeInput": {"text": words}}]


@pytest.mark.parametrize("model", [NATIVE_2_5, LIVE_3_8, EXTENDED_3_8])
def test_text_without_an_answer_waits_until_nothing_is_said_or_owed(model: str) -> None:
    found = talk(model)
    now = [turns(("user", "Somebody sings."), complete=False)]
    assert found.send(SILENT) == now
    assert found.send(asked())
    assert not found.send(SILENT)  # an answer is on its way
    found.hear(spoken())
    assert not found.said()
    found.hear(called("fc-1"))
    assert not found.said()
    found.hear(
        {"serverContent": {"turnComplete": True, "interactionStatus": "IN_PROGRESS"}}
    )
    assert not found.said()  # it would cancel the call
    assert len(found.send(result())) == 1
    found.hear(spoken())
    assert not found.said()
    found.hear({"serverContent": {"turnComplete": True, "interactionStatus": "IDLE"}})
    assert found.said() == now


def test_text_without_an_answer_goes_with_the_next_that_has_one() -> None:
    found = talk(LIVE_3_8)
    found.hear(spoken())
    assert not found.send(
        SILENT, SendText(TranscriptLine("assistant", "Tra la."), reply=False)
    )
    lines = [("user", "Somebody sings."), ("model", "Tra la."), ("user", "Who?")]
    assert found.send(asked("Who?")) == [turns(*lines, complete=True)]


def test_where_all_text_is_answered_the_other_goes_with_it() -> None:
    found = talk(FLASH_3_1)
    assert not found.send(
        SILENT, SendText(TranscriptLine("assistant", "Tra la."), reply=False)
    )
    words = "Somebody sings.\nNote: you said: Tra la.\nWho?"
    assert found.send(asked("Who?")) == [{"realtimeInput": {"text": words}}]
    assert found.send(asked("Who?")) == [{"realtimeInput": {"text": "Who?"}}]


def test_where_all_text_is_answered_the_other_goes_with_speech() -> None:
    found = talk(FLASH_3_1, automatic=False)
    assert not found.send(SILENT)
    assert found.send(SpeechBegins()) == [
        {"realtimeInput": {"activityStart": {}}},
        {"realtimeInput": {"text": "Somebody sings."}},
    ]


def test_so_much_text_waits_and_no_more() -> None:
    found = talk(FLASH_3_1)
    for i in range(MAX_HELD + 1):
        assert not found.send(
            SendText(TranscriptLine("user", f"Line {i}."), reply=False)
        )
    (complaint,) = found.wait(0)
    assert isinstance(complaint, Complaint)
    assert complaint.kind is ErrorKind.BAD_REQUEST
    (said,) = found.send(asked())
    assert said["realtimeInput"]["text"].startswith("Line 1.\nLine 2.\n")
    found = talk(LIVE_3_8)
    found.hear(spoken())
    said_all = [m for _ in range(MAX_HELD + 1) for m in found.send(SILENT)]
    assert len(said_all) == 1  # rather interrupted than lost
    assert found.wait(0) == []


def test_nothing_is_said_of_nothing() -> None:
    found = talk(LIVE_3_8)
    assert not found.send(SendText(TranscriptLine("user", "")), SendAudio(b""))
    assert found.wait(10) == []


# Tools and instructions.


def test_tools_are_replaced_where_they_can_be() -> None:
    found = talk(LIVE_3_8)
    other = tool("look_up", Calling.BLOCKING)
    (said,) = found.send(SetTools((other,), 7))
    (entry,) = said["contextUpdate"]["tools"]["tools"]
    assert [f["name"] for f in entry["functionDeclarations"]] == ["look_up"]
    assert found.wait(0) == [ToolsInForce(7)]
    assert found.send(SetTools((), 8)) == [{"contextUpdate": {"tools": {"tools": []}}}]
    assert found.hear(spoken())[0] == ToolsInForce(8)
    assert found.wait(60) == []


def test_tools_that_are_replaced_before_the_setup_are_in_force_after_it() -> None:
    wire = wire_of(LIVE_3_8)
    found = Talk(wire)
    found.opened()
    found.send(SetTools((), 1))
    assert wire.alarm is None
    ready, force = found.hear({"setupComplete": {}}), ToolsInForce(1)
    assert ready[1:] == [force]


@pytest.mark.parametrize("model", [NATIVE_2_5, FLASH_3_1, EXTENDED_3_8, UNKNOWN])
def test_tools_are_not_replaced_where_they_cannot_be(model: str) -> None:
    found = talk(model)
    assert not profile_of(model).capabilities.live_tools
    with pytest.raises(ValueError, match="SetTools"):
        found.send(SetTools((tool(),), 2))
    assert not found.said()


def test_new_instructions_are_an_update_or_a_note() -> None:
    new = SetInstructions("You are a crow.")
    assert talk(LIVE_3_8).send(new) == [
        {
            "contextUpdate": {
                "systemInstruction": {"parts": [{"text": "You are a crow."}]}
            }
        }
    ]
    note = "Note: You are a crow."
    assert talk(NATIVE_2_5).send(new) == [turns(("user", note), complete=False)]
    assert not talk(FLASH_3_1).send(new)  # with the next text; a new socket begins so


# Results.


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("calling", Calling)
def test_scheduling_is_said_where_it_is_taken(model: str, calling: Calling) -> None:
    found = talk(model, tools=(tool(calling=calling),))
    found.hear(called("fc-1", "fc-2", "fc-3"))
    says = model in (NATIVE_2_5, LIVE_3_8) and calling is Calling.NON_BLOCKING
    for call_id, schedule in zip(("fc-1", "fc-2", "fc-3"), Schedule, strict=True):
        (said,) = found.send(result(call_id, schedule=schedule))
        (answer,) = said["toolResponse"]["functionResponses"]
        assert answer.pop("scheduling", None) == (schedule.name if says else None)
        expected = {"output": {"total": 17}}
        assert answer == {"id": call_id, "name": "dice__roll", "response": expected}


def test_an_error_is_said_to_be_one_and_text_stays_text() -> None:
    found = talk()
    found.hear(called("a", "b", "c"))
    said = found.send(
        result("a", output='{"status": "timeout"}', is_error=True),
        result("b", output="not JSON"),
        result("c", output='{"x": NaN}'),
    )
    answers = [m["toolResponse"]["functionResponses"][0]["response"] for m in said]
    assert answers == [
        {"error": {"status": "timeout"}},
        {"output": "not JSON"},
        {"output": '{"x": NaN}'},
    ]


def test_a_call_of_another_socket_is_not_answered_here() -> None:
    # 6: its result is told as text
    found = talk()
    with pytest.raises(ValueError, match="no call 'fc-9'"):
        found.send(result("fc-9"))
    assert not found.said()


def test_a_call_is_answered_once() -> None:
    found = talk()
    found.hear(called("fc-1"))
    assert len(found.send(result())) == 1
    with pytest.raises(ValueError, match="answered already"):
        found.send(result())
    assert not found.said()


def test_a_call_that_the_server_has_cancelled_gets_no_answer() -> None:
    found = talk()
    found.hear(called("fc-1"), {"toolCallCancellation": {"ids": ["fc-1"]}})
    assert not found.send(result(), result())


def test_a_result_that_is_too_large_is_not_sent() -> None:
    # 12: 1011 after large results
    found = talk()
    found.hear(called("fc-1"))
    with pytest.raises(ValueError, match="4096 are allowed"):
        found.send(result(output='"' + "ä" * 2050 + '"'))
    assert len(found.send(result())) == 1  # and is still owed


# The microphone.


def test_audio_is_base64_of_pcm_and_may_be_dropped() -> None:
    found = talk()
    found.wire.send(SendAudio(b"\x01\x02"), found.now)
    (frame,) = found.frames()
    assert frame.lane is Lane.AUDIO
    assert isinstance(frame.data, str)
    data = base64.b64encode(b"\x01\x02").decode()
    assert data in frame.data
    assert "audio/pcm;rate=16000" in frame.data


def test_a_microphone_that_falls_silent_is_said_to_be_off() -> None:
    found = talk()
    for _ in range(100):
        assert len(found.send(SendAudio(bytes(640)))) == 1
        assert found.wait(0.02) == []
    assert found.said() == []
    found.wait(0.97)
    assert found.said() == []
    found.wait(0.02)
    assert found.said() == [{"realtimeInput": {"audioStreamEnd": True}}]
    found.wait(60)
    assert found.said() == []


def test_who_says_when_speech_ends_says_so_after_the_audio() -> None:
    found = talk(automatic=False)
    for command in (SpeechBegins(), SpeechBegins(), SendAudio(bytes(2)), SpeechEnds()):
        found.wire.send(command, found.now)
    lanes = [frame.lane for frame in found.frames()]
    assert lanes == [Lane.AFTER_AUDIO, Lane.AUDIO, Lane.AFTER_AUDIO]
    assert not found.send(SpeechEnds())
    found.wait(60)
    assert found.said() == []  # such a stream has no end of its own


@pytest.mark.parametrize("command", [SpeechBegins(), SpeechEnds()])
def test_where_the_server_hears_nobody_says_when_speech_begins(
    command: Command,
) -> None:
    with pytest.raises(ValueError, match="Speech"):
        talk().send(command)


# What there is no way to do.


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("command", [Respond(), Truncate("t.1", 100), DropAudio()])
def test_what_the_wire_has_no_way_to_do_is_refused(
    model: str, command: Command
) -> None:
    found = talk(model)
    with pytest.raises(ValueError, match=type(command).__name__):
        found.send(command)
    assert not found.said()


@pytest.mark.parametrize("model", MODELS)
def test_a_response_is_stopped_where_it_can_be(model: str) -> None:
    found = talk(model)
    found.hear(spoken())
    if profile_of(model).capabilities.cancels:
        assert found.send(Cancel()) == [{"clientContent": {"turnComplete": False}}]
    else:
        with pytest.raises(ValueError, match="Cancel"):
            found.send(Cancel())


def test_nothing_is_stopped_if_nothing_runs() -> None:
    found = talk(LIVE_3_8)
    assert not found.send(Cancel())
    found.hear(spoken(), TURN_COMPLETE)
    assert not found.send(Cancel())
    found.send(asked())
    assert len(found.send(Cancel(), Cancel())) == 1
