"""A microphone and a loudspeaker at an NPC, on virtual time.

The synthesizer says ten letters a second; whoever listens plays them as fast, and
reports every tenth of a second what was played.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.config.model import SpeculationConfig
from glyphoxa_trio.config.voices import VoiceConfig
from glyphoxa_trio.npc import (
    Npc,
    Queued,
    Sentence,
    SpeculationDone,
    SpeculationEnd,
    TierSelected,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.barge_in import NO_MINIMUM, Minimum
from glyphoxa_trio.npc.ear import RecognizedEar
from glyphoxa_trio.npc.events import Flush, HearingFailed, Speech, Transcript
from glyphoxa_trio.npc.session.npc import CannotHear
from glyphoxa_trio.npc.voice import MOST_NEWS, PlaybackOutput, Voice
from glyphoxa_trio.providers.speech import (
    Began,
    Final,
    NotUnderstood,
    Partial,
    SpeechError,
)
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.tier import Tier

from .support import HANG, Script, Table, ask, open_table
from .voices import (
    FakeRecognition,
    FakeRecognizer,
    FakeSynthesizer,
    Loudspeaker,
    audio_of,
)

DONE, CUT, FAILED, *_ = TurnEnd
LOCKED = "The door is locked."  # 1.9 s


@attrs.define(eq=False, kw_only=True)
class Talk:
    """Ann at a table with a microphone, and what she hears."""

    table: Table
    npc: Npc
    voice: Voice
    ear: FakeRecognition
    speaker: Loudspeaker
    synthesizer: FakeSynthesizer

    async def say(self, text: str) -> None:
        """She says it, at once."""
        self.ear.tell(Began(), Final(text))
        await wait_all_tasks_blocked()


def with_ear(
    npc: Npc, recognizer: FakeRecognizer, minimum: Minimum = NO_MINIMUM
) -> Npc:
    def ears(npc: Npc, speaker: str) -> RecognizedEar:
        return RecognizedEar(
            npc=npc,
            speaker=speaker,
            recognizer=recognizer,
            language=npc.config.voice.language,
            warn=recognizer.warnings.append,
            minimum=minimum,
        )

    return attrs.evolve(npc, ears=ears)


@asynccontextmanager
async def open_talk(
    script: Script,
    *tools: Tool,
    report: float = 0.1,
    recognizer: FakeRecognizer | None = None,
    voiced: bool = True,
    minimum: Minimum = NO_MINIMUM,
    **table: Any,
) -> AsyncIterator[Talk]:
    recognizer = recognizer or FakeRecognizer()
    synthesizer = FakeSynthesizer()
    if voiced:
        table["synthesizer"] = synthesizer
    with trio.fail_after(7200):
        async with open_table(script, *tools, **table) as opened:
            npc = with_ear(opened.npc, recognizer, minimum)
            async with (
                npc.voice(speaker="Ann", rate=recognizer.rate) as voice,
                trio.open_nursery() as nursery,
            ):
                speaker = Loudspeaker(voice, report)
                nursery.start_soon(speaker.run)
                yield Talk(
                    table=opened,
                    npc=npc,
                    voice=voice,
                    ear=recognizer.listeners[-1],
                    speaker=speaker,
                    synthesizer=synthesizer,
                )
                nursery.cancel_scope.cancel()


def told(table: Table) -> list[tuple[str, str]]:
    """What the last request said of the past."""
    return table.llm.told()[:-1]


# Hearing and answering.


async def test_what_is_said_is_answered_aloud(autojump_clock: MockClock) -> None:
    async with open_talk([[LOCKED]]) as talk:
        talk.voice.hear(b"abcd")
        await talk.say("Is it open?")
        await trio.sleep(5)
    assert talk.ear.heard == b"abcd"
    assert talk.speaker.played == {1: audio_of(LOCKED)}
    assert talk.speaker.kinds()[:3] == ["Transcript", "TierSelected", "ToolsShown"]
    assert talk.speaker.kinds()[-1] == "TurnDone"
    transcript = talk.speaker.of(Transcript)[0]
    assert (transcript.speaker, transcript.text, transcript.final, transcript.turn) == (
        "Ann",
        "Is it open?",
        True,
        0,
    )
    chosen = talk.speaker.of(TierSelected)[0]
    assert (chosen.text, chosen.speaker) == ("Is it open?", "Ann")
    assert not talk.speaker.of(Flush)
    assert talk.table.session.memory.conversation._past[0].heard == LOCKED


async def test_the_recognizer_is_told_the_language(autojump_clock: MockClock) -> None:
    recognizer = FakeRecognizer()
    german = NpcConfig(name="Bob", voice=VoiceConfig(language="de"))
    async with open_talk([["Ja."]], recognizer=recognizer, npc=german):
        assert recognizer.languages == ["de"]


async def test_audio_reaches_the_recognizer_at_its_own_rate(
    autojump_clock: MockClock,
) -> None:
    recognizer = FakeRecognizer(rate=16_000)
    async with open_table([]) as table:
        npc = with_ear(table.npc, recognizer)
        async with npc.voice(speaker="Ann", rate=48_000) as voice:
            for _ in range(50):
                voice.hear(bytes(1920))  # 20 ms
            heard = len(recognizer.listeners[0].heard) / 2 / 16_000
            assert 0.85 <= heard <= 1.0


async def test_words_that_are_still_being_said_are_shown_and_begin_the_turn(
    autojump_clock: MockClock,
) -> None:
    speculation = SpeculationConfig(enabled=True)
    async with open_talk([[1.0, "No."]], speculation=speculation) as talk:
        talk.ear.tell(Began(), Partial("is the"), Partial("is the door open"))
        await trio.sleep(0.5)
        assert len(talk.table.llm.requests) == 1
        talk.ear.tell(Final("Is the door open?"))
        await trio.sleep(3)
    assert [(x.text, x.final) for x in talk.speaker.of(Transcript)] == [
        ("is the", False),
        ("is the door open", False),
        ("Is the door open?", True),
    ]
    done = talk.table.events.all(SpeculationDone)
    assert [x.end for x in done] == [SpeculationEnd.ADOPTED]
    assert talk.speaker.of(TurnDone)[0].timings.head_start == pytest.approx(0.35)
    assert talk.speaker.played == {1: audio_of("No.")}


async def test_silence_and_what_is_no_speech_do_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([]) as talk:
        talk.voice.hear(bytes(2000))
        talk.ear.tell(Began(), Final(""), Began(), Final("  "))
        await trio.sleep(3600)
        assert talk.speaker.events == []
        assert talk.table.events.kept == []


async def test_an_npc_without_a_voice_is_heard_in_text(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([["Yes. No."]], voiced=False) as talk:
        await talk.say("Well?")
        await trio.sleep(1)
    assert [x.text for x in talk.speaker.of(Sentence)] == ["Yes.", "No."]
    assert talk.table.session.memory.conversation._past[0].heard == "Yes. No."


# Interrupting.


async def test_who_begins_to_speak_interrupts_what_answers_them(
    autojump_clock: MockClock,
) -> None:
    # Field problem: the NPC talks over its player. D12a.
    script: Script = [[f"{LOCKED} And so", HANG], ["Yes."]]
    async with open_talk(script) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        talk.ear.tell(Began())
        await wait_all_tasks_blocked()
        assert trio.current_time() == 1.05
        assert talk.speaker.when(Flush) == [1.05]
        assert talk.speaker.when(TurnDone) == [1.05]
        assert talk.speaker.of(TurnDone)[0].end is CUT
        await trio.sleep(1)
        assert talk.speaker.played == {1: audio_of(LOCKED)[:2000]}
        talk.ear.tell(Final("Who has the key?"))
        await trio.sleep(1)
    assert told(talk.table) == [
        ("user", "Is it open?"),
        ("assistant", "The door"),
    ]
    assert [x.turn for x in talk.speaker.of(Flush)] == [1]


async def test_what_is_still_played_when_the_turn_is_over_is_flushed_as_well(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([[LOCKED], ["Yes."]]) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.55)
        assert talk.speaker.of(TurnDone)[0].end is DONE
        talk.ear.tell(Began(), Final("Who has the key?"))
        await trio.sleep(5)
    flush = talk.speaker.of(Flush)[0]
    assert (flush.turn, talk.speaker.when(Flush)) == (1, [1.55])
    assert talk.speaker.played == {
        1: audio_of(LOCKED)[:3000],
        2: audio_of("Yes."),
    }
    assert told(talk.table) == [
        ("user", "Is it open?"),
        ("assistant", "The door is"),
    ]
    assert talk.table.session.memory.conversation._past[1].heard == "Yes."


async def test_what_was_played_to_its_end_is_not_flushed(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([["Yes."], ["No."]]) as talk:
        await talk.say("Is it open?")
        await trio.sleep(2)
        await talk.say("Is it shut?")
        await trio.sleep(2)
    assert not talk.speaker.of(Flush)
    assert talk.speaker.played == {1: audio_of("Yes."), 2: audio_of("No.")}


async def test_no_speech_of_a_turn_follows_its_flush(
    autojump_clock: MockClock,
) -> None:
    # Much of it waits for a listener who is slow, and the turn has still to end.
    async with open_talk([[f"{LOCKED} And so", HANG]], report=0) as talk:
        talk.table.llm.hang_up = 0.5
        await talk.say("Is it open?")
        talk.ear.tell(Began())
        await trio.sleep(5)
    kinds = talk.speaker.kinds()
    assert kinds.count("Flush") == 1
    assert "Speech" not in kinds[kinds.index("Flush") :]
    assert kinds[-1] == "TurnDone"


async def test_a_cough_interrupts_and_asks_nothing(autojump_clock: MockClock) -> None:
    async with open_talk([[f"{LOCKED} And so", HANG]]) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1)
        talk.ear.tell(Began(), Final(""))
        await trio.sleep(60)
        assert [x.end for x in talk.table.events.all(TurnDone)] == [CUT]
        assert len(talk.table.llm.requests) == 1


async def test_who_speaks_does_not_interrupt_what_answers_others(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([[3.0, "Yes."], ["No."]]) as talk:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ask(talk.table.npc, speaker="Bea"))
            await trio.sleep(1)
            await talk.say("And me?")
            await trio.sleep(1)
            assert talk.speaker.of(Queued)[0].position == 1
        await trio.sleep(5)
    assert [x.end for x in talk.table.events.all(TurnDone)] == [DONE, DONE]
    assert talk.speaker.played == {2: audio_of("No.")}


async def test_two_microphones_at_one_npc_hear_their_own_answers(
    autojump_clock: MockClock,
) -> None:
    recognizer = FakeRecognizer()
    async with open_talk([["Yes."], ["No."]], recognizer=recognizer) as talk:
        async with (
            talk.npc.voice(speaker="Bea", rate=recognizer.rate) as voice,
            trio.open_nursery() as nursery,
        ):
            bea = Loudspeaker(voice)
            nursery.start_soon(bea.run)
            await talk.say("Is it open?")
            recognizer.listeners[1].tell(Began(), Final("Is it shut?"))
            await trio.sleep(5)
            nursery.cancel_scope.cancel()
    assert talk.speaker.played == {1: audio_of("Yes.")}
    assert bea.played == {2: audio_of("No.")}
    assert not talk.speaker.of(Flush)
    assert not bea.of(Flush)


async def test_leaving_switches_the_microphone_off_and_interrupts(
    autojump_clock: MockClock,
) -> None:
    recognizer = FakeRecognizer()
    async with open_table([[HANG]], synthesizer=FakeSynthesizer()) as table:
        npc = with_ear(table.npc, recognizer)
        async with npc.voice(speaker="Ann", rate=recognizer.rate) as voice:
            recognizer.listeners[0].tell(Began(), Final("Hello?"))
            await wait_all_tasks_blocked()
        assert recognizer.listeners[0].over
        await wait_all_tasks_blocked()
        assert [x.end for x in table.events.all(TurnDone)] == [CUT]
        voice.hear(b"ab")  # nobody hears it
        voice.played(5)


async def test_an_error_of_the_block_leaves_it_as_it_is(
    autojump_clock: MockClock,
) -> None:
    async with open_table([]) as table:
        npc = with_ear(table.npc, FakeRecognizer())
        with pytest.raises(KeyError):
            async with npc.voice(rate=1_000):
                raise KeyError("mine")


# What is delivered, and bounds.


async def test_a_sentence_counts_once_the_next_event_is_asked_for(
    autojump_clock: MockClock,
) -> None:
    # The same rule as without a microphone: nobody reads ahead of the listener.
    recognizer = FakeRecognizer()
    script: Script = [["One. Two. Three."]]
    async with open_table(script) as table:
        npc = with_ear(table.npc, recognizer)
        async with npc.voice(speaker="Ann", rate=1_000) as voice:
            recognizer.listeners[0].tell(Began(), Final("Count!"))
            async for event in voice:
                if isinstance(event, Sentence) and event.text == "Two.":
                    break
            await trio.sleep(1)
    assert table.session.memory.conversation._past[0].heard == "One."


async def test_a_listener_who_stops_is_bounded(autojump_clock: MockClock) -> None:
    recognizer = FakeRecognizer()
    turn = TurnConfig(listener=2.0)
    async with open_table(lambda _: ["Yes."], turn=turn) as table:
        npc = with_ear(table.npc, recognizer)
        async with npc.voice(speaker="Ann", rate=1_000) as voice:
            ear = recognizer.listeners[0]
            for number in range(300):
                ear.tell(Began(), Partial("so"), Final(f"Number {number}"))
                await trio.sleep(0.01)
            output = voice._output
            news = [x for x in output._waiting if x.taken is None]
            assert len(news) <= MOST_NEWS
            assert len(output._waiting) <= MOST_NEWS + 1
            # It has not lost its place: what is said now is answered, once it listens.
            ear.tell(Began(), Final("Still there?"))
            with trio.fail_after(60):
                async for event in voice:
                    if isinstance(event, TierSelected) and event.text == "Still there?":
                        break


async def test_a_flush_that_waits_is_told_once(autojump_clock: MockClock) -> None:
    output = PlaybackOutput()
    speech = Speech(npc="Bob", turn=1, pcm=bytes(2000), rate=1_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.give, speech)
        assert await output.take() == speech
        output.flush("once")
        output.flush("twice")
        assert await output.take() == Flush(npc="Bob", turn=1, reason="once")
        output.flush("there is nothing to stop any more")
        output.end()
        with pytest.raises(StopAsyncIteration):
            await output.take()


async def test_what_was_played_is_forgotten(autojump_clock: MockClock) -> None:
    async with open_talk(lambda _: ["Yes."]) as talk:
        for number in range(20):
            await talk.say(f"Number {number}")
            await trio.sleep(5)
        assert len(talk.voice._output.playback.pieces) == 1
    assert talk.speaker.played == {turn: audio_of("Yes.") for turn in range(1, 21)}


async def test_only_the_last_of_unfinished_words_waits(
    autojump_clock: MockClock,
) -> None:
    recognizer = FakeRecognizer()
    async with open_table([["Yes."]]) as table:
        npc = with_ear(table.npc, recognizer)
        async with npc.voice(speaker="Ann", rate=1_000) as voice:
            recognizer.listeners[0].tell(Began(), *(Partial("x" * n) for n in range(9)))
            await wait_all_tasks_blocked()
            event = await anext(voice)
            assert isinstance(event, Transcript)
            assert event.text == "x" * 8


# What goes wrong.


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


async def test_who_has_no_ear_says_so(autojump_clock: MockClock) -> None:
    async with open_table([]) as table:
        with pytest.raises(CannotHear, match=r"speech\.recognition"):
            table.npc.voice(rate=48_000)


async def test_a_recognizer_that_cannot_listen_is_an_error_on_entering(
    autojump_clock: MockClock,
) -> None:
    async with open_table([]) as table:
        npc = with_ear(table.npc, FakeRecognizer(fails=SpeechError("no model")))
        with pytest.raises(SpeechError, match="no model"):
            async with npc.voice(rate=1_000):
                raise AssertionError("it was entered")


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (SpeechError("the model is gone"), "the model is gone"),
        (KeyError("x"), "the recognizer failed: KeyError: 'x'"),
        (
            Unprintable(),
            "the recognizer failed: Unprintable, whose text cannot be read",
        ),
        (None, "fake has stopped"),
    ],
)
async def test_a_recognizer_that_dies_ends_the_voice_and_not_the_npc(
    autojump_clock: MockClock, error: Exception | None, detail: str
) -> None:
    recognizer = FakeRecognizer()
    script: Script = [[1.0, LOCKED], ["Yes."]]
    async with open_talk(script, recognizer=recognizer) as talk:
        await talk.say("Is it open?")
        if error is None:
            talk.ear.stop()
        else:
            talk.ear.tell(error)
        await wait_all_tasks_blocked()
        (failed,) = talk.speaker.of(HearingFailed)
        assert (failed.speaker, failed.detail, failed.deaf) == ("Ann", detail, True)
        assert recognizer.warnings == [f"Ann is no longer heard: {detail}"]
        assert talk.speaker.error is None
        talk.voice.hear(b"ab")  # nobody hears it
        await trio.sleep(5)
        # What had been asked was answered before the end.
        assert talk.speaker.kinds()[-1] == "TurnDone"
        assert isinstance(talk.speaker.error, SpeechError)
        assert str(talk.speaker.error) == detail
        heard = await ask(talk.table.npc, "Still there?")
        assert heard.done.text == "Yes."


async def test_one_utterance_that_is_lost_is_an_event_and_nothing_more(
    autojump_clock: MockClock,
) -> None:
    recognizer = FakeRecognizer()
    async with open_talk([["Yes."]], recognizer=recognizer) as talk:
        talk.ear.tell(Began(), NotUnderstood("HTTP 503: busy"))
        await wait_all_tasks_blocked()
        (failed,) = talk.speaker.of(HearingFailed)
        assert (failed.detail, failed.deaf) == ("HTTP 503: busy", False)
        talk.ear.tell(Began(), NotUnderstood("HTTP 503: busy"))
        await talk.say("Hello?")
        await trio.sleep(3)
        talk.ear.tell(Began(), NotUnderstood("HTTP 500: oh"))
        await wait_all_tasks_blocked()
    assert talk.speaker.played == {1: audio_of("Yes.")}
    # One outage is one warning.
    assert recognizer.warnings == [
        "Ann was not understood: HTTP 503: busy",
        "Ann was not understood: HTTP 500: oh",
    ]


async def test_what_an_npc_cannot_take_is_an_event(autojump_clock: MockClock) -> None:
    turn = TurnConfig(queue=1)
    async with open_talk(lambda _: [3.0, "Yes."], turn=turn) as talk:
        async with trio.open_nursery() as nursery:
            for speaker in ("Bea", "Cid"):
                nursery.start_soon(partial(ask, talk.npc, speaker=speaker))
                await wait_all_tasks_blocked()
            await talk.say("Me!")
            (failed,) = talk.speaker.of(HearingFailed)
            assert "the queue of Bob is full" in failed.detail
            assert not failed.deaf
        await talk.say("And now?")
        await trio.sleep(10)
    assert talk.speaker.of(TurnDone)[0].end is DONE


async def test_a_session_that_is_gone_is_an_event(autojump_clock: MockClock) -> None:
    async with open_talk([]) as talk:
        talk.table.npc.dismiss()
        await wait_all_tasks_blocked()
        talk.ear.tell(Began(), Partial("hello"), Final("Hello?"))
        await wait_all_tasks_blocked()
        assert len(talk.speaker.of(HearingFailed)) == 1


async def test_the_tier_and_the_queue_are_those_of_any_utterance(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([["Hm."]], tier=Tier.DEEP) as talk:
        await talk.say("think carefully about it")
        await trio.sleep(1)
    assert talk.speaker.of(TierSelected)[0].tier is Tier.DEEP
    assert all(isinstance(x.pcm, bytes) for x in talk.speaker.of(Speech))


# Whatever somebody says and does not say, and whenever.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "cough", "dm", "other"]),
        st.sampled_from([0.0, 0.05, 0.3, 1.0, 3.0]),
        st.sampled_from([0.0, 0.2]),
    ),
    min_size=1,
    max_size=8,
)
ANSWERS = (LOCKED, "One. Two. Three.", "Only the king has its key. And he is dead.")


async def talk_at_random(steps: list[tuple[str, float, float]], report: float) -> None:
    asked = 0

    def script(_: object) -> list[float | str]:
        nonlocal asked
        asked += 1
        return [0.1, ANSWERS[asked % len(ANSWERS)], 0.1]

    async with open_talk(script, report=report) as talk:
        async with trio.open_nursery() as nursery:
            for number, (what, pause, words) in enumerate(steps):
                if what == "dm":
                    await talk.npc.interrupt()
                elif what == "other":
                    nursery.start_soon(partial(ask, talk.npc, speaker="Bea"))
                else:
                    talk.ear.tell(Began())
                    await trio.sleep(words)
                    talk.ear.tell(Final(f"{number}?" if what == "say" else ""))
                await trio.sleep(pause)
        await trio.sleep(60)
        events = [event for _, event in talk.speaker.events]
        ends = [x.turn for x in events if isinstance(x, TurnDone)]
        mine = [
            x.turn for x in talk.table.events.all(TierSelected) if x.speaker == "Ann"
        ]
        # Every turn that began is told to its end, in order, and once.
        assert set(mine) <= set(ends)
        assert ends == sorted(set(ends))
        assert len(ends) == sum(what == "say" for what, _, _ in steps)
        flushed: set[int] = set()
        for event in events:
            if isinstance(event, Flush):
                assert event.turn not in flushed
                flushed.add(event.turn)
            assert not (isinstance(event, Speech) and event.turn in flushed)
        past = {x.text: x for x in talk.table.session.memory.conversation._past}
        said = {x.turn: x.text for x in talk.speaker.of(TierSelected)}
        for turn, done in zip(ends, talk.speaker.of(TurnDone), strict=True):
            whole = audio_of("".join(talk.speaker.sentences(turn)))
            played = talk.speaker.played.get(turn, b"")
            assert whole.startswith(played)
            if turn not in said:
                assert not done.text  # it was over before it began
                continue
            exchange = past[said[turn]]
            assert done.text.startswith(exchange.heard)
            if report and played == whole:
                assert exchange.heard == " ".join(talk.speaker.sentences(turn))
            if report and not played:
                assert exchange.heard == ""
            if turn not in flushed and report:
                assert played == whole


@given(STEPS, st.sampled_from([0.0, 0.1, 0.25]))
def test_no_turn_is_lost_and_nothing_is_heard_that_was_not_played(
    steps: list[tuple[str, float, float]], report: float
) -> None:
    trio.run(talk_at_random, steps, report, clock=MockClock(autojump_threshold=0))
