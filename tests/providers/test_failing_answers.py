"""Answers that are none: errors in any form, and calls that a server could not read.

The transport is scripted, and time is virtual.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.anthropic import Anthropic
from glyphoxa_trio.providers.at_endpoint import AtEndpoint
from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.providers.failures import error_in, stream_error
from glyphoxa_trio.providers.llm import (
    CallReady,
    ErrorKind,
    LLMError,
    LLMEvent,
    LLMRequest,
    Message,
    TextChunk,
    ToolSpec,
    Verbatim,
)
from glyphoxa_trio.tools.outcome import ToolCall

SCALES = ToolSpec(
    name="weigh", description="Weigh a thing.", parameters={"type": "object"}
)
ASK = LLMRequest(messages=(Message(role="user", content="Weigh it"),), tools=(SCALES,))
URL = "http://127.0.0.1/v1"
STREAM = "text/event-stream"
Body = tuple[int, str, str]  # status, content type, text


def rows(*payloads: Any) -> str:
    texts = (x if isinstance(x, str) else json.dumps(x) for x in payloads)
    return "".join(f"data: {x}\n\n" for x in texts)


def delta(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


GOOD: Body = (
    200,
    STREAM,
    rows(delta(content="Three pounds."), delta("stop"), "[DONE]"),
)


async def answers(
    *bodies: Body, kind: type[AtEndpoint] = ChatCompletions, ask: LLMRequest = ASK
) -> tuple[list[LLMEvent] | LLMError, list[dict[str, Any]]]:
    """What a model says that gets these responses, and the bodies that it sent."""
    left, sent = [*bodies], list[dict[str, Any]]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":  # which models it has
            return httpx2.Response(404)
        sent.append(json.loads(request.content))
        status, type_, text = left.pop(0)
        return httpx2.Response(
            status, headers={"content-type": type_}, content=text.encode()
        )

    transport = httpx2.MockTransport(answer)
    async with httpx2.AsyncClient(transport=transport) as client:
        model = kind(model="m", base_url=URL, client=client)
        try:
            async with model.stream(ask) as events:
                return [event async for event in events], sent
        except LLMError as error:
            return error, sent


def said(events: list[LLMEvent] | LLMError) -> str:
    assert isinstance(events, list), events
    return "".join(x.text for x in events if isinstance(x, TextChunk))


def called(events: list[LLMEvent] | LLMError) -> list[tuple[str, Any]]:
    assert isinstance(events, list), events
    calls = [x.call for x in events if isinstance(x, CallReady)]
    return [(x.name, json.loads(x.arguments)) for x in calls]


BUSY = "The model is overloaded, come back."
FORMS: dict[str, str] = {
    "a text": rows(json.dumps(BUSY)),
    "bare words": rows(BUSY),
    "detail": rows({"detail": BUSY}),
    "error as a text": rows({"error": BUSY}),
    "error without a code": rows({"error": {"message": BUSY}}),
    "a type of its own": rows({"error": {"message": BUSY, "type": "engine_error"}}),
    "a message": rows({"message": BUSY}),
    "a message and a code": rows({"code": 50503, "msg": BUSY}),
    "a list": rows([{"error": {"message": BUSY, "status": "UNAVAILABLE"}}]),
    "its own name": rows({"error of the engine": BUSY}),
    "an event": f"event: error\n{rows({'text': BUSY})}",
    "an event of words": f"event: error\n{rows(BUSY)}",
    "a field of the stream": f"error: {json.dumps({'code': 503, 'message': BUSY})}\n\n",
    "behind a comment": f": waiting\n\n{rows({'error': BUSY})}",
    "behind a role": rows(delta(role="assistant", content=""), {"error": BUSY}),
    "two payloads as one": f"data: {{}}\ndata: {json.dumps({'error': BUSY})}\n\n",
    "no stream": BUSY,
    "JSON and no stream": json.dumps({"detail": BUSY}, indent=1),
}

LATER = [x for x in FORMS.values() if "data: " in x]
CASES = [(x, kind) for x in FORMS.values() for kind in (STREAM, "text/plain")]
CASES += [(x.removeprefix("data: "), "application/json") for x in FORMS.values()]


@pytest.mark.parametrize(("text", "type_"), CASES)
async def test_a_busy_server_is_asked_again_however_it_says_so(
    text: str, type_: str, autojump_clock: MockClock
) -> None:
    events, sent = await answers((200, type_, text), GOOD)
    assert said(events) == "Three pounds."
    assert len(sent) == 2
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    "more",
    [
        {"choices": [], "description": "prices of this answer", "cost": 0.1},
        {"message": "the stream is over"},
        {"usage": {"prompt_tokens": 3}, "reason": "done", "title": "A talk"},
        "ok",
        '"over"',
        "7",
    ],
)
async def test_what_a_server_tells_after_an_answer_is_no_error(
    more: dict[str, Any] | str, autojump_clock: MockClock
) -> None:
    text = rows(delta(content="Three pounds."), delta("stop"), more, "[DONE]")
    events, sent = await answers((200, STREAM, text))
    assert said(events) == "Three pounds."
    assert len(sent) == 1


async def test_nor_is_it_at_the_messages_api(autojump_clock: MockClock) -> None:
    word = {"type": "text_delta", "text": "Three pounds."}
    text = rows(
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        {"type": "content_block_delta", "index": 0, "delta": word},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"description": "prices of this answer"},
        {"type": "message_stop"},
    )
    events, sent = await answers((200, STREAM, text), kind=Anthropic)
    assert said(events) == "Three pounds."
    assert len(sent) == 1


@pytest.mark.parametrize("text", LATER)
async def test_what_has_begun_ends_with_the_servers_words(
    text: str, autojump_clock: MockClock
) -> None:
    begun = rows(delta(content="Three "))
    error, sent = await answers((200, STREAM, begun + text))
    assert isinstance(error, LLMError)
    own = "engine_error" in text
    assert error.kind is (ErrorKind.INTERRUPTED if own else ErrorKind.OVERLOADED)
    assert BUSY in error.detail
    assert len(sent) == 1


DEEP = ["detail", "error", "choices", "type", "of a choice"]


@pytest.mark.parametrize("place", DEEP)
@pytest.mark.parametrize("kind", [ChatCompletions, Anthropic])
async def test_what_is_nested_deeply_is_malformed_or_an_answer(
    place: str, kind: type[AtEndpoint], autojump_clock: MockClock
) -> None:
    for depth in range(100, 900, 100):
        for begin, end in (("[", "]"), ('{"a":', "}")):
            nested = f"{begin * depth}1{end * depth}"
            text = f'{{"{place}": {nested}}}'
            if place == "of a choice":
                text = f'{{"choices": [{{"delta": {{"x": {nested}}}}}]}}'
            body = f"data: {text}\n\n" + rows(delta("stop"))
            for type_ in (STREAM, "application/json"):
                bodies: list[Body] = [(200, type_, body if type_ == STREAM else text)]
                events, _ = await answers(*bodies * 4, kind=kind)
                assert isinstance(events, list | LLMError)


@pytest.mark.parametrize("type_", [STREAM, "text/plain", "text/html"])
async def test_a_web_page_is_none_of_its_answers(
    type_: str, autojump_clock: MockClock
) -> None:
    page = "<!DOCTYPE html>\n<title>Log in</title>\n<p>data: hello\n"
    error, _ = await answers((200, type_, page))
    assert isinstance(error, LLMError)
    assert error.kind is ErrorKind.NOT_FOUND
    assert "a web page ('Log in')" in error.detail


async def test_of_no_error_nobody_is_told(autojump_clock: MockClock) -> None:
    """Signs of life, and figures, are no errors."""
    told = [
        {},
        "null",
        [],
        {"error": None},
        {"id": "x", "usage": {"prompt_tokens": 3, "prompt_tokens_details": None}},
        {"choices": [], "usage": {"completion_tokens": 1}},
        {"choices": None, "base_resp": {"status_code": 0, "status_msg": ""}},
    ]
    text = rows(*told) + GOOD[2]
    events, sent = await answers((200, STREAM, text))
    assert said(events) == "Three pounds."
    assert len(sent) == 1


@pytest.mark.parametrize(
    "text",
    [
        "event: error\n" + rows({"detail": BUSY}),
        rows({"error": BUSY}),
        rows({"message": BUSY}),
        rows({"type": "message_start", "message": {"content": []}}, {"detail": BUSY}),
        rows({"type": "error", "error": {"type": "overloaded_error"}}),
        json.dumps({"detail": BUSY}),
    ],
)
async def test_so_it_is_at_anthropic(text: str, autojump_clock: MockClock) -> None:
    good = rows(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Three pounds."},
        },
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    bodies: Sequence[Body] = [(200, STREAM, text), (200, STREAM, good)]
    events, sent = await answers(*bodies, kind=Anthropic)
    assert said(events) == "Three pounds."
    assert len(sent) == 2


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1)


@given(
    words=WORDS.filter(lambda x: bool(x.strip())),
    key=st.sampled_from(["error", "detail", "message", "msg", "error_message"]),
    wrapped=st.booleans(),
    rest=st.dictionaries(st.sampled_from(["id", "code", "type"]), st.integers()),
)
def test_the_words_of_an_error_are_found(
    words: str, key: str, wrapped: bool, rest: dict[str, int]
) -> None:
    payload: Any = {**rest, key: words}
    error = error_in([payload] if wrapped else payload)
    assert error is not None
    if len(words) < 100:
        assert " ".join(words.split()) in stream_error(error).detail


# Calls that the server could not read.


def failed(written: str, words: str = "Failed to call a function.") -> dict[str, Any]:
    return {
        "error": {
            "message": words,
            "type": "invalid_request_error",
            "code": "tool_use_failed",
            "failed_generation": written,
        }
    }


CALL = {"what": "a goose"}
TEXT = json.dumps(CALL)
READABLE = [
    f"<function=weigh>{TEXT}</function>",
    f"weigh{TEXT}</function>",
    f"<tool_call>\n{json.dumps({'name': 'weigh', 'arguments': CALL})}\n</tool_call>",
    f"```\n{json.dumps({'tool_calls': [{'name': 'weigh', 'parameters': CALL}]})}\n```",
    f"Let me see. <function=weigh>{TEXT}</function>",
]


@pytest.mark.parametrize("written", READABLE)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_that_a_refusal_quotes_is_run(
    written: str, streamed: bool, autojump_clock: MockClock
) -> None:
    refusal = failed(written)
    body: Body = (400, "application/json", json.dumps(refusal))
    if streamed:
        body = (200, STREAM, "event: error\n" + rows(refusal))
    events, sent = await answers(body)
    assert called(events) == [("weigh", CALL)]
    assert said(events) == ""
    assert len(sent) == 1


async def test_it_is_run_although_words_came_before(autojump_clock: MockClock) -> None:
    text = rows(delta(content="Let me see. "), failed(READABLE[0]))
    events, _ = await answers((200, STREAM, text))
    assert (said(events), called(events)) == ("Let me see. ", [("weigh", CALL)])


UNREADABLE: list[Body] = [
    (400, "application/json", json.dumps(failed("I would rather sing."))),
    (400, "application/json", json.dumps(failed('<function=sing>{"x": 1}</function>'))),
    (400, "application/json", json.dumps(failed('<function=weigh>{"what": '))),
    (400, "application/json", json.dumps(failed(""))),
    (200, STREAM, "event: error\n" + rows(failed("weigh what?"))),
    (
        500,
        "application/json",
        json.dumps(
            {"error": {"message": "error parsing tool call: raw='{\"wh', err=EOF"}}
        ),
    ),
    (
        500,
        "application/json",
        json.dumps(
            {
                "error": {
                    "code": 500,
                    "message": "Failed to parse input at pos 9: weigh(",
                }
            }
        ),
    ),
    (200, STREAM, rows(delta("function_call_filter: MALFORMED_FUNCTION_CALL"))),
]


@pytest.mark.parametrize("body", UNREADABLE)
async def test_otherwise_it_is_asked_again_once(
    body: Body, autojump_clock: MockClock
) -> None:
    events, sent = await answers(body, GOOD)
    assert said(events) == "Three pounds."
    assert sent[0] == sent[1]
    error, sent = await answers(body, body, GOOD)
    assert isinstance(error, LLMError)
    assert len(sent) == 2


async def test_where_no_call_is_wanted_the_tools_are_left_out(
    autojump_clock: MockClock,
) -> None:
    words = "Tool choice is none, but model called a tool"
    refusal = json.dumps(failed("<function=sing>{}</function>", words))
    ask = LLMRequest(messages=ASK.messages, tools=(SCALES,), tools_forbidden=True)
    events, sent = await answers((400, "application/json", refusal), GOOD, ask=ask)
    assert said(events) == "Three pounds."
    assert sent[0]["tool_choice"] == "none"
    assert "tools" not in sent[1]


async def test_a_million_characters_of_nothing_are_read_in_time() -> None:
    with trio.fail_after(10):
        for text in ("x" * 1_000_000, '{"a": ' * 200_000, "{}" * 500_000):
            error, _ = await answers((200, STREAM, text))
            assert isinstance(error, LLMError)


async def test_thoughts_whose_signature_is_refused_are_left_out_at_anthropic(
    autojump_clock: MockClock,
) -> None:
    thought = {"type": "thinking", "thinking": "Heavy?", "signature": "bm8="}
    used = {"type": "tool_use", "id": "c1", "name": "weigh", "input": CALL}
    kept = Verbatim(model=f"m at {URL}", content=json.dumps([thought, used]))
    call = ToolCall("c1", "weigh", TEXT)
    ask = LLMRequest(
        messages=(
            *ASK.messages,
            Message(role="assistant", calls=(call,), verbatim=kept),
            Message(role="tool", content="9", call_id="c1"),
        ),
        tools=(SCALES,),
    )
    words = "messages.1.content.0: Invalid `signature` in `thinking` block"
    refusal = json.dumps({"type": "error", "error": {"message": words}})
    whole = {"type": "message", "content": [{"type": "text", "text": "Nine."}]}
    well = json.dumps({**whole, "stop_reason": "end_turn"})
    kind = "application/json"
    events, sent = await answers(
        (400, kind, refusal), (200, kind, well), kind=Anthropic, ask=ask
    )
    assert said(events) == "Nine."
    first, second = (body["messages"][1]["content"] for body in sent)
    assert first == [thought, used]
    assert second == [used]
