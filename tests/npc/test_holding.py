"""Sounds while an NPC speaks: it pauses until it is known what that
was, and a cough costs nothing. Virtual time, exact.

The synthesizer says ten letters a second, and the listener plays them as fast.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.npc import (
    Hold,
    Resume,
    Sentence,
    ToolFinished,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.barge_in import Minimum
from glyphoxa_trio.npc.events import Flush, HearingFailed, Speech, Transcript
from glyphoxa_trio.npc.voice import PlaybackOutput
from glyphoxa_trio.providers.speech import Began, Final, NotUnderstood, Partial
from glyphoxa_trio.tools.outcome import Status

from .support import HANG, Ran, Script, call
from .test_voice import LOCKED, Talk, open_talk, told
from .voices import audio_of

HALF = Minimum(seconds=0.5)
WORDS = Minimum(seconds=0.3, words=2)
DONE, CUT = TurnEnd.COMPLETED, TurnEnd.INTERRUPTED


async def sound(
    talk: Talk, utterance: int, seconds: float, *, first: float = 0.15
) -> None:
    """She makes a sound of so many seconds; it is over 0.6 s later."""
    talk.ear.sound(utterance, first)
    talk.ear.tell(Began(utterance))
    heard = first
    while heard < seconds - 0.001:
        await trio.sleep(0.05)
        heard = round(heard + 0.05, 3)
        talk.ear.sound(utterance, heard)
    await trio.sleep(0.6)
    talk.ear.sound(utterance, heard, over=True)


async def test_a_cough_costs_nothing(autojump_clock: MockClock) -> None:
    # A18: a false interruption is gone on from.
    async with open_talk([[LOCKED]], minimum=HALF) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        await sound(talk, 2, 0.2)
        talk.ear.tell(Final(""))
        await wait_all_tasks_blocked()
        assert talk.speaker.when(Hold) == [1.05]
        assert talk.speaker.when(Resume) == [pytest.approx(1.05 + 0.05 + 0.6)]
        await trio.sleep(5)
    assert talk.speaker.played == {1: audio_of(LOCKED)}
    assert not talk.speaker.of(Flush)
    assert [x.end for x in talk.speaker.of(TurnDone)] == [DONE]
    assert talk.table.session.memory.conversation._past[0].heard == LOCKED
    assert len(talk.table.llm.requests) == 1


async def test_nothing_is_played_meanwhile(autojump_clock: MockClock) -> None:
    async with open_talk([[f"{LOCKED} And so.", HANG]], minimum=HALF) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        talk.ear.sound(2, 0.15)
        await wait_all_tasks_blocked()
        assert talk.speaker.holds
        events = len(talk.speaker.events)
        await trio.sleep(1.5)
        assert talk.speaker.played == {1: audio_of(LOCKED)[:2000]}
        # It is not even given what it could play.
        later = [event for _, event in talk.speaker.events[events:]]
        assert not [x for x in later if isinstance(x, Speech | Sentence)]


async def test_who_goes_on_has_interrupted(autojump_clock: MockClock) -> None:
    async with open_talk([[f"{LOCKED} And so", HANG], ["Yes."]], minimum=HALF) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        await sound(talk, 2, 0.7)
        talk.ear.tell(Final("Who has the key?"))
        await trio.sleep(3)
    assert talk.speaker.when(Hold) == [1.05]
    # With half a second of it, and that much was heard until it was held.
    assert talk.speaker.when(Flush) == [pytest.approx(1.05 + 0.35)]
    assert not talk.speaker.of(Resume)
    assert talk.speaker.when(TurnDone)[0] == pytest.approx(1.05 + 0.35)
    assert [x.end for x in talk.speaker.of(TurnDone)] == [CUT, DONE]
    assert talk.speaker.played == {
        1: audio_of(LOCKED)[:2000],
        2: audio_of("Yes."),
    }
    assert told(talk.table) == [("user", "Is it open?"), ("assistant", "The door")]


async def test_a_call_goes_on_as_if_nothing_had_been(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    script: Script = [["Let me see. ", call("look")], ["Gone."]]
    tools = [ran.tool("look", 1.0)]
    async with open_talk(script, *tools, minimum=HALF) as talk:
        await talk.say("Is it open?")
        await trio.sleep(0.3)
        await sound(talk, 2, 0.2)
        talk.ear.tell(Final(""))
        await trio.sleep(5)
    (finished,) = talk.speaker.of(ToolFinished)
    assert finished.outcome.status is Status.OK
    assert ran.ended == [("look", 1.0)]
    assert [x.end for x in talk.speaker.of(TurnDone)] == [DONE]
    assert talk.speaker.played == {1: audio_of("Let me see.") + audio_of("Gone.")}


async def test_before_it_has_said_a_word_it_is_not_interrupted_either(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([[0.5, "Yes."]], minimum=HALF) as talk:
        await talk.say("Is it open?")
        await trio.sleep(0.2)
        await sound(talk, 2, 0.2)  # until 0.85
        talk.ear.tell(Final(""))
        await wait_all_tasks_blocked()
        # There was nothing to stop; and it does not talk into what may be an answer.
        assert talk.speaker.of(Hold) == []
        assert talk.speaker.when(Speech)[0] == pytest.approx(0.85)
        await trio.sleep(5)
    assert talk.speaker.played == {1: audio_of("Yes.")}


async def test_what_is_said_while_nobody_answers_counts_however_short(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([["Yes."], ["No."]], minimum=WORDS) as talk:
        await talk.say("Well?")
        await trio.sleep(5)
        await sound(talk, 2, 0.2)
        talk.ear.tell(Final("No?"))
        await trio.sleep(5)
    assert talk.speaker.played == {1: audio_of("Yes."), 2: audio_of("No.")}
    assert not talk.speaker.of(Hold)


async def test_what_is_too_little_is_told_and_not_answered(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([[LOCKED]], minimum=WORDS) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        await sound(talk, 2, 0.4)  # until 1.9
        await trio.sleep(0.3)
        assert talk.speaker.holds  # long enough, and which words?
        talk.ear.tell(Final("Mhm."))
        await trio.sleep(5)
    assert talk.speaker.when(Resume) == [pytest.approx(1.05 + 0.25 + 0.6 + 0.3)]
    assert [x.text for x in talk.speaker.of(Transcript)] == ["Is it open?", "Mhm."]
    assert talk.speaker.played == {1: audio_of(LOCKED)}
    assert len(talk.table.llm.requests) == 1


async def test_words_interrupt_while_they_are_said(autojump_clock: MockClock) -> None:
    async with open_talk([[LOCKED], ["Yes."]], minimum=WORDS) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        talk.ear.sound(2, 0.15)
        talk.ear.tell(Began(2), Partial("who"))
        await trio.sleep(0.3)
        talk.ear.sound(2, 0.45)
        assert not talk.speaker.of(Flush)
        talk.ear.tell(Partial("who has"))
        await wait_all_tasks_blocked()
        assert talk.speaker.when(Flush) == [pytest.approx(1.35)]
        talk.ear.sound(2, 0.6, over=True)
        talk.ear.tell(Final("Who has the key?"))
        await trio.sleep(3)
    assert talk.speaker.played == {1: audio_of(LOCKED)[:2000], 2: audio_of("Yes.")}


async def test_words_that_do_not_come_are_waited_for_two_seconds(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([[LOCKED * 3], ["Yes."]], minimum=WORDS) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        await sound(talk, 2, 0.4)  # until 1.9
        await trio.sleep(2.5)
        assert talk.speaker.when(Resume) == [pytest.approx(1.9 + 2)]
        # And if they come all the same they count.
        talk.ear.tell(Final("Who has the key?"))
        await wait_all_tasks_blocked()
        assert talk.speaker.when(Flush) == [pytest.approx(4.4)]
        await trio.sleep(3)
    assert talk.speaker.played[2] == audio_of("Yes.")


async def test_a_recognizer_that_fails_at_it_leaves_the_answer_alone(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([[LOCKED]], minimum=WORDS) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        await sound(talk, 2, 0.4)
        talk.ear.tell(NotUnderstood("HTTP 503: busy"))
        await trio.sleep(5)
    assert len(talk.speaker.of(HearingFailed)) == 1
    assert talk.speaker.played == {1: audio_of(LOCKED)}


async def test_a_recognizer_that_tells_of_no_sound_is_asked_for_words(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([[LOCKED], ["Yes."]], minimum=HALF) as talk:
        await talk.say("Is it open?")
        await trio.sleep(0.55)
        talk.ear.tell(Began())
        await trio.sleep(0.5)
        talk.ear.tell(Final(""))
        await trio.sleep(0.5)
        talk.ear.tell(Began())
        await trio.sleep(0.25)
        talk.ear.tell(Partial("who"))
        await trio.sleep(0.25)
        talk.ear.tell(Final("Who has the key?"))
        await trio.sleep(5)
    assert talk.speaker.when(Hold) == [0.55, 1.55]
    assert talk.speaker.when(Resume) == [1.05]
    assert talk.speaker.when(Flush) == [1.8]
    assert talk.speaker.played == {1: audio_of(LOCKED)[:2000], 2: audio_of("Yes.")}


async def test_a_recognizer_that_dies_holds_nobody(autojump_clock: MockClock) -> None:
    async with open_talk([[LOCKED]], minimum=HALF) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        talk.ear.sound(2, 0.15)
        await trio.sleep(0.5)
        talk.ear.stop()
        await trio.sleep(5)
    assert talk.speaker.when(Resume) == [1.55]
    assert [x.end for x in talk.speaker.of(TurnDone)] == [DONE]


async def test_what_another_ends_meanwhile_has_its_flush(
    autojump_clock: MockClock,
) -> None:
    async with open_talk([[f"{LOCKED} And so", HANG]], minimum=HALF) as talk:
        await talk.say("Is it open?")
        await trio.sleep(1.05)
        talk.ear.sound(2, 0.15)
        await wait_all_tasks_blocked()
        await talk.npc.interrupt()
        await trio.sleep(0.2)
        talk.ear.sound(2, 0.15, over=True)
        await trio.sleep(5)
    kinds = [x for x in talk.speaker.kinds() if x in ("Hold", "Resume", "Flush")]
    assert kinds[0] == "Hold"
    assert kinds.count("Flush") == 1
    assert not talk.speaker.holds
    assert talk.speaker.of(TurnDone)[0].end is CUT


async def test_who_reports_nothing_is_held_only_while_it_answers(
    autojump_clock: MockClock,
) -> None:
    # Nobody knows whether the rest is still being played, so nothing is lost for it.
    async with open_talk([["Yes."], ["No."]], report=0, minimum=HALF) as talk:
        await talk.say("Well?")
        await trio.sleep(0.1)
        await sound(talk, 2, 0.2)
        talk.ear.tell(Final("No?"))
        await trio.sleep(1)
    assert not talk.speaker.of(Hold)
    assert len(talk.speaker.of(TurnDone)) == 2


async def test_a_hold_goes_before_what_waits(autojump_clock: MockClock) -> None:
    output = PlaybackOutput()
    first, second = (
        Speech(npc="Bob", turn=1, pcm=bytes([n]) * 2000, rate=1_000) for n in (1, 2)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.give, first)
        assert await output.take() == first
        nursery.start_soon(output.give, second)
        transcript = Transcript(npc="Bob", turn=0, speaker="A", text="", final=False)
        output.post(transcript)
        output.hold([("Bob", 1)])
        assert await output.take() == Hold(npc="Bob", turn=1)
        assert await output.take() == transcript  # in time, whatever is held
        with trio.move_on_after(10) as patience:
            await output.take()
        assert patience.cancelled_caught
        output.resume()
        assert await output.take() == Resume(npc="Bob", turn=1)
        assert await output.take() == second
        output.end()
        with pytest.raises(StopAsyncIteration):
            await output.take()


async def test_what_waits_to_be_flushed_is_not_held_again(
    autojump_clock: MockClock,
) -> None:
    output = PlaybackOutput()
    speech = Speech(npc="Bob", turn=1, pcm=bytes(2000), rate=1_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.give, speech)
        assert await output.take() == speech
        output.reported(0.5)
        output.hold([])
        assert await output.take() == Hold(npc="Bob", turn=1)
        output.flush("the speaker began to speak")
        output.hold([])  # the next sound, before the listener has heard of the flush
        assert not output.is_heard([])
        flush = Flush(npc="Bob", turn=1, reason="the speaker began to speak")
        assert await output.take() == flush
        output.resume()
        output.end()
        with pytest.raises(StopAsyncIteration):
            await output.take()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "cough", "long cough", "mumble", "dm"]),
        st.sampled_from([0.0, 0.05, 0.3, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=8,
)


async def talk_at_random(steps: list[tuple[str, float]], words: int) -> None:
    minimum = Minimum(seconds=0.3, words=words)
    answers: Script = lambda _: [0.1, "The door is locked. Go away.", 0.1]  # noqa: E731
    async with open_talk(answers, minimum=minimum) as talk:
        for number, (what, pause) in enumerate(steps, start=1):
            match what:
                case "dm":
                    await talk.npc.interrupt()
                case "say":
                    await sound(talk, number, 0.6)
                    talk.ear.tell(Final("Is it open?"))
                case "cough":
                    await sound(talk, number, 0.2)
                    talk.ear.tell(Final(""))
                case "long cough":
                    await sound(talk, number, 0.5)
                    talk.ear.tell(Final(""))
                case _:
                    await sound(talk, number, 0.5)
                    talk.ear.tell(Final("Hm"))
            await trio.sleep(pause)
        await trio.sleep(60)
        assert not talk.speaker.holds
        events = [event for _, event in talk.speaker.events]
        flushed = {x.turn for x in events if isinstance(x, Flush)}
        ends = [x.turn for x in events if isinstance(x, TurnDone)]
        assert ends == sorted(set(ends))
        for turn in ends:
            whole = audio_of("".join(talk.speaker.sentences(turn)))
            played = talk.speaker.played.get(turn, b"")
            assert whole.startswith(played)
            assert played == whole or turn in flushed
        if all(what in ("say", "cough") for what, _ in steps):
            asked = [x for x in talk.speaker.of(Transcript) if x.final]
            assert len(asked) == sum(what == "say" for what, _ in steps)
            assert len(ends) == len(asked)


# Two utterances end and begin at one moment, while what was said is still played.
OVERLAP = [("say", 0.05), ("long cough", 0.05), ("say", 0.0), ("say", 0.0)]


@example(OVERLAP, 2)
@given(STEPS, st.sampled_from([0, 2]))
def test_whatever_is_held_is_played_or_flushed(
    steps: list[tuple[str, float]], words: int
) -> None:
    trio.run(talk_at_random, steps, words, clock=MockClock(autojump_threshold=0))
