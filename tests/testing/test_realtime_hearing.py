"""What the fake Realtime server hears, and how it is interrupted."""

from __future__ import annotations

from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.realtime_server import (
    HangResponse,
    ModelTurn,
    PauseResponse,
    Reply,
    Speak,
    SpokenCallTools,
    Transcription,
    UserSpeaks,
    open_realtime_server,
)

from .talk import RESPOND, Message, Talk, append, output, realtime, tone, update
from .vendor_types import judge_realtime

SILENCE = bytes(48 * 600)


def detecting(transcribed: bool = True, **changes: Any) -> Message:
    """A session.update with server_vad, changed; ``off=True`` for none."""
    off = changes.pop("off", False)
    detection = None if off else {"type": "server_vad", **changes}
    transcription = {"model": "gpt-transcribe"} if transcribed else None
    return update(
        audio={"input": {"turn_detection": detection, "transcription": transcription}}
    )


# Told with the end of the utterance; what servers do by default is in `transcripts`.
HELLO = Transcription("Hello!", late=False)


def echo(turn: ModelTurn) -> Reply:
    return Speak(f"You said {turn.user!r}.")


def script_of(talk: Talk) -> list[str]:
    """Types, without those of the items and pieces of a response."""
    dull = ("response.o", "response.content", "conversation.item.", "rate", "session")
    return [kind for kind in talk.types() if not kind.startswith(dull)]


async def test_speech_begins_and_ends_a_turn_by_its_sound(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server(echo, hears=[HELLO], in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(prefix_padding_ms=100))
            await talk.say(append(bytes(48 * 1000)))
            await talk.say(append(tone(300)[:4800]), append(tone(300)[4800:]))
            started = await talk.until("input_audio_buffer.speech_started")
            assert started["audio_start_ms"] == 900
            await talk.say(append(SILENCE))
            stopped = await talk.until("input_audio_buffer.speech_stopped")
            assert stopped["audio_end_ms"] == 1800
            committed = await talk.until("input_audio_buffer.committed")
            assert committed["item_id"] == stopped["item_id"] == started["item_id"]
            done = await talk.until("response.done")
    content = done["response"]["output"][0]["content"]
    assert content == [{"type": "output_audio", "transcript": "You said 'Hello!'."}]
    kinds = talk.types()
    heard = "conversation.item.input_audio_transcription.completed"
    assert kinds.index(heard) < kinds.index("response.created")
    session = server.sessions[0]
    assert session.hearing.audio == bytes(48_000) + tone(300) + SILENCE
    whole = bytes(4800) + tone(300) + bytes(48 * 500)
    assert session.hearing.utterances == [whole]
    judge_realtime(session.wire.sent, session.wire.received)
    assert not server.violations


async def test_two_utterances_in_one_piece_are_two(autojump_clock: MockClock) -> None:
    words = ["One.", "Two."]
    async with open_realtime_server(echo, hears=words, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), append(2 * (tone(200) + SILENCE)))
            await talk.until("response.done")
            done = await talk.until("response.done")
    said = done["response"]["output"][0]["content"][0]["transcript"]
    assert said == "You said 'Two.'."
    first, second = server.sessions[0].hearing.utterances
    assert first == tone(200) + bytes(48 * 500)
    assert second == bytes(48 * 100) + tone(200) + bytes(48 * 500)


async def test_nothing_is_heard_while_detection_is_off(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server(echo, hears=[HELLO], in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(off=True), append(tone(300) + SILENCE))
            await talk.until("session.updated")
            assert await talk.quiet(60)
            await talk.say({"type": "input_audio_buffer.commit"})
            await talk.until("input_audio_buffer.committed")
            await talk.until("conversation.item.input_audio_transcription.completed")
            assert await talk.quiet(60)  # nobody asked for a response
            await talk.say(RESPOND)
            await talk.until("response.done")
    assert server.sessions[0].hearing.utterances == [tone(300) + SILENCE]
    assert not server.violations


async def test_without_automatic_responses_there_are_only_signs_of_speech(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server(
        [[Speak("A long line.", upto_ms=40), HangResponse()]],
        hears=[HELLO],
        in_memory=True,
    ) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(create_response=False, interrupt_response=False))
            await talk.say(RESPOND)
            await talk.until("response.output_audio.delta")
            await talk.say(append(tone(300) + SILENCE))
            await talk.until("conversation.item.input_audio_transcription.completed")
            assert await talk.quiet(60)
            assert server.sessions[0].responses.active is not None
    assert not server.violations


async def test_what_was_cleared_is_forgotten(autojump_clock: MockClock) -> None:
    async with open_realtime_server(echo, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), append(tone(200)))
            await talk.until("input_audio_buffer.speech_started")
            await talk.say({"type": "input_audio_buffer.clear"}, append(SILENCE))
            await talk.until("input_audio_buffer.cleared")
            assert await talk.quiet(60)
    assert server.sessions[0].hearing.utterances == []


