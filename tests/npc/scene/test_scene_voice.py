"""Microphones in a scene: who hears them, and who speaks when (D23a).

The synthesizer says ten letters a second; whoever listens plays them as fast.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig, VoiceConfig
from glyphoxa_trio.npc import TierSelected, TurnDone, TurnEnd
from glyphoxa_trio.npc.events import Flush, HearingFailed, Speech, Transcript
from glyphoxa_trio.npc.session.npc import CannotHear
from glyphoxa_trio.providers import endpointing
from glyphoxa_trio.providers.s2s import (
    Heard,
    SendAudio,
    SendText,
    SpeechBegins,
    SpeechEnds,
    SpeechStarted,
    SpeechStopped,
    TranscriptLine,
)
from glyphoxa_trio.providers.speech import Began, Final, Partial
from glyphoxa_trio.runtime import open_runtime
from tests.npc.s2s.support import ANSWERS, ASKS, Links, ScriptedLink
from tests.npc.support import ScriptedLLM
from tests.npc.voices import (
    FakeRecognition,
    FakeRecognizer,
    FakeSynthesizer,
    Loudspeaker,
)

from .support import BARTOK, YSOLDE, Stage, config, listen, open_stage, started

DONE, CUT, FAILED, *_ = TurnEnd


@attrs.define(eq=False)
class Talk:
    stage: Stage
    ear: FakeRecognition
    speaker: Loudspeaker

    async def say(self, text: str) -> None:
        self.ear.tell(Began(), Final(text))
        await wait_all_tasks_blocked()

    def ends(self) -> list[tuple[str, TurnEnd, float]]:
        return [
            (event.npc, event.end, round(at, 3))
            for at, event in self.speaker.events
            if isinstance(event, TurnDone)
        ]

    def begins(self) -> list[tuple[str, float]]:
        return [
            (event.npc, round(at, 3))
            for at, event in self.speaker.events
            if isinstance(event, TierSelected)
        ]


@asynccontextmanager
async def open_talk(script: Any, *npcs: Any, **how: Any) -> AsyncIterator[Talk]:
    """Ann has a microphone and a loudspeaker in the tavern."""
    recognizer, synthesizer = FakeRecognizer(), FakeSynthesizer()
    voices = {"recognizer": recognizer, "synthesizer": synthesizer}
    async with open_stage(script, *npcs, voices=voices, **how) as stage:
        scene = stage.scene
        async with (
            scene.voice(speaker="Ann", rate=recognizer.rate) as voice,
            trio.open_nursery() as nursery,
        ):
            speaker = Loudspeaker(voice)
            nursery.start_soon(speaker.run)
            await wait_all_tasks_blocked()
            yield Talk(stage, recognizer.listeners[-1], speaker)
            nursery.cancel_scope.cancel()


LINES = {"Bartok": ["It is locked."], "Ysolde": ["Beware the bell."]}


async def test_whoever_is_named_answers_aloud(autojump_clock: object) -> None:
    async with open_talk(LINES) as talk:
        talk.ear.tell(Began(), Partial("bartok is it"))
        await talk.say("Bartok, is it open?")
        await trio.sleep(5)
        await talk.say("Ysolde, shall we?")
        await trio.sleep(5)
        await talk.say("Who is meant by nobody?")  # it stays with Ysolde
        await trio.sleep(5)
    assert talk.begins() == [(BARTOK, 0.0), (YSOLDE, 5.0), (YSOLDE, 10.0)]
    assert [npc for npc, _, _ in talk.ends()] == [BARTOK, YSOLDE, YSOLDE]
    # Both have a turn of that number, and each was played as its own.
    spoken = {(x.npc, x.turn) for x in talk.speaker.of(Speech)}
    assert spoken == {(BARTOK, 1), (YSOLDE, 1), (YSOLDE, 2)}
    said = "Ann to Bartok the Barkeep: Bartok, is it open?"
    assert talk.stage.overheard(YSOLDE)[:1] == [said]
    assert talk.stage.overheard(YSOLDE)[1].endswith(": It is locked.")


async def test_who_cannot_be_meant_is_told_to_whoever_listens(
    autojump_clock: object,
) -> None:
    async with open_talk(LINES) as talk:
        await talk.say("Hello, all of you")
        (failed,) = talk.speaker.of(HearingFailed)
        assert failed.detail.startswith("it is not clear which NPC is addressed: name")
        assert not failed.deaf


async def test_a_player_who_begins_to_speak_interrupts_whoever_answers_them(
    autojump_clock: object,
) -> None:
    async with open_talk(LINES) as talk:
        await talk.say("Bartok, is it open?")
        await trio.sleep(0.75)
        talk.ear.tell(Began())
        await trio.sleep(1)
        talk.ear.tell(Final("Ysolde, tell me"))
        await trio.sleep(5)
        assert talk.speaker.when(Flush)[0] == 0.75
        # Of thirteen letters seven were heard: the first word, of two.
        heard = [x for x in talk.stage.overheard(YSOLDE) if x.startswith(BARTOK)]
        assert heard in ([f"{BARTOK} to Ann: It"], [f"{BARTOK} to Ann: It is"])


async def test_nobody_speaks_while_another_is_still_played(
    autojump_clock: object,
) -> None:
    async with open_talk(LINES) as talk, trio.open_nursery() as nursery:
        await talk.say("Bartok, is it open?")
        other = started(nursery, talk.stage.scene.say("Ysolde?", speaker="Cole"))
        await trio.sleep(3)
    # Bartok's words take 1.3 seconds; his text was there at once.
    assert other.when(TierSelected) == [pytest.approx(1.3, abs=0.11)]


async def test_nobody_speaks_while_another_program_still_speaks_an_answer(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        scene = stage.scene
        async with scene.say("Bartok?", speaker="Cole") as turn:
            turn.heard("")
            done = await turn.finish()
            other = started(nursery, scene.say("Ysolde?", speaker="Dana"))
            await trio.sleep(0.5)
            first = done.text.split()[0]
            turn.heard(first, over=True)
    assert other.when(TierSelected) == [1.5]  # the model took the first second
    heard = [x for x in stage.overheard(YSOLDE) if x.startswith(BARTOK)]
    assert heard == [f"{BARTOK} to Cole: {first}"]


async def test_whoever_does_not_say_what_was_played_is_waited_for_only_so_long(
    autojump_clock: object,
) -> None:
    async with open_talk(LINES) as talk, trio.open_nursery() as nursery:
        scene = talk.stage.scene
        async with scene.say("Bartok?", speaker="Cole") as turn:
            turn.played(0)
            await turn.finish()
        other = started(nursery, scene.say("Ysolde?", speaker="Dana"))
    # 1.3 seconds of audio, and a second for whoever plays it to say so.
    assert other.when(TierSelected) == [2.3]


async def test_nobody_hears_without_anything_that_hears(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        with pytest.raises(CannotHear, match="no NPC can hear"):
            stage.scene.voice(rate=16_000)


# NPCs whose models hear for themselves.


def spoken_npc(name: str) -> NpcConfig:
    return NpcConfig(name=name, engine=Engine.S2S, voice=VoiceConfig(language="en"))


@attrs.define(eq=False)
class Room:
    stage: Stage
    links: Links
    voice: Any
    speaker: Loudspeaker
    ear: FakeRecognition | None

    def link(self, npc: str) -> ScriptedLink:
        """The socket of that NPC's model."""
        found = [
            x for x in self.links.opened if f"You are {npc}," in x.setup.instructions
        ]
        return found[-1]

    def heard(self, npc: str) -> bytes:
        sockets = [
            x for x in self.links.opened if f"You are {npc}," in x.setup.instructions
        ]
        return b"".join(c.pcm for link in sockets for c in link.all(SendAudio))


