"""Turns of an NPC with models that want fields of theirs back, and servers that refuse.

Each server is a script on a real socket that answers as the vendor is known to: it
checks the whole history of every request, and refuses it with the vendor's words.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio import Config, Tier, open_runtime
from glyphoxa_trio.config import CalibrationConfig, LlmConfig, ModelConfig, NpcConfig
from glyphoxa_trio.npc import Sentence, TurnDone
from glyphoxa_trio.providers.chat_completions import RequestOptions
from glyphoxa_trio.providers.chat_completions.assembler import Assembler
from glyphoxa_trio.providers.chat_completions.wire import request_body
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    LLMEvent,
    LLMRequest,
    Message,
    TextChunk,
)
from glyphoxa_trio.runtime import Runtime, Session
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.model_server import (
    Fail,
    RawText,
    Reply,
    SayText,
    ScriptedModelServer,
    open_model_server,
)
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool

Delta = dict[str, Any]
Messages = Sequence[Mapping[str, Any]]


def chunk(delta: Delta, reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return json.dumps({"object": "chat.completion.chunk", "choices": [choice]})


def streamed(*deltas: Delta, reason: str = "tool_calls") -> Reply:
    """A reply of these pieces."""
    rows = [*map(chunk, deltas), chunk({}, reason), "[DONE]"]
    return [RawText("".join(f"data: {row}\n\n" for row in rows))]


def call(name: str = "weigh", n: int = 0, **fields: Any) -> Delta:
    """A piece of an answer with one whole call."""
    function = {"name": name, "arguments": '{"what": "gold"}'}
    row = {"index": n, "id": f"c{n}", "type": "function", "function": function}
    return {"tool_calls": [row | fields]}


def called(messages: Messages) -> list[Mapping[str, Any]]:
    return [message for message in messages if message.get("tool_calls")]


def this_turn(messages: Messages) -> Messages:
    """The messages since the player's last words."""
    last = max(n for n, message in enumerate(messages) if message["role"] == "user")
    return messages[last:]


def refuse(words: str, status: int = 400) -> Reply:
    return Fail(status, {"error": {"message": words, "code": status}})


@tool(estimated_duration_ms=5, max_duration_ms=200, read_only=True)
async def weigh(what: str) -> str:
    """Weigh something on the scales."""
    return f"three pounds of {what}"


@asynccontextmanager
async def bartok(server: ScriptedModelServer, model: str) -> AsyncIterator[Runtime]:
    llm = LlmConfig(
        provider="chat_completions", model=model, base_url=server.base_url, api_key=KEY
    )
    config = Config(
        npcs=(NpcConfig(name="Bartok", tools=("weigh",), budget_tier=Tier.DEEP),),
        llm=llm,
        calibration=CalibrationConfig(at_start=False),
    )
    tools: list[Tool] = [weigh]
    async with open_runtime(config, tools=tools) as runtime:
        yield runtime


async def told(runtime: Runtime | Session, line: str) -> tuple[str, TurnDone]:
    """What Bartok says to a line, and how the turn ended."""
    said: list[str] = []
    with trio.fail_after(30):
        async with runtime.npc("Bartok").say(line) as turn:
            async for event in turn:
                if isinstance(event, Sentence):
                    said.append(event.text)
                end = event
    assert isinstance(end, TurnDone)
    return " ".join(said), end


KEY = Secret("of-the-scales")
THOUGHT = "The guest wants gold weighed; the scales will tell."


@attrs.define
class Vendor:
    """A vendor's rules: how it calls, and what it refuses."""

    model: str
    deltas: Sequence[Delta]
    refusal: Callable[[Messages], str]

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        messages = body["messages"]
        if words := self.refusal(messages):
            return refuse(words)
        if messages[-1]["role"] == "tool" or "weigh" in messages[-1]["content"]:
            if "deepseek" in self.model:
                thought = {"reasoning_content": THOUGHT}
                return streamed(thought, {"content": "Three pounds."}, reason="stop")
            return SayText("Three pounds.")
        return streamed(*self.deltas)