@pytest.mark.parametrize("late", [False, True])
async def test_a_transcript_comes_before_its_response_or_after(
    autojump_clock: MockClock, late: bool
) -> None:
    hears = [Transcription("Hello!", late=late)]
    async with open_realtime_server(echo, hears=hears, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), append(tone(200) + SILENCE))
            wanted = {"response.done", "conversation.item.input_audio_transcription"}
            order: list[str] = []
            while len(order) < 2:
                kind = (await talk.hear())["type"]
                order += [kind] if kind.removesuffix(".completed") in wanted else []
    assert (order[0] == "response.done") is late
    judge_realtime(server.sessions[0].wire.sent)


async def test_a_transcript_fails_or_is_not_wanted(autojump_clock: MockClock) -> None:
    hears: list[str | Transcription] = [
        Transcription("Hello!", late=False, fails=True),
        HELLO,
    ]
    async with open_realtime_server(echo, hears=hears, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), append(tone(200) + SILENCE))
            await talk.until("conversation.item.input_audio_transcription.failed")
            await talk.until("response.done")
            await talk.say(detecting(transcribed=False), append(tone(200) + SILENCE))
            done = await talk.until("response.done")
    # The model itself has heard it.
    said = done["response"]["output"][0]["content"][0]["transcript"]
    assert said == "You said 'Hello!'."
    judge_realtime(server.sessions[0].wire.sent)
    transcripts = [kind for kind in talk.types() if kind.endswith("tion.completed")]
    assert transcripts == []


async def test_speech_interrupts_a_call_in_the_middle_of_its_arguments(
    autojump_clock: MockClock,
) -> None:
    steps = [
        SpokenCallTools([("roll", {"dice": "2d6"})], open=True),
        UserSpeaks("Wait!"),
    ]
    script: list[Reply] = [steps, Speak("I wait.")]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), RESPOND)
            started = await talk.until("input_audio_buffer.speech_started")
            arguments = await talk.until("response.function_call_arguments.done")
            done = await talk.until("response.done")
            assert trio.current_time() == 0
            await talk.until("input_audio_buffer.speech_stopped")
            assert trio.current_time() == 0.4
            again = await talk.until("response.done")
    assert arguments["arguments"] == '{"dice"'  # truncated JSON
    response = done["response"]
    assert response["status"] == "cancelled"
    details = {"type": "cancelled", "reason": "turn_detected"}
    assert response["status_details"] == details
    assert [item["status"] for item in response["output"]] == ["incomplete"]
    assert again["response"]["output"][0]["status"] == "completed"
    assert started["audio_start_ms"] == 0
    judge_realtime(server.sessions[0].wire.sent)
    assert script_of(talk) == [
        "response.created",
        "response.function_call_arguments.delta",
        "input_audio_buffer.speech_started",
        "response.function_call_arguments.done",
        "response.done",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "response.created",
        "response.done",
    ]
    # Nobody owes an answer to it; one is taken all the same, for the history.
    assert server.sessions[0].conversation.owed() == []


async def test_somebody_speaks_while_other_steps_go_on(
    autojump_clock: MockClock,
) -> None:
    line = Speak("A long line indeed.", ms=2000, paced=True)
    script: list[Reply] = [[UserSpeaks("Wait!", after=0.5), line], Speak("I wait.")]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), RESPOND)
            done = await talk.until("response.done")
            assert trio.current_time() == 0.5
    assert done["response"]["status_details"]["reason"] == "turn_detected"
    # 40 ms at 0, at 0.04, ... at 0.48
    item = server.sessions[0].responses.every[0].output[0]
    assert item.audio_ms == 13 * 40


