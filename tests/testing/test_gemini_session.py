"""The fake Gemini Live server over time: what it hears, updates, handles, the end."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from trio_websocket import ConnectionClosed

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.gemini_server import (
    GEMINI_38,
    GoAway,
    HangResponse,
    ModelTurn,
    PauseResponse,
    Reply,
    Send,
    Speak,
    SpokenCallTools,
    Transcription,
    UserSpeaks,
    open_gemini_server,
)

from .talk import (
    Message,
    Talk,
    answer,
    audio,
    gemini,
    is_over,
    set_up,
    spoken,
    tone,
)
from .vendor_types import judge_gemini

V25 = "gemini-2.5-flash-native-audio"
V31 = "gemini-3.1-flash-live-preview"
V38 = "gemini-3.8-live"
SILENCE = bytes(32 * 600)

# Told with the end of the utterance; what servers do by default is in `transcripts`.
HELLO = Transcription("Hello!", late=False)


def echo(turn: ModelTurn) -> Reply:
    return Speak(f"You said {turn.user!r}.")


def recite(turn: ModelTurn) -> Reply:
    lines = " / ".join(f"{line.role}: {line.text}" for line in turn.lines)
    return Speak(f"[{turn.number}] {lines}")


async def begun(talk: Talk, model: str = V38, **setup: Any) -> None:
    await talk.say(set_up(model, **setup))
    await talk.until("setupComplete")


async def said(talk: Talk) -> str:
    """The words of the turn that comes next."""
    before = len(talk.seen)
    await talk.until(is_over)
    contents = [m.get("serverContent", {}) for m in talk.seen[before:]]
    return "".join(c.get("outputTranscription", {}).get("text", "") for c in contents)


async def test_speech_begins_and_ends_a_turn_by_its_sound(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(echo, hears=[HELLO], in_memory=True) as server:
        async with gemini(server) as talk:
            detection = {"prefixPaddingMs": 20, "silenceDurationMs": 400}
            config = {"automaticActivityDetection": detection}
            await begun(talk, realtimeInputConfig=config, explicitVadSignal=True)
            await talk.say(audio(bytes(32 * 100)), audio(tone(200, 16_000)))
            signal = (await talk.until("voiceActivity"))["voiceActivity"]
            assert signal["voiceActivityType"] == "ACTIVITY_START"
            await talk.say(audio(SILENCE))
            heard = await talk.until(lambda m: "inputTranscription" in str(m))
            assert heard["serverContent"]["inputTranscription"]["text"] == "Hello!"
            assert await said(talk) == "You said 'Hello!'."
    session = server.sessions[0]
    assert session.hearing.audio == bytes(3200) + tone(200, 16_000) + SILENCE
    whole = bytes(32 * 20) + tone(200, 16_000) + bytes(32 * 400)
    assert session.hearing.utterances == [whole]
    judge_gemini(session.wire.sent, session.wire.received)
    assert not server.violations


async def test_speech_interrupts_unless_it_may_not(autojump_clock: MockClock) -> None:
    script = [[Speak("A long line.", upto_ms=40), HangResponse()]]
    async with open_gemini_server(script, in_memory=True) as server:
        for handling in ("START_OF_ACTIVITY_INTERRUPTS", "NO_INTERRUPTION"):
            async with gemini(server) as talk:
                config = {"activityHandling": handling}
                await begun(talk, realtimeInputConfig=config)
                await talk.say(spoken("Speak!"))
                await talk.until("serverContent")
                await talk.say(audio(tone(200, 16_000)))
                if handling == "NO_INTERRUPTION":
                    assert await talk.quiet(60)
                    continue
                content = (await talk.hear())["serverContent"]
                assert content == {"interrupted": True}
                assert is_over(await talk.hear())
                assert await talk.quiet(60)


async def test_who_may_not_interrupt_is_answered_afterwards(
    autojump_clock: MockClock,
) -> None:
    def script(turn: ModelTurn) -> Reply:
        return Speak(f"You said {turn.user!r}.", ms=2000, paced=True)

    async with open_gemini_server(
        script, hears=[Transcription("Wait!", late=False)], in_memory=True
    ) as server:
        async with gemini(server) as talk:
            config = {"activityHandling": "NO_INTERRUPTION"}
            await begun(talk, realtimeInputConfig=config)
            await talk.say(spoken("Speak!"), audio(tone(200, 16_000) + SILENCE))
            assert await said(talk) == "You said 'Speak!'."
            assert trio.current_time() == pytest.approx(2)
            assert await said(talk) == "You said 'Wait!'."
    assert not [m for m in talk.seen if "interrupted" in str(m)]


async def test_the_client_says_when_somebody_speaks_if_it_wants_to(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(
        echo, hears=[Transcription("Hello!", late=True)], in_memory=True
    ) as server:
        async with gemini(server) as talk:
            manual = {"automaticActivityDetection": {"disabled": True}}
            await begun(talk, realtimeInputConfig=manual)
            await talk.say(audio(tone(200, 16_000) + SILENCE))
            assert await talk.quiet(60)
            await talk.say({"realtimeInput": {"activityStart": {}}})
            await talk.say(audio(tone(300, 16_000)))
            await talk.say({"realtimeInput": {"activityEnd": {}}})
            await talk.until(is_over)
            heard = (await talk.hear())["serverContent"]  # late
            assert heard == {"inputTranscription": {"text": "Hello!"}}
            assert server.sessions[0].hearing.utterances == [tone(300, 16_000)]
            assert not server.violations
            await talk.say({"realtimeInput": {"activityEnd": {}}})
            assert await talk.quiet(60)
    assert [v.code for v in server.violations] == ["activity_order"]


async def test_a_microphone_that_pauses_ends_the_turn(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(echo, hears=[HELLO], in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk)
            await talk.say(audio(tone(200, 16_000)))
            assert await talk.quiet(60)
            await talk.say({"realtimeInput": {"audioStreamEnd": True}})
            assert await said(talk) == "You said 'Hello!'."


async def test_the_script_makes_somebody_speak_in_the_middle(
    autojump_clock: MockClock,
) -> None:
    line = Speak("A long line.", ms=2000, paced=True)
    script: list[Reply] = [[UserSpeaks("Wait!", after=0.5), line], Speak("I wait.")]
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk)
            await talk.say(spoken("Speak!"))
            await talk.until(lambda m: m["serverContent"].get("interrupted"))
            assert trio.current_time() == 0.5
            await talk.until(is_over)
            assert await said(talk) == "I wait."
    judge_gemini(server.sessions[0].wire.sent)


async def test_names_may_be_written_in_either_way(autojump_clock: MockClock) -> None:
    schema = {
        "type": "object",
        "properties": {"maxItems": {"type": "string", "max_length": 3}},
        "property_ordering": ["maxItems"],
    }
    declared = {"name": "roll", "parameters": schema, "behavior": "blocking"}
    setup = {
        "model": "models/gemini-3.8-live",
        "generation_config": {"response_modalities": ["AUDIO"]},
        "tools": [{"function_declarations": [declared]}],
        "output_audio_transcription": {},
        "session_resumption": {},
    }
    turns = [{"role": "user", "parts": [{"text": "Hello!"}]}]
    async with open_gemini_server(
        [SpokenCallTools([("roll", {})]), Speak("Yes.")], in_memory=True
    ) as server:
        async with gemini(server) as talk:
            await talk.say({"setup": setup})
            await talk.say({"client_content": {"turns": turns, "turn_complete": True}})
            called = await talk.until("toolCall")
            (call,) = called["toolCall"]["functionCalls"]
            response = {"id": call["id"], "name": "roll", "response": {"max_items": 1}}
            await talk.say({"tool_response": {"function_responses": [response]}})
            await talk.until(is_over)
    assert not server.violations
    # What is the user's own keeps its names.
    assert server.sessions[0].history.outputs[0].output == {"max_items": 1}


async def test_frames_are_binary_and_come_together_if_that_is_wanted(
    autojump_clock: MockClock,
) -> None:
    script = [[Speak("Well.", ms=80), SpokenCallTools([("roll", {})])]]
    async with open_gemini_server(
        script, in_memory=True, binary=True, merged=True, beside={"newField": 1}
    ) as server:
        async with gemini(server) as talk:
            await talk.say(set_up(sessionResumption={}))
            frame = await talk.socket.get_message()
            assert isinstance(frame, bytes)
            assert json.loads(frame)["newField"] == 1
            await talk.say(spoken("Speak!"))
            bag = await talk.hear()
    content = bag["serverContent"]
    parts = content["modelTurn"]["parts"]
    assert [len(b64decode(p["inlineData"]["data"])) for p in parts] == [1920, 1920]
    assert content["generationComplete"]
    assert content["turnComplete"]
    assert bag.keys() == {"serverContent", "toolCall", "usageMetadata", "newField"}
    judge_gemini(server.sessions[0].wire.sent)


async def test_context_is_updated_in_order_for_the_next_turn(
    autojump_clock: MockClock,
) -> None:
    def script(turn: ModelTurn) -> Reply:
        return [PauseResponse(1), Speak(f"{turn.instructions} {turn.tools}")]

    search = {"tools": [{"functionDeclarations": [{"name": "search"}]}]}
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, systemInstruction={"parts": [{"text": "Be brief."}]})
            await talk.say(spoken("One."), {"contextUpdate": {"tools": search}})
            assert await said(talk) == "Be brief. ('roll',)"
            await talk.say(spoken("Two."))
            assert await said(talk) == "Be brief. ('search',)"
            instruction = {"parts": [{"text": "Be kind."}]}
            await talk.say(
                {"contextUpdate": {"systemInstruction": instruction}}, spoken("Three.")
            )
            assert await said(talk) == "Be kind. ('search',)"
            await talk.say({"contextUpdate": {"tools": {"tools": []}}}, spoken("Four."))
            assert await said(talk) == "Be kind. ()"
    assert not server.violations
    judge_gemini([], server.sessions[0].wire.received)


async def test_a_handle_goes_on_with_what_was_said_until_it_was_given(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(recite, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, V31, sessionResumption={})
            await talk.say(spoken("One."))
            update: Message = {}
            while not update.get("resumable"):
                update = (await talk.until("sessionResumptionUpdate"))[
                    "sessionResumptionUpdate"
                ]
            handle = update["newHandle"]
            await talk.say(spoken("Two."))
            await talk.until(is_over)
        search = [{"functionDeclarations": [{"name": "search"}]}]
        async with gemini(server) as talk:
            resumption = {"handle": handle}
            await begun(talk, V31, sessionResumption=resumption, tools=search)
            assert server.sessions[1].resumed
            await talk.say(spoken("Three."))
            words = await said(talk)
            assert words == "[1] user: One. / model: [0] user: One. / user: Three."
        async with gemini(server) as talk:
            await talk.say(set_up(V38, sessionResumption=resumption))
            await talk.rest()
            with pytest.raises(ConnectionClosed) as closed:
                await talk.hear()
            assert closed.value.reason is not None
            assert closed.value.reason.code == 1007
    assert [v.code for v in server.violations] == ["other_model"]


async def test_nothing_is_resumable_while_a_call_is_owed(
    autojump_clock: MockClock,
) -> None:
    script = [SpokenCallTools([("roll", {})]), Speak("Seven.")]
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk, V31, sessionResumption={})
            await talk.say(spoken("Hello."))
            (call,) = (await talk.until("toolCall"))["toolCall"]["functionCalls"]
            assert await talk.quiet(60)
            await talk.say(answer(call, 7))
            await talk.until(is_over)
            await talk.until("sessionResumptionUpdate")
            await talk.say(spoken("Hello."))
            await talk.until("sessionResumptionUpdate")
    updates = [
        m["sessionResumptionUpdate"]
        for m in talk.seen
        if "sessionResumptionUpdate" in m
    ]
    assert [update["resumable"] for update in updates] == [True, False]
    assert "newHandle" not in updates[1]


async def test_the_first_history_begins_no_turn(autojump_clock: MockClock) -> None:
    turns = [
        {"role": "user", "parts": [{"text": "Good day."}]},
        {"role": "model", "parts": [{"text": "Good evening."}]},
    ]
    seed = {"clientContent": {"turns": turns, "turnComplete": True}}
    async with open_gemini_server(recite, in_memory=True) as server:
        async with gemini(server) as talk:
            config = {"initialHistoryInClientContent": True}
            await begun(talk, V31, historyConfig=config)
            await talk.say(seed)
            assert await talk.quiet(60)
            await talk.say(spoken("Who is there?"))
            words = "user: Good day. / model: Good evening. / user: Who is there?"
            assert await said(talk) == f"[0] {words}"
            assert not server.violations
        async with gemini(server) as talk:
            await begun(talk, V31, historyConfig=config)
            await talk.say(spoken("Who is there?"))
            await talk.until(is_over)
            assert [v.code for v in server.violations] == ["history_unfinished"]
        # Without that, history is content without an end; 2.5 wants the user last.
        open_end = {"clientContent": {"turns": turns, "turnComplete": False}}
        async with gemini(server) as talk:
            await begun(talk, V25)
            await talk.say(open_end, spoken("Who is there?"))
            assert await said(talk) == f"[0] {words}"
            assert [v.code for v in server.violations][1:] == ["seed"]


async def test_content_without_an_end_stops_the_model(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server([PauseResponse(5)], in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk)
            await talk.say(spoken("Speak!"))
            await talk.say({"clientContent": {"turnComplete": False}})
            content = (await talk.hear())["serverContent"]
            assert content == {"interrupted": True}
            await talk.until(is_over)
            assert await talk.quiet(60)


async def test_a_socket_lives_for_so_long_and_says_when_it_is_about_to_end(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(
        [Speak("Yes.")], in_memory=True, lifetime=600, notice=60
    ) as server:
        async with gemini(server) as talk:
            await begun(talk)
            assert (await talk.until("goAway"))["goAway"] == {"timeLeft": "60s"}
            assert trio.current_time() == 540
            await talk.rest()
            assert trio.current_time() == 600
    assert server.sessions[0].wire.code == 1001
    judge_gemini(server.sessions[0].wire.sent)


async def test_a_turn_is_over_when_it_was_played(autojump_clock: MockClock) -> None:
    async with open_gemini_server([Speak("Yes.")], in_memory=True, lag=0.5) as server:
        async with gemini(server) as talk:
            await begun(talk)
            await talk.say(spoken("Speak!"))
            await talk.until(lambda m: m["serverContent"].get("generationComplete"))
            assert trio.current_time() == 0
            await talk.until(is_over)
            assert trio.current_time() == 0.5


async def test_anything_can_be_sent_and_models_can_be_made_up(
    autojump_clock: MockClock,
) -> None:
    script = [[Send({"telepathy": {}}), GoAway(9.5), Speak("Yes.")]]
    async with open_gemini_server(script, in_memory=True, profile=GEMINI_38) as server:
        async with gemini(server) as talk:
            await talk.say(set_up("whatever"))
            await talk.say(spoken("Speak!"))
            await talk.until("telepathy")
            assert (await talk.hear())["goAway"] == {"timeLeft": "9.5s"}
            await talk.until(is_over)
    assert not server.violations


async def test_another_rate_in_the_middle_is_noted(autojump_clock: MockClock) -> None:
    async with open_gemini_server([Speak("Yes.")], in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk)
            await talk.say(audio(bytes(640), 24_000), audio(bytes(640), 16_000))
            chunk = audio(bytes(640), 24_000)["realtimeInput"]["audio"]
            await talk.say({"realtimeInput": {"mediaChunks": [chunk]}})
            await talk.say({"realtimeInput": {"video": {"mimeType": "image/png"}}})
            assert await talk.quiet(60)
    assert [v.code for v in server.violations] == ["other_rate", "deprecated"]


async def test_content_that_wants_an_answer_keeps_the_interaction_going(
    autojump_clock: MockClock,
) -> None:
    turns = [{"role": "user", "parts": [{"text": "Who is there?"}]}]
    content = {"clientContent": {"turns": turns, "turnComplete": True}}
    script: list[Reply] = [[Speak("I am", ms=40), HangResponse()], Speak("Bartok.")]
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk)
            await talk.say(content)
            await talk.until("serverContent")
            await talk.say(content)
            cut = await talk.until(is_over)
            whole = await talk.until(is_over)
    status = [m["serverContent"]["interactionStatus"] for m in (cut, whole)]
    assert status == ["IN_PROGRESS", "IDLE"]


async def test_what_is_heard_is_timed_at_the_rate_that_it_comes_at(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server(echo, hears=[HELLO], in_memory=True) as server:
        async with gemini(server) as talk:
            await begun(talk)
            await talk.say(audio(tone(200, 24_000) + bytes(48 * 600), 24_000))
            await talk.until(is_over)
    whole = tone(200, 24_000) + bytes(48 * 500)
    assert server.sessions[0].hearing.utterances == [whole]