def gemini(messages: Messages) -> str:
    for message in called(this_turn(messages)):
        extra = message["tool_calls"][0].get("extra_content", {})
        if extra.get("google", {}).get("thought_signature") != "CiQBjz1rX+/=":
            return (
                "Function call is missing a thought_signature in functionCall parts."
                " This is required for tools to work correctly."
            )
    return ""


def deepseek(messages: Messages) -> str:
    for n, message in enumerate(messages):
        if message.get("tool_calls") and message.get("reasoning_content") != THOUGHT:
            return (
                "Missing `reasoning_content` field in the assistant message at message"
                f" index {n}."
            )
    return ""


def deepseek_4(messages: Messages) -> str:
    """It wants the field with every answer, not with calls alone."""
    for message in messages:
        if message["role"] == "assistant" and "reasoning_content" not in message:
            return (
                "The `reasoning_content` in the thinking mode must be passed back to"
                " the API."
            )
    return ""


def kimi(messages: Messages) -> str:
    for n, message in enumerate(messages):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            return (
                "thinking is enabled but reasoning_content is missing in assistant tool"
                f" call message at index {n}"
            )
    return ""


DETAILS = [
    {"type": "reasoning.text", "text": THOUGHT, "signature": "s1", "index": 0},
    {"type": "reasoning.encrypted", "data": "q83v", "id": "rs_1", "index": 1},
]


def openrouter(messages: Messages) -> str:
    for message in called(this_turn(messages)):
        if message.get("reasoning_details") != DETAILS:
            return f"reasoning_details differ: {message.get('reasoning_details')}"
    return ""


PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]


def mistral(messages: Messages) -> str:
    known = {"role", "content", "tool_calls", "tool_call_id", "name"}
    for message in messages:
        if extra := set(message) - known:
            return f"Extra inputs are not permitted: body.messages.{extra}"
    for message in called(this_turn(messages)):
        if message["content"] != [*PARTS, {"type": "text", "text": "Well."}]:
            return f"content differs: {message['content']}"
    return ""


def copilot(messages: Messages) -> str:
    for message in called(this_turn(messages)):
        if (message.get("reasoning_opaque"), message.get("reasoning_text")) != (
            "b3BhcXVl",
            THOUGHT,
        ):
            return "invalid reasoning_opaque"
    return ""


def litellm(messages: Messages) -> str:
    for message in called(this_turn(messages)):
        function = message["tool_calls"][0]["function"]
        if function.get("provider_specific_fields") != {"thought_signature": "zz=="}:
            return "the signature of the function is gone"
    return ""


HALF = len(THOUGHT) // 2
SIGNED: dict[str, Any] = {
    "extra_content": {"google": {"thought_signature": "CiQBjz1rX+/="}}
}
PIECES = (THOUGHT[:HALF], THOUGHT[HALF:])
OF_FUNCTION: dict[str, Any] = {
    "function": {
        "name": "weigh",
        "arguments": "{}",
        "provider_specific_fields": {"thought_signature": "zz=="},
    }
}
VENDORS = {
    "gemini": Vendor("gemini-3-pro", [call(**SIGNED), call(n=1)], gemini),
    "deepseek": Vendor(
        "deepseek-v4",
        [{"role": "assistant", "content": None, "reasoning_content": ""}]
        + [{"content": None, "reasoning_content": x} for x in PIECES]
        + [call()],
        deepseek,
    ),
    "kimi": Vendor("kimi-k3", [{"reasoning_content": x} for x in "haha"], kimi),
    "openrouter": Vendor(
        "google/gemini-3-pro",
        [
            {"reasoning": x, "reasoning_details": [{**DETAILS[0], "text": x}]}
            for x in PIECES
        ]
        + [{"reasoning_details": DETAILS[1:]}, call()],
        openrouter,
    ),
    "mistral": Vendor(
        "magistral-medium",
        [
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": x}]}
                ]
            }
            for x in PIECES
        ]
        + [{"content": "Well."}, call()],
        mistral,
    ),
    "copilot": Vendor(
        "claude-of-a-proxy",
        [{"reasoning_text": x} for x in PIECES]
        + [{"reasoning_opaque": "b3BhcXVl"}, call()],
        copilot,
    ),
    "litellm": Vendor("vertex-of-a-proxy", [call(**OF_FUNCTION)], litellm),
}
VENDORS["deepseek 4"] = attrs.evolve(VENDORS["deepseek"], refusal=deepseek_4)
VENDORS["kimi"].deltas = [*VENDORS["kimi"].deltas, call()]


