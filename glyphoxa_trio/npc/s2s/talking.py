"""Where somebody begins and ends to speak, for a model that is not to hear that itself.

A session that is not ``automatic`` answers only when it is asked, so that the tier
can be chosen by the words first, and a turn go another way (D23b). Then only speech is
sent, from a little before it began.
"""

from __future__ import annotations

from math import inf

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.providers.audio import Framer, Resampler, bytes_of
from glyphoxa_trio.providers.endpointing import (
    FRAME,
    RATE,
    Endpointer,
    Endpointing,
    IsSpeech,
)

from .live import Live


@attrs.define(eq=False)
class Talking:
    """One microphone, at `endpointing.RATE`, in front of a model that is asked.

    Args:
      how: speech is found.
    """

    live: Live
    how: Endpointing
    _is_speech: IsSpeech = attrs.field(init=False)
    _framer: Framer = attrs.field(init=False)
    _resampler: Resampler = attrs.field(init=False)
    _endpointer: Endpointer = attrs.field(init=False)
    _heard_at: float = attrs.field(default=-inf, init=False)
    _began: Signal = attrs.field(factory=Signal, init=False)

    def __attrs_post_init__(self) -> None:
        self._is_speech = self.how.detector()
        self._endpointer = Endpointer(self.how)
        self._framer = Framer(bytes_of(FRAME, RATE))
        self._resampler = Resampler(RATE, self.live.capabilities.input_rate)

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio. Never waits."""
        self._heard_at = trio.current_time()
        for frame in self._framer.feed(pcm):
            before = self._endpointer.speaking
            part = self._endpointer.feed(frame, self._is_speech(frame))
            if self._endpointer.speaking and not before:
                self.live.speech_begins()
                self._began.set()
            if part:
                self.live.hear(self._resampler.feed(part))
            if before and not self._endpointer.speaking:
                self._end()

    async def watch(self) -> None:
        """End what a microphone has left off, as voice chats do. Until cancelled."""
        while True:
            await self._began.take()
            while self._endpointer.speaking:
                await trio.sleep_until(self._heard_at + self.how.end)
                if trio.current_time() >= self._heard_at + self.how.end:
                    self._endpointer.end()
                    self._end()

    def _end(self) -> None:
        self.live.hear(self._resampler.end())
        self.live.speech_ends()
