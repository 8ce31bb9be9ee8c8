"""Detection of speech by its energy alone, and a record of the audio."""

from __future__ import annotations

import math
from array import array
from enum import StrEnum
from typing import Final

import attrs

FRAME_MS: Final = 20
_LOUD: Final = 500.0  # root mean square of a frame that may be speech
_BEGINS: Final = 3  # consecutive loud frames that make it speech
_LEAD_MS: Final = 1000  # audio before speech that may be part of it
_EVERY: Final = 4  # one of so many samples is measured: enough for speech


class SpeechActivity(StrEnum):
    BEGINS = "begins"
    ENDS = "ends"


@attrs.define(eq=False)
class ReceivedAudio:
    """One microphone: PCM16 at ``rate``. Times are milliseconds since its first sample.

    Args:
      records: whether all audio is kept; else only what may be part of an utterance.
      audio: every byte so far.
      utterances: the parts of it that were speech, in order.
      speaking: whether speech is going on.
    """

    rate: int
    records: bool = True
    audio: bytearray = attrs.field(factory=bytearray, repr=False)
    utterances: list[bytes] = attrs.field(factory=list, repr=False)
    speaking: bool = False
    ms: int = 0
    _gone: int = 0  # bytes that are no longer kept
    _start: int = 0  # where in the audio the next utterance begins
    _loud: int = 0
    _quiet: int = 0

    def set_rate(self, rate: int) -> None:
        """Set the sample rate; only before the first audio."""
        self.rate = rate

    def hear(self, pcm: bytes, *, silence_ms: int) -> list[tuple[SpeechActivity, int]]:
        """Take a piece of audio; return the changes in it, each with its time.

        Speech ends after ``silence_ms`` of quiet.
        """
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
        """The milliseconds of audio since the last utterance."""
        return (self._size - self._start) / self._at(1)

    @property
    def quiet_ms(self) -> int:
        """The milliseconds of quiet up to now, in which speech may go on."""
        return self._quiet * FRAME_MS

    def since(self, ms: int) -> bytes:
        """Return the audio that came after so many milliseconds."""
        return bytes(self.audio[max(0, self._at(ms) - self._gone) :])

    def begin(self, ms: int) -> None:
        """Begin an utterance here, or where the last one ended if that is later."""
        self._start = max(self._start, min(self._at(ms), self._size))

    def cut(self, ms: int | None = None) -> bytes:
        """End the utterance here, and return it; None means now."""
        end = self._size if ms is None else self._at(ms)
        pcm = bytes(self.audio[self._start - self._gone : end - self._gone])
        self._start = max(self._start, end)
        if self.records:
            self.utterances.append(pcm)
        return pcm

    def forget(self, *, audio: bool = False) -> None:
        """End speech without an utterance; with ``audio``, drop its audio, too."""
        self.speaking = False
        self._loud = self._quiet = 0
        if audio:
            self._start = self._size

    @property
    def _size(self) -> int:
        return self._gone + len(self.audio)

    def _drop(self) -> None:
        """Drop the audio before the last second, unless speech is going on."""
        end = self._at(self.ms - _LEAD_MS)
        if not self.speaking and end > self._gone:
            del self.audio[: end - self._gone]
            self._gone = end
            self._start = max(self._start, end)

    def _at(self, ms: int) -> int:
        return 2 * (self.rate * ms // 1000)


def loudness(pcm: bytes | bytearray) -> float:
    """Return the root mean square of PCM16 samples."""
    samples = array("h", pcm[: len(pcm) // 2 * 2])[::_EVERY]
    return math.sqrt(sum(s * s for s in samples) / len(samples)) if samples else 0.0