@pytest.mark.parametrize("name", VENDORS)
async def test_a_model_gets_back_what_it_wants_with_its_calls(name: str) -> None:
    vendor = VENDORS[name]
    async with open_model_server(vendor) as server:
        async with bartok(server, vendor.model) as runtime:
            for line in ("Weigh this gold.", "And this?"):
                said, end = await told(runtime, line)
                assert said.endswith("Three pounds."), end.error
                assert THOUGHT[:9] not in said
            assert not runtime.warnings
    assert len(server.requests) == 4


async def test_a_server_that_refuses_its_own_fields_is_sent_none() -> None:
    """As Groq and Cerebras do with ``reasoning_content``."""
    field = "reasoning_content"

    def strict(body: Mapping[str, Any]) -> Reply:
        messages = body["messages"]
        for n, message in enumerate(messages):
            if field in message:
                where = f"messages.{n}.assistant.{field}"
                return refuse(f"{where}: property '{where}' is unsupported")
        if messages[-1]["role"] == "tool":
            return SayText("Three pounds.")
        return streamed({field: THOUGHT}, call())

    async with open_model_server(strict) as server:
        async with bartok(server, "zai-glm") as runtime:
            assert (await told(runtime, "Weigh this."))[0] == "Three pounds."
            assert (await told(runtime, "And this."))[0] == "Three pounds."
            (warning,) = runtime.warnings
            assert field in str(warning)
    assert len(server.requests) == 5  # one of them was refused


async def test_a_saved_history_is_told_in_words_to_a_model_that_wants_thoughts() -> (
    None
):
    # D36: a snapshot has nothing that only the model understands
    vendor = VENDORS["deepseek"]
    async with open_model_server(vendor) as server:
        async with bartok(server, vendor.model) as runtime:
            table = runtime.session("table")
            await told(table, "Weigh this gold.")
            kept = await table.snapshot()
        assert THOUGHT not in kept.to_bytes().decode()
        before = len(server.requests)
        async with bartok(server, vendor.model) as runtime:
            table = runtime.session("table", restore=kept)
            said, _ = await told(table, "And this?")
            assert said == "Three pounds."
            (warning,) = runtime.warnings
            assert "sent as words" in str(warning)
    refused, *_, last = server.requests[before:]
    assert called(refused["messages"])
    assert "three pounds of gold" in json.dumps(last["messages"])


@pytest.mark.parametrize(
    ("model", "written", "sent"),
    [
        ("kimi-k2", "functions.weigh:0", "functions.weigh:0"),
        ("kimi-k2", "call_abc", "functions.weigh:0"),
        ("gemini-of-a-proxy", "c__thought__CiQ+/=", "c__thought__CiQ+/="),
        ("any", "x" * 46, "x" * 46),
    ],
)
async def test_an_id_that_the_model_needs_goes_back_as_it_came(
    model: str, written: str, sent: str
) -> None:
    first = call()
    first["tool_calls"][0]["id"] = written
    script = [streamed(first), SayText("Three pounds.")]
    async with open_model_server(script) as server:
        async with bartok(server, model) as runtime:
            assert (await told(runtime, "Weigh this."))[0] == "Three pounds."
    messages = server.requests[1]["messages"]
    assert called(messages)[0]["tool_calls"][0]["id"] == sent
    assert messages[-1]["tool_call_id"] == sent