@asynccontextmanager
async def open_room(
    *npcs: Any, recognized: bool = False, **how: Any
) -> AsyncIterator[Room]:
    links, recognizer = Links(ANSWERS), FakeRecognizer(rate=16_000)
    voices: dict[str, Any] = {"s2s": links}
    if recognized:
        voices["recognizer"] = recognizer
    async with open_stage({}, *npcs, voices=voices, **how) as stage:
        await stage.scene.turn_to(stage.runtime.npcs[0].name, speaker="Ann")
        async with (
            stage.scene.voice(speaker="Ann", rate=16_000) as voice,
            trio.open_nursery() as nursery,
        ):
            speaker = Loudspeaker(voice)
            nursery.start_soon(speaker.run)
            await wait_all_tasks_blocked()
            ear = recognizer.listeners[-1] if recognized else None
            yield Room(stage, links, voice, speaker, ear)
            nursery.cancel_scope.cancel()


SECOND = bytes(2 * 16_000)


async def test_a_microphone_reaches_the_one_model_that_is_spoken_to(
    autojump_clock: object,
) -> None:
    siri, hal = spoken_npc("Siri"), spoken_npc("Hal")
    async with open_room(siri, hal) as room:
        room.voice.hear(b"ab" * 100)
        await wait_all_tasks_blocked()
        link = room.link("Siri")
        link.push(SpeechStarted(), SpeechStopped(), Heard("Where are we?", True))
        link.speak("r1", "In a tavern.")
        await trio.sleep(3)
        assert room.heard("Siri") == b"ab" * 100
        assert [x.npc for x in room.speaker.of(TurnDone)] == ["Siri"]
        assert room.speaker.of(Transcript)[-1].text == "Where are we?"
        # The other one knows as text what was said, and says nothing.
        await room.stage.scene.turn_to("Hal", speaker="Ann")
        await wait_all_tasks_blocked()
        room.voice.hear(b"cd" * 100)
        await wait_all_tasks_blocked()
        assert room.heard("Hal") == b"cd" * 100
        assert room.heard("Siri") == b"ab" * 100
        lines = [x.text for x in room.link("Hal").setup.history]
        assert lines == [
            "(Ann to Siri: Where are we?)",
            "(Siri to Ann: In a tavern.)",
        ]


