"""What the fake Realtime server refuses, with which word, and what it lets pass."""

from __future__ import annotations

from typing import Any

import pytest
from trio_websocket import ConnectionClosed, ConnectionRejected

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.realtime_server import (
    HangResponse,
    Refuse,
    Reply,
    Speak,
    SpokenCallTools,
    open_realtime_server,
)

from .talk import (
    RESPOND,
    ROLL,
    Message,
    append,
    output,
    realtime,
    tone,
    update,
    user,
)
from .vendor_types import judge_realtime

PLACE = "conversation.item"


def item(**fields: Any) -> Message:
    return {"type": f"{PLACE}.create", "item": fields}


def message(role: str, **part: Any) -> Message:
    return item(type="message", role=role, content=[part])


def respond(**response: Any) -> Message:
    return {"type": "response.create", "response": response}


AT_16_KHZ = {"type": "audio/pcm", "rate": 16_000}
REFUSED = [
    ({"type": "session.update"}, "missing_required_parameter"),
    ({"type": "session.update", "session": {}}, "missing_required_parameter"),
    (update(type="transcription"), "invalid_value"),
    # The shapes of the beta, and of chat completions.
    (update(modalities=["audio"]), "unknown_parameter"),
    (update(voice="marin"), "unknown_parameter"),
    (update(temperature=0.8), "unknown_parameter"),
    (update(tools=[{"type": "function", "function": ROLL}]), "unknown_parameter"),
    (update(tools=[{**ROLL, "strict": True}]), "unknown_parameter"),
    (update(tools=[{**ROLL, "name": "dice.roll"}]), "invalid_value"),
    (update(tools=[{**ROLL, "name": "x" * 65}]), "invalid_value"),
    (update(tools=[{**ROLL, "parameters": {}}]), "invalid_value"),
    (update(tools=[ROLL] * 129), "array_above_max_length"),
    (update(output_modalities=["text", "audio"]), "invalid_value"),
    (update(max_output_tokens=4097), "invalid_value"),
    (update(max_output_tokens="many"), "invalid_type"),
    (update(instructions=None), "invalid_type"),
    (update(audio={"input": {"format": AT_16_KHZ}}), "invalid_value"),
    (update(audio={"output": {"format": {"type": "pcm16"}}}), "invalid_value"),
    (update(audio={"input": {"turn_detection": {"type": "vad"}}}), "invalid_value"),
    (update(audio={"output": {"speed": 2.0}}), "invalid_value"),
    (update(model="gpt-realtime"), "invalid_value"),
    (update(tool_choice={"name": "roll"}), "missing_required_parameter"),
    ({"type": "input_audio_buffer.append", "audio": "%"}, "invalid_value"),
    ({"type": "input_audio_buffer.append", "audio": 1}, "invalid_type"),
    ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty"),
    (item(type="function_call_output", call_id="c", output={}), "invalid_type"),
    (item(type="function_call_output", output="{}"), "missing_required_parameter"),
    (output("call_9", "{}"), "invalid_tool_call_id"),
    (message("assistant", type="output_audio", transcript="Hi"), "invalid_value"),
    (message("user", type="output_text", text="Hi"), "invalid_value"),
    (
        {**user("Hi"), "previous_item_id": "item_9"},
        "item_create_invalid_previous_item_id",
    ),
    (
        {
            "type": f"{PLACE}.truncate",
            "item_id": "item_9",
            "content_index": 0,
            "audio_end_ms": 1,
        },
        "item_truncate_invalid_item_id",
    ),
    ({"type": f"{PLACE}.delete", "item_id": "i"}, "item_delete_invalid_item_id"),
    ({"type": f"{PLACE}.retrieve", "item_id": "i"}, "item_retrieve_invalid_item_id"),
    ({"type": "response.cancel"}, "response_cancel_not_active"),
    (respond(modalities=["text"]), "unknown_parameter"),
    (respond(metadata={str(i): "" for i in range(17)}), "array_above_max_length"),
    (respond(conversation="other"), "invalid_value"),
    ({"type": "output_audio_buffer.clear"}, "invalid_value"),
    ({"type": "session.create"}, "invalid_value"),
    ({}, "missing_required_parameter"),
]


@pytest.mark.parametrize(("wrong", "code"), REFUSED)
async def test_what_is_wrong_is_answered_by_an_error_and_the_session_goes_on(
    autojump_clock: MockClock, wrong: Message, code: str
) -> None:
    async with open_realtime_server([Speak("Yes.")], in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), {**wrong, "event_id": "mine"})
            error = (await talk.until("error"))["error"]
            assert error["code"] == code
            assert error["event_id"] == "mine"
            assert [found.code for found in server.violations] == [code]
            await talk.say(user("Are you there?"), RESPOND)
            await talk.until("response.done")
    judge_realtime(server.sessions[0].wire.sent)


async def test_a_frame_that_is_no_object_is_an_error(autojump_clock: MockClock) -> None:
    async with open_realtime_server([Speak("Yes.")], in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update())
            await talk.socket.send_message("not json")
            assert (await talk.until("error"))["error"]["code"] == "invalid_json"
            await talk.socket.send_message("[]")
            assert (await talk.until("error"))["error"]["code"] == "invalid_json"
    assert len(server.violations) == 2


