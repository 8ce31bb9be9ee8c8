"""Calls of the fake Gemini Live server: waited for or not, answered once, or never."""

from __future__ import annotations

from typing import Any

import pytest
from trio_websocket import ConnectionClosed

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.gemini_server import (
    EndResponse,
    HangResponse,
    ModelTurn,
    PauseResponse,
    Reply,
    Speak,
    SpokenCallTools,
    TurnComplete,
    UserSpeaks,
    open_gemini_server,
)

from .talk import Message, Talk, answer, gemini, is_over, set_up, spoken
from .vendor_types import judge_gemini

V25 = "gemini-2.5-flash-native-audio"
V31 = "gemini-3.1-flash-live-preview"
V38 = "gemini-3.8-live"
EXTENDED = "gemini-3.8-live-extended-thinking"

TWO = SpokenCallTools(
    [("roll", {"dice": "1d20"}), ("roll", None)], ids=["fc-a", "fc-b"]
)


def call(call_id: str) -> Message:
    return {"id": call_id, "name": "roll"}


def results(turn: ModelTurn) -> Reply:
    """Two calls, then what came of them, as far as it came."""
    if turn.outputs:
        return Speak(" ".join(f"{o.id}={o.output['output']}" for o in turn.outputs))
    return TWO


async def begun(talk: Talk, model: str, behavior: str | None = None) -> None:
    declared = {"name": "roll"} | ({"behavior": behavior} if behavior else {})
    await talk.say(set_up(model, tools=[{"functionDeclarations": [declared]}]))
    await talk.until("setupComplete")


def words(talk: Talk, since: int = 0) -> str:
    said = [
        m["serverContent"]["outputTranscription"]["text"]
        for m in talk.seen[since:]
        if "outputTranscription" in m.get("serverContent", {})
    ]
    return "".join(said)


@pytest.mark.parametrize(("model", "behavior"), [(V25, None), (V38, "BLOCKING")])
async def test_blocking_calls_are_all_answered_before_a_word_is_said(
    autojump_clock: MockClock, model: str, behavior: str | None
) -> None:
    async with open_gemini_server(results, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, model, behavior)
            await talk.say(spoken("Roll!"))
            called = (await talk.until("toolCall"))["toolCall"]["functionCalls"]
            assert [c["id"] for c in called] == ["fc-a", "fc-b"]
            assert "args" not in called[1]
            await talk.say(answer(call("fc-b"), 2))
            assert await talk.quiet(60)
            await talk.say(answer(call("fc-a"), 1))
            await talk.until(is_over)
            assert words(talk) == "fc-b=2 fc-a=1"
    assert not server.violations
    judge_gemini(server.sessions[0].wire.sent, server.sessions[0].wire.received)


async def test_what_was_left_of_the_reply_is_said_when_all_are_answered(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [
        [SpokenCallTools([("roll", {})], ids=["fc-a"]), Speak("Done.")],
        Speak("No."),
    ]
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, V31)
            await talk.say(spoken("Roll!"))
            await talk.until("toolCall")
            await talk.say(answer(call("fc-a"), 1))
            await talk.until(is_over)
            assert words(talk) == "Done."


