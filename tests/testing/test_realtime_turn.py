"""One turn of the fake Realtime server, event by event, as the vendor tells it."""

from __future__ import annotations

from base64 import b64decode

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.realtime_server import (
    ModelTurn,
    Reply,
    Speak,
    SpokenCallTools,
    open_realtime_server,
)

from .talk import RESPOND, output, realtime, update, user
from .vendor_types import judge_realtime


def script(turn: ModelTurn) -> Reply:
    if turn.outputs:
        return Speak(f"You rolled {turn.outputs[-1].output}.", ms=100, paced=True)
    return [Speak("One moment."), SpokenCallTools([("roll", {"dice": "2d6"})])]


async def test_a_turn_with_a_tool_is_told_in_the_vendors_order(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.until("session.created")
            await talk.say(update())
            await talk.until("session.updated")
            await talk.say(user("Roll!"), RESPOND)
            done = await talk.until("response.done")
            call = done["response"]["output"][1]
            assert call["name"] == "roll"
            assert call["arguments"] == '{"dice": "2d6"}'
            await talk.say(output(call["call_id"], "7"), RESPOND)
            began = trio.current_time()
            done = await talk.until("response.done")
            assert trio.current_time() - began == 0.1
    assert done["response"]["output"][0]["content"] == [
        {"type": "output_audio", "transcript": "You rolled 7."}
    ]
    session = server.sessions[0]
    judge_realtime(session.wire.sent, session.wire.received)
    assert talk.seen == session.wire.sent
    assert not server.violations
    assert not server.warnings
    kinds = talk.types()
    # Of the turn's own events, those that come once each, in order.
    assert kinds[4 : kinds.index("response.done") + 1] == [
        "response.created",
        "rate_limits.updated",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    audio = [
        b64decode(message["delta"])
        for message in talk.seen
        if message["type"] == "response.output_audio.delta"
    ]
    assert [len(piece) for piece in audio] == 2 * [1920, 1920, 960]
