"""The Messages wire without a wire: requests out, payloads in."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import attrs
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.providers.anthropic import Anthropic
from glyphoxa_trio.providers.anthropic.assembler import MAX_KEPT, Assembler
from glyphoxa_trio.providers.anthropic.wire import (
    DISPENSABLE,
    RequestOptions,
    request_body,
)
from glyphoxa_trio.providers.failures import stream_error
from glyphoxa_trio.providers.llm import (
    CallReady,
    ErrorKind,
    Finished,
    FinishReason,
    LLMError,
    LLMEvent,
    LLMRequest,
    Message,
    TextChunk,
    ToolSpec,
    Usage,
    Verbatim,
    Working,
)
from glyphoxa_trio.providers.payloads import (
    MAX_ARGUMENTS,
    MAX_CALLS,
    encoded,
    refused_fields,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.model_messages import MessageEvents, refusal
from glyphoxa_trio.testing.model_steps import Think
from glyphoxa_trio.tools.outcome import ToolCall

ROLL = ToolSpec(
    name="roll",
    description="Roll dice.",
    parameters=MappingProxyType({"type": "object", "properties": {}}),
)
PROMPT = Message(role="system", content="You are Greta.")
HELLO = Message(role="user", content="hello", name="Ann")
CALL = ToolCall("toolu_1", "roll", '{"expression": "2d6"}')
CALLS = Message(role="assistant", calls=(CALL,))
ANSWER = Message(role="tool", call_id="toolu_1", name="roll", content="7")


def body(*messages: Message, **more: Any) -> dict[str, Any]:
    """The request of these messages as it goes out; the server takes it."""
    options = more.pop("options", RequestOptions())
    model = more.pop("model", "m")
    request = LLMRequest(messages=messages, **({"tools": (ROLL,)} | more))
    sent: dict[str, Any] = json.loads(
        encoded(request_body(request, model, options=options))
    )
    assert refusal({"anthropic-version": "2023-06-01"}, sent) == ""
    return sent


def turns(*messages: Message, **more: Any) -> list[tuple[str, list[str]]]:
    """Who speaks in which order, and their blocks in short."""
    return [
        (turn["role"], [_short(block) for block in turn["content"]])
        for turn in body(*messages, **more)["messages"]
    ]


def _short(block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_use":
            return f"{block['name']}({json.dumps(block['input'])})#{block['id']}"
        case "tool_result":
            return f"#{block['tool_use_id']}={block.get('content')}"
    return str(block["type"])


# Requests


def test_a_conversation_with_tools_becomes_a_body() -> None:
    sent = body(
        PROMPT,
        HELLO,
        attrs.evolve(CALLS, content="Let me see."),
        ANSWER,
        options=RequestOptions(temperature=0.5, max_tokens=9, extra={"top_k": 3}),
    )
    assert sent == {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "system": "You are Greta.",
        "temperature": 0.5,
        "top_k": 3,
        "tools": [
            {
                "name": "roll",
                "description": "Roll dice.",
                "input_schema": {"type": "object", "properties": {}},
            }
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Ann: hello"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "roll",
                        "input": {"expression": "2d6"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "7"}
                ],
            },
        ],
    }


def test_max_tokens_is_always_stated() -> None:
    assert body(HELLO)["max_tokens"] == 4096


def test_what_is_the_requests_cannot_be_set_beside_it() -> None:
    with pytest.raises(ValueError, match="extra: messages, system cannot be set here"):
        RequestOptions(extra={"system": "x", "messages": [], "top_p": 1})


def test_several_results_are_one_turn_and_come_before_whatever_else_is_said() -> None:
    two = (CALL, attrs.evolve(CALL, id="toolu_2"))
    said = turns(
        HELLO,
        Message(role="assistant", calls=two),
        ANSWER,
        attrs.evolve(ANSWER, call_id="toolu_2", content="9"),
        Message(role="system", content="It rains."),
        Message(role="user", content="Well?"),
    )
    assert said[2] == (
        "user",
        ["#toolu_1=7", "#toolu_2=9", "<data>\nIt rains.\n</data>", "Well?"],
    )


def test_turns_of_one_role_are_one_turn() -> None:
    assert turns(
        PROMPT,
        HELLO,
        Message(role="user", content="and you?", name="Joe"),
        Message(role="assistant", content="Well."),
        Message(role="assistant", content="Hello."),
        Message(role="user", content="So?"),
    ) == [
        ("user", ["Ann: hello", "Joe: and you?"]),
        ("assistant", ["Well.", "Hello."]),
        ("user", ["So?"]),
    ]


def test_system_messages_stand_apart_only_at_the_beginning() -> None:
    later = Message(role="system", content="What went on has ended.")
    sent = body(PROMPT, later, HELLO)  # what came late is no prompt, wherever it is
    assert sent["system"] == "You are Greta."
    assert turns(PROMPT, HELLO, later) == [
        ("user", ["Ann: hello", "<data>\nWhat went on has ended.\n</data>"])
    ]
    assert "system" not in body(HELLO)


def test_a_conversation_that_the_npc_begins_begins_with_the_user_all_the_same() -> None:
    greeting = Message(role="assistant", content="Mind the books.")
    assert turns(PROMPT, greeting, HELLO) == [
        ("user", ["(The conversation begins.)"]),
        ("assistant", ["Mind the books."]),
        ("user", ["Ann: hello"]),
    ]
    assert [role for role, _ in turns(PROMPT)] == ["user"]


def test_an_answer_that_is_to_be_continued_ends_with_the_user_all_the_same() -> None:
    opener = Message(role="assistant", content="Let me look.  ")
    role, (text,) = turns(HELLO, opener)[-1]
    assert role == "user"
    assert text.startswith("(Go on exactly where you stopped")


def test_nobody_says_nothing() -> None:
    blank = Message(role="assistant", content=" \n")
    silent = Message(role="user", content="  ", name="Ann")
    empty = attrs.evolve(ANSWER, content="")
    assert turns(silent, blank, HELLO, CALLS, empty) == [
        ("user", ["Ann: …", "Ann: hello"]),
        ("assistant", ['roll({"expression": "2d6"})#toolu_1']),
        ("user", ["#toolu_1=None"]),
    ]


def test_calls_go_back_in_a_form_that_is_taken() -> None:
    odd = ToolCall("functions.roll:0", "no such tool!", '{"x": ')
    answer = attrs.evolve(ANSWER, call_id="functions.roll:0")
    said = turns(HELLO, Message(role="assistant", calls=(odd,)), answer)
    assert said[1:] == [
        ("assistant", ['no_such_tool_({"invalid_arguments": "{\\"x\\": "})#call00000']),
        ("user", ["#call00000=7"]),
    ]


def test_an_id_that_comes_again_gets_another_one_and_so_does_its_answer() -> None:
    said = turns(HELLO, CALLS, ANSWER, CALLS, attrs.evolve(ANSWER, content="8"))
    assert said[1][1][0].endswith("#toolu_1")
    assert said[3][1][0].endswith("#call00001")
    assert said[4] == ("user", ["#call00001=8"])
    # What was told before is told in the same words in every round that follows.
    more = turns(HELLO, CALLS, ANSWER, CALLS, attrs.evolve(ANSWER, content="8"), HELLO)
    assert more[:4] == said[:4]


def test_words_are_asked_for_by_forbidding_tools_that_stay_listed() -> None:
    sent = body(HELLO, tools_forbidden=True)
    assert (sent["tool_choice"], len(sent["tools"])) == ({"type": "none"}, 1)
    assert "tool_choice" not in body(HELLO)
    assert "tools" not in body(HELLO, tools=(), tools_forbidden=True)


def test_a_conversation_with_calls_needs_tools_also_when_none_is_left() -> None:
    sent = body(HELLO, CALLS, ANSWER, tools=(), tools_forbidden=True)
    assert sent["tools"] == [
        {
            "name": "roll",
            "description": "Not available.",
            "input_schema": {"type": "object", "properties": {}},
        }
    ]
    assert sent["tool_choice"] == {"type": "none"}


def test_where_tool_choice_is_refused_tools_are_not_listed_unless_they_must_be() -> (
    None
):
    plain = RequestOptions().without(frozenset({"tool_choice"}))
    assert "tools" not in body(HELLO, tools_forbidden=True, options=plain)
    sent = body(HELLO, CALLS, ANSWER, tools_forbidden=True, options=plain)
    assert "tool_choice" not in sent
    assert len(sent["tools"]) == 1


def test_a_refused_temperature_is_left_out_from_then_on() -> None:
    sent = body(HELLO, options=RequestOptions(temperature=0.8))
    refused = refused_fields(
        sent, "`temperature` is deprecated for this model.", DISPENSABLE
    )
    assert "temperature" not in body(
        HELLO, options=RequestOptions(temperature=0.8).without(refused)
    )


def test_a_schema_is_reduced_to_what_is_taken() -> None:
    odd = ToolSpec(
        name="find",
        description="",
        parameters={
            "anyOf": [{"required": ["a"]}, {"required": ["$top"]}],
            "properties": {"a": {"anyOf": [{"type": "string"}]}, "$top": {}},
            "required": ["a", "$top"],
        },
    )
    (tool,) = body(HELLO, tools=(odd,))["tools"]
    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}]}},
        "required": ["a"],
    }
    assert tool["description"] == 'It also needs "$top".'
    assert "anyOf" in odd.parameters


# Thoughts

THOUGHT = {"type": "thinking", "thinking": "Dice?", "signature": "c2lnbmVk"}
AGAIN = [
    THOUGHT,
    {"type": "text", "text": "Well,  "},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"n": 1}},
]
THOUGHTFUL = attrs.evolve(
    CALLS, content="Well,", verbatim=Verbatim(model="m", content=json.dumps(AGAIN))
)
ENABLED = RequestOptions(extra={"thinking": {"type": "enabled", "budget_tokens": 1024}})


def test_a_response_with_thoughts_goes_back_to_the_letter() -> None:
    sent = body(HELLO, THOUGHTFUL, ANSWER, options=ENABLED)
    assert sent["messages"][1]["content"] == AGAIN
    assert "thinking" in sent


def test_an_opener_that_was_said_for_it_stands_before_its_thoughts() -> None:
    # D23c: one message in the history, and what the model really wrote of it.
    opened = attrs.evolve(THOUGHTFUL, content="Let me look. Well,")
    asked = body(HELLO, Message(role="assistant", content="Let me look."))
    sent = body(HELLO, opened, ANSWER, options=ENABLED)
    assert sent["messages"][:3] == asked["messages"]  # as it was asked before
    assert sent["messages"][3]["content"] == AGAIN
    assert "thinking" in sent


def test_thoughts_about_other_words_are_not_told() -> None:
    otherwise = attrs.evolve(THOUGHTFUL, content="Nothing of the kind.")
    sent = body(HELLO, otherwise, ANSWER, options=ENABLED)
    assert [x["type"] for x in sent["messages"][1]["content"]] == ["text", "tool_use"]
    assert "thinking" not in sent


def test_the_thoughts_of_another_model_are_nobodys_business() -> None:
    sent = body(HELLO, THOUGHTFUL, ANSWER, options=ENABLED, model="other")
    assert [x["type"] for x in sent["messages"][1]["content"]] == ["text", "tool_use"]
    # And a turn that has begun without thoughts cannot go on with them.
    assert "thinking" not in sent


def test_thinking_begins_again_with_the_next_turn() -> None:
    past = [HELLO, CALLS, ANSWER, Message(role="assistant", content="Seven.")]
    assert "thinking" in body(*past, HELLO, options=ENABLED)
    assert "thinking" not in body(*past, HELLO, CALLS, ANSWER, options=ENABLED)


def test_thoughts_that_led_to_other_calls_are_not_told() -> None:
    fewer = attrs.evolve(THOUGHTFUL, calls=(attrs.evolve(CALL, id="toolu_9"),))
    answer = attrs.evolve(ANSWER, call_id="toolu_9")
    sent = body(HELLO, fewer, answer, options=ENABLED)
    assert [x["type"] for x in sent["messages"][1]["content"]] == ["text", "tool_use"]


@given(
    st.lists(
        st.sampled_from(["user", "system", "assistant", "calls", "blank"]), max_size=12
    ),
    st.booleans(),
    st.booleans(),
)
def test_whatever_is_said_in_whatever_order_is_taken(
    script: list[str], forbidden: bool, thoughts: bool
) -> None:
    messages: list[Message] = []
    ids = itertools.cycle(["toolu_1", "a:b", "toolu_1", "x" * 70])
    for step in script:
        match step:
            case "calls":
                calls = tuple(attrs.evolve(CALL, id=next(ids)) for _ in range(2))
                if calls[0].id == calls[1].id:  # a provider mends that
                    calls = calls[:1]
                messages.append(Message(role="assistant", calls=calls))
                messages += [attrs.evolve(ANSWER, call_id=x.id) for x in calls]
            case "blank":
                messages.append(Message(role="assistant", content=" "))
            case role:
                messages.append(Message(role=role, content="so"))  # type: ignore[arg-type]
    body(
        *messages,
        tools_forbidden=forbidden,
        options=ENABLED if thoughts else RequestOptions(),
    )


# Responses


def assembler(**more: Any) -> Assembler:
    numbers = itertools.count(1)
    return Assembler(model="m", new_id=lambda: f"new{next(numbers)}", **more)


def event(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


def start(**usage: Any) -> str:
    return event("message_start", message={"usage": usage})


def block(index: int, kind: str, **fields: Any) -> str:
    shown = {"type": kind, **fields}
    return event("content_block_start", index=index, content_block=shown)


def delta(index: int, kind: str, **fields: Any) -> str:
    shown = {"type": kind, **fields}
    return event("content_block_delta", index=index, delta=shown)


def stop(index: int) -> str:
    return event("content_block_stop", index=index)


def text(index: int, *pieces: str) -> list[str]:
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [block(index, "text", text=""), *deltas, stop(index)]


def call(
    index: int, *pieces: str, name: str = "roll", call_id: str | None = None
) -> list[str]:
    made = f"toolu_{index}" if call_id is None else call_id
    first = block(index, "tool_use", id=made, name=name, input={})
    deltas = [delta(index, "input_json_delta", partial_json=x) for x in pieces]
    return [first, *deltas, stop(index)]


def end(reason: str | None = "end_turn", **usage: Any) -> list[str]:
    told = event("message_delta", delta={"stop_reason": reason}, usage=usage)
    return [told, event("message_stop")]


def stream(*payloads: str, **more: Any) -> list[LLMEvent]:
    one = assembler(**more)
    events = [x for payload in payloads for x in one.feed(payload) or ()]
    return [*events, *one.finish()]


def calls_of(events: list[LLMEvent]) -> list[ToolCall]:
    return [x.call for x in events if isinstance(x, CallReady)]


def finished(events: list[LLMEvent]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def failure(*payloads: str, secret: Secret | None = None) -> LLMError:
    with pytest.raises(LLMError) as caught:
        stream(*payloads, secret=secret)
    return caught.value


def test_text_leaves_as_it_comes() -> None:
    events = stream(start(), *text(0, "Well", " met."), *end())
    assert events == [
        TextChunk("Well"),
        TextChunk(" met."),
        Finished(reason=FinishReason.STOP, usage=Usage(model="m")),
    ]


def test_calls_leave_together_and_in_order() -> None:
    events = stream(
        start(),
        *text(0, "So."),
        *call(1, '{"a"', ": 1}"),
        *call(2, ""),
        *end("tool_use"),
    )
    assert calls_of(events) == [
        ToolCall("toolu_1", "roll", '{"a": 1}'),
        ToolCall("toolu_2", "roll", "{}"),  # no arguments are an empty object
    ]
    assert finished(events).reason is FinishReason.TOOL_CALLS
    assert finished(events).verbatim is None


def test_calls_make_a_tool_turn_whatever_the_reason_says() -> None:
    events = stream(*call(0, "{}"), *end("end_turn"))
    assert finished(events).reason is FinishReason.TOOL_CALLS
    events = stream(*call(0, "{}"), *end(None))
    assert finished(events).reason is FinishReason.TOOL_CALLS


def test_broken_arguments_leave_as_they_were_written() -> None:
    (made,) = calls_of(stream(*call(0, '{"a": '), *end("tool_use")))
    assert made.arguments == '{"a": '


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize("open_arguments", ["", '{"a": ', '{"a": 1'])
def test_a_call_that_was_cut_never_runs_and_those_before_it_do(
    reason: str, open_arguments: str
) -> None:
    cut = stream(
        *call(0, ""), *call(1, "{}"), *call(2, open_arguments)[:-1], *end(reason)
    )
    assert [x.id for x in calls_of(cut)] == ["toolu_0", "toolu_1"]
    assert finished(cut).reason is FinishReason.LENGTH
    # The server closes the block of a call that it has cut.
    closed = stream(*call(0, open_arguments), *end(reason))
    assert calls_of(closed) == []


def test_a_call_that_was_whole_when_the_answer_was_cut_runs() -> None:
    events = stream(*call(0, '{"a": 1}'), *text(1, "And n"), *end("max_tokens"))
    assert [x.arguments for x in calls_of(events)] == ['{"a": 1}']


def test_of_a_refusal_no_call_runs() -> None:
    events = stream(*text(0, "I will"), *call(1, "{}"), *end("refusal"))
    assert calls_of(events) == []
    assert finished(events).reason is FinishReason.FILTERED


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "pause_turn", "novel"])
def test_every_other_reason_is_an_end(reason: str) -> None:
    events = stream(*text(0, "Well."), *end(reason))
    assert finished(events).reason is FinishReason.STOP


def test_usage_is_the_input_of_the_start_and_the_output_of_the_end() -> None:
    events = stream(
        start(input_tokens=70, output_tokens=1),
        *text(0, "Well."),
        *end(output_tokens=12),
    )
    assert finished(events).usage == Usage(input_tokens=70, output_tokens=12, model="m")


def test_cached_tokens_are_input_too() -> None:
    told = {
        "input_tokens": 10,
        "cache_read_input_tokens": 80,
        "cache_creation_input_tokens": 5,
        "output_tokens": 1,
    }
    usage = Usage(input_tokens=95, output_tokens=12, cached_tokens=80, model="m")
    events = stream(start(**told), *text(0, "Well."), *end(output_tokens=12))
    assert finished(events).usage == usage
    # Told again at the end, by then as they really were.
    again: dict[str, Any] = told | {"input_tokens": 20, "output_tokens": 12}
    events = stream(start(**told), *text(0, "Well."), *end(**again))
    assert finished(events).usage == attrs.evolve(usage, input_tokens=105)


def test_without_usage_there_is_none() -> None:
    events = stream(*text(0, "x"), event("message_delta", delta={"stop_reason": "a"}))
    assert finished(events).usage is None


def test_nothing_is_heard_of_the_model_before_its_first_block() -> None:
    one = assembler()
    assert one.feed(start()) is None
    assert one.feed(event("ping")) is None
    assert one.feed(block(0, "thinking", thinking="")) == []
    assert one.feed(event("ping")) == []
    assert one.feed(delta(0, "thinking_delta", thinking="Hm.")) == []
    assert one.feed(event("content_block_novelty", index=0)) == []


def test_thoughts_with_calls_are_kept_to_the_letter_and_never_said() -> None:
    events = stream(
        start(),
        block(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Di"),
        delta(0, "thinking_delta", thinking="ce?"),
        delta(0, "signature_delta", signature="c2lnbmVk"),
        stop(0),
        *text(1, "Well,", "  "),
        block(2, "redacted_thinking", data="xyz"),
        stop(2),
        *call(3, '{"n"', ": 1}", call_id="toolu_1"),
        *end("tool_use"),
    )
    assert [x.text for x in events if isinstance(x, TextChunk)] == ["Well,", "  "]
    verbatim = finished(events).verbatim
    assert verbatim is not None
    assert verbatim.model == "m"
    assert json.loads(verbatim.content) == AGAIN
    (made,) = calls_of(events)
    message = attrs.evolve(THOUGHTFUL, calls=(made,), verbatim=verbatim)
    sent = body(HELLO, message, ANSWER, options=ENABLED)
    assert sent["messages"][1]["content"] == AGAIN


def test_thoughts_without_calls_are_forgotten() -> None:
    events = stream(
        block(0, "thinking", thinking="Hm."), stop(0), *text(1, "No."), *end()
    )
    assert finished(events).verbatim is None


def test_what_is_kept_leaves_out_the_call_that_was_cut() -> None:
    events = stream(
        block(0, "thinking", thinking="Hm."),
        delta(0, "signature_delta", signature="s"),
        stop(0),
        *call(1, "{}"),
        *call(2, '{"a'),
        *end("max_tokens"),
    )
    verbatim = finished(events).verbatim
    assert verbatim is not None
    kinds = [x["type"] for x in json.loads(verbatim.content)]
    assert kinds == ["thinking", "tool_use"]


def test_ids_that_are_missing_or_said_twice_are_mended() -> None:
    events = stream(
        *call(0, "{}", call_id="a"),
        *call(1, "{}", call_id="a"),
        *call(2, "{}", call_id=""),
        *end(),
    )
    assert [x.id for x in calls_of(events)] == ["a", "new1", "new2"]


def test_a_server_that_sends_arguments_whole_is_understood() -> None:
    first = block(0, "tool_use", id="a", name="roll", input={"n": 2})
    assert calls_of(stream(first, stop(0), *end()))[0].arguments == '{"n": 2}'
    assert stream(block(0, "text", text="Hi."), stop(0), *end())[0] == TextChunk("Hi.")


def test_the_tools_of_the_server_are_none_of_ours() -> None:
    searched = block(0, "server_tool_use", id="s", name="web_search", input={})
    found = block(1, "web_search_tool_result", tool_use_id="s", content=[])
    events = stream(searched, stop(0), found, stop(1), *text(2, "So."), *end())
    assert events[0] == TextChunk("So.")
    assert calls_of(events) == []


def test_half_a_character_poisons_no_later_request() -> None:
    half = '{"type": "content_block_delta", "index": 0, "delta": %s}'
    events = stream(
        block(0, "text", text=""),
        half % '{"type": "text_delta", "text": "a\\ud83d"}',
        *end(),
    )
    assert events[0] == TextChunk("a\ufffd")


def test_a_stream_may_lack_its_stop_but_not_its_reason() -> None:
    assert finished(stream(*text(0, "x"), end()[0])).reason is FinishReason.STOP
    assert finished(stream(*text(0, "x"), end()[1])).reason is FinishReason.STOP
    assert failure(*text(0, "x")).kind is ErrorKind.INTERRUPTED
    assert failure().kind is ErrorKind.INTERRUPTED


def test_after_the_end_nothing_is_heard() -> None:
    one = assembler()
    for payload in [*text(0, "x"), *end()]:
        one.feed(payload)
    assert one.over
    assert one.feed(delta(0, "text_delta", text="y")) is None
    assert one.finish() == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", ErrorKind.OVERLOADED),
        ("api_error", ErrorKind.OVERLOADED),
        ("timeout_error", ErrorKind.OVERLOADED),
        ("rate_limit_error", ErrorKind.RATE_LIMITED),
        ("billing_error", ErrorKind.RATE_LIMITED),
        ("authentication_error", ErrorKind.AUTHENTICATION),
        ("permission_error", ErrorKind.AUTHENTICATION),
        ("not_found_error", ErrorKind.NOT_FOUND),
        ("invalid_request_error", ErrorKind.BAD_REQUEST),
        ("request_too_large", ErrorKind.BAD_REQUEST),
        ("novel_error", ErrorKind.INTERRUPTED),
    ],
)
def test_an_error_in_the_middle_says_who_must_act(
    kind: str, expected: ErrorKind
) -> None:
    error = {"type": kind, "message": "sk-1 is\nbusy"}
    told = failure(*text(0, "Well"), event("error", error=error), secret=Secret("sk-1"))
    assert (told.kind, told.detail) == (expected, "[secret] is busy")
    assert stream_error(error).kind is expected


@pytest.mark.parametrize(
    "payloads",
    [
        ["{"],
        ["[]"],
        [delta(0, "text_delta", text="x")],
        [block(0, "text"), delta(0, "text_delta", text=5)],
        [block(0, "tool_use", id="a"), *end()],
        [event("content_block_start", index=0)],
        [event("content_block_stop", index="0")],
        [event("message_start", message=5)],
        [event("message_delta", delta=[])],
    ],
)
def test_what_is_not_the_protocol_is_malformed(payloads: list[str]) -> None:
    assert failure(*payloads).kind is ErrorKind.MALFORMED


def test_what_a_server_may_send_has_bounds() -> None:
    many = [x for index in range(MAX_CALLS) for x in call(index, "{}")]
    assert len(calls_of(stream(*many, *end()))) == MAX_CALLS
    assert failure(*many, *call(MAX_CALLS, "{}")).kind is ErrorKind.MALFORMED
    most = "x" * (MAX_ARGUMENTS + 1)
    assert failure(*call(0, most)).kind is ErrorKind.MALFORMED
    thoughts = delta(0, "thinking_delta", thinking="x" * (MAX_KEPT // 2 + 1))
    long = [block(0, "thinking"), thoughts, thoughts]
    assert "more than 4194304 characters" in failure(*long).detail


# Properties

JSON = st.dictionaries(st.text(max_size=6), st.integers() | st.text(max_size=6)).map(
    json.dumps
)


def cut(whole: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(whole), *(x % (len(whole) + 1) for x in places)})
    return [whole[a:b] for a, b in itertools.pairwise(edges)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["text", "tool", "think"]), st.text() | JSON),
        max_size=6,
    ),
    st.data(),
)
def test_any_cutting_of_the_blocks_says_the_same(
    blocks: list[tuple[str, str]], data: st.DataObject
) -> None:
    payloads = [start()]
    for index, (kind, whole) in enumerate(blocks):
        pieces = cut(whole, data.draw(st.lists(st.integers(0, 99), max_size=4)))
        match kind:
            case "text":
                payloads += text(index, *pieces)
            case "tool":
                payloads += call(index, *pieces)
            case _:
                thoughts = [delta(index, "thinking_delta", thinking=x) for x in pieces]
                payloads += [block(index, "thinking"), *thoughts, stop(index)]
        payloads += data.draw(st.sampled_from([[], [event("ping")]]))
    events = stream(*payloads, *end("tool_use"))
    said = "".join(x.text for x in events if isinstance(x, TextChunk))
    assert said == "".join(whole for kind, whole in blocks if kind == "text")
    assert [x.arguments for x in calls_of(events)] == [
        whole if whole.strip() else "{}" for kind, whole in blocks if kind == "tool"
    ]
    kinds = {kind for kind, _ in blocks}
    kept = finished(events).verbatim
    assert (kept is not None) is ({"think", "tool"} <= kinds)


@attrs.define
class Pieces(httpx2.AsyncByteStream):
    """The body of an answer, in these pieces."""

    pieces: list[bytes]

    async def __aiter__(self) -> Any:
        for piece in self.pieces:
            await trio.lowlevel.checkpoint()
            yield piece

    async def aclose(self) -> None:
        pass


def a_reply() -> str:
    """Thoughts, words and two calls, as the scripted server says them."""
    said = MessageEvents("m", {"messages": []}, 1)
    return "".join(
        [
            *said.think(Think(("Hm, ", "dice."))),
            said.text("Né, "),
            said.text("👋 so: "),
            *said.call("roll", '{"a": "é"}', given_id=None, fragments=3),
            *said.call("roll", "{}", given_id=None, fragments=1),
            said.finish_as_usual(),
        ]
    )


@given(st.lists(st.integers(0, 3000), max_size=30))
def test_any_cutting_of_the_bytes_says_the_same(places: list[int]) -> None:
    whole = a_reply().encode()
    edges = sorted({0, len(whole), *(x % len(whole) for x in places)})
    pieces = [whole[a:b] for a, b in itertools.pairwise(edges)]

    def answer(_: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Pieces(pieces))

    async def main() -> list[LLMEvent]:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            model = Anthropic(model="m", client=client)
            async with model.stream(LLMRequest(messages=(HELLO,))) as events:
                return [x async for x in events if not isinstance(x, Working)]

    events = trio.run(main)
    assert events[:2] == [TextChunk("Né, "), TextChunk("👋 so: ")]
    assert [x.arguments for x in calls_of(events)] == ['{"a": "é"}', "{}"]
    assert finished(events).verbatim is not None


KEYS = st.sampled_from(
    [
        *("type", "index", "delta", "content_block", "message", "usage", "text"),
        *("partial_json", "thinking", "signature", "stop_reason", "input", "name"),
        *("id", "error", "input_tokens", "output_tokens"),
    ]
)
KINDS = st.sampled_from(
    [
        *("message_start", "content_block_start", "content_block_delta", "ping"),
        *("content_block_stop", "message_delta", "message_stop", "error"),
        *("text", "tool_use", "thinking", "text_delta", "input_json_delta"),
        *("thinking_delta", "signature_delta", "max_tokens", "refusal", "{", "{}"),
    ]
)
garbage = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | KINDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6)
    ),
    max_leaves=20,
)
shaped = st.fixed_dictionaries(
    {"type": KINDS, "index": st.integers(0, 2) | garbage},
    optional={
        "content_block": st.fixed_dictionaries({"type": KINDS}, optional={"id": KINDS})
        | garbage,
        "delta": st.fixed_dictionaries(
            {"type": KINDS}, optional={"text": KINDS, "partial_json": KINDS}
        )
        | garbage,
        "usage": garbage,
    },
)


@given(st.lists(st.text(max_size=20) | (garbage | shaped).map(json.dumps), max_size=10))
def test_garbage_gives_events_or_an_llm_error(payloads: list[str]) -> None:
    one = Assembler()
    events: list[LLMEvent] = []
    with suppress(LLMError):
        events += [x for payload in payloads for x in one.feed(payload) or ()]
        events += one.finish()
        assert isinstance(events[-1], Finished)
    assert not any(isinstance(x, Finished) for x in events[:-1])
    made = calls_of(events)
    assert len({x.id for x in made}) == len(made)
    assert all(x.name and x.arguments for x in made)


@pytest.mark.parametrize("heard", ["I look.", "I", ""])
def test_thoughts_that_last_stay_before_the_calls_of_a_past_turn(heard: str) -> None:
    """As DeepSeek wants them, also of an answer that was not heard to its end."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    used = {"type": "tool_use", "id": "c1", "name": "roll", "input": {}}
    blocks = [thought, {"type": "text", "text": "I look."}, used]
    own = Verbatim(model="m", content=json.dumps(blocks), lasting=True)
    request = LLMRequest(
        messages=(
            Message(role="user", content="Roll."),
            Message(
                role="assistant",
                content=heard,
                calls=(ToolCall("c1", "roll"),),
                verbatim=own,
            ),
            Message(role="tool", content="4", call_id="c1"),
            Message(role="user", content="Again."),
        )
    )
    body = request_body(request, "m", options=RequestOptions())
    text = [{"type": "text", "text": heard}] * bool(heard)
    assert body["messages"][1]["content"] == [thought, *text, used]


def test_what_came_before_a_lone_tag_is_taken_back() -> None:
    one = assembler()
    events = [
        x
        for payload in text(0, "They lie. ", "</think>", "Well met.")
        for x in one.feed(payload) or ()
    ]
    assert events == [
        TextChunk("They lie. "),
        Working(unsaid=True),
        TextChunk("Well met."),
    ]