async def test_new_input_cancels_blocking_calls_and_they_get_no_answer(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(
        [TWO, Speak("As you like.")], in_memory=True
    ) as server:
        async with gemini(server) as talk:
            await begun(talk, V31)
            await talk.say(spoken("Roll!"))
            await talk.until("toolCall")
            await talk.say(answer(call("fc-a"), 1), spoken("Never mind."))
            cancelled = await talk.until("toolCallCancellation")
            assert cancelled["toolCallCancellation"]["ids"] == ["fc-b"]
            await talk.until(lambda m: m["serverContent"].get("interrupted"))
            await talk.until(is_over)
            assert not [m for m in talk.seen if "generationComplete" in str(m)]
            await talk.until(is_over)
            assert words(talk) == "As you like."
            await talk.say(answer(call("fc-b"), 2))  # may have crossed
            assert await talk.quiet(60)
            assert not server.violations
            await talk.say(answer(call("fc-b"), 2))  # cannot have
            assert await talk.quiet(60)
            assert [v.code for v in server.violations] == ["answered_cancelled"]
            await talk.say(answer(call("fc-a"), 2))
            assert await talk.quiet(60)
    assert server.violations[-1].code == "answered_twice"
    judge_gemini(server.sessions[0].wire.sent)


async def test_calls_beside_the_talk_survive_new_input(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [
        [TWO, Speak("I look.", ms=2000, paced=True)],
        Speak("Good."),
        Speak("Two."),
    ]
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, V38)
            await talk.say(spoken("Roll!"))
            await talk.until("toolCall")
            await talk.say(spoken("Take your time."))
            over = await talk.until(is_over)
            assert over["serverContent"]["interactionStatus"] == "IN_PROGRESS"
            await talk.until(is_over)
            await talk.say(answer(call("fc-a"), 1, scheduling="SILENT"))
            await talk.say(answer(call("fc-b"), 2))
            over = await talk.until(is_over)
            assert over["serverContent"]["interactionStatus"] == "IDLE"
            assert words(talk).endswith("Good.Two.")
            assert not [m for m in talk.seen if "toolCallCancellation" in m]
    assert not server.violations


@pytest.mark.parametrize(
    ("schedule", "then"),
    [("SILENT", None), ("WHEN_IDLE", 2.0), (None, 2.0), ("INTERRUPT", 0.5)],
)
async def test_an_answer_is_spoken_of_when_it_says(
    autojump_clock: MockClock, schedule: str | None, then: float | None
) -> None:
    one = SpokenCallTools([("roll", {})], ids=["fc-a"])
    line = Speak("A long line.", ms=2000, paced=True)
    more = {"scheduling": schedule} if schedule else {}
    async with open_gemini_server([[one, line], Speak("One.")], in_memory=True) as s:
        async with gemini(s) as talk:
            await begun(talk, V38)
            await talk.say(spoken("Roll!"))
            await talk.until("toolCall")
            await trio.sleep(0.5)
            await talk.say(answer(call("fc-a"), 1, **more))
            over = await talk.until(is_over)
            assert trio.current_time() == pytest.approx(then or 2.0)
            status = "IDLE" if then is None else "IN_PROGRESS"
            assert over["serverContent"]["interactionStatus"] == status
            if then is None:
                assert await talk.quiet(60)
                assert words(talk) == "A long line."
            else:
                await talk.until(is_over)
                assert words(talk).endswith("One.")
    judge_gemini(s.sessions[0].wire.sent, s.sessions[0].wire.received)
    assert not s.violations


async def test_a_silent_answer_ends_an_interaction_that_is_at_rest(
    autojump_clock: MockClock,
) -> None:
    one = SpokenCallTools([("roll", {})], ids=["fc-a"])
    async with open_gemini_server([one], in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, V38)
            await talk.say(spoken("Roll!"))
            await talk.until(is_over)
            await talk.say(answer(call("fc-a"), 1, scheduling="SILENT"))
            status = await talk.hear()
            assert status == {"serverContent": {"interactionStatus": "IDLE"}}
            assert await talk.quiet(60)


@pytest.mark.parametrize(("model", "waits"), [(V25, False), (V38, True)])
async def test_an_answer_that_interrupts_may_wait_for_the_user(
    autojump_clock: MockClock, model: str, waits: bool
) -> None:
    one = SpokenCallTools([("roll", {})], ids=["fc-a"])
    script: list[Reply] = [
        [one, UserSpeaks("And then", ms=3000)],
        Speak("One."),
        Speak("Two."),
    ]
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, model, "NON_BLOCKING")
            await talk.say(spoken("Roll!"))
            await talk.until(is_over)
            await talk.say(answer(call("fc-a"), 1, scheduling="INTERRUPT"))
            await talk.until(lambda m: "modelTurn" in m.get("serverContent", {}))
            assert trio.current_time() == (3.0 if waits else 0.0)


async def test_the_end_of_an_interaction_is_not_the_end_of_a_turn(
    autojump_clock: MockClock,
) -> None:
    thinks = [Speak("Let me think."), TurnComplete(), PauseResponse(2)]
    one = SpokenCallTools([("roll", {})], ids=["fc-a"])
    script: list[Reply] = [[*thinks, one], Speak("One.")]
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, EXTENDED)
            await talk.say(spoken("Roll!"))
            statuses = [
                (await talk.until(is_over))["serverContent"]["interactionStatus"]
                for _ in range(2)
            ]
            await talk.say(answer(call("fc-a"), 1))
            over = await talk.until(is_over)
            statuses.append(over["serverContent"]["interactionStatus"])
    assert statuses == ["IN_PROGRESS", "IN_PROGRESS", "IDLE"]
    assert not server.violations


