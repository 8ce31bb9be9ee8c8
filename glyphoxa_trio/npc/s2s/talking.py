"""Detect speech for a model that must not do it itself.

A session that is not ``automatic`` answers only when it is asked to. So the tier can be
chosen by the words first, and the utterance can be answered by another engine. Only
speech is sent to the model, beginning a little before its first sound, and only once it
is long enough to count: the model does not hear a cough.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.npc.barge_in import BargeIn, BargeInAction, Minimum, UtteranceState
from glyphoxa_trio.providers.audio import Framer, Resampler, bytes_of
from glyphoxa_trio.providers.endpointing import (
    FRAME,
    RATE,
    Endpointer,
    Endpointing,
    IsSpeech,
)

from .realtime_conversation import RealtimeConversation


class TurnOwner(Protocol):
    """The speech of the NPC towards the user of this microphone."""

    @property
    def busy(self) -> bool:
        """True while the NPC answers the user, or its speech is still being played."""
        ...

    def hold(self) -> None: ...

    def resume(self) -> None: ...


@attrs.define(eq=False)
class Talking:
    """One microphone, at `endpointing.RATE`, for a model that must be asked.

    Args:
      live: the conversation.
      how: how speech is detected.
      minimum: how long speech must be to interrupt. Its number of words is ignored,
        because the words are not known yet.
      floor: what the NPC says, to be held, resumed or interrupted.
    """

    live: RealtimeConversation
    how: Endpointing
    minimum: Minimum
    floor: TurnOwner
    _is_speech: IsSpeech = attrs.field(init=False)
    _framer: Framer = attrs.field(init=False)
    _resampler: Resampler = attrs.field(init=False)
    _endpointer: Endpointer = attrs.field(init=False)
    _barge_in: BargeIn = attrs.field(init=False)
    _number: int = attrs.field(default=0, init=False)  # the number of the utterance
    # audio that is not sent yet
    _kept: bytearray = attrs.field(factory=bytearray, init=False)
    _heard_at: float = attrs.field(default=-inf, init=False)
    _began: Signal = attrs.field(factory=Signal, init=False)

    def __attrs_post_init__(self) -> None:
        self._is_speech = self.how.detector()
        self._endpointer = Endpointer(self.how)
        self._barge_in = BargeIn(attrs.evolve(self.minimum, words=0))
        self._framer = Framer(bytes_of(FRAME, RATE))
        self._resampler = Resampler(RATE, self.live.capabilities.input_rate)

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio. Never waits."""
        self._heard_at = trio.current_time()
        for frame in self._framer.feed(pcm):
            before = self._endpointer.speaking
            part = self._endpointer.feed(frame, self._is_speech(frame))
            if not part:
                continue
            self._kept += part
            if not before:
                self._begin()
            self._go_on()

    async def watch(self) -> None:
        """End utterances whose microphone has stopped sending, as voice chats do.

        Runs until it is cancelled; then the utterance in progress ends too, because
        nothing more of it will be heard.
        """
        try:
            while True:
                await self._began.take()
                while self._endpointer.speaking:
                    await trio.sleep_until(self._heard_at + self.how.end)
                    if trio.current_time() >= self._heard_at + self.how.end:
                        self._end()
        finally:
            self._end()

    def _end(self) -> None:
        if self._endpointer.speaking:
            self._endpointer.end()
            self._go_on()

    def _begin(self) -> None:
        self._number += 1
        self._began.set()
        self._decide(self._barge_in.begins(self._number, busy=self.floor.busy))

    def _go_on(self) -> None:
        """Handle more audio of the utterance, or its end."""
        over = not self._endpointer.speaking
        spoken = self._endpointer.spoken
        self._decide(self._barge_in.sounds(self._number, spoken, over=over))
        counts = self._barge_in.standing(self._number) is UtteranceState.COUNTS
        if counts:
            self.live.hear(self._resampler.feed(bytes(self._kept)))
        if counts or over:
            self._kept.clear()
        if counts and over:
            self.live.hear(self._resampler.end())
            self.live.speech_ends()

    def _decide(self, what: BargeInAction) -> None:
        match what:
            case BargeInAction.HOLD:
                self.floor.hold()
            case BargeInAction.RESUME:
                self.floor.resume()
            case BargeInAction.INTERRUPT:
                self.live.speech_begins()
            case BargeInAction.NOTHING:
                pass
