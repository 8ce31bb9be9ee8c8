"""Where somebody begins and ends to speak, for a model that is not to hear that itself.

A session that is not ``automatic`` answers only when it is asked, so that the tier
can be chosen by the words first, and a turn go another way (D23b). Then only speech is
sent, from a little before it began; and only once it counts: the model hears nothing of
a cough.
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
    """What an NPC says to whoever has this microphone."""

    @property
    def busy(self) -> bool:
        """Whether it answers them, or what it has said is still played."""
        ...

    def hold(self) -> None: ...

    def resume(self) -> None: ...


@attrs.define(eq=False)
class Talking:
    """One microphone, at `endpointing.RATE`, in front of a model that is asked.

    Args:
      how: speech is found.
      minimum: what an interruption has to be, in seconds; nobody knows the words yet.
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
    _number: int = attrs.field(default=0, init=False)  # of the utterance
    _kept: bytearray = attrs.field(factory=bytearray, init=False)  # and not sent yet
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
        """End what a microphone has left off, as voice chats do. Until cancelled: then
        what is being said ends, too, since nothing more of it is heard."""
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
        """More of the utterance is known, or its end."""
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