async def test_another_model_gets_nothing_of_it() -> None:
    """A fallback answers the second round: the thoughts are not its own."""
    vendor = VENDORS["deepseek"]
    down = False

    def first(body: Mapping[str, Any]) -> Reply:
        nonlocal down
        if down:
            return refuse("no capacity", 500)
        down = True
        return vendor(body)

    async with (
        open_model_server(first) as one,
        open_model_server([SayText("Aye.")]) as two,
    ):
        llm = LlmConfig(
            provider="chat_completions",
            model="same-name",
            base_url=one.base_url,
            api_key=KEY,
            fallbacks=(
                ModelConfig(
                    provider="chat_completions",
                    model="same-name",
                    base_url=two.base_url,
                    api_key=KEY,
                ),
            ),
        )
        config = Config(
            npcs=(NpcConfig(name="Bartok", tools=("weigh",), budget_tier=Tier.DEEP),),
            llm=llm,
            calibration=CalibrationConfig(at_start=False),
        )
        async with open_runtime(config, tools=[weigh]) as runtime:
            assert (await told(runtime, "Weigh this."))[0] == "Aye."
    assert called(two.requests[0]["messages"])
    assert "reasoning" not in json.dumps(two.requests[0]["messages"])


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
KEYS = st.text("abcdefg_", min_size=1, max_size=8).map("x_{}".format)
PLAIN = st.recursive(
    WORDS | st.integers() | st.booleans(),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(KEYS, x, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(KEYS, PLAIN.filter(lambda x: x not in ([], {})), max_size=3)


def second_round(deltas: Sequence[Delta]) -> tuple[str, Mapping[str, Any]]:
    """What is said in the first round, and the model's message in the second."""
    assembler = Assembler(model="m")
    events: list[LLMEvent] = []
    for delta in deltas:
        events += assembler.feed(chunk(copy.deepcopy(delta)))
    events += assembler.feed("[DONE]")
    end = events[-1]
    assert isinstance(end, Finished)
    calls = tuple(x.call for x in events if isinstance(x, CallReady))
    message = Message(role="assistant", calls=calls, verbatim=end.verbatim)
    results = (Message(role="tool", content="1", call_id=x.id) for x in calls)
    request = LLMRequest(
        messages=(Message(role="user", content="hello"), message, *results)
    )
    body = json.loads(json.dumps(request_body(request, "m", options=RequestOptions())))
    said = "".join(x.text for x in events if isinstance(x, TextChunk))
    return said, called(body["messages"])[0]


@given(of_message=FIELDS, of_calls=st.lists(FIELDS, min_size=1, max_size=3))
def test_whatever_a_model_adds_comes_back_as_it_was(
    of_message: Delta, of_calls: list[Delta]
) -> None:
    pieces = [call(n=n, **fields) for n, fields in enumerate(of_calls)]
    said, message = second_round([{"role": "assistant", **of_message}, *pieces])
    assert said == ""
    assert {x: message[x] for x in of_message} == of_message
    assert len(message) == 3 + len(of_message)
    for row, fields in zip(message["tool_calls"], of_calls, strict=True):
        assert {x: row[x] for x in fields} == fields
        assert len(row) == 3 + len(fields)


@given(pieces=st.lists(WORDS, min_size=1, max_size=8), signature=WORDS)
def test_thoughts_in_pieces_come_back_as_one(pieces: list[str], signature: str) -> None:
    row = {"type": "reasoning.text", "index": 0}
    deltas: list[Delta] = [
        {"reasoning": x, "reasoning_details": [{**row, "text": x}]} for x in pieces
    ]
    signed = {"reasoning_details": [{**row, "signature": signature}]}
    said, message = second_round([*deltas, signed, call(thought_signature=signature)])
    assert said == ""
    whole = "".join(pieces)
    assert message["reasoning"] == whole
    assert message["reasoning_details"] == [
        {**row, "text": whole, "signature": signature}
    ]
    assert message["tool_calls"][0]["thought_signature"] == signature


BROKEN = {
    "gemini": "Corrupted thought signature.",
    "vertex": "Unable to submit request because Thought signature is not valid",
    "bytes": (
        "Invalid value at 'contents[1].parts[0].thought_signature' (TYPE_BYTES),"
        ' Base64 decoding failed for "CiQ"'
    ),
    "encrypted": "The encrypted content rs_1 could not be verified.",
}


@pytest.mark.parametrize("words", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("placeholder", ["not wanted", "wanted", "refused"])
async def test_a_signature_that_is_refused_is_left_out_at_once(
    words: str, placeholder: str
) -> None:
    """The server may want another one in its place, or none of either kind."""

    def strict(body: Mapping[str, Any]) -> Reply:
        text = json.dumps(body["messages"])
        if "Q29ycnVwdA" in text or (placeholder == "refused" and "validator" in text):
            return Fail(400, [{"error": {"code": 400, "message": words}}])
        bare = called(body["messages"]) and "validator" not in text
        if placeholder != "not wanted" and bare:
            return refuse("Function call is missing a thought_signature in its parts.")
        if "three pounds of gold" in json.dumps(body["messages"][-1]):
            return SayText("Three pounds.")
        signed = {"google": {"thought_signature": "Q29ycnVwdA"}}
        return streamed(call(extra_content=signed))

    async with open_model_server(strict) as server:
        async with bartok(server, "gemini-3-pro") as runtime:
            assert (await told(runtime, "Weigh this."))[0] == "Three pounds."
            before = len(server.requests)
            assert (await told(runtime, "And this."))[0] == "Three pounds."
    assert before <= 5
    assert len(server.requests) == before + 2  # it is learned once


@pytest.mark.parametrize("begin", ["<think>\n", ""])
@pytest.mark.parametrize("model", ["minimax-m2-thinking", "qwq-of-a-server"])
async def test_thoughts_in_the_text_go_back_as_they_came(
    model: str, begin: str
) -> None:
    """MiniMax wants them in later turns as well."""
    thought = f"{begin}{THOUGHT}\n</think>\n\n"

    def script(body: Mapping[str, Any]) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return streamed({"content": f"{thought}Three pounds."}, reason="stop")
        pieces = [{"content": x} for x in (thought[:9], thought[9:], "Let me see.")]
        return streamed(*pieces, call())

    async with open_model_server(script) as server:
        async with bartok(server, model) as runtime:
            table = runtime.session("table")
            said, _ = await told(table, "Weigh this gold.")
            assert said == "Let me see. Three pounds."
            await told(table, "And this?")
            kept = await table.snapshot()
    assert THOUGHT not in kept.to_bytes().decode()
    _, second, third, _ = (body["messages"] for body in server.requests)
    assert called(second)[0]["content"] == f"{thought}Let me see."
    before = [x["content"] for x in third if x["role"] == "assistant"]
    wanted = thought if "minimax" in model else ""
    assert before == [f"{wanted}Let me see.", f"{wanted}Three pounds."]


async def test_a_thought_that_only_its_end_marks_is_not_remembered() -> None:
    """What was said of it before that cannot be taken back; it happens once."""
    begins = [{"content": x} for x in ("They lie. ", "I ", "must be wary</thi", "nk>")]
    first = streamed(*begins, {"content": "\n\nWell met."}, reason="stop")
    async with open_model_server([first, first, SayText("Aye.")]) as server:
        async with bartok(server, "nobody-knows-it") as runtime:
            assert (await told(runtime, "Hello."))[0] == "They lie. Well met."
            said, end = await told(runtime, "Hello again.")
            assert said == "Well met."
            assert end.text == "Well met."
            await told(runtime, "Farewell.")
            (warning,) = runtime.warnings
            assert "began with a thought" in str(warning)
    history = server.requests[2]["messages"]
    answers = [x["content"] for x in history if x["role"] == "assistant"]
    assert answers == ["Well met.", "Well met."]


async def test_a_call_within_such_a_thought_is_none() -> None:
    text = '<tool_call>{"name": "weigh", "arguments": {"what": "air"}}</tool_call>'
    pieces = [{"content": x} for x in ("Perhaps. ", text, " No.</think>", "Well met.")]
    script = [streamed(*pieces, reason="stop"), SayText("Aye.")]
    async with open_model_server(script) as server:
        async with bartok(server, "nobody-knows-it") as runtime:
            said, end = await told(runtime, "Hello.")
            assert (said, end.text) == ("Well met.", "Well met.")
    assert len(server.requests) == 1
