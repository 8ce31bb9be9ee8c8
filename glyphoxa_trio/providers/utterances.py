"""Cut microphone audio into utterances, which wait for a recognizer.

    hear(pcm) ─ frames ─ endpointing ─ utterances ─ one reader ─ events ─ one listener
                                          bounded                bounded

Taking audio never waits: if there is too much, whole utterances are dropped, the oldest
first, and counted. A microphone that sends nothing during silence, as in voice chats,
ends an utterance as silence does. A silent one costs a detector's work for each frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Stream, lone_errors

from .audio import Framer, bytes_of, seconds_of
from .endpointing import FRAME, RATE, USUAL, Endpointer, Endpointing, IsSpeech
from .speech import Began, Recognized, Sounding, SpeechError

CAPACITY: Final = 60.0  # seconds of audio that may wait; two utterances always may


@attrs.define(eq=False)
class _Utterance:
    """One utterance: its audio that was not read yet."""

    number: int
    pcm: bytearray = attrs.field(factory=bytearray, init=False)
    over: bool = attrs.field(default=False, init=False)


def _nobody(_: Sounding) -> None:
    pass


@attrs.define(eq=False)
class MicrophoneUtterances:
    """The utterances of one microphone, and the one that is being read.

    Args:
      is_speech: says whether a frame of `endpointing.FRAME` seconds holds speech.
      how: how utterances are detected.
      told: called with the duration of the speech, as it is detected.
    """

    is_speech: IsSpeech
    how: Endpointing = USUAL
    told: Callable[[Sounding], None] = _nobody
    dropped: float = attrs.field(default=0.0, init=False)  # seconds
    _framer: Framer = attrs.field(init=False)
    _endpointer: Endpointer = attrs.field(init=False)
    _waiting: deque[_Utterance] = attrs.field(factory=deque, init=False)
    _count: int = attrs.field(default=0, init=False)
    # The first utterance that waits is being read.
    _reading: bool = attrs.field(default=False, init=False)
    _heard_at: float = attrs.field(default=-inf, init=False)
    _news: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def __attrs_post_init__(self) -> None:
        self._framer = Framer(bytes_of(FRAME, RATE))
        self._endpointer = Endpointer(self.how)

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio of `endpointing.RATE`, without waiting."""
        now = trio.current_time()
        if now >= self._heard_at + self.how.end:
            self._cut()
        self._heard_at = now
        for frame in self._framer.feed(pcm):
            spoke = self._endpointer.speaking
            audio = self._endpointer.feed(frame, self.is_speech(frame))
            if not audio:
                continue
            if not spoke:
                self._count += 1
                self._waiting.append(_Utterance(self._count))
            self._waiting[-1].pcm += audio
            self._waiting[-1].over = not self._endpointer.speaking
            self._tell()
        self._drop()

    async def begin(self) -> int:
        """Wait for the next utterance, and read it from now on. Return its number."""
        await trio.lowlevel.checkpoint()
        if self._reading:
            self._waiting.popleft()
            self._reading = False
        while not self._waiting:
            await self._news.park()
        self._reading = True
        return self._waiting[0].number

    async def piece(self) -> bytes:
        """Return more audio of the utterance that is being read; empty at its end."""
        await trio.lowlevel.checkpoint()
        now = self._waiting[0]
        while not (now.pcm or now.over):
            with trio.move_on_at(self._heard_at + self.how.end) as silence:
                await self._news.park()
            if silence.cancelled_caught and trio.current_time() >= (
                self._heard_at + self.how.end
            ):
                self._cut()
        audio = bytes(now.pcm)
        now.pcm.clear()
        return audio

    async def whole(self) -> bytes:
        """Return all audio of the utterance that is being read."""
        audio = bytearray()
        while piece := await self.piece():
            audio += piece
        return bytes(audio)

    def _cut(self) -> None:
        """End the utterance, because no audio came for a while."""
        self._framer.end()
        if self._endpointer.speaking:
            self._waiting[-1].over = True
            self._endpointer.end()
            self._tell()
        self._endpointer.end()

    def _tell(self) -> None:
        """Report the utterance that is going on, or has just ended."""
        self._news.unpark_all()
        over = not self._endpointer.speaking
        self.told(Sounding(self._count, self._endpointer.spoken, over))

    def _drop(self) -> None:
        """Drop utterances that would not be recognized in time."""
        oldest = 1 if self._reading else 0
        while len(self._waiting) > oldest + 1 and sum(
            len(x.pcm) for x in self._waiting
        ) > bytes_of(CAPACITY, RATE):
            self.dropped += seconds_of(bytes(self._waiting[oldest].pcm), RATE)
            del self._waiting[oldest]


@attrs.define(eq=False)
class RecognitionRun:
    """A `Recognition` whose utterances are read, and recognized, by a task."""

    utterances: MicrophoneUtterances
    _events: Stream[Recognized] = attrs.field(factory=Stream, init=False)
    _error: SpeechError | None = attrs.field(default=None, init=False)

    @property
    def dropped(self) -> float:
        return self.utterances.dropped

    def hear(self, pcm: bytes) -> None:
        if self._error is None:
            self.utterances.hear(pcm)

    def events(self) -> AsyncIterator[Recognized]:
        return self

    def tell_speech(self, told: Callable[[Sounding], None]) -> None:
        self.utterances.told = told

    async def begin(self) -> None:
        """Wait for the next utterance, and report it."""
        await self.tell(Began(await self.utterances.begin()))

    async def tell(self, event: Recognized) -> None:
        """Report an event; waits while the listener is behind."""
        await self._events.send(event)

    def __aiter__(self) -> RecognitionRun:
        return self

    async def __anext__(self) -> Recognized:
        try:
            return await anext(self._events)
        except StopAsyncIteration:
            if self._error is not None:
                raise self._error from None
            raise

    def fail(self, error: SpeechError) -> None:
        """End recognition with an error; earlier events can still be read."""
        self._error = error
        self._events.end()


@asynccontextmanager
async def open_listening(
    is_speech: IsSpeech,
    understand: Callable[[RecognitionRun], Awaitable[None]],
    *,
    how: Endpointing = USUAL,
) -> AsyncIterator[RecognitionRun]:
    """Listen until the block is left, with a task that recognizes the utterances.

    Args:
      is_speech: says whether a frame holds speech.
      understand: recognizes one utterance after another, until cancelled. A
        `SpeechError` ends that, and is raised to the reader of the events.
      how: how utterances are detected.
    """
    listening = RecognitionRun(MicrophoneUtterances(is_speech, how))

    async def run() -> None:
        try:
            await understand(listening)
        except SpeechError as error:
            listening.fail(error)

    with lone_errors():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            try:
                yield listening
            finally:
                nursery.cancel_scope.cancel("listening has ended")
