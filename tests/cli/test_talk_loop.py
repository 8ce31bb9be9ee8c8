"""A microphone and a loudspeaker at an NPC, in virtual time: `talk` without devices.

The synthesizer says ten letters a second. What the player says is loud or silent, and
understood when the test says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

import trio
from trio.testing import MockClock

from glyphoxa_trio.cli.talk_latency import TurnLatency
from glyphoxa_trio.cli.talk_loop import TalkLoop
from glyphoxa_trio.cli.talk_microphone import SpeechGate
from glyphoxa_trio.devices import SoundInput, SoundOutput, open_file_output
from glyphoxa_trio.npc import Sentence, TurnDone, TurnEnd, TurnEvent
from glyphoxa_trio.npc.barge_in import NO_MINIMUM, Minimum
from glyphoxa_trio.npc.events import Flush, Hold, Resume, Transcript
from glyphoxa_trio.providers.endpointing import RATE, Endpointing, IsSpeech
from glyphoxa_trio.providers.speech import Began, Final, Partial

from ..npc.support import Script, Table, open_table
from ..npc.test_voice import with_ear
from ..npc.voices import FakeRecognition, FakeRecognizer, FakeSynthesizer

LOCKED = "The door is locked."  # 1.9 s
LOUD = b"\x11\x11"


@attrs.frozen(kw_only=True)
class AnySound(Endpointing):
    """Takes for speech what is not silent."""

    def detector(self) -> IsSpeech:
        return lambda frame: any(frame)


@attrs.define(eq=False)
class Seen:
    """What would be on the screen, with its times."""

    events: list[tuple[float, TurnEvent]] = attrs.field(factory=list)
    latencies: list[TurnLatency] = attrs.field(factory=list)
    states: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)

    def event(self, event: TurnEvent) -> None:
        self.events.append((trio.current_time(), event))

    def latency(self, latency: TurnLatency) -> None:
        self.latencies.append(latency)

    def state(self, loudness: float, what: str) -> None:
        self.states.append(what)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def kinds(self) -> list[type[TurnEvent]]:
        return [type(event) for _, event in self.events]


@attrs.define(eq=False, kw_only=True)
class Desk:
    table: Table
    microphone: SoundInput
    loudspeaker: SoundOutput
    ear: FakeRecognition
    seen: Seen
    kept: list[float]
    over: trio.Event = attrs.field(factory=trio.Event)
    _loud: bool = attrs.field(default=False, init=False)

    async def sound(self) -> None:
        """Be the microphone's device: a piece every 20 ms."""
        while True:
            piece = LOUD if self._loud else b"\0\0"
            self.microphone.put(memoryview(piece * (RATE // 50)))
            await trio.sleep(0.02)

    async def speak(self, seconds: float) -> None:
        """Make a sound for so long."""
        self._loud = True
        await trio.sleep(seconds)
        self._loud = False

    async def say(self, text: str) -> None:
        """Speak for half a second; it is understood 0.2 s after its end was found."""
        self.ear.tell(Began(), Partial("hm"))
        await self.speak(0.5)
        await trio.sleep(0.8)
        self.ear.tell(Final(text))


@asynccontextmanager
async def open_desk(
    script: Script,
    *,
    full_duplex: bool = False,
    closes: bool = False,
    minimum: Minimum = NO_MINIMUM,
) -> AsyncIterator[Desk]:
    recognizer, seen, kept = FakeRecognizer(rate=RATE), Seen(), list[float]()
    with trio.fail_after(600):
        async with (
            open_table(script, synthesizer=FakeSynthesizer()) as table,
            with_ear(table.npc, recognizer, minimum).voice(rate=RATE) as voice,
            open_file_output(None) as loudspeaker,
            trio.open_nursery() as nursery,
        ):
            desk = Desk(
                table=table,
                microphone=SoundInput("test", RATE),
                loudspeaker=loudspeaker,
                ear=recognizer.listeners[-1],
                seen=seen,
                kept=kept,
            )

            async def keep() -> None:
                kept.append(trio.current_time())

            async def run() -> None:
                await TalkLoop(
                    voice=voice,
                    microphone=desk.microphone,
                    loudspeaker=loudspeaker,
                    gate=SpeechGate(RATE, AnySound(), closes),
                    view=seen,
                    full_duplex=full_duplex,
                    answered=keep,
                ).run()
                desk.over.set()

            nursery.start_soon(desk.sound)
            nursery.start_soon(run)
            yield desk
            nursery.cancel_scope.cancel()


async def test_the_latency_of_an_answer_is_the_sum_of_its_parts(
    autojump_clock: MockClock,
) -> None:
    async with open_desk([[0.3, LOCKED]]) as desk:
        await desk.say("Is it open?")
        await trio.sleep(5)
        (latency,) = desk.seen.latencies
        parts = dict(latency.parts)
        assert abs(sum(parts.values()) - latency.total) < 1e-6
        # As exact as the pieces of 20 ms, and the frames of 30 ms, are.
        assert 0.5 < parts["detected"] < 0.62
        assert 0.75 < parts["detected"] + parts["recognized"] < 0.85
        assert abs(parts["model"] - 0.3) < 0.03
        assert parts["voice"] < 0.03
        assert parts["device"] < 0.05
        assert len(desk.kept) == 1
        assert {"listens", "hears you", "thinks"} < {*desk.seen.states}
        assert "speaks; you are not heard" in desk.seen.states


async def test_who_is_not_understood_is_told_so_once(autojump_clock: MockClock) -> None:
    async with open_desk([[LOCKED]]) as desk:
        await desk.speak(0.5)
        await trio.sleep(5.4)  # and half a second until its end is found
        assert desk.seen.notes == []
        await trio.sleep(0.3)
        assert desk.seen.notes == ["no words were found in what you said"]
        await trio.sleep(10)
        assert len(desk.seen.notes) == 1
        await desk.say("Is it open?")
        await trio.sleep(10)
        assert len(desk.seen.notes) == 1
        await desk.speak(0.5)
        await trio.sleep(6)
        assert len(desk.seen.notes) == 2


async def test_who_is_heard_by_a_loudspeaker_is_not_heard_by_the_npc(
    autojump_clock: MockClock,
) -> None:
    async with open_desk([[LOCKED]]) as desk:
        desk.ear.tell(Began(), Final("Is it open?"))
        await trio.sleep(0.5)
        before = len(desk.ear.heard)
        await desk.speak(1.3)  # as the echo of the loudspeaker does
        assert not any(desk.ear.heard[before:])
        assert len(desk.ear.heard) - before > RATE  # it is silence, of the same length
        await trio.sleep(0.3)  # 0.2 s after the end: the room still echoes
        before = len(desk.ear.heard)
        await desk.speak(0.1)
        assert not any(desk.ear.heard[before:])
        await trio.sleep(0.5)
        await desk.speak(0.5)
        assert any(desk.ear.heard[before:])


async def test_who_interrupts_leaves_the_npc_with_the_words_that_were_played(
    autojump_clock: MockClock,
) -> None:
    async with open_desk([[LOCKED], ["Yes."]], full_duplex=True) as desk:
        desk.ear.tell(Began(), Final("Is it open?"))
        await trio.sleep(1.1)  # of 1.9 s
        desk.ear.tell(Began())
        await trio.sleep(0.1)
        assert desk.loudspeaker.left == 0  # it is silent
        assert Flush in desk.seen.kinds()
        desk.ear.tell(Final("And now?"))
        await trio.sleep(3)
        past = [text for who, text in desk.table.llm.told() if who == "assistant"]
        assert past[0].startswith("The door")
        assert "locked" not in past[0]
        assert "speaks" in desk.seen.states


async def test_a_cough_is_waited_for_and_the_rest_is_played(
    autojump_clock: MockClock,
) -> None:
    minimum = Minimum(seconds=0.5)
    async with open_desk([[LOCKED]], full_duplex=True, minimum=minimum) as desk:
        desk.ear.tell(Began(), Final("Is it open?"))
        await trio.sleep(1)
        desk.ear.sound(2, 0.2)
        await trio.sleep(0.1)
        left = desk.loudspeaker.left
        assert 0.5 < left < 1.2
        await trio.sleep(0.4)
        assert desk.loudspeaker.left == left  # it holds still
        desk.ear.sound(2, 0.2, over=True)
        desk.ear.tell(Began(2), Final(""))
        await trio.sleep(3)
        assert desk.loudspeaker.left == 0
        kinds = desk.seen.kinds()
        assert kinds.index(Hold) < kinds.index(Resume)
        assert Flush not in kinds
        assert desk.loudspeaker.gaps == 0


async def test_a_script_ends_when_its_last_question_was_answered(
    autojump_clock: MockClock,
) -> None:
    async with open_desk([[2.0, LOCKED]]) as desk:
        await desk.say("Is it open?")
        desk.microphone.ended.set()
        asked = trio.current_time()
        await desk.over.wait()
        # The model's 2 s, 1.9 s of speech, and one of silence.
        assert 4.8 < trio.current_time() - asked < 5.3
        last = [event for _, event in desk.seen.events][-1]
        assert isinstance(last, TurnDone)
        assert last.end is TurnEnd.COMPLETED


async def test_a_script_that_nobody_answers_ends_as_well(
    autojump_clock: MockClock,
) -> None:
    async with open_desk([]) as desk:
        await desk.speak(0.5)
        desk.microphone.ended.set()
        await desk.over.wait()
        assert 20 < trio.current_time() < 24
        assert desk.seen.events == []


async def test_a_gate_lets_nothing_through_but_speech(
    autojump_clock: MockClock,
) -> None:
    async with open_desk([[LOCKED]], closes=True) as desk:
        for _ in range(20):  # clicks
            await desk.speak(0.02)
            await trio.sleep(0.2)
        assert not any(desk.ear.heard)
        assert len(desk.ear.heard) > 4 * RATE  # but time goes on
        await desk.speak(0.5)
        await trio.sleep(1)
        loud = desk.ear.heard.count(LOUD) / RATE
        assert 0.45 < loud < 0.55  # from its first moment on


async def test_words_and_sentences_are_seen_in_their_order(
    autojump_clock: MockClock,
) -> None:
    async with open_desk([[LOCKED]]) as desk:
        await desk.say("Is it open?")
        await trio.sleep(5)
        seen = [
            event.text
            for _, event in desk.seen.events
            if isinstance(event, Transcript | Sentence)
        ]
        assert seen == ["hm", "Is it open?", LOCKED]


def test_speech_has_the_time_of_its_audio_however_late_it_comes() -> None:
    gate = SpeechGate(RATE, AnySound())
    spoken = LOUD * int(0.3 * RATE) + b"\0\0" * int(0.9 * RATE)
    piece = gate.feed(spoken)  # all at once
    assert piece.began
    assert piece.speech is not None
    assert piece.ended is not None
    assert abs(piece.speech - 0.9) < 0.04
    assert 0.3 < piece.ended < 0.4  # 0.6 s of hardly any speech
    silence = gate.feed(b"\0\0" * RATE)
    assert (silence.began, silence.speech, silence.ended) == (False, None, None)
