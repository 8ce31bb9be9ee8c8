"""The state that the fake Realtime server keeps: session, items, responses, its end."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from trio_websocket import ConnectionClosed

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.realtime_server import (
    EndResponse,
    Error,
    Expire,
    FailResponse,
    ModelTurn,
    PauseResponse,
    Reply,
    Send,
    Speak,
    SpokenCallTools,
    open_realtime_server,
)

from .talk import RESPOND, ROLL, Message, Talk, output, realtime, update, user
from .vendor_types import judge_realtime

SEARCH = {**ROLL, "name": "search"}


def respond(**response: Any) -> Message:
    return {"type": "response.create", "response": response}


async def configured(talk: Talk, message: Message) -> Message:
    await talk.say(message)
    session: Message = (await talk.until("session.updated"))["session"]
    return session


async def test_an_update_changes_what_it_names_and_no_more(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server([Speak("Yes.")], in_memory=True) as server:
        async with realtime(server) as talk:
            before = (await talk.until("session.created"))["session"]
            assert "event_id" not in before
            first = await configured(talk, update(instructions="Be brief."))
            assert first == {**before, "instructions": "Be brief.", "tools": [ROLL]}
            silence = {"type": "server_vad", "silence_duration_ms": 200}
            vad = {"input": {"turn_detection": silence}}
            message = {
                "type": "session.update",
                "session": {"type": "realtime", "tools": [], "audio": vad},
            }
            second = await configured(talk, message)
            expected = {**first, "tools": []}
            detection = before["audio"]["input"]["turn_detection"]
            expected["audio"] = {
                **first["audio"],
                "input": {
                    **first["audio"]["input"],
                    "turn_detection": {**detection, "silence_duration_ms": 200},
                },
            }
            assert second == expected
            vad["input"] = {"turn_detection": None}  # type: ignore[dict-item]
            third = await configured(talk, message)
            assert third["audio"]["input"]["turn_detection"] is None
    judge_realtime(server.sessions[0].wire.sent, server.sessions[0].wire.received)
    assert not server.violations


async def test_the_voice_is_fixed_once_it_was_heard(autojump_clock: MockClock) -> None:
    async with open_realtime_server(
        [Speak("Yes."), PauseResponse(60)], in_memory=True
    ) as s:
        async with realtime(s) as talk:
            await configured(talk, update(audio={"output": {"voice": "cedar"}}))
            await talk.say(RESPOND)
            await talk.until("response.done")
            await configured(talk, update(audio={"output": {"voice": "cedar"}}))
            await talk.say(update(audio={"output": {"voice": "marin"}}))
            assert "voice" in (await talk.until("error"))["error"]["param"]
            await talk.say(RESPOND, update(audio={"output": {"speed": 1.2}}))
            assert "speed" in (await talk.until("error"))["error"]["param"]
    assert len(s.violations) == 2


async def test_tools_change_for_the_next_response_or_for_one_only(
    autojump_clock: MockClock,
) -> None:
    seen: list[tuple[str, ...]] = []

    def script(turn: ModelTurn) -> Reply:
        seen.append(turn.tools)
        return (
            [PauseResponse(1), SpokenCallTools([("roll", {})])]
            if len(seen) == 1
            else Speak("Yes")
        )

    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await configured(talk, update())
            await talk.say(RESPOND, update(tools=[SEARCH]))
            done = await talk.until("response.done")
            # What runs keeps its own tools.
            call = done["response"]["output"][0]
            assert call["name"] == "roll"
            await talk.say(output(call["call_id"], "7"), RESPOND)
            await talk.until("response.done")
            both = [ROLL, SEARCH]
            one = {"type": "function", "name": "roll"}
            for change in (
                respond(tools=both),
                respond(tool_choice="none"),
                respond(tools=both, tool_choice=one),
            ):
                await talk.say(change)
                await talk.until("response.done")
            await talk.say(RESPOND)
            await talk.until("response.done")
    assert seen == [
        ("roll",),
        ("search",),
        ("roll", "search"),
        (),
        ("roll",),
        ("search",),
    ]
    assert not server.violations


async def test_a_script_cannot_call_what_was_not_declared() -> None:
    with pytest.RaisesGroup(ValueError, flatten_subgroups=True):
        with trio.fail_after(30):
            async with open_realtime_server(
                [SpokenCallTools([("search", {})])], in_memory=True
            ) as server:
                async with realtime(server) as talk:
                    await talk.say(update(), RESPOND)
                    await trio.sleep_forever()


async def test_a_model_may_be_told_to_call_what_it_was_not_given(
    autojump_clock: MockClock,
) -> None:
    script = [SpokenCallTools([("search", "{oops")], undeclared=True)]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            done = await talk.until("response.done")
    call = done["response"]["output"][0]
    assert (call["name"], call["arguments"]) == ("search", "{oops")


async def test_a_model_without_tools_does_not_call_any(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server(
        [SpokenCallTools([("roll", {})])], in_memory=True
    ) as s:
        async with realtime(s) as talk:
            await talk.say(update(), respond(tool_choice="none"))
            done = await talk.until("response.done")
    assert done["response"]["output"] == []


async def test_a_response_aside_runs_beside_the_other_and_leaves_no_trace(
    autojump_clock: MockClock,
) -> None:
    def script(turn: ModelTurn) -> Reply:
        if turn.request.get("conversation") == "none":
            call = SpokenCallTools([("roll", {})], ids=["call_aside"])
            return [Speak(f"Aside: {turn.user}"), call]
        return [PauseResponse(1), Speak("The main thing.")]

    aside = respond(
        conversation="none",
        metadata={"for": "filler"},
        input=[user("One moment?")["item"]],
        output_modalities=["text"],
    )
    async with open_realtime_server(script, aside=script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), user("Who are you?"), RESPOND, aside)
            first = (await talk.until("response.done"))["response"]
            second = (await talk.until("response.done"))["response"]
            assert first["metadata"] == {"for": "filler"}
            assert first["conversation_id"] is None
            text = {"type": "output_text", "text": "Aside: One moment?"}
            assert first["output"][0]["content"] == [text]
            assert second["output"][0]["content"][0]["transcript"] == "The main thing."
            await talk.say(output("call_aside", "7"))
            error = (await talk.until("error"))["error"]
            assert error["code"] == "invalid_tool_call_id"
    session = server.sessions[0]
    items = [item.wire.get("role") for item in session.conversation.items]
    assert items == ["user", "assistant"]
    judge_realtime(session.wire.sent, session.wire.received)


async def test_history_is_told_as_items_and_in_the_order_that_is_wanted(
    autojump_clock: MockClock,
) -> None:
    lines: list[tuple[str, str]] = []

    def script(turn: ModelTurn) -> Reply:
        lines.extend((line.role, line.text) for line in turn.lines)
        results = [(out.name, out.output) for out in turn.outputs]
        return Speak(f"{turn.user} {results}")

    call = {
        "type": "function_call",
        "call_id": "call_old",
        "name": "roll",
        "arguments": "{}",
    }
    said = {"type": "output_text", "text": "Good evening."}
    assistant = {"type": "message", "role": "assistant", "content": [said]}
    hint = {"type": "input_text", "text": "It rains."}
    system = {"type": "message", "role": "system", "content": [hint]}
    create = "conversation.item.create"
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await configured(talk, update())
            mine = user("Good day.")
            mine["item"]["id"] = "item_mine"
            await talk.say(mine)
            added = await talk.until("conversation.item.added")
            assert added["previous_item_id"] is None
            await talk.say({"type": create, "item": assistant})
            await talk.say({"type": create, "item": call})
            await talk.say(output("call_old", "7"))
            await talk.say({"type": create, "item": system, "previous_item_id": "root"})
            await talk.until(lambda m: m.get("item", {}).get("role") == "system")
            extra = {**user("Are you there?"), "previous_item_id": "item_mine"}
            await talk.say(extra)
            added = await talk.until(lambda m: m.get("previous_item_id") == "item_mine")
            await talk.say(
                {"type": "conversation.item.delete", "item_id": added["item"]["id"]}
            )
            await talk.until("conversation.item.deleted")
            await talk.say(RESPOND)
            done = await talk.until("response.done")
    spoken = done["response"]["output"][0]["content"][0]["transcript"]
    assert spoken == "Good day. [('roll', '7')]"
    assert lines == [
        ("system", "It rains."),
        ("user", "Good day."),
        ("assistant", "Good evening."),
    ]
    assert not server.violations
    judge_realtime(server.sessions[0].wire.sent, server.sessions[0].wire.received)


async def test_audio_is_what_the_script_says_byte_for_byte(
    autojump_clock: MockClock,
) -> None:
    pcm = bytes(i % 251 for i in range(48 * 95))
    async with open_realtime_server([Speak("Hm.", audio=pcm)], in_memory=True) as s:
        async with realtime(s) as talk:
            await talk.say(update(), RESPOND)
            await talk.until("response.done")
    deltas = [m for m in talk.seen if m["type"] == "response.output_audio.delta"]
    assert b"".join(b64decode(m["delta"]) for m in deltas) == pcm
    assert [len(b64decode(m["delta"])) // 48 for m in deltas] == [40, 40, 15]


async def test_a_response_ends_otherwise_and_the_session_goes_on(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [
        [SpokenCallTools([("roll", {"dice": "2"})], open=True), END],
        [
            Speak("Well", upto_ms=40),
            FailResponse("rate_limit_exceeded", "Try again in 2s."),
        ],
        [Error("slow_down", type="server_error"), Speak("Yes.")],
        [Send({"type": "response.telepathy", "waves": [1]}), Speak("Yes.")],
    ]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            first = (await talk.until("response.done"))["response"]
            await talk.say(RESPOND)
            second = (await talk.until("response.done"))["response"]
            await talk.say(RESPOND)
            error = (await talk.until("error"))["error"]
            third = (await talk.until("response.done"))["response"]
            known = [*talk.seen]
            await talk.say(RESPOND)
            await talk.until("response.telepathy")
            await talk.until("response.done")
    assert first["status"] == "incomplete"
    assert first["status_details"]["reason"] == "max_output_tokens"
    assert first["output"][0]["status"] == "incomplete"
    assert second["status"] == "failed"
    assert second["status_details"]["error"]["code"] == "rate_limit_exceeded"
    assert (error["code"], error["type"]) == ("slow_down", "server_error")
    assert third["status"] == "completed"
    judge_realtime(known)
    assert not server.violations


END = EndResponse("incomplete", "max_output_tokens")


async def test_a_session_expires(autojump_clock: MockClock) -> None:
    async with open_realtime_server(
        [Speak("Yes.")], in_memory=True, lifetime=3600
    ) as server:
        async with realtime(server) as talk:
            *_, last = await talk.rest()
            assert trio.current_time() == 3600
            assert last["error"]["code"] == "session_expired"
            with pytest.raises(ConnectionClosed) as closed:
                await talk.hear()
    assert closed.value.reason is not None
    assert closed.value.reason.code == 1001
    assert "60 minutes" in str(closed.value.reason.reason)
    judge_realtime(server.sessions[0].wire.sent)


async def test_a_session_expires_in_the_middle_of_a_line(
    autojump_clock: MockClock,
) -> None:
    script = [[Speak("Well", upto_ms=40), Expire()]]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            *_, last = await talk.rest()
            assert last["error"]["code"] == "session_expired"
    assert server.sessions[0].wire.code == 1001
