"""An open microphone at a model that hears by itself: what keeps its socket open.

Everything goes to the model as it comes. But only speech, as the cheap detector here
finds it, keeps a socket open or opens one: a microphone that is on all day would be
heard, and paid for, all day. What was just before speech is sent with it.
"""

from __future__ import annotations

from array import array
from typing import Final

import attrs

from glyphoxa_trio.providers.audio import Framer, bytes_of
from glyphoxa_trio.providers.endpointing import (
    FRAME,
    Endpointer,
    IsSpeech,
    detector,
)
from glyphoxa_trio.providers.speech import SpeechError

from .live import Live

_RATE: Final = 8_000  # is enough to tell, and any model's rate is so often that


def _any_sound() -> IsSpeech:
    """Without the extra `voice` nobody can tell: whatever is not silence may be."""
    try:
        return detector(_RATE)
    except SpeechError:
        return any


@attrs.define(eq=False)
class Waking:
    """One microphone, at the model's own rate, in front of it."""

    live: Live
    _step: int = attrs.field(init=False)
    _is_speech: IsSpeech = attrs.field(factory=_any_sound, init=False)
    _endpointer: Endpointer = attrs.field(factory=Endpointer, init=False)
    _framer: Framer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._step = max(1, self.live.capabilities.input_rate // _RATE)
        self._framer = Framer(bytes_of(FRAME, _RATE * self._step))

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio. Never waits."""
        speech = self._endpointer.speaking
        for frame in self._framer.feed(pcm):
            thin = array("h", frame)[:: self._step].tobytes()
            self._endpointer.feed(thin, self._is_speech(thin))
            speech = speech or self._endpointer.speaking
        self.live.hear(pcm, speech=speech)
