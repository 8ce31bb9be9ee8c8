"""What an NPC says aloud: in order, ahead, and never in the way of its text.

The synthesizer of `voices` takes a tenth of a second of speech for a letter.
"""

from __future__ import annotations

from functools import partial

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.config.voices import VoiceConfig
from glyphoxa_trio.npc import Sentence, TextDelta, ToolFinished, TurnDone, TurnEnd, cue
from glyphoxa_trio.npc.events import Filler, Speech, SpeechFailed
from glyphoxa_trio.npc.speaking import SPARE, Speaking
from glyphoxa_trio.npc.spoken_audio import SpokenAudio
from glyphoxa_trio.providers.llm import Finished, Working
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.tools.tier import Tier

from .support import HANG, Heard, Ran, Reply, Script, ask, call, open_table
from .voices import FakeSynthesizer, audio_of

DONE, CUT, FAILED, *_ = TurnEnd


def speech_of(heard: Heard) -> bytes:
    return b"".join(x.pcm for x in heard.of(Speech) if not x.filler)


async def test_every_sentence_is_said_aloud_after_it_was_written(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer()
    voiced = NpcConfig(
        name="Bob",
        budget_tier=Tier.DEEP,
        voice=VoiceConfig(name="en-us", speed=1.2, pronunciation={"Bob": "Rob"}),
    )
    script: Script = [["Hello. How ", "are you?"]]
    async with open_table(script, npc=voiced, synthesizer=synthesizer) as table:
        heard = await ask(table.npc)
    assert [text for text, _, _ in synthesizer.said] == ["Hello.", "How are you?"]
    assert speech_of(heard) == audio_of("Hello.") + audio_of("How are you?")
    kinds = heard.kinds()
    assert kinds[-1] == "TurnDone"
    first = kinds.index("Speech")
    assert kinds.index("Sentence") < first
    assert {event.rate for event in heard.of(Speech)} == {synthesizer.rate}
    assert not any(event.filler for event in heard.of(Speech))
    assert synthesizer.voices[0] == VoiceStyle(
        name="en-us", speed=1.2, pronunciation={"Bob": "Rob"}
    )
    # Bytes are for whoever plays them, and for nobody else.
    assert not table.events.all(Speech)


async def test_text_and_tools_do_not_wait_for_a_voice(
    autojump_clock: MockClock,
) -> None:
    # A quarter of a second a letter: the first sentence alone takes 1.5 s.
    synthesizer = FakeSynthesizer(work=0.25)
    ran = Ran()
    script: Script = [["Hello. ", call("look")], [1.0, "A door."]]
    async with open_table(
        script, ran.tool("look", 0.5), synthesizer=synthesizer
    ) as table:
        heard = await ask(table.npc)
    assert ran.began == [("look", 0.0)]
    assert heard.when(ToolFinished) == [0.5]
    assert heard.when(Sentence) == [0.0, 1.5]
    assert heard.done.timings.tools == 0.5
    assert heard.when(Speech)[0] == 0.25
    assert heard.when(TurnDone) == [0.25 * len("Hello.A door.")]


async def test_a_turn_ends_when_all_of_it_was_given_out(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer(work=0.125)
    async with open_table([["Hello."]], synthesizer=synthesizer) as table:
        heard = await ask(table.npc)
    assert heard.done.end is DONE
    assert heard.kinds().count("TurnDone") == 1
    assert speech_of(heard) == audio_of("Hello.")
    assert heard.when(TurnDone) == [0.75]


async def test_leaving_kills_what_is_being_said_at_once(
    autojump_clock: MockClock,
) -> None:
    # D12a: whatever else takes its time
    synthesizer = FakeSynthesizer(work=0.125)
    async with open_table(
        [["Hello there. And", HANG]], synthesizer=synthesizer
    ) as table:
        table.llm.hang_up = 0.9
        heard = await ask(table.npc, leave_at=0.6875)
        assert synthesizer.cut == [("Hello there.", 0.6875)]
        assert synthesizer.open == 0
        assert speech_of(heard) == audio_of("Hello")
        await trio.sleep(1)
        assert table.events.all(TurnDone)[0].end is CUT


async def test_an_interruption_while_only_the_voice_goes_on_is_one(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer(work=0.125)
    async with open_table([["Hello there."]], synthesizer=synthesizer) as table:
        heard = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, heard=heard))
            await trio.sleep(0.6875)
            assert await table.npc.interrupt()
        assert heard.done.end is CUT
        assert heard.when(TurnDone) == [0.6875]
        assert synthesizer.cut == [("Hello there.", 0.6875)]


async def test_a_listener_who_is_behind_holds_up_the_voice_and_not_the_text(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer()
    long = "x" * 40 + ". "
    script: Script = [[long, *["y "] * 10, HANG]]
    async with open_table(script, synthesizer=synthesizer) as table:
        async with table.npc.say("Hello") as turn:
            # One event after the other is taken, until the model has said all.
            while len(table.events.all(TextDelta)) < 11:
                await wait_all_tasks_blocked()
            written = trio.current_time()
            assert written == 0
            waiting = turn._listener.stream.statistics()
            assert waiting.peak <= waiting.capacity
            speech = [x for x in turn._listener.stream._events if type(x) is Speech]
            assert 0 < len(speech) <= waiting.capacity - SPARE
            assert synthesizer.open == 1  # it waits for its listener


async def test_a_listener_who_stops_ends_the_turn_after_a_while(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer()
    script = [["x" * 90 + "."]]
    turn_config = TurnConfig(listener=7.0)
    async with open_table(script, synthesizer=synthesizer, turn=turn_config) as table:
        async with table.npc.say("Hello") as turn:
            await trio.sleep(20)
            assert [x.end for x in table.events.all(TurnDone)] == [CUT]
            assert synthesizer.cut == [("x" * 90 + ".", 7.0)]
            assert turn.done is None


# What cannot be said.


class Unprintable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("broken")

    __str__ = __repr__


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (SpeechError("no such voice"), "no such voice"),
        (KeyError("x"), "KeyError: 'x'"),
        (Unprintable(), "Unprintable, whose text cannot be read"),
    ],
)
async def test_what_cannot_be_said_is_an_event_and_the_turn_goes_on(
    autojump_clock: MockClock, error: Exception, detail: str
) -> None:
    warnings: list[str] = []
    synthesizer = FakeSynthesizer(fails={"Hello.": error, "And you?": error})
    script = [["Hello. Good day. And you?"]]
    async with open_table(
        script, synthesizer=synthesizer, warn=warnings.append
    ) as table:
        heard = await ask(table.npc)
    assert heard.done.end is DONE
    assert speech_of(heard) == audio_of("Good day.")
    assert [(x.text, x.detail) for x in heard.of(SpeechFailed)] == [
        ("Hello.", detail),
        ("And you?", detail),
    ]
    assert warnings == [f"Bob cannot say a sentence aloud: {detail}"]
    # Something is heard all the same: a soft tone, once.
    assert [x.pcm for x in heard.of(Speech) if x.filler] == [cue.TONE]


async def test_a_synthesizer_that_hangs_is_left_and_the_next_sentence_tried(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer(work=60)
    async with open_table([["One. Two."]], synthesizer=synthesizer) as table:
        heard = await ask(table.npc)
    assert [event.detail for event in heard.of(SpeechFailed)] == ["silent for 10 s"] * 2
    assert heard.when(TurnDone) == [20.0]
    assert heard.done.end is DONE


async def test_a_listener_who_takes_long_is_no_silence_of_the_synthesizer(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer()
    text = "x" * 40 + "."
    async with open_table([[text]], synthesizer=synthesizer) as table:
        heard = await ask(table.npc, pace=12.0)
    assert not heard.of(SpeechFailed)
    assert speech_of(heard) == audio_of(text)


# What was heard of it.


async def test_only_what_was_played_is_remembered(autojump_clock: MockClock) -> None:
    # D12a: the NPC said nine words and two of them were heard.
    synthesizer = FakeSynthesizer()
    first = "The door is locked."
    script = [[f"{first} Only the king has its key."], ["Yes."]]
    async with open_table(script, synthesizer=synthesizer) as table:
        async with table.npc.say("Open it") as turn:
            turn.played(0)
            async for event in turn:
                if isinstance(event, Sentence) and event.text != first:
                    assert turn.delivered == ""
            # All of it was given out by now, and is being played.
            assert turn.done is not None
            turn.played(1_000)
            assert turn.delivered == "The door"
            turn.played(900)  # what was heard was heard
            assert turn.delivered == "The door"
        await ask(table.npc, "Who?")
        assert table.llm.told()[1] == ("assistant", "The door")
        turn.played(1_900)  # a report that comes late still counts
        assert turn.delivered == first


async def test_whoever_never_says_what_was_played_is_taken_for_a_reader(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer()
    script = [["The door is locked."], ["Yes."]]
    async with open_table(script, synthesizer=synthesizer) as table:
        await ask(table.npc)
        await ask(table.npc)
    assert table.llm.told()[1] == ("assistant", "The door is locked.")


async def test_a_turn_without_a_voice_has_nothing_to_report(
    autojump_clock: MockClock,
) -> None:
    async with open_table([["Hello."]]) as table:
        async with table.npc.say("Hi") as turn:
            turn.played(0)
            await turn.finish()
    assert turn.delivered == "Hello."


# Fillers, and engines that speak for themselves: `Speaking` by itself.


async def speak(
    synthesizer: FakeSynthesizer, *script: object, voiced: bool = False
) -> list[tuple[float, Speech]]:
    """Events at their times: a number is a pause."""
    given: list[tuple[float, Speech]] = []

    async def give(speech: Speech) -> None:
        given.append((trio.current_time(), speech))

    speaking = Speaking(
        mouths=lambda: [synthesizer],
        voice=VoiceStyle(),
        aloud=SpokenAudio(),
        give=give,
        post=lambda _: None,
        warn=lambda _: None,
    )
    async with speaking.open():
        for step in script:
            if isinstance(step, float):
                await trio.sleep(step)
            else:
                speaking.take(step, voiced=voiced)  # type: ignore[arg-type]
    return given


def sentence(text: str, round_: int = 0) -> Sentence:
    return Sentence(npc="Bob", turn=1, text=text, round=round_)


def filler(text: str) -> Filler:
    return Filler(npc="Bob", turn=1, text=text, round=0)


def delta(text: str) -> TextDelta:
    return TextDelta(npc="Bob", turn=1, text=text)


def pcm(given: list[tuple[float, Speech]], *, fillers: bool) -> bytes:
    return b"".join(x.pcm for _, x in given if x.filler is fillers)


async def test_a_filler_is_said_while_nothing_else_is(
    autojump_clock: MockClock,
) -> None:
    given = await speak(
        FakeSynthesizer(work=0.125), filler("Hm."), 1.0, delta("Yes."), sentence("Yes.")
    )
    assert pcm(given, fillers=True) == audio_of("Hm.")
    assert pcm(given, fillers=False) == audio_of("Yes.")


@pytest.mark.parametrize("first", [delta("Yes."), sentence("Yes.", 1)])
async def test_a_filler_is_dropped_in_the_middle_once_the_answer_begins(
    autojump_clock: MockClock, first: TextDelta | Sentence
) -> None:
    synthesizer = FakeSynthesizer(work=0.125)
    given = await speak(
        synthesizer, filler("Let me think."), filler("Hm."), 0.4375, first, 0.0
    )
    assert pcm(given, fillers=True) == audio_of("Let")
    assert synthesizer.cut == [("Let me think.", 0.4375)]
    assert [text for text, _, _ in synthesizer.said][1:] == (
        ["Yes."] if isinstance(first, Sentence) else []
    )


async def test_sentences_wait_for_each_other_and_never_overlap(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer(work=0.125)
    given = await speak(synthesizer, sentence("One."), sentence("Two.", 1), 5.0)
    assert pcm(given, fillers=False) == audio_of("One.Two.")
    assert synthesizer.said == [
        ("One.", 0.0, 0.5),
        ("Two.", 0.5, 1.0),
    ]


async def test_what_a_model_says_by_itself_is_not_said_twice(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer()
    assert not await speak(synthesizer, sentence("One."), voiced=True)
    given = await speak(synthesizer, sentence("Two."))
    assert pcm(given, fillers=False) == audio_of("Two.")


async def test_what_was_a_thought_is_not_spoken_any_more(
    autojump_clock: MockClock,
) -> None:
    """The sentence that is being spoken is, those that wait are not."""
    thought: Reply = ["They lie. ", "I must be wary. ", "And kind. ", 0.5]
    script: Script = [
        [*thought, Working(unsaid=True), "Well met.", Finished()],
        ["Aye.", Finished()],
    ]
    synthesizer = FakeSynthesizer(work=0.125)
    async with open_table(script, synthesizer=synthesizer) as table:
        heard = await ask(table.npc)
        assert speech_of(heard) == audio_of("They lie.") + audio_of("Well met.")
        assert heard.done.text == "Well met."
        await ask(table.npc)
    told = [text for role, text in table.llm.told() if role == "assistant"]
    assert told == ["Well met."]
