"""A speech-to-speech model that hears at another rate than its own."""

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
    """``model``, given audio at ``rate``: one microphone serves it and another model.

    Raises:
      AudioError: if the rates differ and nothing here converts one to the other.
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
        """See `S2S.connect`."""
        rate = self.model.capabilities.input_rate
        async with self.model.connect(setup) as link:
            yield _Converted(link, Resampler(self.rate, rate))


@attrs.frozen(eq=False)
class _Converted:
    """A link whose microphone has another rate."""

    _link: RealtimeLink
    _resampler: Resampler

    def send(self, command: Command) -> None:
        match command:
            case SendAudio(pcm):
                self._hear(self._resampler.feed(pcm))
                return
            case SpeechEnds():
                self._hear(self._resampler.end())  # what it still looks ahead at
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
