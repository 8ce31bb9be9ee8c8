"""The vendor's types judge our requests and our scripted server; its client drives it.

The only module that imports the vendor's package, because that takes seconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from anthropic.types.shared.error_response import ErrorResponse
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

import trio

from glyphoxa_trio.providers.anthropic.wire import (
    MAX_TOKENS,
    RequestOptions,
    request_body,
)
from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec, Verbatim
from glyphoxa_trio.providers.payloads import encoded
from glyphoxa_trio.testing.model_messages import MessageEvents, error_body, refusal
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Fail,
    Reply,
    SayText,
    Think,
    open_model_server,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .openai_types import unknown_keys

CLIENT = Path(__file__).with_name("anthropic_client.py")
REQUESTS: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
EVENTS: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
ERRORS: TypeAdapter[Any] = TypeAdapter(ErrorResponse)

words = st.text(max_size=10)
names = st.text(max_size=70)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner),
    max_leaves=5,
)
schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("object"),
        "properties": st.dictionaries(words, st.just({"type": "string"}), max_size=3),
        "required": st.lists(words, max_size=2),
        "anyOf": st.lists(st.just({}), min_size=1, max_size=2),
        "additionalProperties": st.booleans(),
    },
)
exposed = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", fullmatch=True)  # the host's
specs = st.builds(ToolSpec, name=exposed, description=words, parameters=schemas)
calls = st.builds(
    ToolCall,
    id=st.text(max_size=5),
    name=names,
    arguments=words | st.dictionaries(words, values).map(json.dumps),
)


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """A response, and the answers to its calls."""
    made = draw(st.lists(calls, max_size=3, unique_by=lambda x: x.id))
    content = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]
    content += [
        {"type": "tool_use", "id": x.id, "name": "roll", "input": {}}  # type: ignore[dict-item]
        for x in made
    ]
    again = Verbatim(model="m", content=json.dumps(content))
    thought = draw(st.booleans())
    return [
        Message(
            role="assistant",
            content=draw(words),
            calls=tuple(made),
            verbatim=again if made and thought else None,
        ),
        *(Message(role="tool", call_id=x.id, content=draw(words)) for x in made),
    ]


said = st.one_of(
    st.builds(Message, role=st.just("system"), content=words).map(lambda x: [x]),
    st.builds(Message, role=st.just("user"), content=words, name=words).map(
        lambda x: [x]
    ),
    rounds(),
)
requests = st.builds(
    LLMRequest,
    messages=st.lists(said, max_size=6).map(lambda x: tuple(m for ms in x for m in ms)),
    tools=st.lists(specs, max_size=3, unique_by=lambda x: x.name).map(tuple),
    tools_forbidden=st.booleans(),
)


def judged(body: dict[str, Any]) -> Any:
    """A request as the vendor's types have it: without any key they do not know.

    They are lazy: what is in a list is looked at when it is taken out.
    """
    return plain(REQUESTS.validate_python(body))


def plain(value: Any) -> Any:
    match value:
        case BaseModel():
            assert not (unknown := unknown_keys(value)), unknown
            return value.model_dump(exclude_unset=True)
        case str() | None | bool() | int() | float():
            return value
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case Iterable():
            return [plain(item) for item in value]
    raise AssertionError(value)


@given(requests, st.booleans(), st.none() | st.integers(1, 2))
def test_every_request_is_one_of_the_vendors(
    request: LLMRequest, thinking: bool, tokens: int | None
) -> None:
    enabled = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    options = RequestOptions(
        extra=enabled if thinking else {},
        max_tokens=MAX_TOKENS if tokens is None else tokens,
    )
    body = json.loads(encoded(request_body(request, "m", options=options)))
    assert judged(body) == body
    assert refusal({"anthropic-version": "2023-06-01"}, body) == ""


def test_the_types_see_what_is_not_the_protocol() -> None:
    good: dict[str, Any] = {
        "model": "m",
        "max_tokens": 1,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
    }
    assert judged(good) == good
    with pytest.raises(ValidationError):
        judged({key: x for key, x in good.items() if key != "max_tokens"})
    with pytest.raises(ValidationError):
        judged(good | {"tools": [{"name": "x"}]})
    odd = {"role": "user", "content": [{"type": "text", "text": "x", "name": "Ann"}]}
    assert judged(good | {"messages": [odd]}) == good
    # The one field of ours that the newest types have dropped; older models take it.
    assert "temperature" not in judged(good | {"temperature": 0.5})


steps = st.lists(
    st.one_of(
        st.builds(SayText, pieces=st.lists(words, max_size=3).map(tuple)),
        st.builds(Think, pieces=st.lists(words, max_size=2).map(tuple)),
        st.builds(
            CallTools,
            st.lists(st.tuples(words, words), max_size=2),
            fragments=st.integers(0, 3),
        ),
    ),
    max_size=4,
)


@given(steps, st.sampled_from(["stop", "length", "tool_calls", "content_filter", None]))
def test_every_event_of_the_scripted_server_is_one_of_the_vendors(
    script: list[SayText | Think | CallTools], reason: str | None
) -> None:
    said = MessageEvents("m", {"messages": []}, 1)
    text: list[str] = []
    for step in script:
        match step:
            case SayText():
                text += [said.text(piece) for piece in step.pieces or ()]
            case Think():
                text += said.think(step)
            case CallTools():
                for name, arguments in step.calls:
                    count = step.fragments
                    text += said.call(name, arguments, given_id=None, fragments=count)
    text.append(said.finish(reason, done=True))
    for line in "".join(text).splitlines():
        if line.startswith("data: ") and "ping" not in line:
            event = EVENTS.validate_json(line.removeprefix("data: "))
            assert unknown_keys(event) == []


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 429, 500, 504, 529])
def test_every_error_of_the_scripted_server_is_one_of_the_vendors(status: int) -> None:
    error = ERRORS.validate_python(error_body(status, message="no"))
    assert unknown_keys(error) == []


@pytest.mark.border
async def test_the_vendors_own_client_talks_with_the_scripted_server() -> None:
    script: list[Reply] = [
        [
            Think(("Dice?",), signature="c2ln"),
            SayText("Let me see."),
            CallTools([("roll", {"n": 1}), ("roll", {"n": 2})]),
        ],
        SayText("One and two."),
        Fail(529),
    ]
    with trio.fail_after(120):
        async with open_model_server(script, api_key="sk-test") as server:
            done = await trio.run_process(
                [sys.executable, str(CLIENT), server.origin, "sk-test"],
                capture_stdout=True,
            )
    seen = json.loads(done.stdout)
    first, last = seen["rounds"]
    assert first["text"] == ["Let", " me", " see."]
    assert [x["type"] for x in first["content"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert first["content"][0]["signature"] == "c2ln"
    assert [x["input"] for x in first["content"][2:]] == [{"n": 1}, {"n": 2}]
    assert first["stop_reason"] == "tool_use"
    assert ("".join(last["text"]), last["stop_reason"]) == ("One and two.", "end_turn")
    name, status, message = seen["error"]
    assert (name, status) == ("OverloadedError", 529)
    assert "scripted failure" in message
    assert server.refused == []
    for body in server.requests:
        assert judged(body) == body
