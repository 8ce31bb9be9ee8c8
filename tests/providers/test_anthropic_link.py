"""`Anthropic` against a real server on a real socket of this machine.

Order comes from scripts and events, never from the clock; `fail_after` is only there
to end a test that would hang. What every link shares is tested with the other one.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio.providers.anthropic import VENDOR, Anthropic, RequestOptions
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
    Working,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Cut,
    Die,
    Fail,
    Finish,
    Forever,
    RawText,
    Reply,
    SayText,
    Script,
    ScriptedModelServer,
    Think,
    open_model_server,
)
from glyphoxa_trio.tools.outcome import ToolCall

ROLL = ToolSpec(name="roll", description="Roll dice.", parameters={"type": "object"})
ASK = LLMRequest(messages=(Message(role="user", content="hello"),), tools=(ROLL,))
KEY = Secret("sk-very-secret-key")


@asynccontextmanager
async def talk(
    script: Script, *, api_key: Secret | None = KEY, **more: Any
) -> AsyncIterator[tuple[ScriptedModelServer, Anthropic]]:
    with trio.fail_after(10):
        async with open_model_server(script, api_key=KEY.reveal()) as server:
            model = Anthropic(
                model="scripted", base_url=server.base_url, api_key=api_key, **more
            )
            try:
                yield server, model
            finally:
                await model.aclose()


async def read(model: Anthropic, request: LLMRequest = ASK) -> list[LLMEvent]:
    async with model.stream(request) as events:
        return [event async for event in events if not isinstance(event, Working)]


async def failure_of(script: Script, **more: Any) -> LLMError:
    async with talk(script, **more) as (_, model):
        with pytest.raises(LLMError) as caught:
            await read(model)
    return caught.value


async def test_text_arrives_as_it_is_written_with_what_it_took() -> None:
    async with talk([SayText("Well met, friend.")]) as (_, model):
        *chunks, end = await read(model)
    assert chunks == [TextChunk("Well"), TextChunk(" met,"), TextChunk(" friend.")]
    assert isinstance(end, Finished)
    assert end.reason is FinishReason.STOP
    assert end.usage is not None
    assert (end.usage.model, end.usage.output_tokens) == ("scripted", 3)
    assert end.usage.input_tokens > 10


async def test_thoughts_and_fragments_show_that_the_model_is_at_work() -> None:
    # D0: a stream of what is not shown is not silent
    steps: Reply = [Think(("Hm, ", "dice.")), CallTools([("roll", {})], fragments=4)]
    async with talk([steps]) as (_, model):
        async with model.stream(ASK) as events:
            kinds = [type(event) async for event in events]
    assert kinds[-2:] == [CallReady, Finished]
    assert kinds[0] is Working
    assert kinds.count(Working) == len(kinds) - 2 >= 8


async def test_a_tool_round_gives_the_thoughts_back_and_the_server_takes_them() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    script: list[Reply] = [
        [
            Think(("Dice?",), signature="c2ln"),
            SayText("So."),
            CallTools([("roll", {"n": 1}), ("roll", {"n": 2})]),
        ],
        SayText("Seven and nine."),
    ]
    options = RequestOptions(extra={"thinking": thinking})
    async with talk(script, options=options) as (server, model):
        events = await read(model)
        calls = tuple(x.call for x in events if isinstance(x, CallReady))
        assert calls == (
            ToolCall("toolu_1_0", "roll", '{"n": 1}'),
            ToolCall("toolu_1_1", "roll", '{"n": 2}'),
        )
        end = events[-1]
        assert isinstance(end, Finished)
        again = Message(
            role="assistant", content="So.", calls=calls, verbatim=end.verbatim
        )
        results = [
            Message(role="tool", call_id=call.id, name="roll", content=said)
            for call, said in zip(calls, ("7", "9"), strict=True)
        ]
        request = attrs.evolve(ASK, messages=(*ASK.messages, again, *results))
        assert TextChunk(" nine.") in await read(model, request)
        assert server.refused == []
        _, assistant, user = server.requests[1]["messages"]
        kinds = [x["type"] for x in assistant["content"]]
        assert kinds == ["thinking", "text", "tool_use", "tool_use"]
        assert assistant["content"][0]["signature"] == "c2ln"
        assert [x["content"] for x in user["content"]] == ["7", "9"]
        # Without its thoughts the server would not have taken them.
        bare = attrs.evolve(again, verbatim=None)
        request = attrs.evolve(request, messages=(*ASK.messages, bare, *results))
        await read(model, request)
        assert "thinking" not in server.requests[2]


async def test_the_headers_are_the_protocols() -> None:
    async with talk([SayText("yes")]) as (server, model):
        await read(model)
        sent = server.headers[0]
        assert sent["x-api-key"] == "sk-very-secret-key"
        assert sent["anthropic-version"] == "2023-06-01"
        assert "authorization" not in sent
        assert (sent["accept"], sent["content-type"]) == (
            "text/event-stream",
            "application/json",
        )
    assert "sk-very" not in repr(model) + str(model) + model.label


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("http://x", "http://x/v1"),
        ("http://x/", "http://x/v1"),
        ("http://x/v1/", "http://x/v1"),
        ("http://x/anthropic", "http://x/anthropic/v1"),
    ],
)
async def test_an_address_may_come_with_its_version_or_without(
    given: str, asked: str
) -> None:
    assert Anthropic(model="m", base_url=given).label == f"m at {asked}"
    assert Anthropic(model="m").base_url == VENDOR


async def test_a_wrong_key_is_told_and_not_shown() -> None:
    error = await failure_of([SayText("no")], api_key=Secret("sk-another"))
    assert (error.kind, error.detail) == (
        ErrorKind.AUTHENTICATION,
        "HTTP 401: invalid x-api-key; set the key in api_key",
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ErrorKind.BAD_REQUEST),
        (401, ErrorKind.AUTHENTICATION),
        (402, ErrorKind.RATE_LIMITED),
        (403, ErrorKind.AUTHENTICATION),
        (404, ErrorKind.NOT_FOUND),
        (413, ErrorKind.BAD_REQUEST),
        (429, ErrorKind.RATE_LIMITED),
        (500, ErrorKind.OVERLOADED),
        (504, ErrorKind.OVERLOADED),
        (529, ErrorKind.OVERLOADED),
    ],
)
async def test_a_status_says_who_must_act(status: int, kind: ErrorKind) -> None:
    error = await failure_of([Fail(status, headers={"retry-after": "7"})])
    assert (error.kind, error.retry_after) == (kind, 7.0)
    assert error.detail.startswith(f"HTTP {status}: scripted failure")


async def test_a_temperature_that_is_refused_is_left_out_from_then_on() -> None:
    no = {"error": {"message": "`temperature` is deprecated for this model."}}

    def script(body: Any) -> Any:
        return Fail(400, no) if "temperature" in body else SayText("Well.")

    async with talk(script, options=RequestOptions(temperature=0.8)) as (server, model):
        await read(model)
        await read(model)
        asked = ["temperature" in body for body in server.requests]
    assert asked == [True, False, False]


@pytest.mark.parametrize("ending", [Die(), Cut(), Finish(None, done=False)])
async def test_a_stream_that_stops_halfway_is_interrupted(ending: Any) -> None:
    async with talk([[SayText("Well, I"), ending]]) as (_, model):
        heard: list[LLMEvent] = []
        with pytest.raises(LLMError) as caught:
            async with model.stream(ASK) as events:
                while True:
                    heard.append(await anext(events))
    words = [event for event in heard if not isinstance(event, Working)]
    assert words == [TextChunk("Well,"), TextChunk(" I")]
    assert caught.value.kind is ErrorKind.INTERRUPTED


async def test_an_error_inside_the_stream_is_told_by_its_own_words() -> None:
    told = '{"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}'
    steps: Reply = [SayText("Well"), RawText(f"event: error\ndata: {told}\n\n")]
    error = await failure_of([steps])
    assert (error.kind, error.detail) == (ErrorKind.OVERLOADED, "Busy")


async def test_a_ping_is_no_answer() -> None:
    ping = 'event: ping\ndata: {"type": "ping"}\n\n'
    async with talk([[RawText(ping), SayText("Well.")]]) as (_, model):
        async with model.stream(ASK) as events:
            assert await anext(events) == Working()  # of the block that begins
            assert await anext(events) == TextChunk("Well.")


async def test_an_answer_that_is_cut_runs_no_half_call() -> None:
    cut: Reply = [
        CallTools([("roll", {"n": 1}), ("roll", '{"n": ')]),
        Finish("length"),
    ]
    async with talk([cut]) as (_, model):
        events = await read(model)
    (call,) = (x.call for x in events if isinstance(x, CallReady))
    assert call.arguments == '{"n": 1}'
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is FinishReason.LENGTH


async def test_leaving_the_block_hangs_up_at_once() -> None:
    async with talk([Forever("la ", every=0)]) as (server, model):
        async with model.stream(ASK) as events:
            while await anext(events) != TextChunk("la "):
                pass
        await server.wait_hangups(1)
    gc.collect()  # a generator left behind would complain here


async def test_a_connection_is_kept_for_the_next_round() -> None:
    async with talk([SayText("Well.")]) as (server, model):
        await read(model)
        await read(model)
        assert (server.connections, len(server.requests)) == (1, 2)


@pytest.mark.border
def test_importing_it_imports_no_client() -> None:
    code = (
        "import sys, glyphoxa_trio.providers.anthropic;"
        "sys.exit('httpx2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
