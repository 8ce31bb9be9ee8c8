"""What a server's turns mean: responses, calls, and when nothing more is owed."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.gemini_live.calls import MAX_KNOWN
from glyphoxa_trio.providers.gemini_live.turn import STOPPING
from glyphoxa_trio.providers.llm import ErrorKind, Usage
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    CallReady,
    CallsCancelled,
    Cancel,
    Complaint,
    Event,
    GoingAway,
    HandleIssued,
    InteractionEnded,
    Interrupted,
    LinkClosed,
    Ready,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SendResult,
    SendText,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TranscriptLine,
    UsageSeen,
)

from .support import (
    EXTENDED_3_8,
    FLASH_3_1,
    INTERRUPTED,
    LIVE_3_8,
    NATIVE_2_5,
    TURN_COMPLETE,
    Talk,
    called,
    content,
    spoken,
    talk,
    wire_of,
)


def names(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def ended(events: list[Event]) -> ResponseEnded:
    (end,) = (event for event in events if isinstance(event, ResponseEnded))
    return end


def asking(model: str = LIVE_3_8) -> Talk:
    found = talk(model)
    found.send(SendText(TranscriptLine("user", "Roll!")))
    return found


def answered(found: Talk, *ids: str) -> None:
    for id_ in ids:
        found.send(SendResult(call_id=id_, name="dice__roll", output="{}"))


def status(word: str, **fields: Any) -> dict[str, Any]:
    return content(turnComplete=True, interactionStatus=word, **fields)


# Responses.


def test_a_turn_is_a_response() -> None:
    found = asking()
    assert found.hear(spoken("Hm."), spoken(" No."), status("IDLE")) == [
        ResponseStarted("t.1"),
        AudioOut("t.1", "t.1", bytes(4)),
        Spoken("t.1", "t.1", "Hm."),
        AudioOut("t.1", "t.1", bytes(4)),
        Spoken("t.1", "t.1", " No."),
        ResponseEnded(response="t.1", end=ResponseEnd.COMPLETED),
        InteractionEnded(),
    ]


def test_the_end_of_a_generation_is_not_that_of_its_turn() -> None:
    # 14: the end of a generation taken for the end, and the audio cut
    found = asking(NATIVE_2_5)
    found.hear(spoken())
    assert found.hear(content(generationComplete=True)) == []
    assert names(found.hear(spoken())) == ["AudioOut", "Spoken"]
    assert names(found.hear(TURN_COMPLETE)) == ["ResponseEnded", "InteractionEnded"]


def test_a_bag_of_everything_is_read_in_one_order() -> None:
    found = asking()
    bag = spoken() | called("fc-1")
    bag["serverContent"] |= {
        "inputTranscription": {"text": "Roll!", "finished": True},
        "turnComplete": True,
        "interactionStatus": "IN_PROGRESS",
    }
    bag["usageMetadata"] = {"promptTokenCount": 7, "responseTokenCount": 2}
    bag["goAway"] = {"timeLeft": "9.5s"}
    bag["sessionResumptionUpdate"] = {"newHandle": "h", "resumable": True}
    events = found.hear(bag)
    assert names(events) == [
        "Heard",
        "ResponseStarted",
        "AudioOut",
        "Spoken",
        "CallReady",
        "ResponseEnded",
        "HandleIssued",
        "UsageSeen",
        "GoingAway",
    ]
    assert events[-3:] == [
        HandleIssued("h"),
        UsageSeen(Usage(input_tokens=7, output_tokens=2)),
        GoingAway(9.5),
    ]


def test_every_part_counts() -> None:
    found = asking()
    data = base64.b64encode(b"\x01\x02\x03\x04").decode()
    part = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": data}}
    thought = {"text": "The user wants to roll.", "thought": True}
    events = found.hear(content(modelTurn={"parts": [part, thought, part]}))
    assert names(events) == ["ResponseStarted", "AudioOut", "AudioOut"]
    assert events[1] == AudioOut("t.1", "t.1", b"\x01\x02\x03\x04")


def test_who_wants_text_gets_no_audio() -> None:
    found = talk(speaks=False)
    assert names(found.hear(spoken())) == ["ResponseStarted", "Spoken"]


def test_what_is_said_after_a_call_is_another_response() -> None:
    found = asking()
    first = found.hear(spoken(), called("fc-1"))
    assert [call.id for call in ended(first).calls] == ["fc-1"]
    second = found.hear(spoken("One moment."), status("IN_PROGRESS"))
    assert names(second) == ["ResponseStarted", "AudioOut", "Spoken", "ResponseEnded"]
    assert ended(second).response != ended(first).response
    answered(found, "fc-1")
    last = found.hear(spoken("Seventeen."), status("IDLE"))
    assert names(last)[-2:] == ["ResponseEnded", "InteractionEnded"]


def test_a_late_transcript_belongs_to_what_a_call_has_ended() -> None:
    found = asking(NATIVE_2_5)
    found.hear(spoken("Let me"), called("fc-1"))
    late = found.hear(content(outputTranscription={"text": " see."}))
    assert late == [Spoken("t.1", "t.1", " see.")]
    answered(found, "fc-1")
    assert names(found.hear(spoken()))[0] == "ResponseStarted"


# Calls.


def test_a_call_is_ready_at_once_and_ends_its_response() -> None:
    # 16: all calls of a message, not only the first
    found = asking(NATIVE_2_5)
    events = found.hear(called("fc-1", "fc-2", expression="1d20"))
    assert names(events) == [
        "ResponseStarted",
        "CallReady",
        "CallReady",
        "ResponseEnded",
    ]
    ready = [event.call for event in events if isinstance(event, CallReady)]
    assert ended(events).calls == tuple(ready)
    assert [json.loads(call.arguments) for call in ready] == [
        {"expression": "1d20"}
    ] * 2


@pytest.mark.parametrize("first_as_part", [True, False])
def test_two_forms_of_one_call_are_one_call(first_as_part: bool) -> None:
    # 9: a call in two forms is run once
    found = asking()
    call = {"id": "fc-1", "name": "dice__roll", "args": {"expression": "1d20"}}
    forms = [
        {"toolCall": {"functionCalls": [call]}},
        content(modelTurn={"parts": [{"functionCall": call}]}),
    ]
    events = found.hear(*(forms[::-1] if first_as_part else forms))
    assert names(events) == ["ResponseStarted", "CallReady", "ResponseEnded"]
    answered(found, "fc-1")
    assert found.hear(*forms) == []


@pytest.mark.parametrize("first_without", [True, False])
def test_the_form_without_an_id_is_the_same_call(first_without: bool) -> None:
    found = asking()
    call = {"name": "dice__roll", "args": {"expression": "1d20"}}
    forms = [
        {"toolCall": {"functionCalls": [call | {"id": "fc-1"}]}},
        content(modelTurn={"parts": [{"functionCall": call}]}),
    ]
    events = found.hear(*(forms[::-1] if first_without else forms))
    (ready,) = (event for event in events if isinstance(event, CallReady))
    (said,) = found.send(
        SendResult(call_id=ready.call.id, name="dice__roll", output="{}")
    )
    assert said["toolResponse"]["functionResponses"][0]["id"] == "fc-1"


def test_calls_without_ids_are_answered_without_them() -> None:
    found = asking()
    call = {"name": "dice__roll", "args": {"expression": "1d20"}}
    events = found.hear({"toolCall": {"functionCalls": [call, call]}})
    first, second = (event.call for event in events if isinstance(event, CallReady))
    assert first.id != second.id
    (said,) = found.send(SendResult(call_id=first.id, name="dice__roll", output="{}"))
    assert "id" not in said["toolResponse"]["functionResponses"][0]


def test_arguments_are_text_as_they_came() -> None:
    found = asking()
    calls: list[dict[str, Any]] = [{"id": "a", "name": "x"}, {"id": "b", "args": [1]}]
    wire = found.wire
    message = json.dumps({"toolCall": {"functionCalls": [*calls, "no call"]}})
    events = wire.receive(message, found.now)
    ready = [event.call for event in events if isinstance(event, CallReady)]
    assert [(call.name, call.arguments) for call in ready] == [
        ("x", "{}"),
        ("", "[1]"),  # the host says what is wrong with these
        ("", "{}"),
    ]


def test_cancelled_calls_are_told_once_and_only_if_owed() -> None:
    found = asking()
    found.hear(called("fc-1", "fc-2", "fc-3"))
    answered(found, "fc-1")
    cancellation = {"toolCallCancellation": {"ids": ["fc-1", "fc-2", "fc-9"]}}
    assert found.hear(cancellation) == [CallsCancelled(("fc-2",))]
    assert found.hear(cancellation) == []


def test_a_server_that_only_calls_is_left() -> None:
    found = asking()
    with pytest.raises(LinkClosed, match="wait for an answer"):
        found.hear(called(*map(str, range(MAX_KNOWN + 1))))


def test_calls_that_are_settled_are_forgotten_in_the_end() -> None:
    found = asking()
    for i in range(2 * MAX_KNOWN):
        found.hear(called(f"fc-{i}"))
        answered(found, f"fc-{i}")
    with pytest.raises(ValueError, match="no call"):
        answered(found, "fc-0")
    with pytest.raises(ValueError, match="answered already"):
        answered(found, f"fc-{MAX_KNOWN}")


# The end of an interaction.


def test_a_turn_that_ends_with_a_call_owed_is_not_the_end() -> None:
    # 14: a turn's end taken for the end, and a tool call follows
    found = asking(NATIVE_2_5)
    assert names(found.hear(called("fc-1"), TURN_COMPLETE))[-1] == "ResponseEnded"
    answered(found, "fc-1")
    events = found.hear(spoken(), TURN_COMPLETE)
    assert names(events)[-1] == "InteractionEnded"


def test_a_status_says_more_than_the_end_of_a_turn() -> None:
    found = asking()
    assert names(found.hear(spoken(), status("IN_PROGRESS")))[-1] == "ResponseEnded"
    assert names(found.hear(status("REQUIRES_ACTION"))) == []
    assert names(found.hear(spoken(), status("IDLE")))[-1] == "InteractionEnded"


def test_extended_thinking_ends_only_when_it_says_so() -> None:
    found = asking(EXTENDED_3_8)
    assert names(found.hear(spoken(), TURN_COMPLETE))[-1] == "ResponseEnded"
    assert names(found.hear(content(interactionStatus="IDLE"))) == ["InteractionEnded"]


def test_a_turn_that_ends_while_something_new_was_asked_is_not_the_end() -> None:
    found = asking(FLASH_3_1)
    found.hear(spoken())
    found.send(SendText(TranscriptLine("user", "And now?")))
    assert names(found.hear(TURN_COMPLETE)) == ["ResponseEnded"]
    assert names(found.hear(spoken(), TURN_COMPLETE))[-1] == "InteractionEnded"


def test_an_answer_without_a_word_is_an_answer() -> None:
    found = asking(NATIVE_2_5)
    assert names(found.hear(TURN_COMPLETE)) == [
        "ResponseStarted",
        "ResponseEnded",
        "InteractionEnded",
    ]
    assert names(found.hear(TURN_COMPLETE)) == ["InteractionEnded"]  # nobody asked


@pytest.mark.parametrize(
    ("reason", "kind", "end"),
    [
        ("MALFORMED_FUNCTION_CALL", ErrorKind.MALFORMED, ResponseEnd.FAILED),
        ("PROHIBITED_INPUT_CONTENT", ErrorKind.BAD_REQUEST, ResponseEnd.INCOMPLETE),
    ],
)
@pytest.mark.parametrize("had_begun", [True, False])
def test_a_turn_that_went_wrong_says_why(
    reason: str, kind: ErrorKind, end: ResponseEnd, had_begun: bool
) -> None:
    found = asking(NATIVE_2_5)
    if had_begun:
        found.hear(spoken())
    events = found.hear(content(turnComplete=True, turnCompleteReason=reason))
    (complaint,) = (event for event in events if isinstance(event, Complaint))
    assert (complaint.kind, complaint.code) == (kind, reason)
    assert (ended(events).end, ended(events).detail) == (end, reason)


def test_a_model_that_waits_for_more_has_not_failed() -> None:
    found = asking(NATIVE_2_5)
    more = content(turnComplete=True, turnCompleteReason="NEED_MORE_INPUT")
    assert ended(found.hear(more)).end is ResponseEnd.COMPLETED


# Interruption.


def test_an_interruption_voids_what_was_not_played() -> None:
    found = asking(NATIVE_2_5)
    found.hear(spoken())
    assert names(found.hear(INTERRUPTED)) == ["Interrupted", "ResponseEnded"]
    assert names(found.hear(TURN_COMPLETE)) == ["InteractionEnded"]


def test_an_interruption_while_a_tool_runs_is_one_too() -> None:
    found = asking(NATIVE_2_5)
    found.hear(called("fc-1"))
    events = found.hear({"toolCallCancellation": {"ids": ["fc-1"]}}, INTERRUPTED)
    assert events == [CallsCancelled(("fc-1",)), Interrupted()]


def test_ones_own_cancellation_of_what_had_not_begun_interrupts_nobody() -> None:
    found = asking()
    found.send(Cancel(), SendText(TranscriptLine("user", "Something else!")))
    assert found.hear(INTERRUPTED) == []
    assert found.hear(TURN_COMPLETE) == []  # the answer to the other is still owed
    assert names(found.hear(spoken(), status("IDLE")))[-1] == "InteractionEnded"


@pytest.mark.parametrize("profile", [FLASH_3_1, EXTENDED_3_8])
def test_who_writes_before_an_answer_has_begun_is_not_interrupted_by_that(
    profile: Any,
) -> None:
    found = asking(profile)
    found.send(SendText(TranscriptLine("user", "Something else!")))
    assert found.hear(spoken(), INTERRUPTED, TURN_COMPLETE) == []
    assert names(found.hear(spoken()))[0] == "ResponseStarted"


def test_a_turn_that_ends_without_a_word_to_its_results_asks_for_nothing_more() -> None:
    found = asking(FLASH_3_1)
    found.hear(called("fc-1"))
    answered(found, "fc-1")
    assert names(found.hear(TURN_COMPLETE))[-1] == "InteractionEnded"
    found.send(SendText(TranscriptLine("user", "And now?")))
    assert names(found.hear(spoken()))[0] == "ResponseStarted"


def test_at_rest_is_nothing_new_to_who_has_just_asked() -> None:
    found = asking()
    assert found.hear(content(interactionStatus="IDLE")) == []
    assert names(found.hear(spoken()))[0] == "ResponseStarted"


def test_what_was_cancelled_before_it_began_is_never_heard_of() -> None:
    found = asking()
    found.send(Cancel(), SendText(TranscriptLine("user", "Something else!")))
    assert found.hear(spoken(), INTERRUPTED, TURN_COMPLETE) == []
    assert names(found.hear(spoken()))[0] == "ResponseStarted"
    # Also if it was too late to stop it,
    found = asking()
    found.send(Cancel(), SendText(TranscriptLine("user", "Something else!")))
    assert found.hear(spoken(), TURN_COMPLETE) == []
    assert names(found.hear(spoken()))[0] == "ResponseStarted"
    # and if there was nothing to stop.
    found = asking()
    found.send(Cancel(), SendText(TranscriptLine("user", "Something else!")))
    found.wait(STOPPING)
    assert names(found.hear(spoken()))[0] == "ResponseStarted"


def test_a_call_of_what_was_cancelled_is_answered_and_not_told() -> None:
    # 4: a call of a discarded generation is not run
    found = asking()
    found.send(Cancel())
    assert found.hear(called("fc-1")) == []
    (said,) = found.said()
    (answer,) = said["toolResponse"]["functionResponses"]
    assert (answer["id"], answer["scheduling"]) == ("fc-1", "SILENT")
    assert answer["response"]["error"]["status"] == "cancelled"
    assert found.hear({"toolCallCancellation": {"ids": ["fc-1"]}}, INTERRUPTED) == []
    assert found.hear(status("IDLE")) == [InteractionEnded()]


def test_ones_own_cancellation_of_what_runs_ends_it() -> None:
    found = asking()
    found.hear(spoken())
    found.send(Cancel())
    assert names(found.hear(INTERRUPTED)) == ["Interrupted", "ResponseEnded"]


# The session.


def test_ready_is_the_first_event_and_comes_once() -> None:
    found = Talk(wire_of(handle="h"))
    found.opened()
    assert found.hear(spoken(), {"goAway": {"timeLeft": "1s"}}) == []
    assert found.wire.unknown == {"before setupComplete": 2}
    assert found.hear({"setupComplete": {"sessionId": "s"}}) == [Ready(resumed=True)]
    assert found.hear({"setupComplete": {}}) == []


@pytest.mark.parametrize(
    ("update", "handle"),
    [
        ({"newHandle": "h", "resumable": True}, "h"),
        ({"newHandle": "h"}, "h"),
        ({"newHandle": "h", "resumable": False}, None),
        ({"resumable": False}, None),
        ({}, None),
        ({"newHandle": "", "resumable": True}, None),
    ],
)
def test_a_handle_is_good_only_while_it_is(
    update: dict[str, Any], handle: str | None
) -> None:
    assert talk().hear({"sessionResumptionUpdate": update}) == [HandleIssued(handle)]


@pytest.mark.parametrize(
    ("left", "seconds"), [("50s", 50.0), ("0.5s", 0.5), ("soon", 0.0), (7, 0.0)]
)
def test_a_notice_says_how_long_is_left(left: object, seconds: float) -> None:
    found = talk()
    message = json.dumps({"goAway": {"timeLeft": left}})
    assert found.wire.receive(message, 0.0) == [GoingAway(seconds)]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"totalTokenCount": 120}, (120, 0)),
        ({"promptTokenCount": 10, "toolUsePromptTokenCount": 5}, (15, 0)),
        (
            {"responseTokenCount": 3, "thoughtsTokenCount": 4, "totalTokenCount": 9},
            (2, 7),
        ),
        (
            {"promptTokenCount": 1, "responseTokenCount": 2, "totalTokenCount": 3},
            (1, 2),
        ),
    ],
)
def test_tokens_are_what_went_in_and_what_came_out(
    counts: dict[str, int], usage: tuple[int, int]
) -> None:
    expected = UsageSeen(Usage(input_tokens=usage[0], output_tokens=usage[1]))
    assert talk().hear({"usageMetadata": counts}) == [expected]
    assert talk().hear({"usageMetadata": {}}) == []


def test_tokens_of_sound_are_told_from_those_of_text() -> None:
    counts = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 40,
        "responseTokenCount": 50,
        "toolUsePromptTokenCount": 3,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": 20},
            {"modality": "AUDIO", "tokenCount": 70},
            {"modality": "AUDIO", "tokenCount": 10},
        ],
        "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 30}],
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 50}],
        "toolUsePromptTokensDetails": [{"modality": "TEXT", "tokenCount": 3}],
    }
    usage = Usage(
        input_tokens=103,
        output_tokens=50,
        cached_tokens=40,
        audio_input_tokens=80,
        audio_output_tokens=50,
        audio_cached_tokens=30,
    )
    assert talk().hear({"usageMetadata": counts}) == [UsageSeen(usage)]
    odd = {"promptTokenCount": 1, "promptTokensDetails": [None, {"modality": "AUDIO"}]}
    found = talk().wire.receive(json.dumps({"usageMetadata": odd}), 0.0)
    assert found == [UsageSeen(Usage(input_tokens=1))]


def test_speech_has_two_words_and_is_told_once() -> None:
    found = talk()
    begins = {"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}}
    signal = {"voiceActivityDetectionSignal": {"vadSignalType": "VAD_SIGNAL_TYPE_SOS"}}
    ends = {"voiceActivity": {"voiceActivityType": "ACTIVITY_END"}}
    assert found.hear(ends) == []
    assert found.hear(begins, signal) == [SpeechStarted()]
    assert found.hear(ends, ends) == [SpeechStopped("t.said-1")]


# What is not the protocol.


def test_what_is_not_known_is_counted() -> None:
    found = talk()
    wire = found.wire
    for i in range(100):
        message = {"news": 1, "serverContent": {f"new{i}": 1}}
        assert wire.receive(json.dumps(message), 0.0) == []
    assert wire.unknown["news"] == 100
    assert len(wire.unknown) <= 33
    assert sum(wire.unknown.values()) == 200


@pytest.mark.parametrize(
    "message", ["", "[]", "no", b"\xff", "[" * 100_000, '{"a":1}x', "null"]
)
def test_what_is_no_json_object_is_a_complaint(message: str | bytes) -> None:
    (complaint,) = talk().wire.receive(message, 0.0)
    assert isinstance(complaint, Complaint)
    assert complaint.kind is ErrorKind.MALFORMED


@pytest.mark.parametrize(
    "blob",
    [
        {"mimeType": "audio/pcm;rate=16000", "data": "AAAA"},
        {"mimeType": "audio/mpeg", "data": "AAAA"},
        {"mimeType": "audio/pcm", "data": "A"},
        {"data": "AAAA"},
    ],
)
def test_audio_that_cannot_be_played_is_a_complaint(blob: dict[str, str]) -> None:
    message = json.dumps(content(modelTurn={"parts": [{"inlineData": blob}]}))
    (complaint,) = talk().wire.receive(message, 0.0)
    assert isinstance(complaint, Complaint)
    assert complaint.kind is ErrorKind.MALFORMED


def test_audio_may_be_in_the_other_alphabet() -> None:
    blob = {"mimeType": "audio/pcm", "data": "--__"}
    events = talk().hear(content(modelTurn={"parts": [{"inlineData": blob}]}))
    assert events[1] == AudioOut("t.1", "t.1", base64.b64decode("++//")[:2])


def test_an_error_in_words_is_a_complaint_or_the_end() -> None:
    error = {
        "error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota."}
    }
    found = talk()
    assert found.wire.receive(json.dumps(error), 0.0) == [
        Complaint(
            kind=ErrorKind.RATE_LIMITED, code="RESOURCE_EXHAUSTED", detail="Quota."
        )
    ]
    wire = wire_of()
    wire.opening(0.0)
    with pytest.raises(LinkClosed, match="Quota") as closed:
        wire.receive(json.dumps(error), 0.0)
    assert closed.value.retryable


KEYS = st.sampled_from(
    [
        "setupComplete",
        "serverContent",
        "toolCall",
        "functionCalls",
        "toolCallCancellation",
        "ids",
        "id",
        "name",
        "args",
        "modelTurn",
        "parts",
        "inlineData",
        "mimeType",
        "data",
        "functionCall",
        "text",
        "inputTranscription",
        "outputTranscription",
        "finished",
        "turnComplete",
        "turnCompleteReason",
        "interrupted",
        "interactionStatus",
        "sessionResumptionUpdate",
        "newHandle",
        "resumable",
        "goAway",
        "timeLeft",
        "usageMetadata",
        "promptTokenCount",
        "voiceActivity",
        "voiceActivityType",
    ]
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["IDLE", "audio/pcm", "AAAA", "5s", "\ud800", "fc-1"])
)
BAGS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5)
    ),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(KEYS, BAGS, max_size=4), max_size=8))
def test_whatever_a_server_says_nothing_is_raised(bags: list[dict[str, Any]]) -> None:
    found = talk()
    for bag in bags:
        for event in found.wire.receive(json.dumps(bag), found.now):
            json.dumps(repr(event)).encode()
        found.wait(1.0)
    found.said()
