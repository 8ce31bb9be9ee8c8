"""One turn of the fake Gemini Live server, message by message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.gemini_server import (
    ModelTurn,
    Reply,
    Speak,
    SpokenCallTools,
    open_gemini_server,
)

from .talk import answer, gemini, is_over, set_up, spoken
from .vendor_types import judge_gemini


def script(turn: ModelTurn) -> Reply:
    if turn.outputs:
        return Speak(f"You rolled {turn.outputs[-1].output['output']}.", paced=True)
    return [Speak("One moment."), SpokenCallTools([("roll", {"dice": "2d6"})])]


def shape(message: Mapping[str, Any]) -> list[str]:
    """The names in a message, two deep."""
    return [
        f"{key}.{name}" if isinstance(content, dict) else key
        for key, content in message.items()
        for name in (content if isinstance(content, dict) else [""])
        if key != "usageMetadata"
    ]


async def test_a_blocking_call_is_waited_for_within_its_turn(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.say(set_up("gemini-2.5-flash-native-audio"))
            await talk.until("setupComplete")
            await talk.say(spoken("Roll!"))
            called = await talk.until("toolCall")
            (call,) = called["toolCall"]["functionCalls"]
            assert call["args"] == {"dice": "2d6"}
            with trio.move_on_after(60):
                await talk.hear()
                raise AssertionError("it spoke although it is owed an answer")
            await talk.say(answer(call, 7))
            await talk.until(is_over)
            assert trio.current_time() == 60.1
    session = server.sessions[0]
    judge_gemini(session.wire.sent, session.wire.received)
    assert not server.violations
    audio = ["serverContent.modelTurn", "serverContent.outputTranscription"]
    assert [shape(message) for message in session.wire.sent] == [
        ["setupComplete.sessionId"],
        audio,
        audio,
        audio[:1],
        ["toolCall.functionCalls"],
        audio,
        audio,
        audio,
        ["serverContent.generationComplete"],
        ["serverContent.turnComplete"],
    ]


async def test_an_answer_to_a_call_beside_the_talk_begins_a_turn_of_its_own(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.say(set_up("gemini-3.8-live"))
            await talk.until("setupComplete")
            await talk.say(spoken("Roll!"))
            called = await talk.until("toolCall")
            (call,) = called["toolCall"]["functionCalls"]
            over = await talk.until(is_over)
            assert over["serverContent"]["interactionStatus"] == "IN_PROGRESS"
            await talk.say(answer(call, 7, scheduling="WHEN_IDLE"))
            over = await talk.until(is_over)
            assert over["serverContent"]["interactionStatus"] == "IDLE"
    judge_gemini(server.sessions[0].wire.sent, server.sessions[0].wire.received)
    assert not server.violations
