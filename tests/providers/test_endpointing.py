"""The start and end of speech: frame by frame, and with real noises."""

from __future__ import annotations

import random
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.audio import Framer, bytes_of
from glyphoxa_trio.providers.endpointing import (
    FRAME,
    LONGEST,
    RATE,
    SILENCE,
    Endpointer,
    Endpointing,
    detector,
)
from glyphoxa_trio.providers.speech import SpeechError


def frame(number: int) -> bytes:
    return struct.pack("<I", number)


def utterances(speech: list[bool]) -> list[tuple[list[int], bool]]:
    """Which frames make which utterance, and whether it is over."""
    found: list[tuple[list[int], bool]] = []
    endpointer = Endpointer()
    for number, is_speech in enumerate(speech):
        spoke = endpointer.speaking
        audio = endpointer.feed(frame(number), is_speech)
        if audio and not spoke:
            found.append(([], False))
        if audio:
            numbers = [x for (x,) in struct.iter_unpack("<I", audio)]
            found[-1] = (found[-1][0] + numbers, not endpointer.speaking)
    return found


def flags(text: str) -> list[bool]:
    return [mark == "s" for mark in text.replace(" ", "")]


def test_an_utterance_has_what_was_before_it_was_noticed() -> None:
    ((numbers, over),) = utterances(flags("." * 20 + "s" * 10 + "." * 30))
    # Noticed with the fifth frame of speech, number 24, and 0.3 s before that.
    assert numbers[0] == 15
    assert numbers[-1] == 29 + 18
    assert over
    assert numbers == list(range(15, 48))


def test_with_silero_it_has_more_of_what_was_before() -> None:
    # It is sure of a voice only in the middle of the first word.
    endpointer = Endpointer(Endpointing(silero=True))
    audio = b"".join(
        endpointer.feed(frame(number), is_speech)
        for number, is_speech in enumerate(flags("." * 20 + "s" * 5))
    )
    assert audio[:4] == struct.pack("<I", 9)


@pytest.mark.parametrize(
    "speech",
    [
        "." * 100,
        "s." * 50,  # never most of it
        ".....s....." * 9,  # clicks
        "ssss" + "." * 20,  # a tenth of a second
    ],
)
def test_what_is_no_speech_is_no_utterance(speech: str) -> None:
    assert utterances(flags(speech)) == []


def test_a_pause_for_breath_is_no_end_and_a_click_is_no_word() -> None:
    breath = round(0.4 / FRAME)
    ((numbers, over),) = utterances(
        flags("s" * 20 + "." * breath + "s" * 20 + "....s....." + "." * 20)
    )
    assert over
    assert numbers[0] == 0
    # The last 0.6 s of it hold the end of the last word, and the click.
    assert len(numbers) == 20 + breath + 20 - 1 + round(SILENCE / FRAME)


def test_whoever_does_not_stop_is_cut_into_utterances() -> None:
    most = round(LONGEST / FRAME)
    found = utterances([True] * (2 * most + 100))
    assert [len(numbers) for numbers, _ in found[:2]] == [most, most]
    assert [over for _, over in found] == [True, True, False]
    assert [x for numbers, _ in found for x in numbers] == list(range(2 * most + 100))


def test_an_end_from_outside_forgets_what_was_before() -> None:
    endpointer = Endpointer()
    for number in range(5):
        endpointer.feed(frame(number), True)
    assert endpointer.speaking
    endpointer.end()
    assert not endpointer.speaking
    assert endpointer.feed(frame(9), True) == b""


@given(st.lists(st.integers(0, 40), max_size=12))
def test_no_frame_is_in_two_utterances_or_out_of_order(runs: list[int]) -> None:
    speech = [at % 2 == 1 for at, length in enumerate(runs) for _ in range(length)]
    found = utterances(speech)
    numbers = [x for some, _ in found for x in some]
    assert numbers == sorted(set(numbers))
    assert all(over for _, over in found[:-1])
    for some, _ in found:
        assert some == list(range(some[0], some[-1] + 1))
    # A run of speech that is long enough is never lost.
    at = 0
    for which, length in enumerate(runs):
        if which % 2 and length >= 6:
            assert at + length - 1 in numbers
        at += length


# The detector, with what a microphone may give.


def share_of_speech(pcm: bytes) -> float:
    is_speech = detector()
    frames = Framer(bytes_of(FRAME, RATE)).feed(pcm)
    return sum(map(is_speech, frames)) / len(frames)


def noise(decibels: float, seconds: float = 3.0) -> bytes:
    source = random.Random(1)
    loud = 32_768 * 10 ** (decibels / 20)
    samples = (source.gauss(0, loud) for _ in range(int(RATE * seconds)))
    clipped = [max(-32_768, min(32_767, round(x))) for x in samples]
    return struct.pack(f"<{len(clipped)}h", *clipped)


@pytest.mark.parametrize(
    "pcm", [bytes(96_000), noise(-60), noise(-40), noise(-30)], ids=len
)
def test_silence_and_steady_noise_are_no_speech(pcm: bytes) -> None:
    assert share_of_speech(pcm) < 0.1


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(SpeechError, match=r"glyphoxa-trio\[voice\]"):
        detector()
