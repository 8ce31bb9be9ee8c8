"""What closes the socket of the fake Gemini Live server, by the model it plays."""

from __future__ import annotations

from typing import Any

import pytest
from trio_websocket import ConnectionClosed, ConnectionRejected

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.gemini_server import Refuse, Speak, open_gemini_server

from .talk import Message, Talk, answer, audio, dialled, gemini, set_up, spoken
from .vendor_types import judge_gemini

V25 = "gemini-2.5-flash-native-audio"
V31 = "gemini-3.1-flash-live-preview"
V38 = "gemini-3.8-live"
EXTENDED = "gemini-3.8-live-extended-thinking"


async def closed(talk: Talk) -> tuple[int, str]:
    """The code and the reason of the close."""
    await talk.rest()
    with pytest.raises(ConnectionClosed) as found:
        await talk.hear()
    assert found.value.reason is not None
    return found.value.reason.code, found.value.reason.reason or ""


def declaring(model: str = V38, **function: Any) -> Message:
    declared = {"name": "roll", **function}
    return set_up(model, tools=[{"functionDeclarations": [declared]}])


def schema(**parameters: Any) -> Message:
    value = {"type": "STRING", **parameters}
    return declaring(parameters={"type": "OBJECT", "properties": {"x": value}})


def thinking(model: str, **config: Any) -> Message:
    generation = {"responseModalities": ["AUDIO"], "thinkingConfig": config}
    return set_up(model, generationConfig=generation)


UNKNOWN = [
    "$schema",
    "$ref",
    "$defs",
    "oneOf",
    "allOf",
    "not",
    "const",
    "exclusiveMinimum",
    "multipleOf",
    "patternProperties",
    "examples",
    "uniqueItems",
    "additionalProperties",
]


