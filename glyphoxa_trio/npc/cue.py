"""A soft tone that is played in place of words that no synthesizer can say."""

from __future__ import annotations

from array import array
from math import pi, sin
from sys import byteorder
from typing import Final

RATE: Final = 24_000
_SECONDS: Final = 0.4
_PITCH: Final = 330.0  # Hz
_LOUDEST: Final = 0.1  # of the full amplitude: about as loud as quiet speech


def _tone() -> bytes:
    """Return the tone as PCM16. It fades in and out, so that it does not click."""
    count = int(RATE * _SECONDS)
    samples = (
        int(
            32767
            * _LOUDEST
            * sin(pi * i / count) ** 2
            * sin(2 * pi * _PITCH * i / RATE)
        )
        for i in range(count)
    )
    pcm = array("h", samples)
    if byteorder == "big":
        pcm.byteswap()
    return pcm.tobytes()


TONE: Final = _tone()
