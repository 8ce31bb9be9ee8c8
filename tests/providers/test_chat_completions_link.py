"""`ChatCompletions` against a real server on a real socket of this machine.

Order comes from scripts and events, never from the clock; `fail_after` is only
there to end a test that would hang.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import pytest

import trio
import trio.testing

from glyphoxa_trio.providers.chat_completions import ChatCompletions, RequestOptions
from glyphoxa_trio.providers.llm import (
    LLM,
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
    Hang,
    RawText,
    Reply,
    SayText,
    Script,
    open_model_server,
)
from glyphoxa_trio.tools.outcome import ToolCall

ROLL = ToolSpec(name="roll", description="Roll dice.", parameters={"type": "object"})
ASK = LLMRequest(messages=(Message(role="user", content="hello"),), tools=(ROLL,))
FORBIDDEN = LLMRequest(messages=ASK.messages, tools=(ROLL,), tools_forbidden=True)
KEY = Secret("sk-very-secret-key")


def model_at(base_url: str, **more: Any) -> ChatCompletions:
    return ChatCompletions(model="scripted", base_url=base_url, **more)


async def read(model: LLM, request: LLMRequest = ASK) -> list[LLMEvent]:
    """What the model says; that it is at work is looked at by one test."""
    async with model.stream(request) as events:
        return [event async for event in events if not isinstance(event, Working)]


async def answers(script: Script, **more: Any) -> list[LLMEvent]:
    with trio.fail_after(10):
        async with open_model_server(script) as server:
            model = model_at(server.base_url, **more)
            try:
                return await read(model)
            finally:
                await model.aclose()


async def failure_of(script: Script, **more: Any) -> LLMError:
    with pytest.raises(LLMError) as caught:
        await answers(script, **more)
    return caught.value


def said(events: Sequence[LLMEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextChunk))


async def test_text_arrives_as_it_is_written() -> None:
    events = await answers([SayText("Well met, friend.")])
    assert events[:3] == [
        TextChunk("Well"),
        TextChunk(" met,"),
        TextChunk(" friend."),
    ]
    assert isinstance(events[3], Finished)
    assert events[3].reason is FinishReason.STOP
    assert events[3].usage is not None
    assert events[3].usage.output_tokens > 0


async def test_thoughts_and_fragments_show_that_the_model_is_at_work() -> None:
    # D0: a stream of what is not shown is not silent
    calls = CallTools([("roll", {"expression": "2d6"})], fragments=4)
    with trio.fail_after(10):
        async with open_model_server([calls]) as server:
            model = model_at(server.base_url)
            async with model.stream(ASK) as events:
                kinds = [type(event) async for event in events]
            await model.aclose()
    assert kinds[0] is Working
    assert kinds.count(Working) >= 4
    assert kinds[-2:] == [CallReady, Finished]


async def test_parallel_calls_arrive_whole_and_in_order() -> None:
    calls = [("roll", {"expression": "2d6"}), ("search", '{"query": "bro')]
    for fragments in (0, 1, 4):
        events = await answers([CallTools(calls, fragments=fragments)])
        assert [event.call for event in events if isinstance(event, CallReady)] == [
            ToolCall("call_1_0", "roll", '{"expression": "2d6"}'),
            ToolCall("call_1_1", "search", '{"query": "bro'),
        ]
        assert isinstance(events[-1], Finished)
        assert events[-1].reason is FinishReason.TOOL_CALLS


async def test_repeated_ids_become_unique() -> None:
    events = await answers([CallTools([("a", {}), ("b", {})], ids=["x", "x"])])
    first, second = (event.call for event in events if isinstance(event, CallReady))
    assert first.id == "x"
    assert second.id.startswith("call_")


async def test_comments_line_ends_and_large_events_are_the_readers_business() -> None:
    large = "x" * 200_000
    events = await answers(
        [
            [
                RawText(": ping\r\n\r\nevent: message\r\n"),
                RawText('data: {"choices":[{"delta":{"content":"é'),
                RawText(large + '"}}]}\r\n\r\n: ping\n\n'),
            ]
        ]
    )
    assert said(events) == "é" + large


async def test_the_key_goes_into_the_header_and_nowhere_else() -> None:
    with trio.fail_after(10):
        async with open_model_server([SayText("yes")]) as server:
            model = model_at(server.base_url, api_key=KEY)
            await read(model)
            await model.aclose()
            assert server.headers[0]["authorization"] == "Bearer sk-very-secret-key"
            assert server.headers[0]["accept"] == "text/event-stream"
    assert "sk-very" not in repr(model) + str(model) + model.label


async def test_a_server_that_quotes_the_key_is_not_quoted() -> None:
    told = {"error": {"message": f"bad key {KEY.reveal()}: {'long ' * 100}"}}
    error = await failure_of([Fail(401, told)], api_key=KEY)
    assert error.kind is ErrorKind.AUTHENTICATION
    assert error.detail.startswith("HTTP 401: bad key [secret]: long long")
    assert len(error.detail) < 350
    inside = await failure_of([RawText(f"data: {KEY.reveal()}\n\n")], api_key=KEY)
    assert inside.kind is ErrorKind.MALFORMED
    assert "sk-very" not in str(inside)


async def test_a_key_that_no_header_can_hold_is_refused_without_being_shown() -> None:
    for key in ("secret\n", "", "sé", "two words"):
        with pytest.raises(ValueError, match=r"^api_key: is empty, or has"):
            model_at("http://127.0.0.1/v1", api_key=Secret(key))


async def test_an_address_must_be_one_that_may_be_shown() -> None:
    for address in (
        "ftp://x/v1",
        "localhost:1/v1",
        "http://u:p@x/v1",
        "http://x/v1?key=1",
    ):
        with pytest.raises(ValueError, match="base_url") as caught:
            model_at(address)
        assert address not in str(caught.value)
    assert model_at("http://x/v1/").label == "scripted at http://x/v1"


async def test_429_says_how_long_to_wait() -> None:
    error = await failure_of([Fail(429, headers={"retry-after": "2.5"})])
    assert (error.kind, error.retry_after) == (ErrorKind.RATE_LIMITED, 2.5)


async def test_redirects_are_not_followed_not_even_by_a_client_that_would() -> None:
    async with open_model_server([SayText("elsewhere")]) as other:
        async with httpx2.AsyncClient(
            timeout=60, follow_redirects=True, trust_env=False
        ) as eager:
            there = f"{other.base_url}/chat/completions"
            away = Fail(307, "", headers={"location": there})
            error = await failure_of([away], client=eager)
        assert error.kind is ErrorKind.NOT_FOUND
        assert other.requests == []


async def test_only_connecting_has_a_limit_of_its_own() -> None:  # D0
    seen: list[object] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.extensions["timeout"])
        return httpx2.Response(500)

    async with httpx2.AsyncClient(
        transport=httpx2.MockTransport(answer), timeout=1
    ) as client:
        with pytest.raises(LLMError):
            await read(model_at("http://127.0.0.1/v1", client=client))
    assert seen == [{"connect": 5.0, "read": None, "write": None, "pool": None}]


async def test_an_answer_that_is_no_stream_is_malformed() -> None:
    error = await failure_of([Fail(200, {"choices": []})])
    assert error.kind is ErrorKind.MALFORMED
    assert "not an event stream" in error.detail


async def test_a_long_error_page_is_read_in_part() -> None:
    page = Fail(500, "<xml>" + "a" * 30_000_000)  # more than any socket buffers
    with trio.fail_after(10):
        async with open_model_server([page]) as server:
            model = model_at(server.base_url)
            with pytest.raises(LLMError, match="HTTP 500: <xml>aaa") as caught:
                await read(model)
            assert caught.value.kind is ErrorKind.OVERLOADED
            await server.wait_hangups(1)
            await model.aclose()


async def test_nobody_at_that_address_is_unreachable() -> None:
    with trio.socket.socket() as unused:
        await unused.bind(("127.0.0.1", 0))
        model = model_at(f"http://127.0.0.1:{unused.getsockname()[1]}/v1")
        with trio.fail_after(10), pytest.raises(LLMError) as caught:
            await read(model)
        await model.aclose()
    assert caught.value.kind is ErrorKind.UNREACHABLE
    assert model.base_url in caught.value.detail


@pytest.mark.parametrize("ending", [Die(), Cut()])
async def test_a_stream_that_stops_halfway_is_interrupted(ending: Die | Cut) -> None:
    with trio.fail_after(10):
        async with open_model_server([[SayText("Well, I"), ending]]) as server:
            model = model_at(server.base_url)
            heard: list[LLMEvent] = []
            with pytest.raises(LLMError) as caught:
                async with model.stream(ASK) as events:
                    while True:
                        heard.append(await anext(events))
            await model.aclose()
    assert heard == [TextChunk("Well,"), TextChunk(" I")]
    assert caught.value.kind is ErrorKind.INTERRUPTED


async def test_a_server_that_hangs_up_before_its_answer_is_interrupted() -> None:
    assert (await failure_of([Die()])).kind is ErrorKind.INTERRUPTED


async def test_a_stream_may_end_without_done_but_not_without_a_reason() -> None:
    assert (
        said(await answers([[SayText("Bye."), Finish("stop", done=False)]])) == "Bye."
    )
    assert said(await answers([[SayText("Bye."), Finish(None, done=True)]])) == "Bye."
    error = await failure_of([[SayText("Bye."), Finish(None, done=False)]])
    assert error.kind is ErrorKind.INTERRUPTED


async def test_an_error_inside_the_stream_is_told_by_its_own_words() -> None:
    told = 'data: {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}'
    error = await failure_of([[SayText("Well"), RawText(told + "\n\n")]])
    assert (error.kind, error.detail) == (ErrorKind.RATE_LIMITED, "slow down")


async def test_leaving_the_block_hangs_up_at_once() -> None:
    with trio.fail_after(10):
        async with open_model_server([Forever("la ", every=0)]) as server:
            model = model_at(server.base_url)
            async with model.stream(ASK) as events:
                assert await anext(events) == TextChunk("la ")
            await server.wait_hangups(1)
            async with model.stream(ASK):
                pass  # not a single event asked for
            await server.wait_hangups(2)
            await model.aclose()
    gc.collect()  # a generator left behind would complain here


async def test_an_error_in_the_block_hangs_up_and_stays_itself() -> None:
    with trio.fail_after(10):
        async with open_model_server([Forever("la ")]) as server:
            model = model_at(server.base_url)
            with pytest.raises(KeyError):
                async with model.stream(ASK) as events:
                    await anext(events)
                    raise KeyError
            await server.wait_hangups(1)
            await model.aclose()


@pytest.mark.parametrize("script", [[Hang()], [[SayText("Well"), Hang()]]])
async def test_cancelling_while_the_model_is_silent_hangs_up(script: Script) -> None:
    with trio.fail_after(10):
        async with open_model_server(script) as server:
            model = model_at(server.base_url)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read, model)
                await server.wait_requests(1)
                await trio.testing.wait_all_tasks_blocked(0.01)
                nursery.cancel_scope.cancel()
            await server.wait_hangups(1)
            await model.aclose()
    gc.collect()


async def test_a_cancelled_turn_reads_no_further_though_events_are_there() -> None:
    with trio.fail_after(10):
        async with open_model_server([CallTools([("a", {}), ("b", {})])]) as server:
            model = model_at(server.base_url)
            heard: list[LLMEvent] = []
            with trio.CancelScope() as turn:
                async with model.stream(ASK) as events:
                    async for event in events:
                        heard += [event]
                        turn.cancel()
            assert turn.cancelled_caught
            assert len(heard) == 1
            await model.aclose()


async def test_a_finished_answer_leaves_its_connection_to_the_next_round() -> None:
    with trio.fail_after(10):
        async with open_model_server([SayText("one"), SayText("two")]) as server:
            model = model_at(server.base_url)
            assert said(await read(model)) == "one"
            assert said(await read(model)) == "two"
            await model.aclose()
            assert (server.connections, server.hangups) == (1, 0)


async def test_an_answer_that_goes_on_after_its_end_is_left() -> None:
    with trio.fail_after(10):
        late: Reply = [
            SayText("done"),
            RawText("data: [DONE]\n\n"),
            Forever("la ", every=0),
        ]
        async with open_model_server([late]) as server:
            model = model_at(server.base_url)
            assert said(await read(model)) == "done"
            await server.wait_hangups(1)
            await model.aclose()


def refusing(*fields: str, status: int = 400) -> Script:
    """A server that refuses ``fields``, one at a time."""

    def script(body: Mapping[str, Any]) -> Reply:
        for field in fields:
            if field in body:
                told = f"Unsupported parameter: '{field}'"
                return Fail(status, {"error": {"message": told}})
        return SayText("yes")

    return script


async def fields_sent(
    script: Script, model_options: RequestOptions, rounds: int
) -> tuple[list[set[str]], list[ErrorKind | None]]:
    ends: list[ErrorKind | None] = []
    with trio.fail_after(10):
        async with open_model_server(script) as server:
            model = model_at(server.base_url, options=model_options)
            for _ in range(rounds):
                try:
                    await read(model, FORBIDDEN)
                    ends.append(None)
                except LLMError as error:
                    ends.append(error.kind)
            await model.aclose()
            known = {"tools", "tool_choice", "stream_options"}
            return [known & set(body) for body in server.requests], ends


@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_field_is_left_out_once_and_for_all(status: int) -> None:
    sent, ends = await fields_sent(
        refusing("stream_options", status=status), RequestOptions(), 2
    )
    assert sent == [
        {"tools", "tool_choice", "stream_options"},
        {"tools", "tool_choice"},
        {"tools", "tool_choice"},
    ]
    assert ends == [None, None]


async def test_where_tools_cannot_be_forbidden_they_are_not_listed() -> None:
    sent, _ = await fields_sent(refusing("tool_choice"), RequestOptions(), 1)
    assert sent[1] == {"stream_options"}


async def test_a_round_is_tried_as_often_as_a_refusal_teaches_something() -> None:
    sent, ends = await fields_sent(
        refusing("tool_choice", "stream_options"), RequestOptions(), 1
    )
    assert len(sent) == 3
    assert ends == [None]


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (refusing("model"), ErrorKind.BAD_REQUEST),
        (refusing("tool_choice", status=500), ErrorKind.OVERLOADED),
        ([Fail(500)], ErrorKind.OVERLOADED),
        ([[SayText("Well,"), Die()]], ErrorKind.INTERRUPTED),
    ],
)
async def test_nothing_else_is_tried_again(script: Script, kind: ErrorKind) -> None:
    sent, ends = await fields_sent(script, RequestOptions(), 1)
    assert len(sent) == 1
    assert ends == [kind]


async def test_a_client_that_was_lent_is_not_closed() -> None:
    with trio.fail_after(10):
        async with open_model_server([SayText("yes")]) as server:
            async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
                model = model_at(server.base_url, client=client)
                assert said(await read(model)) == "yes"
                await model.aclose()
                assert not client.is_closed


async def test_a_closed_model_opens_anew() -> None:
    with trio.fail_after(10):
        async with open_model_server([SayText("yes")]) as server:
            model = model_at(server.base_url)
            for _ in range(2):
                assert said(await read(model)) == "yes"
                await model.aclose()
            assert server.connections == 2


async def test_no_proxy_comes_between_us_and_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert said(await answers([SayText("direct")])) == "direct"


async def test_a_model_that_never_stops_calling_can_be_played() -> None:
    with trio.fail_after(10):
        async with open_model_server([CallTools([("roll", {})])]) as server:
            model = model_at(server.base_url)
            ids = set()
            for _ in range(3):
                first, *_ = await read(model)
                assert isinstance(first, CallReady)
                ids.add(first.call.id)
            await model.aclose()
    assert len(ids) == 3


async def test_an_error_of_the_block_leaves_the_server_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with open_model_server([SayText("yes")]):
            raise KeyError


async def test_other_paths_and_other_ways_are_refused_by_the_server() -> None:
    with trio.fail_after(10):
        async with open_model_server([SayText("yes")]) as server:
            async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
                assert (
                    await client.get(f"{server.base_url}/models")
                ).status_code == 404
                whole = await client.post(
                    f"{server.base_url}/chat/completions", json={"messages": []}
                )
                assert whole.status_code == 400
            assert server.requests == []


@pytest.mark.border
async def test_importing_costs_no_http_client() -> None:
    code = (
        "import sys, glyphoxa_trio.providers.chat_completions, glyphoxa_trio.providers"
        ".offline; sys.exit('httpx2' in sys.modules)"
    )
    done = await trio.run_process([sys.executable, "-c", code], check=False)
    assert done.returncode == 0
