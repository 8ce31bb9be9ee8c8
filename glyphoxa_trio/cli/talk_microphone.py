"""The microphone on its way to the NPC: what is speech, and what is let through."""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.providers.audio import Framer, Resampler, bytes_of
from glyphoxa_trio.providers.endpointing import (
    FRAME,
    RATE,
    Endpointer,
    Endpointing,
    IsSpeech,
)

_SIZE: Final = bytes_of(FRAME, RATE)


@attrs.frozen
class HeardPiece:
    """A piece of the microphone, after the gate.

    Args:
      pcm: what the NPC hears of it, at 16 kHz.
      began: an utterance began in it.
      speech: seconds since the last speech in it, of an utterance; None if there is
        none.
      ended: seconds since an utterance ended in it; None if none did.
    """

    pcm: bytes
    began: bool
    speech: float | None
    ended: float | None


@attrs.define(eq=False)
class SpeechGate:
    """The detector of speech in front of an NPC.

    Args:
      rate: of the microphone, in Hz.
      how: finds the beginning and end of speech.
      closes: let nothing through but utterances, with the moment before them, and
        silence in place of the rest. That is for models whose server detects speech,
        and takes music for it.

    Raises:
      AudioError: audio of that rate cannot be converted.
      SpeechError: the detector is not installed.
    """

    rate: int
    how: Endpointing
    closes: bool = False
    _resampler: Resampler = attrs.field(init=False)
    _framer: Framer = attrs.field(factory=lambda: Framer(_SIZE), init=False)
    _is_speech: IsSpeech = attrs.field(init=False)
    _endpointer: Endpointer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._resampler = Resampler(self.rate, RATE)
        self._is_speech = self.how.detector()
        self._endpointer = Endpointer(self.how)

    @property
    def speaking(self) -> bool:
        """True while an utterance goes on."""
        return self._endpointer.speaking

    def feed(self, pcm: bytes, *, deaf: bool = False) -> HeardPiece:
        """Take a piece of the microphone.

        Args:
          deaf: silence is heard instead, of the same length.
        """
        through, began, speech, ended = b"", False, None, None
        frames = self._framer.feed(self._resampler.feed(pcm))
        for after, frame in zip(range(len(frames) - 1, -1, -1), frames, strict=True):
            heard = bytes(_SIZE) if deaf else frame
            before = self.speaking
            voiced = not deaf and self._is_speech(heard)
            spoken = self._endpointer.feed(heard, voiced)
            through += (spoken or bytes(_SIZE)) if self.closes else heard
            began |= self.speaking and not before
            # By the time of the audio: a program that was held up gets much at once.
            if voiced and self.speaking:
                speech = after * FRAME
            if before and not self.speaking:
                ended = after * FRAME
        return HeardPiece(through, began, speech, ended)
