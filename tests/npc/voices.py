"""A synthesizer on virtual time, for tests of what is said aloud.

It says ten characters a second, in pieces of a tenth of one, and makes each piece in
``work`` seconds. What a piece holds tells whose it is, so that audio can be compared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs

import trio

from glyphoxa_trio.providers.speech import Voice

RATE = 1_000  # so that a millisecond is a sample
PIECE = 200  # bytes, a tenth of a second


def audio_of(text: str) -> bytes:
    """What this sentence sounds like: a tenth of a second for each of its letters."""
    return b"".join(bytes([ord(letter) % 256]) * PIECE for letter in text)


@attrs.define(eq=False)
class FakeSynthesizer:
    """Says anything but what it is told to fail at.

    ``said`` holds each sentence with the times at which it began and ended, however
    it did; ``cut`` those that were left before their end. Leaving takes ``hang_up``
    seconds.
    """

    work: float = 0.0
    fails: Mapping[str, Exception] = attrs.field(factory=dict)
    fails_after: int = 0  # pieces
    hang_up: float = 0.0
    rate: int = RATE
    said: list[tuple[str, float, float]] = attrs.field(factory=list)
    cut: list[tuple[str, float]] = attrs.field(factory=list)
    voices: list[Voice] = attrs.field(factory=list)
    open: int = 0

    @property
    def label(self) -> str:
        return "fake"

    @asynccontextmanager
    async def speak(
        self, text: str, voice: Voice
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.voices.append(voice)
        self.open += 1
        began = trio.current_time()
        pieces = _Pieces(self, text)
        try:
            yield pieces
        finally:
            if self.hang_up:
                with trio.CancelScope(shield=True):
                    await trio.sleep(self.hang_up)
            self.open -= 1
            now = trio.current_time()
            self.said.append((text, began, now))
            if not pieces.over:
                self.cut.append((text, now))


@attrs.define(eq=False)
class _Pieces:
    _maker: FakeSynthesizer
    _text: str
    _at: int = attrs.field(default=0, init=False)
    over: bool = attrs.field(default=False, init=False)

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._at >= len(self._text):
            self.over = True
            raise StopAsyncIteration
        if self._text in self._maker.fails and self._at >= self._maker.fails_after:
            self.over = True
            raise self._maker.fails[self._text]
        await trio.sleep(self._maker.work)
        self._at += 1
        return audio_of(self._text[self._at - 1])