@pytest.mark.parametrize("keyword", UNKNOWN)
async def test_one_unknown_keyword_of_a_schema_closes_the_socket(
    autojump_clock: MockClock, keyword: str
) -> None:
    async with open_gemini_server([Speak("Yes.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.say(schema(**{keyword: True}))
            code, reason = await closed(talk)
    assert code == 1007
    assert f'Unknown name "{keyword}" at' in reason
    assert [found.code for found in server.violations] == ["unknown"]


SETUPS = [
    schema(type="OBJECT"),  # without properties
    schema(type="ARRAY"),  # without items
    schema(type="INTEGER", enum=["1"]),
    schema(format="email"),
    schema(type="TEXT"),
    declaring(parameters={"type": "OBJECT", "properties": {"1st": {"type": "STRING"}}}),
    declaring(parameters={"type": "OBJECT", "properties": {}}),
    declaring(
        parameters={
            "type": "OBJECT",
            "properties": {"x": {"type": "STRING"}},
            "required": ["y"],
        }
    ),
    declaring(parametersJsonSchema={"type": "object"}),
    declaring(name="1roll"),
    declaring(name="roll dice"),
    declaring(name="r" * 129),
    set_up(tools=[{"functionDeclarations": 2 * [{"name": "roll"}]}]),
    set_up(tools=[{"functionDeclarations": [{"name": "roll"}], "googleSearch": {}}]),
    set_up(generationConfig={"responseModalities": ["TEXT"]}),
    set_up(generationConfig={"responseModalities": ["TEXT", "AUDIO"]}),
    set_up(sessionResumption={"transparent": True}),
    set_up(unheardOf=1),
    {"setup": {"generationConfig": {}}},
    {"setup": {"model": 7}},
    {**set_up(), "realtimeInput": {"text": "Hi"}},
    {},
    {"setup": None},
    # By the model.
    declaring(V31, behavior="NON_BLOCKING"),
    declaring(EXTENDED, behavior="BLOCKING"),
    thinking(V38, thinkingLevel="LOW"),
    thinking(V25, thinkingLevel="LOW"),
    thinking(V31, thinkingBudget=100),
]


@pytest.mark.parametrize("setup", SETUPS, ids=range(len(SETUPS)))
async def test_a_setup_that_is_wrong_closes_the_socket(
    autojump_clock: MockClock, setup: Message
) -> None:
    async with open_gemini_server([Speak("Yes.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.say(setup)
            code, reason = await closed(talk)
    assert code == 1007
    assert reason
    assert len(server.violations) == 1
    assert not server.sessions[0].wire.sent


GOOD = [
    schema(type="integer", format="int32", minimum=1, maximum=6),
    schema(type="ARRAY", items={"type": "STRING"}, minItems="1", maxItems=3),
    schema(anyOf=[{"type": "STRING"}, {"type": "NULL"}], nullable=True),
    schema(enum=["a", "b"], format="enum", default="a", description="Which."),
    declaring(name="_a.b:c-d"),
    declaring(V25, behavior="NON_BLOCKING"),
    declaring(V38, behavior="BLOCKING"),
    thinking(V25, thinkingBudget=0),
    thinking(V31, thinkingLevel="LOW"),
    thinking(EXTENDED, thinkingLevel="HIGH"),
]


@pytest.mark.parametrize("setup", GOOD, ids=range(len(GOOD)))
async def test_a_setup_that_is_right_is_taken(
    autojump_clock: MockClock, setup: Message
) -> None:
    async with open_gemini_server([Speak("Yes.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.say(setup)
            await talk.until("setupComplete")
    assert not server.violations
    judge_gemini(server.sessions[0].wire.sent, server.sessions[0].wire.received)


def content(*roles: str, complete: bool = True) -> Message:
    turns = [{"role": role, "parts": [{"text": role}]} for role in roles]
    return {"clientContent": {"turns": turns, "turnComplete": complete}}


def responding(**fields: Any) -> Message:
    return {"toolResponse": {"functionResponses": [fields]}}


BLOB = {"mimeType": "audio/pcm;rate=16000", "data": "AAA="}
UPDATE: Message = {"contextUpdate": {"tools": {"tools": []}}}
AFTER_SETUP = [
    (V38, set_up(), 1007),
    (V31, content("user"), 1007),
    (V31, UPDATE, 1007),
    (V25, UPDATE, 1007),
    (EXTENDED, UPDATE, 1007),
    (V38, responding(id="fc-9", name="roll", response={}), 1007),
    (V38, responding(name="roll", response={}), 1007),
    (V38, responding(id="fc-9", response={}), 1007),
    (V38, responding(id="fc-9", name="roll", response="seven"), 1007),
    (V38, responding(id="fc-9", name="roll", response={}, scheduling="SOON"), 1007),
    (V38, {"toolResponse": {}}, 1007),
    (V38, {"clientContent": {"turns": [{"role": "system", "parts": []}]}}, 1007),
    (V38, {"realtimeInput": {"text": "Hi", "audioStreamEnd": True}}, 1007),
    (V38, {"realtimeInput": {}}, 1007),
    (V38, {"realtimeInput": {"activityStart": {}}}, 1007),
    (V38, {"realtimeInput": {"audio": {**BLOB, "mimeType": "audio/ogg"}}}, 1007),
    (V38, {"realtimeInput": {"audio": {**BLOB, "data": "%%%"}}}, 1007),
    (V38, {"realtimeInput": {"audio": {**BLOB, "data": "AAAA"}}}, 1007),
    (V38, {"realtimeInput": {"audio": "AAA="}}, 1007),
    (V38, {"hello": {}}, 1007),
    (V38, {}, 1007),
]


@pytest.mark.parametrize(("model", "wrong", "code"), AFTER_SETUP)
async def test_what_a_model_does_not_take_closes_the_socket(
    autojump_clock: MockClock, model: str, wrong: Message, code: int
) -> None:
    async with open_gemini_server([Speak("Yes.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.say(set_up(model))
            await talk.until("setupComplete")
            await talk.say(wrong)
            assert (await closed(talk))[0] == code
    assert len(server.violations) == 1
    assert server.sessions[0].wire.code == code


@pytest.mark.parametrize("frame", ["not json", "[]", "7"])
async def test_a_frame_that_is_no_object_closes_the_socket(
    autojump_clock: MockClock, frame: str
) -> None:
    async with open_gemini_server([Speak("Yes.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.socket.send_message(frame)
            assert (await closed(talk))[0] == 1007
    assert len(server.violations) == 1


@pytest.mark.parametrize("first", [spoken("Hi"), audio(bytes(640))])
async def test_nothing_may_be_sent_before_the_setup_is_complete(
    autojump_clock: MockClock, first: Message
) -> None:
    script = [Speak("Yes.")]
    async with open_gemini_server(script, in_memory=True, opens_after=0.1) as server:
        async with gemini(server) as talk:
            await talk.say(set_up(), first)
            assert (await closed(talk))[0] == 1007
        async with gemini(server) as talk:
            await talk.say(first)
            assert (await closed(talk))[0] == 1007
    assert [v.code for v in server.violations] == ["not_ready", "not_ready"]


@pytest.mark.parametrize("model", [V31, EXTENDED])
async def test_scheduling_closes_the_socket_of_models_that_have_none(
    autojump_clock: MockClock, model: str
) -> None:
    call = {"id": "fc-9", "name": "roll"}
    async with open_gemini_server([Speak("Yes.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.say(set_up(model))
            await talk.until("setupComplete")
            await talk.say(answer(call, 7, scheduling="WHEN_IDLE"))
            code, reason = await closed(talk)
    assert code == 1007
    assert "scheduling" in reason


async def test_an_unknown_model_or_handle_is_not_found(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server([Speak("Yes.")], in_memory=True) as server:
        for setup in (
            set_up("gemini-3.8-pro"),
            {"setup": {"model": V38}},  # without `models/`
            set_up(sessionResumption={"handle": "h-1"}),
        ):
            async with gemini(server) as talk:
                await talk.say(setup)
                assert (await closed(talk))[0] == 1008
    codes = ["no_such_model", "no_such_model", "no_such_handle"]
    assert [v.code for v in server.violations] == codes


async def test_the_way_in_is_by_path_and_key(autojump_clock: MockClock) -> None:
    async with open_gemini_server(
        [Speak("Yes.")], in_memory=True, api_key="k", handshakes=[Refuse(429)]
    ) as server:

        async def refused(path: str, headers: dict[str, str]) -> int:
            with pytest.RaisesGroup(ConnectionRejected, flatten_subgroups=True) as e:
                async with dialled(server, path, headers):
                    pass
            error = e.value.exceptions[0]
            assert isinstance(error, ConnectionRejected)
            return error.status_code

        service = "google.ai.generativelanguage.v1.GenerativeService"
        path = f"/ws/{service}.BidiGenerateContent"
        key = {"x-goog-api-key": "k"}
        with trio.fail_after(1):
            assert await refused(path, key) == 429
            assert await refused(path, {}) == 403
            assert await refused(path, {"x-goog-api-key": "other"}) == 400
            assert await refused(f"/ws/{service}.Other", key) == 404
            assert await refused("/v1/realtime", key) == 404
            async with dialled(server, f"{path}?key=k", {}) as talk:
                await talk.say(set_up())
                await talk.until("setupComplete")
            token = {"authorization": "Token k"}
            async with dialled(server, f"{path}Constrained", token) as talk:
                await talk.say(set_up())
                await talk.until("setupComplete")
    assert server.refused == 5
    assert [v.code for v in server.violations] == [
        "no_key",
        "no_such_path",
        "no_such_path",
    ]