async def test_an_interim_answer_ends_the_call_of_a_model_that_thinks(
    autojump_clock: MockClock,
) -> None:
    one = SpokenCallTools([("roll", {})], ids=["fc-a"])
    async with open_gemini_server([one, Speak("One.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, EXTENDED)
            await talk.say(spoken("Roll!"))
            await talk.until(is_over)
            await talk.say(answer(call("fc-a"), "soon", willContinue=True))
            assert (await talk.hear())["serverContent"]["interactionStatus"] == "IDLE"
            await talk.say(answer(call("fc-a"), 1))
            assert await talk.quiet(60)
    assert [v.code for v in server.violations] == ["interim", "answered_twice"]


async def test_an_interim_answer_keeps_a_call_open_elsewhere(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(
        [SpokenCallTools([("roll", {})], ids=["fc-a"]), Speak("Soon."), Speak("One.")],
        in_memory=True,
    ) as server:
        async with gemini(server) as talk:
            await begun(talk, V25, "NON_BLOCKING")
            await talk.say(spoken("Roll!"))
            await talk.until(is_over)
            await talk.say(answer(call("fc-a"), "soon", willContinue=True))
            await talk.until(is_over)
            await talk.say(answer(call("fc-a"), 1))
            await talk.until(is_over)
            assert words(talk) == "Soon.One."
    assert not server.violations


async def test_calls_of_another_socket_are_ignored_and_noted(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(results, in_memory=True) as server:
        async with gemini(server) as old, gemini(server) as new:
            await begun(old, V38)
            await old.say(spoken("Roll!"))
            await old.until("toolCall")
            await begun(new, V38)
            await new.say(answer(call("fc-a"), 1))
            assert await new.quiet(60)
            assert not new.socket.closed
    assert [(v.socket, v.code) for v in server.violations] == [(1, "other_socket")]


async def test_an_answer_with_another_name_is_noted(autojump_clock: MockClock) -> None:
    async with open_gemini_server(results, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, V38)
            await talk.say(spoken("Roll!"))
            await talk.until("toolCall")
            await talk.say(answer({"id": "fc-a", "name": "search"}, 1))
            await talk.until(is_over)
    assert [v.code for v in server.violations] == ["other_name"]


async def test_one_call_may_come_in_both_of_its_wire_forms(
    autojump_clock: MockClock,
) -> None:
    one = SpokenCallTools([("roll", {"dice": "2"})], ids=["fc-a"], twice=True)
    async with open_gemini_server([one, Speak("One.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, V31)
            await talk.say(spoken("Roll!"))
            (called,) = (await talk.until("toolCall"))["toolCall"]["functionCalls"]
            content = (await talk.until("serverContent"))["serverContent"]
            assert content["modelTurn"]["parts"] == [{"functionCall": called}]
            await talk.say(answer(call("fc-a"), 1))
            await talk.until(is_over)
    assert not server.violations
    judge_gemini(server.sessions[0].wire.sent)


async def test_a_turn_ends_with_a_reason(autojump_clock: MockClock) -> None:
    script = [
        [Speak("Well."), EndResponse(reason="MALFORMED_FUNCTION_CALL"), HangResponse()]
    ]
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, V38)
            await talk.say(spoken("Roll!"))
            over = (await talk.until(is_over))["serverContent"]
    assert over["turnCompleteReason"] == "MALFORMED_FUNCTION_CALL"
    judge_gemini(server.sessions[0].wire.sent)


async def test_the_service_breaks_at_a_result_that_is_too_large(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(results, in_memory=True, max_result=4096) as server:
        async with gemini(server) as talk:
            await begun(talk, V38)
            await talk.say(spoken("Roll!"))
            await talk.until("toolCall")
            await talk.say(answer(call("fc-a"), "x" * 4096))
            await talk.rest()
            with pytest.raises(ConnectionClosed) as closed:
                await talk.hear()
    reason: Any = closed.value.reason
    assert reason.code == 1011
    assert not server.violations
