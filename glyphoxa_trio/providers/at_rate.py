"""A speech-to-speech model that takes microphone audio at another rate than its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs

from .audio import Resampler
from .s2s import (
    S2S,
    Capabilities,
    Command,
    Event,
    LinkStatistics,
    RealtimeLink,
    SendAudio,
    Setup,
    SpeechEnds,
)


@attrs.frozen
class AtRate:
    """A ``model`` that takes audio at ``rate``: one microphone serves several models.

    Args:
      model: the model.
      rate: of the microphone, in Hz.

    Raises:
      AudioError: if the rates differ and no resampler is installed.
    """

    model: S2S
    rate: int

    def __attrs_post_init__(self) -> None:
        Resampler(self.rate, self.model.capabilities.input_rate)

    @property
    def label(self) -> str:
        return self.model.label

    @property
    def capabilities(self) -> Capabilities:
        return attrs.evolve(self.model.capabilities, input_rate=self.rate)

    @asynccontextmanager
    async def connect(self, setup: Setup) -> AsyncGenerator[RealtimeLink]:
        """Open a link; see `S2S.connect`."""
        rate = self.model.capabilities.input_rate
        async with self.model.connect(setup) as link:
            yield _Converted(link, Resampler(self.rate, rate))


@attrs.frozen(eq=False)
class _Converted:
    """A link that converts the microphone's rate."""

    _link: RealtimeLink
    _resampler: Resampler

    def send(self, command: Command) -> None:
        match command:
            case SendAudio(pcm):
                self._hear(self._resampler.feed(pcm))
                return
            case SpeechEnds():
                self._hear(self._resampler.end())  # what the resampler still holds back
            case _:
                pass
        self._link.send(command)

    def _hear(self, pcm: bytes) -> None:
        if pcm:
            self._link.send(SendAudio(pcm))

    async def receive(self) -> Event:
        return await self._link.receive()

    def statistics(self) -> LinkStatistics:
        return self._link.statistics()
