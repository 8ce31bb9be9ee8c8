"""What model servers do that the protocol does not say, and what people are told.

Real HTTP on loopback; the bodies are what such servers send.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio.providers import asking
from glyphoxa_trio.providers.anthropic import Anthropic
from glyphoxa_trio.providers.chat_completions import ChatCompletions, RequestOptions
from glyphoxa_trio.providers.llm import (
    CallReady,
    ErrorKind,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    Message,
    TextChunk,
    ToolSpec,
    Waiting,
    Working,
)
from glyphoxa_trio.providers.remedies import Advice
from glyphoxa_trio.testing.http_server import (
    Answer,
    Pieces,
    RawBytes,
    ReceivedRequest,
    Reply,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.testing.model_kinds import KINDS, ModelServerKind, open_strict_server
from glyphoxa_trio.tools.outcome import ToolCall

ROLL = ToolSpec(name="roll_dice", description="Roll.", parameters={"type": "object"})
ASK = LLMRequest(messages=(Message(role="user", content="hello"),), tools=(ROLL,))
SSE = {"content-type": "text/event-stream"}


def chunk(finish: str | None = None, **delta: Any) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


HELLO = chunk(content="Well met.") + chunk("stop") + "data: [DONE]\n\n"


@attrs.define(eq=False)
class Talk:
    events: list[LLMEvent] = attrs.field(factory=list)
    error: LLMError | None = None
    warned: list[str] = attrs.field(factory=list)
    paths: list[str] = attrs.field(factory=list)
    bodies: list[Any] = attrs.field(factory=list)

    @property
    def text(self) -> str:
        return "".join(x.text for x in self.events if isinstance(x, TextChunk))

    @property
    def calls(self) -> list[ToolCall]:
        return [x.call for x in self.events if isinstance(x, CallReady)]


async def talk(
    answer: Answer,
    *,
    path: str = "/v1",
    kind: type[ChatCompletions | Anthropic] = ChatCompletions,
    rounds: int = 1,
    request: LLMRequest = ASK,
    **more: Any,
) -> Talk:
    made = Talk()
    with trio.fail_after(20):
        async with open_http_server(answer) as server:
            model = kind(
                model="llama3.2",
                base_url=server.origin + path,
                warn=made.warned.append,
                **more,
            )
            for _ in range(rounds):
                try:
                    async with model.stream(request) as events:
                        made.events += [
                            x
                            async for x in events
                            if not isinstance(x, (Working, Waiting))
                        ]
                except LLMError as error:
                    made.error = error
            await model.aclose()
            made.paths = [f"{x.method} {x.path}" for x in server.requests]
            made.bodies = [x.message for x in server.requests if x.method == "POST"]
    return made


def always(status: int, headers: Any, body: Any) -> Callable[[ReceivedRequest], Reply]:
    return lambda _: StatusReply(status, headers, body)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, SSE, "\ufeff" + HELLO),
        (200, {"content-type": "text/plain; charset=utf-8"}, HELLO),
        (200, {}, HELLO),
        (201, SSE, HELLO),
        (200, {"content-type": "application/octet-stream"}, ": hi\n\n" + HELLO),
    ],
    ids=["byte order mark", "text/plain", "no type", "201", "octets"],
)
async def test_a_stream_is_read_however_it_is_labelled(
    status: int, headers: Any, body: str
) -> None:
    made = await talk(always(status, headers, body.encode()))
    assert (made.text, made.error) == ("Well met.", None)


async def test_an_answer_in_one_piece_is_used() -> None:
    call = {"id": "c", "function": {"name": "roll_dice", "arguments": '{"n": 1}'}}
    message = {
        "role": "assistant",
        "content": "<think>x</think>Hm.",
        "tool_calls": [call],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    made = await talk(always(200, {}, {"choices": [choice]}))
    assert made.text == "Hm."
    assert made.calls == [ToolCall("c", "roll_dice", '{"n": 1}')]
    assert isinstance(made.events[-1], Finished)


async def test_an_answer_in_one_piece_is_used_at_anthropic_too() -> None:
    blocks = [
        {"type": "text", "text": "Hm."},
        {"type": "tool_use", "id": "c", "name": "roll_dice", "input": {"n": 1}},
    ]
    body = {"type": "message", "content": blocks, "stop_reason": "tool_use"}
    made = await talk(always(200, {}, body), kind=Anthropic)
    assert made.text == "Hm."
    assert made.calls == [ToolCall("c", "roll_dice", '{"n": 1}')]


async def test_a_name_in_pieces_is_one_call() -> None:
    def piece(name: str, arguments: str = "", **more: Any) -> str:
        function = {"name": name, "arguments": arguments}
        return chunk(tool_calls=[{"index": 0, "function": function, **more}])

    body = piece("roll", id="c") + piece("_di") + piece("ce", '{"n"')
    body += chunk(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}])
    made = await talk(always(200, SSE, (body + chunk("stop")).encode()))
    assert made.calls == [ToolCall("c", "roll_dice", '{"n": 1}')]


@pytest.mark.parametrize("split", range(1, 12))
async def test_thoughts_in_the_text_are_never_said(split: int) -> None:
    text = "<think>The king is dead.</think>\n\nWell met."
    pieces = [text[at : at + split] for at in range(0, len(text), split)]
    body = "".join(chunk(content=piece) for piece in pieces) + chunk("stop")
    made = await talk(always(200, SSE, body.encode()))
    assert made.text == "Well met."


async def test_a_model_that_shows_a_thought_without_its_tag_is_known_after_it() -> None:
    body = chunk(content="The king") + chunk(content="</think>Hi.") + chunk("stop")
    made = await talk(always(200, SSE, body.encode()), rounds=2)
    assert made.text == "The kingHi." + "Hi."  # the limit: once, and told
    assert ["thinks: true" in x for x in made.warned] == [True]


# ----------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice'),
        (500, "tools param requires --jinja flag"),
        (404, "No endpoints found that support tool use. Try disabling it."),
    ],
    ids=["ollama", "vllm", "llama.cpp", "openrouter"],
)
async def test_a_model_without_tools_is_asked_without_them(
    status: int, words: str
) -> None:
    def answer(request: ReceivedRequest) -> Reply:
        if request.message.get("tools"):
            return StatusReply(status, {}, {"error": {"message": words}})
        return StatusReply(200, SSE, HELLO.encode())

    made = await talk(answer, rounds=3)
    assert made.text == "Well met." * 3
    assert len(made.bodies) == 4  # it is remembered
    assert len(made.warned) == 1
    assert "accepts no tools" in made.warned[0]
    assert words[:40] in made.warned[0]  # vLLM's say which flags it needs


def without_tools(request: ReceivedRequest) -> Reply:
    if request.message.get("tools"):
        return StatusReply(400, {}, {"error": {"message": "it does not support tools"}})
    return StatusReply(200, SSE, HELLO.encode())


async def test_tools_are_shown_again_after_some_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # its server may have been started anew, with other flags
    monkeypatch.setattr(asking, "AGAIN", 0.05)

    async def later(request: ReceivedRequest) -> Reply:
        if not request.message.get("tools"):
            await trio.sleep(0.1)
        return without_tools(request)

    made = await talk(later, rounds=3)
    assert made.text == "Well met." * 3
    assert ["tools" in body for body in made.bodies] == [True, False] * 3
    assert len(made.warned) == 1


SPOKEN = "Your model does not support tools or \u201ctool_choice\u201d"


@pytest.mark.parametrize(
    "body",
    [
        {"detail": [{"msg": "too odd", "loc": ["body"], "input": [SPOKEN]}]},
        {"error": {"message": f"odd: {SPOKEN}"}},
        {"error": {"message": f"odd; messages = [{json.dumps(SPOKEN)}]"}},
        {"error": {"message": f"odd: {json.dumps([{'content': SPOKEN}])}"}},
        {"error": {"message": "odd", "metadata": {"flagged_input": SPOKEN[:40]}}},
        {"message": f"1 error: [input_value='{SPOKEN[:40]}...', input_type=str]"},
    ],
    ids=["detail", "message", "llama.cpp", "json", "moderation", "pydantic"],
)
async def test_what_a_player_says_takes_nothing_away(body: Any) -> None:
    # Before, whoever spoke of tools while something else was wrong switched them off.
    request = attrs.evolve(ASK, messages=(Message(role="user", content=SPOKEN),))
    made = await talk(always(400, {}, body), request=request, rounds=2)
    assert made.error is not None
    assert made.error.kind is ErrorKind.BAD_REQUEST
    assert len(made.bodies) == 2
    assert [x["tools"] and x["tool_choice"] for x in made.bodies] == ["auto"] * 2
    assert made.warned == []


@pytest.mark.parametrize("wording", ["tools", "context"])
async def test_two_that_are_refused_at_once_both_get_their_answer(wording: str) -> None:
    both = trio.Event()
    refused = 0

    async def answer(asked: ReceivedRequest) -> Reply:
        nonlocal refused
        long = len(asked.body) > 6000
        if asked.message.get("tools") if wording == "tools" else long:
            refused += 1
            if refused == 2:
                both.set()
            await both.wait()
            words = {
                "tools": "it does not support tools",
                "context": "prompt is too long: 5000 tokens > 1,500 maximum",
            }[wording]
            return StatusReply(400, {}, {"error": {"message": words}})
        return StatusReply(200, SSE, HELLO.encode())

    past = [
        Message(role=("user", "assistant")[at % 2], content=f"{at} " + "so " * 200)
        for at in range(20)
    ]
    messages = (*past, *ASK.messages) if wording == "context" else ASK.messages
    request = attrs.evolve(ASK, messages=messages)
    heard: list[str] = []
    warned: list[str] = []

    async def one(model: ChatCompletions) -> None:
        async with model.stream(request) as events:
            heard.extend([x.text async for x in events if isinstance(x, TextChunk)])

    with trio.fail_after(10):
        async with open_http_server(answer) as server:
            url = f"{server.origin}/v1"
            model = ChatCompletions(model="m", base_url=url, warn=warned.append)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one, model)
                nursery.start_soon(one, model)
            await model.aclose()
    assert heard == ["Well met."] * 2
    assert len(warned) == 1


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 3,000 tokens; you asked for 9,120.",
        "prompt is too long: 9120 tokens > 3000 maximum",
        "This model's maximum prompt length is 3000 but the request contains 9120",
        "input length and `max_tokens` exceed context limit: 8000 + 1120 > 3000",
    ],
    ids=["separators", "anthropic", "xai", "anthropic's sum"],
)
async def test_what_a_refusal_says_of_the_length_is_kept(words: str) -> None:
    # Many tools: the number was thrown away, for it is more than twice what is said.
    tools = tuple(
        ToolSpec(name=f"t{n}", description="so " * 100, parameters={})
        for n in range(16)
    )
    past = [
        Message(role=("user", "assistant")[at % 2], content=f"{at} " + "so " * 60)
        for at in range(20)
    ]
    request = LLMRequest(messages=(*past, *ASK.messages), tools=tools)

    def answer(asked: ReceivedRequest) -> Reply:
        if len(asked.message["messages"]) > 16:
            return StatusReply(400, {}, {"error": {"message": words}})
        return StatusReply(200, SSE, HELLO.encode())

    made = await talk(answer, request=request)
    assert (made.text, made.error) == ("Well met.", None)
    assert len(made.bodies[1]["messages"]) > 2
    (warned,) = made.warned
    assert "it gets at most 3000 tokens" in warned


async def test_tools_that_are_too_many_leave_the_last_exchange() -> None:
    tools = tuple(
        ToolSpec(name=f"t{n}", description="so " * 200, parameters={})
        for n in range(20)
    )
    past = [
        Message(role=("user", "assistant")[at % 2], content=f"number {at}")
        for at in range(20)
    ]
    request = LLMRequest(messages=(*past, *ASK.messages), tools=tools)
    made = await talk(
        always(200, SSE, HELLO.encode()),
        request=request,
        rounds=2,
        options=RequestOptions(context_tokens=2048),
    )
    for body in made.bodies:
        assert [x["content"] for x in body["messages"]] == [
            "number 18",
            "number 19",
            "hello",
        ]
    (warned,) = made.warned
    assert "the tools alone take more than its 2048 tokens" in warned


@pytest.mark.parametrize("name", [x.name for x in KINDS.values() if x.full])
async def test_a_full_context_is_asked_again_with_less(name: str) -> None:
    kind: ModelServerKind = attrs.evolve(KINDS[name], context=1500)
    warned: list[str] = []
    past = [
        Message(role=("user", "assistant")[at % 2], content=f"{at} " + "so " * 200)
        for at in range(30)
    ]
    request = LLMRequest(messages=(*past, Message(role="user", content="and now?")))
    with trio.fail_after(10):
        async with open_strict_server(kind) as server:
            model = ChatCompletions(
                model="m", base_url=server.base_url, warn=warned.append
            )
            for _ in range(3):
                async with model.stream(request) as events:
                    assert [x async for x in events]
            await model.aclose()
    fulls = [x for x in server.refused if "stream_options" not in x]
    assert len(fulls) == 1
    assert len([x for x in warned if "too long" in x]) == 1


async def test_a_question_that_alone_is_too_long_says_which_key_it_is() -> None:
    no = {"error": {"code": "context_length_exceeded", "message": "too long for me"}}
    made = await talk(always(400, {}, no))
    assert made.error is not None
    assert made.error.kind is ErrorKind.CONTEXT_FULL
    assert "context_tokens" in made.error.detail
    assert len(made.bodies) == 1


# ----------------------------------------------------------------------- remedies

OLLAMA = Advice(start="ollama serve", fetch="ollama pull {model}")


def server_of(*models: str) -> Callable[[ReceivedRequest], Reply]:
    def answer(request: ReceivedRequest) -> Reply:
        if request.path == "/v1/models":
            return StatusReply(200, {}, {"data": [{"id": name} for name in models]})
        if request.path == "/v1/chat/completions":
            words = 'model "llama3.2" not found, try pulling it first'
            return StatusReply(404, {}, {"error": {"message": words}})
        return StatusReply(404, {"content-type": "text/plain"}, b"404 page not found")

    return answer


async def test_an_address_without_v1_is_told() -> None:
    made = await talk(server_of("llama3.2"), path="")
    assert made.error is not None
    assert "write base_url: http://127.0.0.1" in made.error.detail
    assert made.error.detail.endswith("/v1")


@pytest.mark.parametrize("status", [404, 405])
async def test_a_page_is_told_in_a_few_words(status: int) -> None:
    page = b"<!DOCTYPE html><html><head><title>Not here</title></head><body>no</body>"
    made = await talk(always(status, {"content-type": "text/html"}, page))
    assert made.error is not None
    assert "a web page ('Not here')" in made.error.detail
    assert "<" not in made.error.detail
    assert "is the address right?" in made.error.detail
    bad = await talk(always(502, {"content-type": "text/html"}, page))
    assert bad.error is not None
    assert bad.error.detail == "HTTP 502: a web page ('Not here')"


async def test_a_model_that_is_not_there_is_told_with_those_that_are() -> None:
    made = await talk(server_of("llama3.1:8b", "qwen3:4b"), advice=OLLAMA)
    assert made.error is not None
    assert made.error.kind is ErrorKind.NOT_FOUND
    assert (
        "the server does not have 'llama3.2': it has llama3.1:8b, qwen3:4b;"
        " get it with `ollama pull llama3.2`"
    ) in made.error.detail


async def test_a_wrong_key_names_the_key() -> None:
    no = always(401, {}, {"error": {"message": "Incorrect API key"}})
    made = await talk(no, advice=Advice(key="OPENAI_API_KEY"))
    assert made.error is not None
    assert "api_key: ${OPENAI_API_KEY}" in made.error.detail


@pytest.mark.parametrize(
    ("status", "body", "key"),
    [
        (
            400,
            [{"error": {"message": "API key not valid.", "status": "INVALID"}}],
            True,
        ),
        (400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, True),
        (403, {"error": {"message": "Your API key has no access"}}, True),
        (403, {"error": {"type": "permission_error", "message": "no"}}, True),
        (403, b"", True),
        (403, {"error": {"message": "Country or region not supported"}}, False),
        (403, {"error": {"message": "your input was flagged", "code": 403}}, False),
    ],
    ids=["gemini", "reason", "key", "type", "no words", "region", "moderation"],
)
async def test_a_key_is_wrong_only_where_a_refusal_speaks_of_one(
    status: int, body: Any, key: bool
) -> None:
    made = await talk(always(status, {}, body), advice=Advice(key="GEMINI_API_KEY"))
    assert made.error is not None
    kind = ErrorKind.AUTHENTICATION if key else ErrorKind.BAD_REQUEST
    assert made.error.kind is kind
    assert ("api_key: ${GEMINI_API_KEY}" in made.error.detail) is key


async def test_nobody_there_asks_whether_it_runs() -> None:
    with trio.socket.socket() as unused:
        await unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        model = ChatCompletions(
            model="m", base_url=f"http://127.0.0.1:{port}/v1", advice=OLLAMA
        )
        with trio.fail_after(10), pytest.raises(LLMError) as caught:
            async with model.stream(ASK):
                pass
        await model.aclose()
    assert "start it with `ollama serve`" in caught.value.detail


async def test_what_a_model_takes_is_said_by_its_options() -> None:
    made = await talk(
        always(200, SSE, HELLO.encode()),
        options=RequestOptions(tools=False, stream_options=False),
    )
    assert set(made.bodies[0]) == {"model", "messages", "stream"}


def in_one_piece() -> Reply:
    called = {"name": "roll_dice", "arguments": "{}"}
    calls = [{"id": "c1", "type": "function", "function": called}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return StatusReply(200, JSON, {"choices": [choice]})


JSON = {"content-type": "application/json"}


async def test_a_server_that_cannot_stream_calls_is_asked_in_one_piece() -> None:
    # As llama-cpp-python does: a stream with nothing in it, where there are tools.
    def answer(asked: ReceivedRequest) -> Reply:
        body = asked.message
        assert body["tool_choice"] == "auto"  # else it never calls
        return StatusReply(200, SSE, b"") if body["stream"] else in_one_piece()

    talked = await talk(answer, rounds=4)
    assert talked.error is None
    assert [call.name for call in talked.calls] == ["roll_dice"] * 4
    # It is believed when it has happened twice in a row.
    assert [x["stream"] for x in talked.bodies] == [True, False] * 2 + [False] * 2
    (warned,) = talked.warned
    assert "does not stream answers when there are tools" in warned


CUT = RawBytes(
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


async def test_a_connection_that_breaks_teaches_nothing() -> None:
    def answer(asked: ReceivedRequest) -> Reply:
        return CUT if asked.message["stream"] else in_one_piece()

    talked = await talk(answer, rounds=3)
    assert talked.error is None
    assert [body["stream"] for body in talked.bodies] == [True, False] * 3
    assert talked.warned == []


async def test_an_empty_stream_now_and_then_teaches_nothing() -> None:
    streams = iter([b"", HELLO.encode()] * 3)

    def answer(asked: ReceivedRequest) -> Reply:
        if not asked.message["stream"]:
            return in_one_piece()
        return StatusReply(200, SSE, next(streams))

    talked = await talk(answer, rounds=6)
    assert talked.error is None
    assert [x["stream"] for x in talked.bodies] == [True, False, True] * 3
    assert talked.warned == []


async def test_who_leaves_the_second_answer_hangs_up_on_it() -> None:
    # A server that streams though it was asked not to, and without an end.
    def endless() -> Iterator[bytes]:
        while True:
            yield chunk(content="so ").encode()

    def answer(asked: ReceivedRequest) -> Reply:
        stream = asked.message["stream"]
        return StatusReply(200, SSE, b"") if stream else Pieces(endless, SSE, 0.01)

    with trio.fail_after(10):
        async with open_http_server(answer) as server:
            model = ChatCompletions(model="m", base_url=f"{server.origin}/v1")
            async with model.stream(ASK) as events:
                async for event in events:
                    if isinstance(event, TextChunk):
                        break
            await server.wait(lambda: server.hangups == 1)
            await model.aclose()


async def test_an_empty_stream_of_a_full_context_is_asked_for_the_reason() -> None:
    past: list[Message] = []
    for number in range(6):
        past.append(Message(role="user", content=f"{number} {'y' * 2000}"))
        past.append(Message(role="assistant", content="so be it"))
    request = LLMRequest(messages=(*past, Message(role="user", content="hello")))

    def answer(asked: ReceivedRequest) -> Reply:
        body = asked.message
        if len(json.dumps(body)) < 8_000:
            return StatusReply(200, SSE, HELLO.encode())
        if body["stream"]:
            return StatusReply(200, SSE, b"")
        said = {"error": {"message": "This model's maximum context length is 2048"}}
        return StatusReply(400, JSON, said)

    talked = await talk(answer, request=request)
    assert (talked.error, talked.text) == (None, "Well met.")
