"""What is heard of a speech-to-speech NPC: by a loudspeaker that takes its time, for
longer than any limit, and also what its model does not say by itself.

Virtual time and the strict fakes; times are exact.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig, VoiceConfig
from glyphoxa_trio.npc import Sentence, TurnDone, TurnEnd
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.npc.events import Flush, Speech, SpeechFailed
from glyphoxa_trio.npc.s2s.own_voice import Recordings
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.testing.realtime.session import RealtimeSession
from glyphoxa_trio.testing.realtime_server import (
    Close,
    FailResponse,
    HangResponse,
    ModelTurn,
    PauseResponse,
    Speak,
    UserSpeaks,
)
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import Heard, Ran, ask
from ..npc.voices import FakeSynthesizer
from .support import EACH, GEMINI_38, OPENAI, open_talk, sent_by

FRAME = 0.04  # seconds of audio in a message of the fake


@attrs.define(eq=False)
class SoundDevice:
    """Plays what comes, and blocks while it does, as a sound device does.

    ``reports``: it says what it has played.
    """

    voice: Voice
    reports: bool = False
    heard: float = 0.0
    flushed: float | None = None
    done: TurnDone | None = None

    async def run(self) -> None:
        if self.reports:
            self.voice.played(0)
        async for event in self.voice:
            match event:
                case Speech():
                    await trio.sleep(event.seconds)
                    self.heard += event.seconds
                    if self.reports:
                        self.voice.played(1000 * self.heard)
                case Flush():
                    self.flushed = trio.current_time()
                case TurnDone():
                    self.done = event


@pytest.mark.parametrize("reports", [False, True])
async def test_a_loudspeaker_that_blocks_is_interrupted_at_what_was_heard(
    autojump_clock: MockClock, reports: bool
) -> None:  # A13
    # Twenty seconds come at once, and are played at their own pace.
    words = " ".join(f"word{n}." if n % 5 == 4 else f"word{n}" for n in range(100))
    script = [Speak(words, ms=20_000), Speak("Yes?")]
    async with open_talk(OPENAI, script) as (table, server):
        async with table.npc.voice(speaker="Ann", rate=24_000) as voice:
            device = SoundDevice(voice, reports)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(device.run)
                session = await server.wait_sessions(1)
                await trio.sleep(0.5)
                session.happen(UserSpeaks("Tell me all of it", ms=0))
                await trio.sleep(3.01)
                assert device.heard == pytest.approx(3.0)
                barged = trio.current_time()
                session.happen(UserSpeaks("Stop!", ms=100))
                await trio.sleep(0.5)
                nursery.cancel_scope.cancel()
        first = [(at, x) for at, x in table.events.kept if x.turn == 1]
        (flushed,) = [at for at, x in first if isinstance(x, Flush)]
        (done,) = [x for _, x in first if isinstance(x, TurnDone)]
        said = table.session.memory.conversation.snapshot()[0].rounds[0].heard
        (cut,) = sent_by(server, "conversation.item.truncate")
    # The turn is void at once, and whoever plays knows it when they ask next.
    assert flushed - barged <= 0.005
    assert device.flushed is not None
    assert device.flushed - barged <= FRAME
    assert abs(cut["audio_end_ms"] / 1000 - 3.0) <= FRAME
    assert done.end is TurnEnd.INTERRUPTED
    # The words are those of the fifteen hundredths that were heard.
    assert 13 <= len(" ".join(said).split()) <= 15
    assert words.startswith(" ".join(said))


@EACH
async def test_speech_is_longer_than_any_limit_of_its_model(
    model: str, autojump_clock: MockClock
) -> None:
    script = [Speak("Long ago it was.", ms=60_000, paced=True)]
    limits = TurnConfig(model_total=30.0, silence=5.0)
    async with open_talk(model, script, table={"turn": limits}) as (table, _):
        heard = await ask(table.npc, "Tell me all of it")
    assert heard.done.end is TurnEnd.COMPLETED
    assert sum(x.seconds for x in heard.of(Speech)) == pytest.approx(60.0)
    assert heard.done.timings.model < 1.0


@EACH
async def test_a_model_that_goes_silent_is_waited_for_when_it_was_heard(
    model: str, autojump_clock: MockClock
) -> None:
    # Ten seconds at once, and nothing more: nobody waits while they are played.
    script = [[Speak("Long ago, it was", ms=10_000, upto_ms=10_000), HangResponse()]]
    limits = TurnConfig(model_total=30.0, silence=5.0)
    async with open_talk(model, script, table={"turn": limits}) as (table, _):
        heard = await ask(table.npc, "Tell me")
    assert heard.when(TurnDone)[0] == pytest.approx(15.0, abs=0.5)


async def test_a_model_that_says_a_little_now_and_then_has_an_end(
    autojump_clock: MockClock,
) -> None:
    # Some audio every four seconds is no speech: its time runs in between.
    moment = [Speak("Hm", ms=100), PauseResponse(4.0)]
    limits = TurnConfig(model_total=30.0, silence=5.0)
    async with open_talk(OPENAI, [moment * 20], table={"turn": limits}) as (table, _):
        heard = await ask(table.npc, "Tell me")
    assert heard.done.end is TurnEnd.FAILED
    assert 29.0 < heard.when(TurnDone)[0] < 33.0


# What no model says by itself.

HALL = NpcConfig(
    name="Bob",
    engine=Engine.S2S,
    budget_tier=Tier.DEEP,
    fallback=("Hm, what was that?", "My thoughts wandered off."),
    greeting="Sit down, stranger.",
    voice=VoiceConfig(name="marin", language="en-GB"),
)
FAILING = ("silent", "failed", "mute")
WAYS = (*FAILING, "empty", "shed", "routed", "greeting", "speak_as")


@attrs.define
class Refusing(Activity):
    """Turns everybody away."""

    def refusal(self) -> str:
        return "it is full"


async def heard_of(
    way: str, model: str, *, rest: float = 0.0, synthesizer: FakeSynthesizer | None
) -> tuple[Heard, list[str]]:
    """What is heard in that case, after a turn that went well and a rest, if any."""
    study = Ran().tool("study", 3.0)
    wrong: dict[str, list[Any]] = {
        "silent": [HangResponse()],
        "mute": [Speak("Good day, stranger. Sit down.", ms=0)],
        "failed": [FailResponse("server_error")]
        if model == OPENAI
        else [Close(1011), HangResponse()],
    }
    well: list[Any] = [[Speak("Good day.", ms=400)]] if rest else []
    script = [*well, wrong.get(way, [PauseResponse(0.01)])]
    warnings: list[str] = []
    table = {
        "synthesizer": synthesizer,
        "warn": warnings.append,
        "turn": TurnConfig(first_token=1.0, silence=1.0),
        "s2s": S2SConfig(route=way == "routed"),
        "activity": Refusing() if way == "shed" else Activity(),
    }
    async with open_talk(
        model, script, study, npc=HALL, table=table, text=[["It is a trap. Run!"]]
    ) as (made, _):
        if rest:
            await ask(made.npc, "Hello")
            await trio.sleep(rest)
        heard = Heard()
        if way == "greeting":
            turn = made.npc.greet()
        elif way == "speak_as":
            turn = made.npc.speak_as("The bridge is out.")
        else:
            turn = made.npc.say("Think about it carefully", tier=Tier.DEEP)
        async with turn as heard.turn:
            async for event in turn:
                heard.events.append((trio.current_time(), event))
    return heard, warnings


def seconds(heard: Heard, *, cue: bool = False) -> float:
    return sum((x.seconds for x in heard.of(Speech) if x.filler is cue), 0.0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [OPENAI, GEMINI_38])
@pytest.mark.parametrize("synthesized", [False, True])
async def test_every_sentence_is_heard(
    way: str, model: str, synthesized: bool, autojump_clock: MockClock
) -> None:  # A36
    synthesizer = FakeSynthesizer() if synthesized else None
    heard, warnings = await heard_of(way, model, synthesizer=synthesizer)
    words = heard.done.text
    assert words
    spoken = seconds(heard)
    if model == OPENAI or synthesized:
        # All of it, by a tenth or a sixteenth of a second for a letter.
        assert spoken >= 0.05 * len(words)
        assert not heard.of(SpeechFailed)
        assert not seconds(heard, cue=True)
    else:  # nothing can say it
        assert seconds(heard, cue=True) == 0.4
        assert " ".join(x.text for x in heard.of(SpeechFailed)) == words
        assert "configure speech.synthesis" in warnings[0]
    if synthesizer is not None:  # the name is that of the model's voice
        assert {(x.name, x.language) for x in synthesizer.voices} <= {(None, "en-GB")}
        assert bool(synthesizer.voices) == (model != OPENAI or way in FAILING)


async def test_a_model_that_writes_and_never_sends_audio_is_reported(
    autojump_clock: MockClock,
) -> None:
    # Nor does it when it is asked to read its words out.
    mute, warnings = Speak("Good day. Sit down.", ms=0), list[str]()
    table = {"warn": warnings.append}
    async with open_talk(
        OPENAI, [mute], npc=HALL, table=table, aside=lambda _: mute
    ) as (
        made,
        _,
    ):
        heard = await ask(made.npc, "Hello")
    assert heard.done.text == "Good day. Sit down."
    assert [x.text for x in heard.of(Sentence)] == ["Good day.", "Sit down."]
    assert [x.text for x in heard.of(SpeechFailed)] == ["Good day.", "Sit down."]
    assert seconds(heard, cue=True) == 0.4
    (warning,) = warnings
    assert warning == "Bob cannot say a sentence aloud: its model said nothing"


@pytest.mark.parametrize("way", ["silent", "failed", "shed"])
async def test_fallback_lines_are_recorded_while_the_model_is_well(
    way: str, autojump_clock: MockClock
) -> None:
    # It is silent to everything later, and so is heard all the same, at once.
    heard, _ = await heard_of(way, OPENAI, rest=10.0, synthesizer=None)
    assert heard.done.text in HALL.fallback
    at = heard.when(Sentence)[0]
    assert [x for x in heard.when(Speech) if x == at]
    assert seconds(heard) == pytest.approx(0.06 * len(heard.done.text))


async def test_recordings_are_made_once_for_all_conversations_and_of_the_right_words(
    autojump_clock: MockClock,
) -> None:
    said: list[str] = []

    def aside(turn: ModelTurn) -> Speak:
        said.append(turn.user)
        wrong = turn.user == HALL.fallback[1]
        return Speak("How may I help?" if wrong else turn.user, ms=500)

    recordings = Recordings()
    for _ in range(2):
        table = {"recordings": recordings}
        script = [Speak("Good day.")]
        async with open_talk(OPENAI, script, npc=HALL, table=table, aside=aside) as (
            made,
            server,
        ):
            await ask(made.npc, "Hello")
            await trio.sleep(10)
            (session,) = server.sessions
            assert isinstance(session, RealtimeSession)
            assert len(session.conversation.items) == 3  # none of this
    assert said.count(HALL.fallback[0]) == 1
    kept = [key[-1] for key in recordings._lines]
    assert kept == [HALL.fallback[0]]


async def test_with_a_synthesizer_nothing_is_recorded(
    autojump_clock: MockClock,
) -> None:
    table = {"synthesizer": FakeSynthesizer()}
    async with open_talk(OPENAI, [Speak("Good day.")], npc=HALL, table=table) as (
        made,
        server,
    ):
        await ask(made.npc, "Hello")
        await trio.sleep(10)
        assert len(sent_by(server, "response.create")) == 1


async def test_what_is_read_out_stops_with_its_turn(autojump_clock: MockClock) -> None:
    async with open_talk(OPENAI, [Speak("Good day.")], npc=HALL) as (made, server):
        async with made.npc.speak_as("A very long story. " * 20) as turn:
            async for event in turn:
                if isinstance(event, Speech):
                    break
        assert turn.done is None
        await trio.sleep(0.5)
        (session,) = server.sessions
        assert isinstance(session, RealtimeSession)
        assert session.responses.every[0].aside
        assert session.responses.every[0].ended is not None
        heard = await ask(made.npc, "Hello")
        assert heard.done.text == "Good day."
