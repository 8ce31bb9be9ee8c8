"""Speech on virtual time: a synthesizer, a recognizer, and somebody who listens.

The synthesizer says ten letters a second, in pieces of a tenth of one, and makes each
piece in ``work`` seconds. What a piece holds tells whose it is, so that audio can be
compared. The recognizer understands what a test tells it to have understood.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import Stream
from glyphoxa_trio.npc import Sentence, TurnEvent
from glyphoxa_trio.npc.events import Flush, Hold, Resume, Speech
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.providers.speech import Recognized, Sounding, SpeechError
from glyphoxa_trio.providers.speech import VoiceStyle as Sound

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
    voices: list[Sound] = attrs.field(factory=list)
    open: int = 0

    @property
    def label(self) -> str:
        return "fake"

    @asynccontextmanager
    async def speak(
        self, text: str, voice: Sound
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


@attrs.define(eq=False)
class FakeRecognizer:
    """Understands what the test tells it to have understood.

    ``fails``: it cannot listen. Each ``listen`` is one more of ``listeners``.
    """

    rate: int = RATE
    fails: Exception | None = None
    listeners: list[FakeRecognition] = attrs.field(factory=list)
    languages: list[str | None] = attrs.field(factory=list)
    warnings: list[str] = attrs.field(factory=list)

    @property
    def label(self) -> str:
        return "fake"

    @asynccontextmanager
    async def listen(
        self, *, language: str | None = None
    ) -> AsyncIterator[FakeRecognition]:
        self.languages.append(language)
        if self.fails is not None:
            raise self.fails
        recognition = FakeRecognition()
        self.listeners.append(recognition)
        try:
            yield recognition
        finally:
            recognition.over = True


@attrs.define(eq=False)
class FakeRecognition:
    heard: bytes = b""
    dropped: float = 0.0
    over: bool = False
    _events: Stream[Recognized | Exception] = attrs.field(factory=Stream, init=False)
    _told: Callable[[Sounding], None] = attrs.field(init=False)

    def tell_speech(self, told: Callable[[Sounding], None]) -> None:
        self._told = told

    def sound(self, utterance: int, seconds: float, *, over: bool = False) -> None:
        """So much of it is heard by now."""
        self._told(Sounding(utterance, seconds, over))

    def hear(self, pcm: bytes) -> None:
        self.heard += pcm

    async def events(self) -> AsyncIterator[Recognized]:
        async for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    def tell(self, *events: Recognized | Exception) -> None:
        for event in events:
            self._events.post(event)

    def stop(self) -> None:
        self._events.end()


@attrs.define(eq=False)
class Loudspeaker:
    """Somebody who listens to a voice: plays what comes, in real time, and says so;
    what it has is kept while it is told to hold.

    ``played`` is what came out of it, by turn. It reports every ``report`` seconds, and
    never if that is 0.
    """

    voice: Voice
    report: float = 0.1
    events: list[tuple[float, TurnEvent]] = attrs.field(factory=list)
    played: dict[int, bytes] = attrs.field(factory=dict)
    error: Exception | None = None
    _buffer: list[tuple[int, bytes]] = attrs.field(factory=list, init=False)
    _seconds: float = attrs.field(default=0.0, init=False)
    _holds: set[int] = attrs.field(factory=set, init=False)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            if self.report:
                self.voice.played(0)
                nursery.start_soon(self._play)
            try:
                async for event in self.voice:
                    self.events.append((trio.current_time(), event))
                    if isinstance(event, Speech):
                        self._buffer.append((event.turn, event.pcm))
                    elif isinstance(event, Flush):
                        self._holds.discard(event.turn)
                        self._buffer.clear()
                        self._seconds = 0.0
                    elif isinstance(event, Hold):
                        assert event.turn not in self._holds
                        self._holds.add(event.turn)
                    elif isinstance(event, Resume):
                        self._holds.remove(event.turn)
            except SpeechError as error:
                self.error = error
            nursery.cancel_scope.cancel()

    async def _play(self) -> None:
        size = int(self.report * RATE) * 2
        while True:
            await trio.sleep(self.report)
            if self._holds:
                continue
            left = size
            while self._buffer and left:
                turn, pcm = self._buffer.pop(0)
                now, later = pcm[:left], pcm[left:]
                self.played[turn] = self.played.get(turn, b"") + now
                left -= len(now)
                if later:
                    self._buffer.insert(0, (turn, later))
            self._seconds += (size - left) / 2 / RATE
            self.voice.played(1000 * self._seconds)

    @property
    def holds(self) -> bool:
        """Whether it was told to hold, and not yet what becomes of that."""
        return bool(self._holds)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for _, event in self.events if isinstance(event, kind)]

    def sentences(self, turn: int) -> list[str]:
        return [x.text for x in self.of(Sentence) if x.turn == turn]

    def when(self, kind: type[Any]) -> list[float]:
        return [at for at, event in self.events if isinstance(event, kind)]

    def kinds(self) -> list[str]:
        return [type(event).__name__ for _, event in self.events]
