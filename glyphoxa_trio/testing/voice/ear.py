"""Hears when speech begins and ends, by its energy alone, and keeps what was heard."""

from __future__ import annotations

import math
from array import array
from enum import StrEnum
from typing import Final

import attrs

FRAME_MS: Final = 20
_LOUD: Final = 500.0  # root mean square of a frame that may be speech
_BEGINS: Final = 3  # loud frames in a row that are
_LEAD_MS: Final = 1000  # what may come before speech, and be part of it
_EVERY: Final = 4  # of so many samples one is looked at: enough for speech


class SpeechActivity(StrEnum):
    BEGINS = "begins"
    ENDS = "ends"


@attrs.define(eq=False)
class ReceivedAudio:
    """One microphone: PCM16 at ``rate``. Times are milliseconds since its first sample.

    Args:
      records: all audio is kept; else only what may yet be part of an utterance.
      audio: every byte so far.
      utterances: what was cut out of it, in order.
      speaking: whether somebody speaks.
    """

    rate: int
    records: bool = True
    audio: bytearray = attrs.field(factory=bytearray, repr=False)
    utterances: list[bytes] = attrs.field(factory=list, repr=False)
    speaking: bool = False
    ms: int = 0
    _gone: int = 0  # bytes that are not kept any more
    _start: int = 0  # where in the audio the next utterance begins
    _loud: int = 0
    _quiet: int = 0

    def set_rate(self, rate: int) -> None:
        """Before anything is heard: it comes at this rate."""
        self.rate = rate

    def hear(self, pcm: bytes, *, silence_ms: int) -> list[tuple[SpeechActivity, int]]:
        """What happens in this piece, and when. Speech ends with so much quiet."""
        happened: list[tuple[SpeechActivity, int]] = []
        self.audio += pcm
        size = self._at(FRAME_MS)
        if not self.records:
            self._drop()
        while (at := self._at(self.ms) - self._gone) + size <= len(self.audio):
            loud = loudness(self.audio[at : at + size]) >= _LOUD
            self.ms += FRAME_MS
            self._loud = self._loud + 1 if loud else 0
            self._quiet = 0 if loud else self._quiet + 1
            if not self.speaking and self._loud == _BEGINS:
                self.speaking = True
                happened.append((SpeechActivity.BEGINS, self.ms - _BEGINS * FRAME_MS))
            elif self.speaking and self._quiet * FRAME_MS >= silence_ms:
                self.speaking = False
                happened.append((SpeechActivity.ENDS, self.ms))
        return happened

    @property
    def waiting_ms(self) -> float:
        """How much has been heard since the last utterance."""
        return (self._size - self._start) / self._at(1)

    def begin(self, ms: int) -> None:
        """An utterance begins here, if that is not part of the last one."""
        self._start = max(self._start, min(self._at(ms), self._size))

    def cut(self, ms: int | None = None) -> bytes:
        """The utterance that ends here; None is now."""
        end = self._size if ms is None else self._at(ms)
        pcm = bytes(self.audio[self._start - self._gone : end - self._gone])
        self._start = max(self._start, end)
        if self.records:
            self.utterances.append(pcm)
        return pcm

    def forget(self, *, audio: bool = False) -> None:
        """Nobody speaks; with ``audio``, nobody has since the last utterance."""
        self.speaking = False
        self._loud = self._quiet = 0
        if audio:
            self._start = self._size

    @property
    def _size(self) -> int:
        return self._gone + len(self.audio)

    def _drop(self) -> None:
        """Forget what is before the last second, while nobody speaks."""
        end = self._at(self.ms - _LEAD_MS)
        if not self.speaking and end > self._gone:
            del self.audio[: end - self._gone]
            self._gone = end
            self._start = max(self._start, end)

    def _at(self, ms: int) -> int:
        return 2 * (self.rate * ms // 1000)


def loudness(pcm: bytes | bytearray) -> float:
    """The root mean square of PCM16 samples."""
    samples = array("h", pcm[: len(pcm) // 2 * 2])[::_EVERY]
    return math.sqrt(sum(s * s for s in samples) / len(samples)) if samples else 0.0
