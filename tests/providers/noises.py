"""What is no speech, as a microphone gives it: PCM16 at 16 kHz, made here each time.

Each noise is a function of its length in seconds, and the same at each call. The crowd
and the speech are `espeak-ng`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from glyphoxa_trio.providers.audio import Resampler
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.speech import VoiceStyle

RATE: Final = 16_000
Samples = npt.NDArray[np.float64]  # 1.0 is the loudest

# A minor pentatonic scale, and how long each tone of a player's hand lasts.
_TONES: Final = (220.0, 261.63, 293.66, 329.63, 392.0, 440.0, 523.25)
_BEAT: Final = 0.28

# So that a crowd is a crowd: each has a voice and a text of their own.
_VARIANTS: Final = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4")
_CHATTER: Final = (
    "The price of salt has doubled since the harvest, and nobody knows why that is.",
    "My brother says that the bridge will not hold another winter of this kind.",
    "Pour me another one, and tell the cook that the soup was cold again today.",
    "They came over the hill at dawn with forty horses and not a single banner.",
    "If you ask me, the mayor has never worked an honest day in all of his life.",
)


def pcm(samples: Samples) -> bytes:
    loud = np.clip(np.rint(samples * 32_767), -32_768, 32_767)
    return bytes(loud.astype("<i2").tobytes())


def samples(audio: bytes) -> Samples:
    return np.frombuffer(audio, dtype="<i2").astype(np.float64) / 32_768


def at_level(sound: Samples, decibels: float) -> Samples:
    """As loud as that on average, below the loudest."""
    power = float(np.sqrt(np.mean(sound**2)))
    return sound * (10 ** (decibels / 20) / power)


def music(seconds: float) -> Samples:
    """Plucked strings: a burst of noise that runs round in a delay line."""
    chance = np.random.default_rng(1)
    out = np.zeros(int(RATE * seconds) + RATE)
    for at in np.arange(0, seconds, _BEAT):
        for tone in chance.choice(_TONES, size=2, replace=False):
            ring = chance.uniform(-1, 1, int(RATE / tone))
            periods = [ring]
            for _ in range(int(tone)):  # a second of it
                ring = 0.4985 * (ring + np.roll(ring, 1))
                periods.append(ring)
            string = np.concatenate(periods)[:RATE]
            begin = int(at * RATE)
            out[begin : begin + len(string)] += string
    return at_level(out[: int(RATE * seconds)], -20)


def typing(seconds: float) -> Samples:
    """Somebody types: short bursts that die away, of two sounds, never quite even."""
    chance = np.random.default_rng(2)
    out = chance.normal(0, 0.0005, int(RATE * seconds))
    at = 0.1
    while at < seconds - 0.1:
        for later, loud in ((0.0, 0.5), (0.07, 0.2)):  # down, and up again
            length = int(RATE * 0.02)
            fading = np.exp(-np.arange(length) / (RATE * 0.003))
            begin = int((at + later) * RATE)
            click = chance.normal(0, loud, length) * fading
            end = min(begin + length, len(out))
            out[begin:end] += click[: end - begin]
        at += float(chance.uniform(0.09, 0.3))
    return out


def hum(seconds: float) -> Samples:
    """The mains, with overtones."""
    time = np.arange(int(RATE * seconds)) / RATE
    wave = sum(np.sin(2 * np.pi * 50 * n * time) / n for n in range(1, 12))
    return at_level(np.asarray(wave), -20)


def pink(seconds: float, decibels: float = -25, seed: int = 3) -> Samples:
    """As loud in each octave."""
    count = int(RATE * seconds)
    white = np.fft.rfft(np.random.default_rng(seed).normal(0, 1, count))
    shaped = white / np.sqrt(np.maximum(np.arange(len(white)), 1))
    return at_level(np.fft.irfft(shaped, count), decibels)


STEADY: Final[Mapping[str, Callable[[float], Samples]]] = {
    "music": music,
    "typing": typing,
    "hum": hum,
    "pink noise": pink,
}


async def said(text: str, name: str = "en-us", speed: float = 1.0) -> Samples:
    """What `espeak-ng` makes of it, without the silence around it."""
    resampler = Resampler(Espeak().rate, RATE)
    async with Espeak().speak(text, VoiceStyle(name=name, speed=speed)) as pieces:
        audio = b"".join([resampler.feed(piece) async for piece in pieces])
    return samples(audio + resampler.end())


async def crowd(seconds: float, voices: int = 14) -> Samples:
    """So many people who talk at the same time, one as loud as the other."""
    out = np.zeros(int(RATE * seconds))
    for number in range(voices):
        variant = _VARIANTS[number % len(_VARIANTS)]
        texts = [_CHATTER[(number + x) % len(_CHATTER)] for x in range(len(_CHATTER))]
        speed = 0.85 + 0.04 * (number % 8)
        one = at_level(await said(" ".join(texts), f"en-us+{variant}", speed), -20)
        begin = int(RATE * 0.37 * number) % len(one)
        out += np.resize(np.roll(one, -begin), len(out))
    return at_level(out, -25)


async def conversation(
    texts: Sequence[str], *, pause: float = 2.0, snr: float = 10
) -> tuple[Samples, list[tuple[float, float]]]:
    """These, one after the other, in pink noise; and when each begins and ends."""
    parts: list[Samples] = [np.zeros(int(RATE * pause))]
    when: list[tuple[float, float]] = []
    at = pause
    for text in texts:
        one = _trimmed(at_level(await said(text), -20))
        parts += [one, np.zeros(int(RATE * pause))]
        length = len(one) / RATE
        when.append((at, at + length))
        at += length + pause
    whole = np.concatenate(parts)
    return whole + pink(len(whole) / RATE + 1, -20 - snr)[: len(whole)], when


def _trimmed(sound: Samples) -> Samples:
    loud: Any = np.flatnonzero(np.abs(sound) > 0.01)
    return sound[loud[0] : loud[-1] + 1]
