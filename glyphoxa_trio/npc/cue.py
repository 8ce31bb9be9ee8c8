"""A soft tone: what is heard in place of words that nobody can say."""

from __future__ import annotations

from array import array
from math import pi, sin
from sys import byteorder
from typing import Final

RATE: Final = 24_000
_SECONDS: Final = 0.4
_PITCH: Final = 330.0  # Hz
_LOUDEST: Final = 0.1  # of what there is: about as loud as quiet speech


def _tone() -> bytes:
    """It swells and fades, so that nothing clicks."""
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
