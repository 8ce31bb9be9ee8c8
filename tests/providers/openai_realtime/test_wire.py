"""What the server says: each event, each order, and what must not come of it."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.llm import ErrorKind, Usage
from glyphoxa_trio.providers.openai_realtime import SessionOptions
from glyphoxa_trio.providers.openai_realtime.wire import MAX_NAMES, RealtimeWire
from glyphoxa_trio.providers.payloads import MAX_CALLS
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    CallReady,
    Cancel,
    Complaint,
    Event,
    Heard,
    InteractionEnded,
    LinkClosed,
    Ready,
    Respond,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SetInstructions,
    SetTools,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    ToolsInForce,
    Truncate,
    UsageSeen,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.outcome import ToolCall

from .support import SETUP, Talk, function_call, result, text, tool

SESSION = {"type": "realtime", "model": "m"}


def ended(events: list[Event]) -> ResponseEnded:
    [end] = [event for event in events if isinstance(event, ResponseEnded)]
    return end


def kinds(frames: list[dict[str, Any]]) -> list[str]:
    return [frame.get("item", frame)["type"] for frame in frames]


def spoken_at() -> dict[str, Any]:
    where = {"response_id": "resp_1", "item_id": "item_1"}
    return {**where, "output_index": 0, "content_index": 0}


# Setting up


def test_the_session_is_sent_once_whoever_repeats_the_greeting() -> None:
    talk = Talk()
    assert talk.sent() == []
    assert not talk.wire.ready
    talk.hear("session.created", session=SESSION)
    talk.hear("session.created", session=SESSION)
    assert kinds(talk.sent()) == ["session.update"]
    assert talk.hear("session.updated", session=SESSION) == [Ready()]
    assert talk.wire.ready
    talk.hear("session.created", session=SESSION)
    assert talk.hear("session.updated", session=SESSION) == []
    assert talk.sent() == []


def test_tools_that_are_set_before_the_set_up_are_confirmed_after_it() -> None:
    talk = Talk()
    talk.do(SetTools((tool(),), 7))
    talk.hear("session.created", session=SESSION)
    assert talk.hear("session.updated", session=SESSION) == [Ready()]
    assert talk.hear("session.updated", session=SESSION) == [ToolsInForce(7)]


@pytest.mark.parametrize("about", ["setup", None])
def test_a_session_that_is_not_taken_is_no_session(about: str | None) -> None:
    talk = Talk()
    talk.hear("session.created", session=SESSION)
    with pytest.raises(LinkClosed, match="invalid_value: no") as caught:
        talk.refuses("invalid_value", about)
    assert caught.value.kind is ErrorKind.BAD_REQUEST
    assert not caught.value.retryable


def test_changes_are_confirmed_in_their_order() -> None:
    talk = Talk.ready()
    sent = talk.do(SetTools((tool(),), 1), SetInstructions("Go."), SetTools((), 2))
    assert [sorted(frame["session"]) for frame in sent] == [
        ["tools", "type"],
        ["instructions", "type"],
        ["tools", "type"],
    ]
    assert talk.hear("session.updated", session=SESSION) == [ToolsInForce(1)]
    assert talk.hear("session.updated", session=SESSION) == []
    assert talk.hear("session.updated", session=SESSION) == [ToolsInForce(2)]


def test_a_change_that_is_not_taken_is_never_confirmed() -> None:
    talk = Talk.ready()
    first, _ = talk.do(SetTools((tool(),), 1), SetTools((), 2))
    [complaint] = talk.refuses("invalid_value", first["event_id"])
    assert isinstance(complaint, Complaint)
    assert talk.hear("session.updated", session=SESSION) == [ToolsInForce(2)]


def test_tools_change_at_once_while_a_response_runs() -> None:
    talk = Talk.ready()
    talk.starts()
    assert kinds(talk.do(SetTools((tool(),), 1))) == ["session.update"]


# What is heard


def test_an_utterance_is_heard_piece_by_piece_and_then_as_a_whole() -> None:
    talk = Talk.ready()
    where = {"item_id": "item_u", "content_index": 0}
    delta = "conversation.item.input_audio_transcription.delta"
    other = {"item_id": "item_v", "content_index": 0}
    assert talk.hear(
        "input_audio_buffer.speech_started", audio_start_ms=0, item_id="item_u"
    ) == [SpeechStarted()]
    assert talk.hear(
        "input_audio_buffer.speech_stopped", audio_end_ms=900, item_id="item_u"
    ) == [SpeechStopped("item_u")]
    assert talk.hear(delta, **where, delta="Who ") == [
        Heard("Who ", final=False, item="item_u")
    ]
    assert talk.hear(delta, **other, delta="I") == [
        Heard("I", final=False, item="item_v")
    ]
    assert talk.hear(delta, **where, delta="is") == [
        Heard("Who is", final=False, item="item_u")
    ]
    [heard, used] = talk.hear(
        "conversation.item.input_audio_transcription.completed",
        **where,
        transcript="Who is there?",
        usage={"type": "duration", "seconds": 1},
    )
    assert heard == Heard("Who is there?", final=True, item="item_u")
    assert used == UsageSeen(Usage(audio_time=1.0, model="gpt-transcribe"))
    assert talk.hear(delta, **where, delta="And") == [
        Heard("And", final=False, item="item_u")
    ]


@pytest.mark.parametrize(
    ("usage", "used"),
    [
        (
            {
                "type": "tokens",
                "input_tokens": 30,
                "output_tokens": 9,
                "total_tokens": 39,
                "input_token_details": {"audio_tokens": 28, "text_tokens": 2},
            },
            [
                Usage(
                    input_tokens=30,
                    output_tokens=9,
                    audio_input_tokens=28,
                    model="gpt-4o-transcribe",
                )
            ],
        ),
        (
            {"type": "duration", "seconds": 2.5},
            [Usage(audio_time=2.5, model="gpt-4o-transcribe")],
        ),
        ({"type": "duration", "seconds": 0}, []),
    ],
)
def test_a_transcript_takes_something_of_its_own_model(
    usage: dict[str, Any], used: list[Usage]
) -> None:
    talk = Talk.ready(options=SessionOptions(transcription="gpt-4o-transcribe"))
    completed = "conversation.item.input_audio_transcription.completed"
    said = {"content_index": 0, "transcript": "Hm?", "usage": usage}
    _, *events = talk.hear(completed, item_id="i", **said)
    assert events == [UsageSeen(one) for one in used]
    # Said once more, it is paid once; another utterance is another matter.
    assert talk.hear(completed, item_id="i", **said)[1:] == []
    assert talk.hear(completed, item_id="j", **said)[1:] == events


def test_speech_that_is_not_understood_is_a_complaint() -> None:
    [complaint] = Talk.ready().hear(
        "conversation.item.input_audio_transcription.failed",
        item_id="item_u",
        content_index=0,
        error={"type": "server_error", "code": None, "message": "deaf"},
    )
    assert complaint == Complaint(
        kind=ErrorKind.OVERLOADED, code="transcription_failed", detail="deaf"
    )


# What is said


def test_audio_and_words_come_as_they_are_said() -> None:
    talk = Talk.ready()
    where = spoken_at()
    assert talk.starts() == [ResponseStarted("resp_1")]
    assert talk.speaks(b"\1\2\3\4") == [AudioOut("resp_1", "item_1", b"\1\2\3\4")]
    says = "response.output_audio_transcript"
    assert talk.hear(f"{says}.delta", **where, delta="A ") == [
        Spoken("resp_1", "item_1", "A ")
    ]
    assert talk.hear(f"{says}.done", **where, transcript="A ") == []
    assert talk.hear("response.output_text.delta", **where, delta="moment.") == [
        Spoken("resp_1", "item_1", "moment.")
    ]
    usage: dict[str, Any] = {"input_tokens": 60, "output_tokens": 30}
    usage["input_token_details"] = {
        "cached_tokens": 20,
        "audio_tokens": 40,
        "text_tokens": 20,
        "cached_tokens_details": {"audio_tokens": 15, "text_tokens": 5},
    }
    usage["output_token_details"] = {"audio_tokens": 22, "text_tokens": 8}
    assert talk.ends(usage=usage) == [
        ResponseEnded(
            response="resp_1",
            end=ResponseEnd.COMPLETED,
            usage=Usage(
                input_tokens=60,
                output_tokens=30,
                cached_tokens=20,
                audio_input_tokens=40,
                audio_output_tokens=22,
                audio_cached_tokens=15,
            ),
        ),
        InteractionEnded(),
    ]


@pytest.mark.parametrize(
    ("pieces", "whole", "rest"),
    [
        ([], "All of it.", "All of it."),
        (["All "], "All of it.", "of it."),
        (["x"], "y", ""),
    ],
)
def test_words_that_come_only_as_a_whole_are_not_lost(
    pieces: list[str], whole: str, rest: str
) -> None:
    talk = Talk.ready()
    talk.starts()
    where = spoken_at()
    for piece in pieces:
        talk.hear("response.output_text.delta", **where, delta=piece)
    events = talk.hear("response.output_text.done", **where, text=whole)
    assert events == ([Spoken("resp_1", "item_1", rest)] if rest else [])


def test_half_a_sample_waits_for_its_other_half() -> None:
    talk = Talk.ready()
    talk.starts()
    assert talk.speaks(b"\1") == []
    assert talk.speaks(b"\2\3") == [AudioOut("resp_1", "item_1", b"\1\2")]
    assert talk.speaks(b"\4", item="item_2") == []
    assert talk.speaks(b"\4") == [AudioOut("resp_1", "item_1", b"\3\4")]


def test_what_comes_after_a_response_is_over_is_nothing() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.ends()
    assert talk.speaks(b"\1\2") == []
    assert talk.calls() == []
    assert talk.starts() == []
    assert talk.ends() == []
    assert talk.wire.unknown["for no active response"] == 2


def test_truncating_never_asks_for_more_than_there_was() -> None:  # field problem 10
    talk = Talk.ready()
    assert talk.do(Truncate("item_1", 100)) == []
    talk.starts()
    talk.speaks(bytes(48 * 100 + 40))
    talk.hear(
        "response.output_text.delta",
        response_id="resp_1",
        item_id="item_text",
        output_index=1,
        content_index=0,
        delta="no sound",
    )
    for heard, kept in ((60, 60), (100, 100), (101, 100), (10**9, 100), (-5, 0)):
        [sent] = talk.do(Truncate("item_1", heard))
        assert (sent["item_id"], sent["audio_end_ms"]) == ("item_1", kept)
    assert talk.do(Truncate("item_text", 5), Truncate("item_foreign", 5)) == []
    [complaint] = talk.refuses("invalid_value", sent["event_id"])
    assert isinstance(complaint, Complaint)  # and the session goes on


# Calls


def test_a_call_is_ready_once_and_holds_when_its_response_completes() -> None:
    talk = Talk.ready()
    talk.starts()
    call = ToolCall("call_1", "roll", '{"sides":6}')
    arguments = '{"sides":6}'
    assert talk.calls(arguments=arguments) == [CallReady("resp_1", call)]
    assert talk.calls(arguments=arguments) == []  # field problem 9
    both = [function_call("call_1", arguments=arguments)] * 2
    assert talk.ends(output=both) == [
        ResponseEnded(response="resp_1", end=ResponseEnd.COMPLETED, calls=(call,))
    ]


def test_a_call_that_was_begun_does_not_change_any_more() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls(arguments='{"sides":6}')
    other = [function_call("call_1", arguments='{"sides":20}')]
    assert ended(talk.ends(output=other)).calls[0].arguments == '{"sides":6}'


def test_a_call_of_an_earlier_response_does_not_come_again() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls()
    talk.ends()
    for response in ("resp_2", "resp_3"):
        talk.starts(response)
        assert talk.calls(response=response) == []
        again = ended(talk.ends(response, output=[function_call("call_1")]))
        assert (again.calls, again.void) == ((), ())
        if response == "resp_2":
            talk.do(result("call_1"))


@pytest.mark.parametrize("status", ["cancelled", "incomplete", "failed"])
def test_calls_of_a_response_that_did_not_complete_are_void(  # field problem 4
    status: str,
) -> None:
    talk = Talk.ready()
    talk.starts()
    assert len(talk.calls("call_1")) == 1
    assert talk.calls("call_2", status="incomplete", arguments='{"sid') == []
    output = [function_call("call_1"), function_call("call_3")]
    events = talk.ends(status=status, output=output)
    assert not any(isinstance(event, CallReady) for event in events)
    end = ended(events)
    assert end.calls == ()
    assert end.void == ("call_1", "call_2", "call_3")
    sent = talk.do(*[result(call_id, '{"status":"cancelled"}') for call_id in end.void])
    assert kinds(sent) == ["function_call_output"] * 3  # and no response.create


def test_a_call_that_was_cut_in_a_response_that_completed_is_void() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls("call_1", status="incomplete", arguments='{"sid')
    talk.calls("call_2")
    end = ended(talk.ends())
    assert [call.id for call in end.calls] == ["call_2"]
    assert end.void == ("call_1",)


def test_a_call_whose_item_has_no_status_is_decided_by_its_response() -> None:
    for status, holds in (("completed", True), ("cancelled", False)):
        talk = Talk.ready()
        talk.starts()
        assert talk.calls(status=None) == []
        events = talk.ends(status=status)
        assert (CallReady("resp_1", ToolCall("call_1", "roll")) in events) == holds
        assert bool(ended(events).calls) == holds


@pytest.mark.parametrize(
    ("arguments", "told"),
    [("", "{}"), (" ", "{}"), ("[1]", "[1]"), ('{"a', '{"a'), ("\ud83d", "\ufffd")],
)
def test_arguments_come_as_they_are_for_the_host_to_judge(
    arguments: str, told: str
) -> None:
    talk = Talk.ready()
    talk.starts()
    assert talk.calls(arguments=arguments) == [
        CallReady("resp_1", ToolCall("call_1", "roll", told))
    ]


def test_a_flood_of_calls_is_bounded() -> None:
    talk = Talk.ready()
    talk.starts()
    for number in range(MAX_CALLS + 3):
        talk.calls(f"call_{number}")
    assert len(ended(talk.ends()).calls) == MAX_CALLS
    assert talk.wire.unknown["too many calls in one response"] == 3


def test_results_wait_for_the_end_of_the_response_that_made_the_call() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls("call_1")
    talk.calls("call_2")
    assert talk.do(result("call_1"), Respond()) == []
    talk.ends()
    # field problem 2: the outputs first, and one create after all of them
    assert kinds(talk.sent()) == ["function_call_output", "response.create"]
    assert kinds(talk.do(result("call_2"))) == ["function_call_output"]


def test_a_late_result_is_sent_many_turns_later() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls()
    talk.ends()
    for number in range(2, 100):
        talk.starts(f"resp_{number}")
        talk.ends(f"resp_{number}")
    assert kinds(talk.do(result("call_1"))) == ["function_call_output"]


def test_a_call_is_answered_once_and_only_if_it_was_made_here() -> None:
    talk = Talk.ready()
    with pytest.raises(ValueError, match="not made on this socket"):
        talk.do(result("call_1"))
    talk.starts()
    talk.calls()
    talk.do(result("call_1"))
    with pytest.raises(ValueError, match="is answered already"):
        talk.do(result("call_1"))
    talk.ends()
    with pytest.raises(ValueError, match="is answered already"):
        talk.do(result("call_1"))
    assert kinds(talk.sent()) == ["function_call_output"]


def test_a_result_above_the_cap_is_refused() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls()
    talk.ends()
    with pytest.raises(ValueError, match="at most 16384"):
        talk.do(result("call_1", '"' + "é" * 8192 + '"'))
    assert len(talk.do(result("call_1", '"' + "é" * 8191 + '"'))) == 1


# Responses: what is wanted, and when


def test_the_interaction_goes_on_while_calls_or_wants_are_open() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls()
    assert InteractionEnded() not in talk.ends()
    talk.do(result("call_1"), Respond())
    talk.starts("resp_2")
    talk.do(text("And another thing."), Respond())
    assert InteractionEnded() not in talk.ends("resp_2")
    talk.starts("resp_3")
    assert talk.ends("resp_3")[-1] == InteractionEnded()


def test_a_response_whose_end_was_lost_ends_with_the_next() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls()
    events = talk.starts("resp_2")
    assert ended(events).end is ResponseEnd.FAILED
    assert ended(events).void == ("call_1",)
    assert events[-1] == ResponseStarted("resp_2")
    assert talk.ends("resp_1") == []


def test_a_response_whose_beginning_was_lost_begins_with_its_end() -> None:
    talk = Talk.ready()
    events = talk.ends(output=[function_call("call_1")])
    assert events[0] == ResponseStarted("resp_1")
    assert [call.id for call in ended(events).calls] == ["call_1"]


def test_a_response_that_fails_says_why() -> None:
    talk = Talk.ready()
    talk.starts()
    details = {
        "type": "failed",
        "error": {"type": "insufficient_quota", "code": "insufficient_quota"},
    }
    complaint, end, _ = talk.ends(status="failed", status_details=details)
    assert isinstance(complaint, Complaint)
    assert complaint.kind is ErrorKind.RATE_LIMITED
    assert isinstance(end, ResponseEnd | ResponseEnded)
    assert ended([end]).end is ResponseEnd.FAILED


def test_what_the_server_does_not_answer_is_given_up_after_ten_seconds() -> None:
    talk = Talk.ready()
    talk.do(Respond())
    [complaint] = talk.wake()
    assert talk.now == 10
    assert isinstance(complaint, Complaint)
    assert (complaint.kind, complaint.code) == (
        ErrorKind.SILENCE,
        "response_not_created",
    )
    assert talk.wire.alarm is None
    assert kinds(talk.do(Respond())) == ["response.create"]


def test_a_cancelled_response_that_does_not_end_is_ended_here() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.calls()
    talk.do(Cancel(), Respond())
    complaint, end = talk.wake()
    assert isinstance(complaint, Complaint)
    assert complaint.code == "response_not_ended"
    assert ended([end]).void == ("call_1",)
    assert kinds(talk.sent()) == ["response.create"]
    assert talk.ends(status="cancelled") == []


# Errors


@pytest.mark.parametrize(
    ("code", "kind", "more", "retryable"),
    [
        ("session_expired", ErrorKind.INTERRUPTED, {}, True),
        ("beta_api_shape_disabled", ErrorKind.BAD_REQUEST, {}, False),
        ("invalid_api_key", ErrorKind.AUTHENTICATION, {"type": "auth_error"}, False),
        ("model_not_found", ErrorKind.NOT_FOUND, {}, False),
    ],
)
def test_a_fatal_error_ends_the_session(
    code: str, kind: ErrorKind, more: dict[str, str], retryable: bool
) -> None:
    with pytest.raises(LinkClosed) as caught:
        Talk.ready().refuses(code, **more)
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    ("code", "more", "kind"),
    [
        ("rate_limit_exceeded", {"type": "rate_limit_error"}, ErrorKind.RATE_LIMITED),
        ("insufficient_quota", {}, ErrorKind.RATE_LIMITED),
        ("input_audio_buffer_commit_empty", {}, ErrorKind.BAD_REQUEST),
        ("boom", {"type": "server_error"}, ErrorKind.OVERLOADED),
    ],
)
def test_any_other_error_is_a_complaint(
    code: str, more: dict[str, str], kind: ErrorKind
) -> None:
    [complaint] = Talk.ready().refuses(code, **more)
    assert complaint == Complaint(kind=kind, code=code, detail="no")


def test_no_error_shows_the_key() -> None:
    talk = Talk.ready(secret=Secret("sk-hush"))
    [complaint] = talk.refuses("odd", message="Key sk-hush is odd")
    assert isinstance(complaint, Complaint)
    assert complaint.detail == "Key [secret] is odd"
    with pytest.raises(LinkClosed) as caught:
        talk.refuses("invalid_api_key", type="auth", message="not with sk-hush")
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(talk.wire)


# What nobody knows


def test_unknown_events_and_fields_are_passed_over_and_counted() -> None:
    talk = Talk.ready()
    for _ in range(2):
        assert talk.wire.receive('{"type":"response.thought.delta"}', 0) == []
    assert talk.wire.receive(b'{"type":"pong","x":{}}', 0) == []
    assert talk.wire.receive('{"type":7}', 0) == []
    assert talk.wire.unknown == {"response.thought.delta": 2, "pong": 1, "nameless": 1}
    talk.wire.receive('{"type":"response.created","response":{"id":"r","mood":1}}', 0)
    assert talk.wire.sequencer.response == "r"


def test_what_is_known_and_of_no_use_is_not_counted() -> None:
    talk = Talk.ready()
    for kind in (
        "rate_limits.updated",
        "conversation.item.created",
        "input_audio_buffer.committed",
        "input_audio_buffer.timeout_triggered",
        "mcp_list_tools.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "output_audio_buffer.started",
        "response.function_call_arguments.done",
    ):
        assert talk.wire.receive(json.dumps({"type": kind}), 0) == []
    assert not talk.wire.unknown


def test_the_names_of_unknown_things_are_bounded() -> None:
    talk = Talk.ready()
    for number in range(1000):
        talk.wire.receive(json.dumps({"type": f"x{number}" + "y" * 500}), 0)
    assert len(talk.wire.unknown) <= MAX_NAMES + 1
    assert talk.wire.unknown.total() == 1000
    assert max(map(len, talk.wire.unknown)) <= 64


@pytest.mark.parametrize(
    "garbage",
    ["", "{", "[]", "null", '"x"', "[" * 100_000, b"\xff\xfe", "9" * 5000],
    ids=["empty", "half", "list", "null", "text", "deep", "bytes", "long number"],
)
def test_garbage_is_counted_and_harms_nothing(garbage: str | bytes) -> None:
    talk = Talk.ready()
    assert talk.wire.receive(garbage, 0) == []
    assert talk.wire.unknown == {"not a JSON object": 1}
    assert talk.starts() == [ResponseStarted("resp_1")]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
KINDS = sorted(RealtimeWire(setup=SETUP)._handlers)
FIELDS = ("response", "response_id", "item", "item_id", "delta", "transcript", "error")
ITEM = st.fixed_dictionaries(
    {"type": st.just("function_call")},
    optional={
        "call_id": anything | st.just("call_1"),
        "name": anything,
        "arguments": anything,
        "status": anything | st.just("completed"),
    },
)
RESPONSE = st.fixed_dictionaries(
    {"id": st.sampled_from(["r1", "r2"]) | anything},
    optional={
        "status": st.sampled_from(["completed", "cancelled", "failed"]) | anything,
        "output": st.lists(ITEM, max_size=2) | anything,
        "usage": anything,
        "status_details": anything,
    },
)


@given(st.data())
def test_nothing_that_a_server_says_is_a_crash(data: st.DataObject) -> None:
    talk = Talk.ready()
    for _ in range(8):
        message = data.draw(
            st.fixed_dictionaries(
                {"type": st.sampled_from(KINDS)},
                optional=dict.fromkeys(FIELDS, anything)
                | {"response_id": st.sampled_from(["r1", "r2"])}
                | {"response": RESPONSE, "item": ITEM, "content_index": anything},
            )
        )
        try:
            events = talk.wire.receive(json.dumps(message), talk.now)
        except LinkClosed:
            return
        assert all(attrs.has(type(event)) for event in events)
        talk.do(Respond())
        if talk.wire.alarm is not None and data.draw(st.booleans()):
            talk.wake()
    talk.sent()