async def test_who_is_named_answers_in_place_of_the_model_that_heard_it(
    autojump_clock: object,
) -> None:
    async with open_room(spoken_npc("Siri"), spoken_npc("Hal")) as room:
        room.voice.hear(SECOND)
        await wait_all_tasks_blocked()
        link = room.link("Siri")
        link.push(SpeechStarted(), SpeechStopped())
        link.push(Heard("Hal, open the door!", True))
        link.speak("r1", "I am Siri and I do not ", "know the door at all.")
        await trio.sleep(1)
        # What she has to say to that is not given out, nor waited for.
        assert room.speaker.of(Speech) == []
        asked = [x.line for x in room.link("Hal").all(SendText) if x.reply]
        assert asked == [TranscriptLine("user", "Hal, open the door!")]
        room.link("Hal").speak("r2", "No.")
        await trio.sleep(3)
        assert [x.npc for x in room.speaker.of(TurnDone)][-1] == "Hal"
        # From now on the microphone is his.
        room.voice.hear(b"ef" * 50)
        await wait_all_tasks_blocked()
        assert room.heard("Hal") == b"ef" * 50


async def test_a_model_that_answers_by_itself_waits_for_the_floor(
    autojump_clock: object,
) -> None:
    async with open_room(spoken_npc("Siri"), "Bea") as room:
        scene = room.stage.scene
        async with trio.open_nursery() as nursery:
            bea = started(nursery, scene.say("Bea, hello", speaker="Cole"))
            await trio.sleep(0.5)
            room.voice.hear(SECOND)
            await wait_all_tasks_blocked()
            link = room.link("Siri")
            link.push(SpeechStarted(), SpeechStopped(), Heard("Well?", True))
            link.speak("r1", "I am here.")
            await trio.sleep(0.1)
            assert room.speaker.of(Speech) == []
        assert bea.when(TurnDone) == [1.0]
        await trio.sleep(1)
        assert room.speaker.when(Speech)[0] == pytest.approx(1.0, abs=1e-6)