async def test_what_was_not_heard_is_truncated_and_never_more(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [
        [Speak("A long line.", ms=1000, upto_ms=200), HangResponse()],
        Speak("Yes?"),
    ]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), RESPOND)
            delta = await talk.until("response.output_audio.delta")
            await talk.say({"type": "response.cancel"})
            done = await talk.until("response.done")
            assert done["response"]["status_details"]["reason"] == "client_cancelled"
            cut = {
                "type": "conversation.item.truncate",
                "item_id": delta["item_id"],
                "content_index": 0,
            }
            await talk.say({**cut, "audio_end_ms": 201})
            error = (await talk.until("error"))["error"]
            assert error["code"] == "invalid_value"
            assert "200ms is already shorter than 201ms" in error["message"]
            await talk.say({**cut, "audio_end_ms": 150})
            await talk.until("conversation.item.truncated")
            await talk.say({**cut, "audio_end_ms": 151})
            assert "already shorter" in (await talk.until("error"))["error"]["message"]
            await talk.say(
                {"type": "conversation.item.retrieve", "item_id": delta["item_id"]}
            )
            found = await talk.until("conversation.item.retrieved")
            assert found["item"]["content"] == [{"type": "output_audio"}]
    assert [v.code for v in server.violations] == 2 * ["invalid_value"]
    judge_realtime(server.sessions[0].wire.sent)


async def test_what_is_still_being_said_may_be_truncated(
    autojump_clock: MockClock,
) -> None:
    script = [Speak("A long line of many words.", ms=400, paced=True)]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), RESPOND)
            delta = await talk.until("response.output_audio.delta")
            cut = {"item_id": delta["item_id"], "content_index": 0, "audio_end_ms": 0}
            await talk.say({"type": "conversation.item.truncate", **cut})
            done = await talk.until("response.done")
    assert done["response"]["status"] == "completed"
    assert "transcript" not in done["response"]["output"][0]["content"][0]


async def test_the_servers_own_response_waits_for_the_one_that_runs(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [[Speak("A line."), PauseResponse(3)], Speak("And another.")]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(interrupt_response=False), RESPOND)
            await talk.say(append(tone(200) + SILENCE))
            done = await talk.until("response.done")
            assert done["response"]["status"] == "completed"
            assert trio.current_time() == 3
            await talk.until("response.done")


async def test_an_output_may_come_for_a_call_that_was_cancelled(
    autojump_clock: MockClock,
) -> None:
    call = SpokenCallTools([("roll", {})], ids=["call_1"])
    async with open_realtime_server([[call, HangResponse()]], in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(), RESPOND)
            await talk.until("response.output_item.done")
            await talk.say(append(tone(200)))
            done = await talk.until("response.done")
            assert done["response"]["output"][0]["status"] == "completed"
            await talk.say(output("call_1", '{"status": "cancelled"}'))
            await talk.until("conversation.item.done")
    assert not server.violations
    assert not server.warnings


async def test_a_server_that_keeps_no_records_hears_all_the_same(
    autojump_clock: MockClock,
) -> None:
    heard: list[bytes] = []

    def hears(pcm: bytes) -> str:
        heard.append(pcm)
        return "Hello!"

    async with open_realtime_server(
        echo, hears=hears, in_memory=True, records=False
    ) as server:
        async with realtime(server) as talk:
            await talk.say(detecting(prefix_padding_ms=100))
            for _ in range(60):
                await talk.say(append(bytes(48 * 1000)))
            await talk.say(append(tone(300)), append(SILENCE))
            started = await talk.until("input_audio_buffer.speech_started")
            assert started["audio_start_ms"] == 59_900
            await talk.until("response.done")
    assert heard == [bytes(48 * 100) + tone(300) + bytes(48 * 500)]
    session = server.sessions[0]
    assert len(session.hearing.audio) < 48 * 3000
    assert not session.wire.sent
    assert not session.wire.received
