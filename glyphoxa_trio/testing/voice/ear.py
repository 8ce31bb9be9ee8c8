"""Hears when speech begins and ends: a voice activity detector by energy alone."""

from __future__ import annotations

import math
from array import array
from enum import StrEnum
from typing import Final

import attrs

FRAME_MS: Final = 20
_LOUD: Final = 500.0  # root mean square of a frame that may be speech
_BEGINS: Final = 3  # loud frames in a row that are


class Activity(StrEnum):
    BEGINS = "begins"
    ENDS = "ends"


@attrs.define(eq=False)
class Ear:
    """One microphone. Times are milliseconds of audio since the first.

    Args:
      silence_ms: how long it must be quiet before speech has ended.
      speaking: whether somebody speaks.
    """

    rate: int
    silence_ms: int
    speaking: bool = False
    ms: int = 0
    began_ms: int = 0
    _left: bytes = b""
    _loud: int = 0
    _quiet: int = 0

    def hear(self, pcm: bytes) -> list[tuple[Activity, int]]:
        """What happens in this piece, and when."""
        happened: list[tuple[Activity, int]] = []
        size = 2 * self.rate * FRAME_MS // 1000
        data = self._left + pcm
        whole = len(data) // size * size
        self._left = data[whole:]
        for at in range(0, whole, size):
            loud = loudness(data[at : at + size]) >= _LOUD
            self.ms += FRAME_MS
            self._loud = self._loud + 1 if loud else 0
            self._quiet = 0 if loud else self._quiet + 1
            if not self.speaking and self._loud == _BEGINS:
                self.speaking = True
                self.began_ms = self.ms - _BEGINS * FRAME_MS
                happened.append((Activity.BEGINS, self.began_ms))
            elif self.speaking and self._quiet * FRAME_MS >= self.silence_ms:
                self.speaking = False
                happened.append((Activity.ENDS, self.ms))
        return happened

    def forget(self) -> None:
        """Nobody speaks, whatever it was."""
        self.speaking = False
        self._loud = self._quiet = 0


def loudness(pcm: bytes) -> float:
    """The root mean square of PCM16 samples."""
    samples = array("h", pcm[: len(pcm) // 2 * 2])
    return math.sqrt(sum(s * s for s in samples) / len(samples)) if samples else 0.0
