"""A model's server that refuses a tool: the NPC answers all the same, without it.

Real HTTP on loopback; the refusals are worded as the vendors word them.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.anthropic import Anthropic
from glyphoxa_trio.providers.llm import ErrorKind, LLMRequest, Message, ToolSpec
from glyphoxa_trio.providers.refused_tools import refused_tools
from glyphoxa_trio.testing.http_server import (
    Pieces,
    ReceivedRequest,
    Reply,
    StatusReply,
)

from .test_model_remedies import HELLO, SSE, Talk, always, talk

NAMES = ("look", "search", "schema", "mcp__book__find")
TOOLS = tuple(
    ToolSpec(name=name, description="It does.", parameters={"type": "object"})
    for name in NAMES
)
ASK = LLMRequest(messages=(Message(role="user", content="hello"),), tools=TOOLS)
SCHEMA = "schema must have type 'object' and not have 'oneOf' at the top level."


def error(message: str, **more: Any) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


def openai(name: str, at: int) -> Any:
    words = f"Invalid schema for function '{name}': {SCHEMA}"
    return error(words, param=f"tools[{at}].function.parameters")


def anthropic(_: str, at: int) -> Any:
    words = f"tools.{at}.custom.input_schema: input_schema does not support oneOf"
    return {"type": "error"} | error(words)


def gemini(_: str, at: int) -> Any:
    place = f"tools[0].function_declarations[{at}].parameters.properties[url].format"
    words = f"* GenerateContentRequest.{place}: only 'enum' and 'date-time' are"
    return [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]


def gemini_json(_: str, at: int) -> Any:
    place = f"tools[0].function_declarations[{at}].parameters.properties[3].value"
    words = f"Invalid JSON payload received. Unknown name \"const\" at '{place}'"
    return [{"error": {"code": 400, "message": words}}]


def gateway(_: str, at: int) -> Any:
    return error(f"tools[{at}].function_declarations[0].parameters: odd")


def mistral(_: str, at: int) -> Any:
    loc = ["body", "tools", at, "function", "parameters"]
    detail = {"type": "dict_type", "loc": loc, "msg": "Input should be valid"}
    return {"object": "error", "message": {"detail": [detail]}}


def groq(name: str, _: int) -> Any:
    return error(f"invalid JSON schema for tool {name}, tools: '/properties' is odd")


def deepseek(name: str, _: int) -> Any:
    return error(f"Invalid tool parameters schema of function `{name}`: no type")


def vertex(name: str, _: int) -> Any:
    odd = f"`{name}` functionDeclaration `parameters.at` schema didn't specify a type"
    return error(f"Unable to submit request because {odd}.")


def bedrock(_: str, at: int) -> Any:
    place = f"toolConfig.tools.{at}.toolSpec.inputSchema.json.type"
    return {"message": f"The value at {place} must be one of the following: object."}


def lm_studio(_: str, at: int) -> Any:
    path = [at, "function", "parameters", "type"]
    return {"error": json.dumps([{"code": "invalid_type", "path": path}], indent=2)}


def zod(_: str, at: int) -> Any:
    path = ["tools", at, "function", "parameters", "type"]
    return {"error": {"issues": [{"code": "invalid_type", "path": path}]}}


def quoted(name: str, at: int) -> Any:
    inner = json.dumps(openai(name, at))  # OpenRouter: the words of another server
    return {"error": {"message": "Provider error", "metadata": {"raw": inner}}}


KINDS = {
    each.__name__: each
    for each in (
        *(openai, anthropic, gemini, gemini_json, gateway, mistral, groq, deepseek),
        *(vertex, bedrock, lm_studio, zod, quoted),
    )
}


def offered(request: ReceivedRequest) -> list[str]:
    tools = request.message.get("tools", ())
    return [x["name"] if "name" in x else x["function"]["name"] for x in tools]


async def asked(kind: str, *bad: str, rounds: int = 1) -> tuple[Talk, list[list[str]]]:
    """Talk to a server that refuses these tools, one by one, in its words."""
    seen: list[list[str]] = []

    def answer(request: ReceivedRequest) -> Reply:
        names = offered(request)
        seen.append(names)
        for at, name in enumerate(names):
            if name in bad:
                return StatusReply(400, {}, KINDS[kind](name, at))
        return Pieces(lambda: [HELLO.encode()], SSE)

    return await talk(answer, request=ASK, rounds=rounds), seen


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_that_is_refused_is_left_out_and_the_round_goes_on(
    kind: str,
) -> None:
    made, seen = await asked(kind, "search", rounds=2)
    left = [name for name in NAMES if name != "search"]
    assert (made.text, made.error) == ("Well met." * 2, None)
    assert seen == [[*NAMES], left, left]
    (warning,) = made.warned
    assert "it refuses the tool 'search', and is asked without it" in warning
    assert "it said: " in warning
    assert "take the tool from the NPC's list" in warning


@pytest.mark.parametrize("kind", ["openai", "groq", "deepseek", "quoted", "anthropic"])
async def test_a_refusal_may_be_the_first_thing_in_the_stream(kind: str) -> None:
    def answer(request: ReceivedRequest) -> Reply:
        names = offered(request)
        if "search" not in names:
            return Pieces(lambda: [HELLO.encode()], SSE)
        words = json.dumps(KINDS[kind]("search", names.index("search")))
        begin = ": PROCESSING\n\n" if kind == "quoted" else ""
        return Pieces(lambda: [f"{begin}data: {words}\n\n".encode()], SSE)

    made = await talk(answer, request=ASK, rounds=2)
    assert (made.text, made.error) == ("Well met." * 2, None)
    assert [len(x["tools"]) for x in made.bodies] == [4, 3, 3]
    (warning,) = made.warned
    assert "it refuses the tool 'search'" in warning


async def test_after_the_first_word_a_refusal_is_a_failure() -> None:
    words = json.dumps(KINDS["openai"]("search", 1))
    begun = HELLO.partition("data: [DONE]")[0].partition("\n\n")[0]
    made = await talk(
        lambda _: Pieces(lambda: [f"{begun}\n\ndata: {words}\n\n".encode()], SSE),
        request=ASK,
    )
    assert made.error is not None
    assert len(made.bodies) == 1


async def test_as_many_tools_as_there_are_may_be_refused() -> None:
    many = tuple(attrs.evolve(TOOLS[0], name=f"tool_{i}") for i in range(12))

    def answer(request: ReceivedRequest) -> Reply:
        names = offered(request)
        if names:
            return StatusReply(400, {}, openai(names[-1], len(names) - 1))
        return Pieces(lambda: [HELLO.encode()], SSE)

    made = await talk(answer, request=attrs.evolve(ASK, tools=many))
    assert (made.text, made.error) == ("Well met.", None)
    assert len(made.warned) == len(made.bodies) - 1 == 12


TOO_LONG = (
    "Invalid 'tools': array too long. Expected an array with maximum length 3, but got"
    " an array with length 4 instead."
)


@pytest.mark.parametrize(
    "words",
    [
        TOO_LONG,
        "'tools' : maximum number of items is 3",
        "Too many function tools: the limit is 3",
        "a maximum of 3 tools is supported",
    ],
)
async def test_tools_beyond_the_servers_number_are_left_out(words: str) -> None:
    def answer(request: ReceivedRequest) -> Reply:
        if len(offered(request)) > 3:
            return StatusReply(400, {}, error(words, param="tools"))
        return Pieces(lambda: [HELLO.encode()], SSE)

    made = await talk(answer, request=ASK, rounds=2)
    assert (made.text, made.error) == ("Well met." * 2, None)
    assert [len(x["tools"]) for x in made.bodies] == [4, 3, 3]
    (warning,) = made.warned
    assert "it accepts 3 tools in a request, so the others are left out" in warning


async def test_several_in_one_refusal_are_one_warning() -> None:
    def answer(request: ReceivedRequest) -> Reply:
        if "look" not in offered(request):
            return Pieces(lambda: [HELLO.encode()], SSE)
        places = (
            f"* tools[0].function_declarations[{i}].parameters: odd" for i in (0, 3)
        )
        return StatusReply(400, {}, error("\n".join(places)))

    made = await talk(answer, request=ASK)
    assert made.text == "Well met."
    (warning,) = made.warned
    assert "the tools 'look', 'mcp__book__find', and is asked without them" in warning


async def test_a_tool_is_left_out_at_anthropic_too() -> None:
    def answer(request: ReceivedRequest) -> Reply:
        if "search" in offered(request):
            at = offered(request).index("search")
            return StatusReply(400, {}, anthropic("", at))
        reply = {"type": "text", "text": "Well met."}
        whole = {"type": "message", "content": [reply], "stop_reason": "end_turn"}
        return StatusReply(200, {"content-type": "application/json"}, whole)

    made = await talk(answer, request=ASK, kind=Anthropic)
    assert (made.text, made.error) == ("Well met.", None)
    assert len(made.warned) == 1


INNOCENT = [
    error("Invalid schema for function 'nobody': odd", param="tools[1].function"),
    error("Invalid schema for function 'nobody': odd"),
    error("tools[9].function.parameters: odd"),
    error("tools[2].function_declarations[3].parameters: odd"),
    error("Invalid function schema"),
    error("messages[3].tool_calls[0].function.name 'search' has no definition"),
    error("No tool output found for function call 'search'; parameters"),
    error("tool_choice: tool 'search' was not found in the definitions"),
    error(
        "tool call validation failed: parameters for tool search did not match schema"
    ),
    error("Failed to call a function: schema for tool search", code="tool_use_failed"),
    error("Function call `default_api:search` is missing a signature in parameters"),
    error("messages with role 'tool' must follow 'tool_calls'; parameters"),
    error("tools: a name has at most 2 characters"),
    error("tools.7.custom.name: String should have at most 2 of them"),
    error("The maximum context of tools is 2 of 2: odd"),
    error("The model does not search: context of my_tools[1] is odd"),
]


@pytest.mark.parametrize("body", INNOCENT, ids=range(len(INNOCENT)))
async def test_no_innocent_tool_is_lost(body: Any) -> None:
    made = await talk(always(400, {}, body), request=ASK, rounds=2)
    assert made.error is not None
    assert made.error.kind is ErrorKind.BAD_REQUEST
    assert {len(x["tools"]) for x in made.bodies} == {len(TOOLS)}
    assert made.warned == []


@pytest.mark.parametrize("body", [openai("search", 1), anthropic("", 1)])
async def test_words_of_a_player_or_of_a_tool_take_no_tool_away(body: Any) -> None:
    said = body["error"]["message"]
    request = LLMRequest(
        messages=(Message(role="user", content=said),),
        tools=(attrs.evolve(TOOLS[0], description=said), *TOOLS[1:]),
    )
    refusal = error(f"odd; this is not allowed: {json.dumps(said)}")
    made = await talk(always(400, {}, refusal), request=request)
    assert [len(x["tools"]) for x in made.bodies] == [len(TOOLS)]
    assert made.warned == []


@given(
    st.text(max_size=60),
    st.lists(st.from_regex("[a-z_]{1,6}", fullmatch=True), unique=True, max_size=4),
)
def test_only_tools_that_were_sent_are_ever_meant(words: str, names: list[str]) -> None:
    tools = [{"function": {"name": name}} for name in names]
    for text in (
        words,
        f"Invalid schema for function '{words}'",
        f"tools[{words}]",
        f"tools.{words}.custom.input_schema",
    ):
        assert refused_tools(text, tools) <= {*names}