async def test_only_models_that_reason_take_what_is_about_reasoning(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server([Speak("Yes.")], in_memory=True) as server:
        async with realtime(server, model="gpt-realtime-2025-08-28") as talk:
            await talk.say(update(parallel_tool_calls=True))
            assert (await talk.until("error"))["error"]["code"] == "invalid_value"
        async with realtime(server, model="gpt-realtime-2.1-mini") as talk:
            await talk.say(update(parallel_tool_calls=True))
            updated = await talk.until("session.updated")
            assert updated["session"]["parallel_tool_calls"] is True
    assert len(server.violations) == 1


async def test_there_is_one_active_response(autojump_clock: MockClock) -> None:
    async with open_realtime_server([HangResponse()], in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            created = await talk.until("response.created")
            await talk.say({**RESPOND, "event_id": "second"})
            error = (await talk.until("error"))["error"]
            assert error["code"] == "conversation_already_has_active_response"
            assert created["response"]["id"] in error["message"]
            assert error["event_id"] == "second"
    assert [v.code for v in server.violations] == [error["code"]]


async def test_a_race_with_the_servers_own_response_is_no_mistake(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server([HangResponse()], in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), append(tone(200) + bytes(48 * 500)))
            await talk.until("response.created")
            await talk.say(RESPOND)  # could not know
            await talk.until("error")
            assert not server.violations
            await trio.sleep(2)
            await talk.say(RESPOND)  # knows
            await talk.until("error")
            assert len(server.violations) == 1


async def test_a_cancel_that_crossed_with_the_end_is_no_mistake(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server([Speak("Yes.")], in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            await talk.until("response.done")
            await talk.say({"type": "response.cancel"})
            await talk.until("error")
            assert not server.violations
            await trio.sleep(2)
            await talk.say({"type": "response.cancel"})
            await talk.until("error")
            assert len(server.violations) == 1


async def test_an_output_comes_once_and_after_its_response(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [
        [SpokenCallTools([("roll", {})], ids=["call_1"]), HangResponse()],
        Speak("Seven."),
    ]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            await talk.until("response.output_item.done")
            await talk.say(output("call_1", "7"))
            await talk.until(
                lambda m: m.get("item", {}).get("type") == "function_call_output"
            )
            assert [v.code for v in server.violations] == ["output_too_early"]
            await talk.say(output("call_1", "8"))
            error = (await talk.until("error"))["error"]
            assert error["code"] == "invalid_tool_call_id"


async def test_asking_for_a_response_while_an_output_is_owed_is_warned_of(
    autojump_clock: MockClock,
) -> None:
    script = [
        SpokenCallTools([("roll", {}), ("roll", {})], ids=["a", "b"]),
        Speak("Well."),
    ]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            await talk.until("response.done")
            await talk.say(output("a", "7"), RESPOND)
            await talk.until("response.done")
            (warning,) = server.warnings
            assert (warning.code, warning.detail) == ("calls_owed", "b")
            # It may come later all the same.
            await talk.say(output("b", "8"), RESPOND)
            await talk.until("response.done")
    assert len(server.warnings) == 1
    assert not server.violations


async def test_a_call_of_another_socket_is_unknown(autojump_clock: MockClock) -> None:
    script = [SpokenCallTools([("roll", {})]), Speak("Seven.")]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as first, realtime(server) as second:
            await first.say(update(), RESPOND)
            done = await first.until("response.done")
            await second.say(update())
            await second.say(output(done["response"]["output"][0]["call_id"], "7"))
            error = (await second.until("error"))["error"]
            assert error["code"] == "invalid_tool_call_id"
    assert [(v.socket, v.code) for v in server.violations] == [(1, error["code"])]


async def test_what_is_said_before_the_greeting_or_the_setup_is_noted(
    autojump_clock: MockClock,
) -> None:
    script = [Speak("Yes.")]
    async with open_realtime_server(script, in_memory=True, opens_after=0.1) as server:
        async with realtime(server) as talk:
            await talk.say(update())
            await talk.until("session.created")
            assert [v.code for v in server.violations] == ["not_ready"]
        async with realtime(server) as talk:
            await talk.until("session.created")
            await talk.say(RESPOND)
            await talk.until("response.done")
    assert [v.code for v in server.violations] == ["not_ready", "not_configured"]


async def test_the_beta_is_gone(autojump_clock: MockClock) -> None:
    async with open_realtime_server([Speak("Yes.")], in_memory=True) as server:
        async with realtime(server, headers={"OpenAI-Beta": "realtime=v1"}) as talk:
            (error,) = await talk.rest()
            assert error["error"]["code"] == "beta_api_shape_disabled"
            with pytest.raises(ConnectionClosed) as closed:
                await talk.hear()
            assert closed.value.reason is not None
            assert closed.value.reason.code == 4000
    assert len(server.violations) == 1


@pytest.mark.parametrize(
    ("handshakes", "headers", "status"),
    [
        ([], {"Authorization": "Bearer other"}, 401),
        ([], {"Authorization": ""}, 401),
        ([Refuse(429, headers={"Retry-After": "7"})], {}, 429),
    ],
)
async def test_a_handshake_is_refused(
    autojump_clock: MockClock,
    handshakes: list[Refuse],
    headers: dict[str, str],
    status: int,
) -> None:
    async with open_realtime_server(
        [Speak("Yes.")], in_memory=True, api_key="k", handshakes=handshakes
    ) as server:
        with pytest.RaisesGroup(ConnectionRejected, flatten_subgroups=True) as refused:
            async with realtime(server, headers=headers):
                pass
        error = refused.value.exceptions[0]
        assert isinstance(error, ConnectionRejected)
        assert error.status_code == status
        assert error.body
        if status == 429:
            assert (b"retry-after", b"7") in error.headers
        async with realtime(server) as talk:  # the next one may come in
            await talk.until("session.created")
    assert server.refused == 1