async def test_a_muted_model_is_given_no_microphone(autojump_clock: object) -> None:
    async with open_room(spoken_npc("Siri"), spoken_npc("Hal")) as room:
        scene = room.stage.scene
        await scene.mute("Siri")
        await wait_all_tasks_blocked()
        room.voice.hear(b"ab" * 100)  # for Hal, the only one left
        await wait_all_tasks_blocked()
        assert room.heard("Siri") == b""
        assert room.heard("Hal") == b"ab" * 100
        await scene.unmute("Siri")
        await scene.turn_to("Siri", speaker="Ann")
        await wait_all_tasks_blocked()
        room.voice.hear(b"cd" * 100)
        await wait_all_tasks_blocked()
        assert room.heard("Siri") == b"cd" * 100


async def test_a_model_hears_one_player_and_the_other_is_told(
    autojump_clock: object,
) -> None:
    async with open_room(spoken_npc("Siri"), "Bea") as room:
        scene = room.stage.scene
        await scene.turn_to("Siri", speaker="Cole")
        async with scene.voice(speaker="Cole", rate=16_000) as voice:
            event = await voice.__anext__()
            assert isinstance(event, HearingFailed)
            assert "hears Ann already" in event.detail


async def test_a_model_that_is_asked_is_told_when_somebody_speaks(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpointing, "detector", lambda: any)  # what is not silent
    links = Links(attrs.evolve(ASKS, input_rate=16_000))
    wanted = attrs.evolve(config(spoken_npc("Siri")), s2s=S2SConfig(automatic=False))
    async with open_runtime(
        wanted, llm=ScriptedLLM([]), s2s=links, wait_for_servers=0.0
    ) as runtime:
        async with runtime.scene().voice(speaker="Ann", rate=16_000) as voice:
            await wait_all_tasks_blocked()
            for piece in (b"ab" * 16_000, SECOND):
                voice.hear(piece)
                await wait_all_tasks_blocked()
            commands = [type(x) for _, x in links.last.sent]
            assert commands.index(SpeechBegins) < commands.index(SpeechEnds)
            assert b"ab" * 16_000 in b"".join(x.pcm for x in links.last.all(SendAudio))


async def test_those_who_read_are_reached_through_the_recognizer(
    autojump_clock: object,
) -> None:
    async with open_room("Bea", spoken_npc("Siri"), recognized=True) as room:
        assert room.ear is not None
        room.voice.hear(b"ab" * 100)
        assert room.ear.heard == b"ab" * 100
        room.ear.tell(Began(), Final("Siri, are you there?"))
        await wait_all_tasks_blocked()
        # She is told in text what was understood, and hears the rest herself.
        asked = [x.line.text for x in room.link("Siri").all(SendText) if x.reply]
        assert asked == ["Siri, are you there?"]
        room.link("Siri").speak("r1", "Yes.")
        await trio.sleep(2)
        room.voice.hear(b"cd" * 100)
        await wait_all_tasks_blocked()
        assert room.ear.heard == b"ab" * 100
        assert room.heard("Siri") == b"cd" * 100


async def test_one_who_cannot_hear_says_so(autojump_clock: object) -> None:
    async with open_room("Bea", spoken_npc("Siri")) as room:
        await trio.lowlevel.checkpoint()
        (failed,) = room.speaker.of(HearingFailed)
        assert failed.detail == "Bea cannot hear: configure speech.recognition"


async def test_switching_the_microphone_off_gives_the_ear_back(
    autojump_clock: object,
) -> None:
    async with open_room(spoken_npc("Siri")) as room:
        scene = room.stage.scene
    async with open_stage(
        {}, spoken_npc("Siri"), voices={"s2s": Links(ANSWERS)}
    ) as stage:
        scene = stage.scene
        for _ in range(2):
            async with scene.voice(speaker="Ann", rate=16_000) as voice:
                voice.hear(SECOND)
                await wait_all_tasks_blocked()
        heard = await listen(scene.say("Siri?", speaker="x"), leave_at=1.0)
        assert heard.error is None
