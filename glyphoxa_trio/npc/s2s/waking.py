"""An open microphone in front of a model that detects speech itself.

All audio goes to the model. But only speech, as a cheap detector here finds it, opens a
socket or keeps one open: otherwise a microphone that is on all day would be listened
to, and paid for, all day. The audio just before speech is sent with it. Speech is sent
as it comes; silence is sent in larger pieces, because each message costs the same
whatever its size.
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

from .realtime_conversation import RealtimeConversation

# enough to detect speech, and every model's rate is a multiple of it
_RATE: Final = 8_000
PIECE: Final = 0.1  # seconds of silence in one message


def _any_sound() -> IsSpeech:
    """Return a detector: without the extra `voice`, every sound counts as speech."""
    try:
        return detector(_RATE)
    except SpeechError:
        return any


@attrs.define(eq=False)
class Waking:
    """One microphone, at the model's own rate, in front of the conversation."""

    live: RealtimeConversation
    _step: int = attrs.field(init=False)
    _is_speech: IsSpeech = attrs.field(factory=_any_sound)
    _endpointer: Endpointer = attrs.field(factory=Endpointer, init=False)
    _framer: Framer = attrs.field(init=False)
    _silent: bool = attrs.field(default=False, init=False)  # of the last frame
    _held: bytearray = attrs.field(factory=bytearray, init=False)
    _most: int = attrs.field(init=False)  # how many bytes are held

    def __attrs_post_init__(self) -> None:
        rate = self.live.capabilities.input_rate
        self._step = max(1, rate // _RATE)
        self._framer = Framer(bytes_of(FRAME, _RATE * self._step))
        self._most = bytes_of(PIECE, rate)

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio. Never waits."""
        self._held += pcm
        sounds = speech = self._endpointer.speaking
        for frame in self._framer.feed(pcm):
            thin = array("h", frame)[:: self._step].tobytes()
            is_speech = self._is_speech(thin)
            self._endpointer.feed(thin, is_speech)
            speech = speech or self._endpointer.speaking
            self._silent = not (is_speech or speech)
            sounds = sounds or not self._silent
        if sounds or not self._silent or len(self._held) >= self._most:
            self.live.hear(bytes(self._held), speech=speech)
            self._held.clear()
