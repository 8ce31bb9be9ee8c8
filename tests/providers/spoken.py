"""Real speech for tests: what `espeak-ng` makes of a text, as a microphone gives it."""

from __future__ import annotations

import trio

from glyphoxa_trio.providers.audio import Resampler, bytes_of
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.speech import (
    Began,
    Final,
    Partial,
    Recognized,
    Recognizer,
    VoiceStyle,
)

SPEAKER = VoiceStyle(name="en-us", speed=0.85)


async def spoken(
    text: str, rate: int, *, before: float = 0.3, after: float = 1.0
) -> bytes:
    """A text between two silences."""
    resampler = Resampler(Espeak().rate, rate)
    async with Espeak().speak(text, SPEAKER) as pieces:
        pcm = b"".join([resampler.feed(piece) async for piece in pieces])
    pcm += resampler.end()
    return bytes(bytes_of(before, rate)) + pcm + bytes(bytes_of(after, rate))


async def understood(
    recognizer: Recognizer, *texts: str, language: str | None = None
) -> list[list[Recognized]]:
    """What a recognizer makes of these, one utterance each; in pieces of 20 ms."""
    found: list[list[Recognized]] = []
    async with recognizer.listen(language=language) as recognition:
        for text in texts:
            pcm = await spoken(text, recognizer.rate)
            size = bytes_of(0.02, recognizer.rate)
            for at in range(0, len(pcm), size):
                recognition.hear(pcm[at : at + size])
                await trio.lowlevel.checkpoint()
            found.append([])
            async for event in recognition.events():
                found[-1].append(event)
                if not isinstance(event, Began | Partial):
                    break
    return found


def final(events: list[Recognized]) -> str:
    last = events[-1]
    assert isinstance(last, Final), last
    return last.text
