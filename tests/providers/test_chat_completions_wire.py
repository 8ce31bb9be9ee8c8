"""The chat-completions wire without a wire: requests out, payloads in."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.chat_completions.assembler import Assembler
from glyphoxa_trio.providers.chat_completions.wire import (
    DISPENSABLE,
    RequestOptions,
    request_body,
)
from glyphoxa_trio.providers.failures import status_error, stream_error
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
    Working,
)
from glyphoxa_trio.providers.payloads import (
    MAX_ARGUMENTS,
    MAX_CALLS,
    encoded,
    refused_fields,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.outcome import ToolCall

ROLL = ToolSpec(
    name="roll",
    description="Roll dice.",
    parameters=MappingProxyType({"type": "object", "properties": {}}),
)
HELLO = Message(role="user", content="hello")


def assembler() -> Assembler:
    numbers = itertools.count(1)
    return Assembler(new_id=lambda: f"new{next(numbers)}")


def delta(reason: str | None = None, **fields: Any) -> str:
    return json.dumps({"choices": [{"delta": fields, "finish_reason": reason}]})


def entry(
    arguments: Any = None, *, name: str | None = None, **fields: Any
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    given = {key: value for key, value in function.items() if value is not None}
    return {**fields, "function": given} if given else fields


def stream(*payloads: str) -> list[LLMEvent]:
    one = assembler()
    events = [event for payload in payloads for event in one.feed(payload)]
    return [x for x in [*events, *one.finish()] if not isinstance(x, Working)]


def calls(*chunks: list[dict[str, Any]], reason: str | None = None) -> list[ToolCall]:
    """The calls of a stream with these entries in each chunk."""
    deltas = [delta(tool_calls=chunk) for chunk in chunks]
    events = stream(*deltas, delta(reason), "[DONE]")
    assert isinstance(events[-1], Finished)
    expected = FinishReason.TOOL_CALLS if events[:-1] else FinishReason.STOP
    assert events[-1].reason is expected
    return [event.call for event in events[:-1] if isinstance(event, CallReady)]


def failure(*payloads: str, secret: Secret | None = None) -> LLMError:
    one = Assembler(secret=secret)
    with pytest.raises(LLMError) as caught:
        for payload in payloads:
            one.feed(payload)
        one.finish()
    return caught.value


# Requests


def test_a_conversation_with_tools_becomes_a_body() -> None:
    request = LLMRequest(
        messages=(
            Message(role="system", content="You are Greta."),
            Message(role="user", content="roll", name="Bram the Bold"),
            Message(role="assistant", calls=(ToolCall("c1", "roll", '{"a": 1}'),)),
            Message(role="tool", call_id="c1", name="roll", content="11"),
        ),
        tools=(ROLL,),
    )
    body = request_body(
        request, "m", options=RequestOptions(temperature=0.5, max_tokens=9)
    )
    assert json.loads(encoded(body)) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tool_choice": "auto",
        "temperature": 0.5,
        "max_completion_tokens": 9,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "roll",
                    "description": "Roll dice.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "messages": [
            {"role": "system", "content": "You are Greta."},
            {"role": "user", "content": "Bram the Bold: roll"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "roll", "arguments": '{"a": 1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "11"},
        ],
    }


def test_tools_are_forbidden_by_choice_and_stay_listed() -> None:
    request = LLMRequest(messages=(HELLO,), tools=(ROLL,), tools_forbidden=True)
    body = request_body(request, "m", options=RequestOptions(parallel_tool_calls=False))
    assert body["tool_choice"] == "none"
    assert len(body["tools"]) == 1
    assert "parallel_tool_calls" not in body


def test_without_tools_nothing_is_said_about_tools() -> None:
    request = LLMRequest(messages=(HELLO,), tools_forbidden=True)
    body = request_body(request, "m", options=RequestOptions(parallel_tool_calls=True))
    assert set(body) == {"model", "messages", "stream", "stream_options"}


def test_what_a_server_cannot_take_is_left_out() -> None:
    request = LLMRequest(messages=(HELLO,), tools=(ROLL,))
    options = RequestOptions(
        parallel_tool_calls=True,
        max_tokens=5,
        max_tokens_field="max_tokens",
        extra={"seed": 7},
    )
    body = request_body(request, "m", options=options)
    assert body["parallel_tool_calls"] is True
    assert (body["max_tokens"], body["seed"]) == (5, 7)
    told = "unknown: parallel_tool_calls, stream_options, tool_choice, seed"
    refused = refused_fields(body, told, DISPENSABLE)
    assert refused == {"parallel_tool_calls", "stream_options", "tool_choice"}
    less = request_body(request, "m", options=options.without(refused))
    assert set(body) - set(less) == refused


def test_extra_fields_cannot_replace_the_request() -> None:
    with pytest.raises(ValueError, match="extra: stream, tools cannot be set here"):
        RequestOptions(extra={"tools": [], "stream": False, "seed": 1})


def test_what_a_model_said_oddly_goes_back_in_a_form_that_servers_take() -> None:
    odd = ToolCall("c", "no such tool!", '{"a": ')
    half = Message(role="assistant", content="\ud83d", calls=(odd,))
    body = request_body(LLMRequest(messages=(half,)), "m", options=RequestOptions())
    wire = json.loads(encoded(body))["messages"][1]["tool_calls"][0]["function"]
    told = json.dumps({"invalid_arguments": '{"a": '})
    assert wire == {"name": "no_such_tool_", "arguments": told}


# Streams as they should be


def test_text_and_usage_and_the_end() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    events = stream(
        delta(role="assistant", content=""),
        delta(content="Well"),
        delta(content=" met"),
        delta("stop"),
        json.dumps({"choices": [], "usage": usage}),
        "[DONE]",
        delta(content="never heard"),
    )
    assert events == [
        TextChunk("Well"),
        TextChunk(" met"),
        Finished(usage=Usage(input_tokens=3, output_tokens=2)),
    ]


def test_reasoning_is_not_speech_but_a_refusal_is() -> None:
    assert stream(
        delta(reasoning_content="hm", reasoning="hm", content=None),
        delta(refusal="I cannot."),
        delta(
            content=[{"type": "thinking", "text": "x"}, {"type": "text", "text": "y"}]
        ),
        delta("stop"),
    ) == [TextChunk("I cannot."), TextChunk("y"), Finished()]


def test_interleaved_calls_are_told_apart_by_index() -> None:
    assert calls(
        [entry("", name="a", index=0, id="1"), entry("", name="b", index=1, id="2")],
        [entry('{"x"', index=0), entry('{"y"', index=1)],
        [entry(":2}", index=1), entry(":1}", index=0)],
        reason="tool_calls",
    ) == [ToolCall("1", "a", '{"x":1}'), ToolCall("2", "b", '{"y":2}')]


# Streams as they are (section 6.1 of the wire notes)

ONE, TWO = '{"x": 1}', '{"x": 2}'
DIALECTS: Mapping[str, tuple[list[list[dict[str, Any]]], list[ToolCall]]] = {
    "index 0 again with a new id, then empty ids": (
        [
            [entry("", name="a", index=0, id="1")],
            [entry(ONE, index=0, id="")],
            [entry("", name="a", index=0, id="2")],
            [entry(TWO, index=0, id="")],
        ],
        [ToolCall("1", "a", ONE), ToolCall("2", "a", TWO)],
    ),
    "whole calls, index 0 each, no ids": (
        [[entry(ONE, name="a", index=0)], [entry(TWO, name="a", index=0)]],
        [ToolCall("new1", "a", ONE), ToolCall("new2", "a", TWO)],
    ),
    "whole calls in one chunk, no index, no ids": (
        [[entry(ONE, name="a"), entry(TWO, name="b")]],
        [ToolCall("new1", "a", ONE), ToolCall("new2", "b", TWO)],
    ),
    "no index, fragments by id, out of order": (
        [
            [entry("", name="a", id="1"), entry("", name="b", id="2")],
            [entry(ONE, id="1"), entry(TWO, id="2")],
        ],
        [ToolCall("1", "a", ONE), ToolCall("2", "b", TWO)],
    ),
    "no index and no id in the fragments": (
        [[entry("", name="a", id="1")], [entry('{"x":')], [entry(" 1}")]],
        [ToolCall("1", "a", ONE)],
    ),
    "an index only in the fragments": (
        [[entry("", name="a", id="1")], [entry(ONE, index=0)]],
        [ToolCall("1", "a", ONE)],
    ),
    "the name in every fragment": (
        [[entry('{"x":', name="a", index=0)], [entry(" 1}", name="a", index=0)]],
        [ToolCall("new1", "a", ONE)],
    ),
    "arguments as an object": (
        [[entry({"x": 1}, name="a", index=0, id="1")]],
        [ToolCall("1", "a", ONE)],
    ),
    "arguments null, then nothing": (
        [[{"index": 0, "id": "1", "function": {"name": "a", "arguments": None}}]],
        [ToolCall("1", "a", "{}")],
    ),
    "an id that comes late": (
        [[entry("", name="a", index=0, id="")], [entry(ONE, index=0, id="1")]],
        [ToolCall("1", "a", ONE)],
    ),
    "one id for two calls": (
        [
            [
                entry(ONE, name="a", index=0, id="1"),
                entry(ONE, name="a", index=1, id="1"),
            ]
        ],
        [ToolCall("1", "a", ONE), ToolCall("new1", "a", ONE)],
    ),
    "one call said twice": (
        [
            [entry(ONE, name="a", index=0, id="1")],
            [entry(ONE, name="a", index=0, id="1")],
        ],
        [ToolCall("1", "a", ONE)],
    ),
    "two names without ids, arguments or another index": (
        [[entry("", name="a", index=0)], [entry("", name="b", index=0)]],
        [ToolCall("new1", "a", "{}"), ToolCall("new2", "b", "{}")],
    ),
    "empty entries": ([[{}, {"index": 0}, entry("", index=3)]], []),
    "broken arguments": (
        [[entry('{"x": ', name="a", index=0, id="1")]],
        [ToolCall("1", "a", '{"x": ')],
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("reason", ["tool_calls", "stop", None])
def test_every_dialect_says_the_same(dialect: str, reason: str | None) -> None:
    chunks, expected = DIALECTS[dialect]
    assert calls(*chunks, reason=reason) == expected


def test_made_up_ids_are_long_and_random() -> None:
    one = Assembler()
    one.feed(delta("stop", tool_calls=[entry(ONE, name="a"), entry(TWO, name="b")]))
    first, second, _ = one.finish()
    assert isinstance(first, CallReady)
    assert isinstance(second, CallReady)
    assert len(first.call.id) == len("call_") + 32
    assert first.call.id != second.call.id


@pytest.mark.parametrize(
    ("reason", "end"),
    [("length", FinishReason.LENGTH), ("content_filter", FinishReason.FILTERED)],
)
def test_a_call_that_was_cut_is_dropped(reason: str, end: FinishReason) -> None:
    whole = entry(ONE, name="a", index=0, id="1")
    for cut in ('{"x": ', "", "1"):
        last = entry(cut, name="b", index=1, id="2")
        assert stream(delta(reason, tool_calls=[whole, last])) == [
            CallReady(ToolCall("1", "a", ONE)),
            Finished(reason=end),
        ]


def test_a_stream_needs_a_reason_or_done() -> None:
    assert stream(delta("stop")) == [Finished()]
    assert stream("[DONE]") == [Finished()]
    assert failure(delta(content="Well")).kind is ErrorKind.INTERRUPTED
    assert failure().kind is ErrorKind.INTERRUPTED
    assert failure(delta("error")).kind is ErrorKind.INTERRUPTED


def test_half_a_character_does_not_leave_the_wire() -> None:
    whole = stream(delta(content="\ud83d\ude00 \ud83d"), delta("stop"))
    assert whole[0] == TextChunk("\U0001f600 \ufffd")
    parts = [entry('{"x": "\ud83d', name="a", index=0), entry('\ude00"}', index=0)]
    (call,) = calls(parts)
    assert call.arguments == '{"x": "\U0001f600"}'


def test_chunks_that_say_nothing_are_nothing() -> None:
    for payload in ("", " ", "{}", '{"choices": null}', '{"choices": [{"index": 1}]}'):
        assert assembler().feed(payload) == []
    assert assembler().feed('{"error": null, "choices": [{"delta": null}]}') == []


# Bounds


def test_one_answer_holds_so_many_calls() -> None:
    many = [entry(ONE, name="a", index=i) for i in range(MAX_CALLS)]
    assert len(calls(many)) == MAX_CALLS
    more = [*many, entry(ONE, name="a", index=MAX_CALLS)]
    assert failure(delta(tool_calls=more)).kind is ErrorKind.MALFORMED


def test_one_answer_holds_so_many_arguments() -> None:
    rest = MAX_ARGUMENTS - len('{"x": ""}')
    most = '{"x": "' + "y" * rest + '"}'
    assert len(calls([entry(most, name="a", index=0)])[0].arguments) == MAX_ARGUMENTS
    two = [entry(most, name="a", index=0), entry(" ", name="b", index=1)]
    assert failure(delta(tool_calls=two)).kind is ErrorKind.MALFORMED


# Errors


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ErrorKind.BAD_REQUEST),
        (401, ErrorKind.AUTHENTICATION),
        (403, ErrorKind.AUTHENTICATION),
        (404, ErrorKind.NOT_FOUND),
        (408, ErrorKind.OVERLOADED),
        (409, ErrorKind.OVERLOADED),
        (413, ErrorKind.BAD_REQUEST),
        (422, ErrorKind.BAD_REQUEST),
        (429, ErrorKind.RATE_LIMITED),
        (500, ErrorKind.OVERLOADED),
        (503, ErrorKind.OVERLOADED),
        (302, ErrorKind.NOT_FOUND),
        (204, ErrorKind.MALFORMED),
    ],
)
def test_a_status_says_who_must_act(status: int, kind: ErrorKind) -> None:
    assert status_error(status, {}, "").kind is kind


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "no such\\nmodel"}}',
        '{"error": "no such model"}',
        '{"message": "no such model"}',
        '{"detail": "no such model"}',
        "no \x1b such model",
    ],
)
def test_the_servers_words_are_found_wherever_it_keeps_them(body: str) -> None:
    assert status_error(404, {}, body).detail == "HTTP 404: no such model"


def test_a_success_that_holds_an_error_is_that_error() -> None:
    body = '{"error": {"message": "who are you", "code": 401}}'
    assert status_error(200, {}, body).kind is ErrorKind.AUTHENTICATION


def test_retry_after_is_seconds_or_a_date_by_the_servers_clock() -> None:
    def wait(after: str, date: str = "") -> float | None:
        return status_error(429, {"retry-after": after, "date": date}, "").retry_after

    now = "Wed, 21 Oct 2026 07:28:00 GMT"
    assert wait("7.5") == 7.5
    assert wait("Wed, 21 Oct 2026 07:28:30 GMT", now) == 30
    assert wait("Wed, 21 Oct 2026 07:27:00 GMT", now) == 0
    for nonsense in ("", "soon", "-1", "nan", "inf", now):
        assert wait(nonsense) is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "m", "code": 429}, ErrorKind.RATE_LIMITED),
        ({"message": "m", "code": "503"}, ErrorKind.OVERLOADED),
        ({"message": "m", "type": "authentication_error"}, ErrorKind.AUTHENTICATION),
        ({"message": "m", "type": "overloaded_error"}, ErrorKind.OVERLOADED),
        ({"message": "m", "type": "invalid_request_error"}, ErrorKind.BAD_REQUEST),
        ({"message": "m", "type": "novel"}, ErrorKind.INTERRUPTED),
        ("m", ErrorKind.INTERRUPTED),
    ],
)
def test_an_error_inside_a_stream_says_who_must_act(
    error: object, kind: ErrorKind
) -> None:
    told = stream_error(error)
    assert (told.kind, told.detail) == (kind, "m")
    assert failure(json.dumps({"error": error})).kind is kind
    if isinstance(error, dict):  # the way of vLLM
        assert failure(json.dumps({"object": "error"} | error)).kind is kind


def test_no_secret_survives_an_excerpt_not_even_at_its_edge() -> None:
    key = Secret("k" * 40)
    for length in range(280, 301):
        words = "x" * length + key.reveal()
        assert "kkk" not in status_error(401, {}, words, key).detail
        assert "kkk" not in failure(words, secret=key).detail


# Properties


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
    ),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(max_size=8), values, max_size=3).map(json.dumps)


@given(
    texts=st.lists(arguments, min_size=1, max_size=4),
    data=st.data(),
    ids=st.booleans(),
    indexes=st.booleans(),
    names=st.booleans(),
)
def test_any_cutting_of_the_arguments_gives_the_same_calls(
    texts: list[str], data: st.DataObject, ids: bool, indexes: bool, names: bool
) -> None:
    """With ids or without, with indexes or without, names once or every time."""
    entries: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        # Where only its name opens a call, the name does not come alone: it
        # could as well be said again after the end of the call before.
        least = 0 if ids or indexes else 1
        places = st.lists(st.integers(least, len(text)), max_size=5)
        cuts = data.draw(places.map(sorted))
        pieces = [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]
        for at, piece in enumerate(pieces):
            fields: dict[str, Any] = {}
            if ids and at == 0:
                fields["id"] = f"id{number}"
            if indexes:
                fields["index"] = number
            name = "tool" if at == 0 or names else None
            entries.append(entry(piece, name=name, **fields))
    chunks: list[list[dict[str, Any]]] = [[]]
    for one in entries:
        if data.draw(st.booleans()):
            chunks.append([])
        chunks[-1].append(one)
    made = calls(*chunks)
    assert [call.arguments for call in made] == texts
    assert len({call.id for call in made}) == len(texts)


@given(
    calls_given=st.permutations(range(4)),
    data=st.data(),
)
def test_interleaved_fragments_find_their_call(
    calls_given: list[int], data: st.DataObject
) -> None:
    texts = {number: json.dumps({"n": "y" * number}) for number in calls_given}
    opened = [entry("", name=f"t{n}", index=n, id=f"i{n}") for n in calls_given]
    queue = data.draw(st.permutations([n for n in texts for _ in range(3)]))
    left = {n: [text[:3], text[3:6], text[6:]] for n, text in texts.items()}
    rest = [[entry(left[n].pop(0), index=n)] for n in queue]
    assert calls(opened, *rest) == [
        ToolCall(f"i{n}", f"t{n}", texts[n]) for n in calls_given
    ]


KEYS = st.sampled_from(
    [
        *("choices", "delta", "content", "tool_calls", "index", "id", "function"),
        *("name", "arguments", "error", "object", "finish_reason", "usage"),
        *("prompt_tokens", "message", "code", "type", "text", "refusal"),
    ]
)
garbage = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats()
    | st.sampled_from(["", "stop", "length", "error", "{", "}", "{}", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6)
    ),
    max_leaves=20,
)
chunk_like = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {
                    "delta": st.fixed_dictionaries(
                        {},
                        optional={
                            "content": garbage,
                            "tool_calls": st.lists(
                                st.fixed_dictionaries(
                                    {},
                                    optional={
                                        "index": garbage,
                                        "id": garbage,
                                        "function": garbage
                                        | st.dictionaries(KEYS, garbage),
                                    },
                                ),
                                max_size=3,
                            )
                            | garbage,
                        },
                    )
                },
                optional={"finish_reason": garbage},
            ),
            max_size=2,
        )
    }
)


@given(
    st.lists(st.text(max_size=20) | (garbage | chunk_like).map(json.dumps), max_size=8)
)
def test_garbage_gives_events_or_an_llm_error(payloads: list[str]) -> None:
    one = Assembler()
    events: list[LLMEvent] = []
    with suppress(LLMError):
        events += [event for payload in payloads for event in one.feed(payload)]
        events += one.finish()
        assert isinstance(events[-1], Finished)
    assert not any(isinstance(event, Finished) for event in events[:-1])
    made = [event.call for event in events if isinstance(event, CallReady)]
    assert len({call.id for call in made}) == len(made)
    assert all(call.name and call.arguments for call in made)


@pytest.mark.parametrize("payload", ["[" * 100_000, '{"a":' * 100_000, "1" * 10_000])
def test_depth_and_length_of_garbage_do_no_harm(payload: str) -> None:
    assert failure(payload).kind is ErrorKind.MALFORMED
    assert status_error(500, {}, payload).kind is ErrorKind.OVERLOADED


def test_a_call_that_is_being_written_is_told_of() -> None:
    one = assembler()
    assert one.feed(delta(content="Well.")) == [TextChunk("Well.")]
    function = {"name": "roll", "arguments": '{"n": '}
    entry = {"index": 0, "id": "c1", "function": function}
    assert one.feed(delta(tool_calls=[entry])) == [Working(calls=True)]
