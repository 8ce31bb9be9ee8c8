"""Recognizers of utterances, and who hears one when another fails. Virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.providers.chain import ModelCandidate
from glyphoxa_trio.providers.endpointing import FRAME, RATE
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import (
    Began,
    Final,
    NotUnderstood,
    Partial,
    Recognized,
    SpeechError,
)
from glyphoxa_trio.providers.utterance_recognizer import (
    ByListening,
    RecognizerChain,
    Tell,
    UtteranceRecognizer,
    understand_with,
)
from glyphoxa_trio.providers.utterances import RecognitionRun, open_listening

from ..npc.voices import FakeRecognizer

FRAME_BYTES = int(FRAME * RATE) * 2
SOUND = b"\1\1" * (FRAME_BYTES // 2)
SILENCE = bytes(FRAME_BYTES)


@attrs.define(eq=False)
class Hearer:
    """Hears so many pieces, all of them if None, and then does what it is told: words
    are told or returned, numbers seconds, an error the end."""

    label: str
    plan: Sequence[Any]
    pieces: int | None = None
    heard: list[bytes] = attrs.field(factory=list)
    languages: list[str | None] = attrs.field(factory=list)

    async def recognize(
        self, audio: AsyncIterator[bytes], *, language: str | None, tell: Tell
    ) -> str:
        self.languages.append(language)
        self.heard.append(b"")
        count = 0
        while self.pieces is None or count < self.pieces:
            piece = await anext(audio, None)
            if piece is None:
                break
            count += 1
            self.heard[-1] += piece
        for step in self.plan[:-1]:
            if isinstance(step, str):
                await tell(step)
            else:
                await trio.sleep(step)
        await trio.lowlevel.checkpoint()
        if isinstance(self.plan[-1], Exception):
            raise self.plan[-1]
        return str(self.plan[-1])


def chained(*hearers: Hearer) -> RecognizerChain:
    return RecognizerChain(
        [ModelCandidate[UtteranceRecognizer](x.label, x) for x in hearers]
    )


def away(kind: ErrorKind = ErrorKind.UNREACHABLE) -> SpeechError:
    return SpeechError("it is away", kind)


async def spoken(
    listening: RecognitionRun, frames: int = 20, *, ends: bool = True
) -> None:
    """Into the microphone, frame by frame."""
    for _ in range(frames):
        listening.hear(SOUND)
        await wait_all_tasks_blocked()
    if ends:
        for _ in range(40):
            listening.hear(SILENCE)
            await wait_all_tasks_blocked()


async def told(
    model: UtteranceRecognizer, utterances: int = 1
) -> list[Recognized | SpeechError]:
    """What is told of so many utterances."""
    found: list[Recognized | SpeechError] = []

    async def understand(listening: RecognitionRun) -> None:
        await understand_with(model, listening, language="de")

    async def read(listening: RecognitionRun) -> None:
        try:
            async for event in listening.events():
                found.append(event)  # noqa: PERF401  kept when an error ends it
        except SpeechError as error:
            found.append(error)

    def is_speech(frame: bytes) -> bool:
        return frame == SOUND

    async with open_listening(is_speech, understand) as listening:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, listening)
            for _ in range(utterances):
                await spoken(listening)
                await trio.sleep(100)
            nursery.cancel_scope.cancel()
    return found


async def test_words_are_told_as_they_come(autojump_clock: MockClock) -> None:
    hearer = Hearer("one", ["Who", "Who", "Who is", "Who is there?"])
    assert await told(hearer, 2) == [
        event
        for number in (1, 2)
        for event in (
            *(Began(number), Partial("Who"), Partial("Who is")),
            Final("Who is there?"),
        )
    ]
    assert hearer.languages == ["de", "de"]
    assert SOUND * 20 in hearer.heard[0]


async def test_who_fails_while_the_speaker_goes_on_loses_that_utterance_only(
    autojump_clock: MockClock,
) -> None:
    hearer = Hearer("one", [away()], pieces=1)
    assert await told(hearer, 2) == [
        event for n in (1, 2) for event in (Began(n), NotUnderstood("it is away"))
    ]


async def test_who_answers_while_the_speaker_goes_on_has_said_it(
    autojump_clock: MockClock,
) -> None:
    hearer = Hearer("one", ["Yes."], pieces=1)
    assert await told(hearer, 2) == [
        event for n in (1, 2) for event in (Began(n), Final("Yes."))
    ]


async def test_the_next_one_hears_the_whole_utterance_again(
    autojump_clock: MockClock,
) -> None:
    first = Hearer("one", [away()], pieces=2)
    second = Hearer("two", ["Who is there?"])
    assert await told(chained(first, second), 2) == [
        event for n in (1, 2) for event in (Began(n), Final("Who is there?"))
    ]
    for part, whole in zip(first.heard, second.heard, strict=True):
        assert part
        assert whole.startswith(part)
        assert SOUND * 20 in whole


async def test_who_keeps_failing_is_left_alone_for_a_while(
    autojump_clock: MockClock,
) -> None:
    first, second = Hearer("one", [away()]), Hearer("two", ["Yes."])
    chain = chained(first, second)

    async def ask() -> str:
        async def audio() -> AsyncIterator[bytes]:
            yield b"aa"

        return await chain.recognize(audio(), language=None, tell=lambda _: _done())

    async def _done() -> None:
        pass

    for _ in range(7):
        assert await ask() == "Yes."
    assert (len(first.heard), len(second.heard)) == (5, 7)
    await trio.sleep(10)
    first.plan = ["No."]
    assert await ask() == "No."
    first.plan = [SpeechError("slow", ErrorKind.FIRST_TOKEN)]
    assert await ask() == "Yes."
    first.plan = ["No."]
    assert await ask() == "Yes."  # at once, after one that was slow
    assert chain.label == "one, else two"


async def test_if_nobody_understands_all_reasons_are_said(
    autojump_clock: MockClock,
) -> None:
    wrong = SpeechError("a wrong key", ErrorKind.AUTHENTICATION)
    chain = chained(Hearer("one", [away()]), Hearer("two", [wrong]))
    assert await told(chain) == [
        Began(1),
        NotUnderstood("one: it is away; two: a wrong key"),
    ]


async def test_if_nobody_will_ever_understand_it_is_the_end(
    autojump_clock: MockClock,
) -> None:
    wrong = SpeechError("a wrong key", ErrorKind.AUTHENTICATION)
    missing = SpeechError("no such model", ErrorKind.NOT_FOUND)
    chain = chained(Hearer("one", [wrong]), Hearer("two", [missing]))
    began, error = await told(chain)
    assert began == Began(1)
    assert str(error) == "one: a wrong key; two: no such model"


async def test_leaving_says_nothing_of_a_recognizer(autojump_clock: MockClock) -> None:
    first = Hearer("one", [60.0, "Yes."])
    chain = chained(first, Hearer("two", ["No."]))

    async def audio() -> AsyncIterator[bytes]:
        yield b"aa"

    async def tell(words: str) -> None:
        raise AssertionError(words)

    for _ in range(10):
        with trio.move_on_after(1) as left:
            await chain.recognize(audio(), language=None, tell=tell)
        assert left.cancelled_caught
    assert len(first.heard) == 10


async def test_any_recognizer_can_be_given_one_utterance(
    autojump_clock: MockClock,
) -> None:
    recognizer = FakeRecognizer(rate=RATE)
    ears = ByListening(recognizer=recognizer, timeout=3)
    heard: list[str] = []

    async def audio() -> AsyncIterator[bytes]:
        yield SOUND * 20

    async def tell(words: str) -> None:
        heard.append(words)

    async def answer(*events: Recognized) -> None:
        while not recognizer.listeners:
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        recognizer.listeners[-1].tell(*events)
        recognizer.listeners[-1].stop()

    answers: list[tuple[list[Recognized], str]] = [
        ([Began(1), Partial("Who"), Final("Who is it?"), Final("No.")], "Who is it?"),
        ([Began(1), NotUnderstood("too quiet")], "too quiet"),
        ([], "stopped to listen"),
    ]
    for events, words in answers:
        recognizer.listeners.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, *events)
            try:
                said = await ears.recognize(audio(), language="de", tell=tell)
            except SpeechError as error:
                said = str(error)
            assert words in said
        (recognition,) = recognizer.listeners
        assert recognition.over
        assert recognition.heard.strip(b"\0") == SOUND * 20
        assert len(recognition.heard) > len(SOUND) * 20 + RATE  # and then silence
    assert heard == ["Who"]
    assert recognizer.languages == ["de"] * 3
    with pytest.raises(SpeechError, match="no words after 3 s") as caught:
        await ears.recognize(audio(), language=None, tell=tell)
    assert caught.value.kind is ErrorKind.FIRST_TOKEN
    assert ears.label == recognizer.label
