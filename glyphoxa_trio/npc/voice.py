"""A microphone and a loudspeaker at one NPC: audio in, events out, for every engine.

    async with npc.voice(speaker="Ann", rate=48000) as voice:
        voice.hear(pcm)                 # as it comes, from any task
        async for event in voice:       # one reader
            ...                         # play Speech, stop at Flush, pause at Hold
        voice.played(ms)                # as it is played

The engines differ in their `MicrophoneInput`, which detects speech and makes turns of
it. A voice delivers the events of all turns of its microphone, one at a time: an event
counts as delivered once the next one is asked for, and a reader that does not ask slows
the turns down, as with `Turn`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeAlias

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.providers import g711
from glyphoxa_trio.providers.audio import Resampler
from glyphoxa_trio.providers.g711 import PCM, Law
from glyphoxa_trio.units import seconds

from .events import (
    GIVEN_OUT,
    Flush,
    Hold,
    Resume,
    Speech,
    Transcript,
    TurnDone,
    TurnEvent,
)
from .identity import DEFAULT_SESSION, SessionKey
from .playback import Playback

# How many transcripts and failures may wait; then the oldest are dropped.
MOST_NEWS: Final = 64


# A turn: its NPC and its number. In a scene one voice hears several NPCs.
Which: TypeAlias = tuple[str, int]


def which(event: TurnEvent) -> Which:
    """Return which turn the event belongs to."""
    return event.npc, event.turn


class MicrophoneInput(Protocol):
    """The way of one speaker's audio to an NPC; each engine has its own."""

    @property
    def rate(self) -> int:
        """The sample rate that it wants, in Hz."""
        ...

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio. Never waits; audio beyond a bound is dropped."""
        ...

    def played(self, heard: Mapping[Which, float]) -> None:
        """Report how many seconds of these turns' audio were heard in all.

        First called with none, because from then on this counts as delivered.
        """
        ...

    async def run(
        self, output: PlaybackOutput, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Hear until cancelled; every event goes to ``output``.

        Reports that it has started once it can hear. After that it raises nothing on
        purpose: a failure is an event, and `PlaybackOutput.end`.

        Raises:
          GlyphoxaError: before it has started, if it cannot hear.
        """
        ...


@attrs.define(eq=False)
class _PendingEvent:
    """A waiting event; ``taken`` is set when the listener has dealt with it."""

    event: TurnEvent
    taken: trio.Event | None = None

    def done(self) -> None:
        if self.taken is not None:
            self.taken.set()


@attrs.define(eq=False)
class PlaybackOutput:
    """The events of an ear for its listener.

    ``playback`` counts the audio of each turn since the last flush.

    Args:
      session: the session of the ear.
    """

    session: SessionKey = DEFAULT_SESSION
    playback: Playback = attrs.field(factory=Playback, init=False)
    _waiting: deque[_PendingEvent] = attrs.field(factory=deque, init=False)
    _handed: _PendingEvent | None = attrs.field(default=None, init=False)
    _reader: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )
    # Running turns of which something was delivered, and turns that were flushed.
    _gave_out: set[Which] = attrs.field(factory=set, init=False)
    _flushed: set[Which] = attrs.field(factory=set, init=False)
    # Turns that the listener was told to hold, while no audio is delivered.
    _held: set[Which] | None = attrs.field(default=None, init=False)
    _reports: bool = attrs.field(default=False, init=False)
    _ended: bool = attrs.field(default=False, init=False)
    _error: Exception | None = attrs.field(default=None, init=False)

    def of(self, npc: str = "", turn: int = 0) -> dict[str, Any]:
        """Return the fields that identify an event's NPC and turn."""
        return self.session.npc(npc).of(turn)

    async def give(self, event: TurnEvent) -> None:
        """Deliver an event of a turn; return once the next one was asked for.

        Speech of a flushed turn is dropped. If this is cancelled, the event may have
        been delivered nevertheless.
        """
        if isinstance(event, Speech | Flush) and which(event) in self._flushed:
            await trio.lowlevel.checkpoint()
            return
        if isinstance(event, Flush):
            self._flushed.add(which(event))
            if self._held is not None:
                self._held.discard(which(event))
        waiting = _PendingEvent(event, trio.Event())
        self._append(waiting)
        assert waiting.taken is not None
        await waiting.taken.wait()

    def post(self, event: TurnEvent) -> None:
        """Deliver an event without waiting.

        Of unfinished transcripts only the last one waits, and of all such events a
        bounded number.
        """
        if isinstance(event, Transcript):
            self._drop(lambda x: isinstance(x, Transcript) and not x.final)
        news = [x.event for x in self._waiting if x.taken is None]
        if len(news) >= MOST_NEWS:
            self._drop(lambda x: x is news[0])
        self._append(_PendingEvent(event))

    def flush(self, reason: str, running: Collection[Which] = ()) -> None:
        """Drop audio that was not played, and what ``running`` turns have still to say.

        The listener is told, if there is anything to stop.
        """
        unheard = {which(x) for x in self._drop(lambda x: isinstance(x, Speech))}
        told = self._flushes()
        gave_out = self._gave_out.intersection(running)
        # Waiting text is not taken back: it comes before its `Flush`.
        text = {which(x.event) for x in self._waiting if isinstance(x.event, GIVEN_OUT)}
        void = {*gave_out, *unheard, *text, *self._playing()} - self._flushed - told
        for npc, turn in sorted(void):
            self._append(_PendingEvent(Flush(**self.of(npc, turn), reason=reason)))
        self._flushed |= set(running)
        if self._held is not None:
            self._held -= void | told
            self.resume()

    def is_heard(self, running: Collection[Which]) -> bool:
        """Return True if the listener has something to play.

        This is audio of ``running`` turns and, if playback is reported, of turns that
        are over.
        """
        return bool(self._to_hold(running))

    def hold(self, running: Collection[Which]) -> None:
        """Pause playback until `resume` or `flush`; no audio is delivered meanwhile.

        This overtakes waiting events.
        """
        self._held = self._to_hold(running)
        for npc, turn in sorted(self._held):
            self._urge(Hold(**self.of(npc, turn)))

    def resume(self) -> None:
        """Continue playback: it was no interruption."""
        held, self._held = self._held, None
        for npc, turn in sorted(held or ()):
            self._urge(Resume(**self.of(npc, turn)))
        self._reader.unpark()

    def _to_hold(self, running: Collection[Which]) -> set[Which]:
        void = self._gave_out.intersection(running)
        if self._reports:
            void |= self._playing()
        # A `Hold` overtakes a `Flush` that waits, and nothing would ever end it.
        return void - self._flushed - self._flushes()

    def _flushes(self) -> set[Which]:
        """Return the turns whose `Flush` waits."""
        return {which(x.event) for x in self._waiting if isinstance(x.event, Flush)}

    def reported(self, seconds: float) -> None:
        """Report how many seconds were played."""
        self._reports = True
        self.playback.played(seconds)

    def _playing(self) -> set[Which]:
        """Return the turns whose audio was delivered and not played to its end."""
        playback = self.playback
        return {
            turn for turn in self.turns if playback.heard(turn) < playback.length(turn)
        }

    @property
    def turns(self) -> list[Which]:
        """The turns whose audio was delivered since the last flush."""
        return [piece for piece in self.playback.pieces if isinstance(piece, tuple)]

    def end(self, error: Exception | None = None) -> None:
        """End the events; after those that wait the listener gets ``error``, if any."""
        if self._held is not None:
            self.resume()
        self._ended, self._error = True, error
        self._reader.unpark_all()

    async def take(self) -> TurnEvent:
        """Wait for the next event, for the only listener.

        Raises:
          StopAsyncIteration: no event follows.
        """
        if self._handed is not None:
            self._handed.done()
            self._handed = None
        if self._is_ready or self._ended:
            await trio.lowlevel.checkpoint()
        while not self._is_ready:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            await self._reader.park()
        self._handed = next(filter(self._may_go, self._waiting))
        self._waiting.remove(self._handed)
        event = self._handed.event
        if isinstance(event, GIVEN_OUT):
            self._gave_out.add(which(event))
        # Counted only now: before this the listener counts from the previous flush.
        if isinstance(event, Speech):
            self.playback.add(which(event), event.seconds)
        elif isinstance(event, Flush):
            self.playback.flush()
        elif isinstance(event, TurnDone):
            self._flushed.discard(which(event))
            self._gave_out.discard(which(event))
        return event

    def _may_go(self, waiting: _PendingEvent) -> bool:
        return self._held is None or not isinstance(waiting.event, GIVEN_OUT)

    @property
    def _is_ready(self) -> bool:
        return any(map(self._may_go, self._waiting))

    def _append(self, waiting: _PendingEvent) -> None:
        self._waiting.append(waiting)
        self._reader.unpark()

    def _urge(self, event: Hold | Resume) -> None:
        """Insert an event before all that wait, except for others of its kind."""
        urgent = sum(isinstance(x.event, Hold | Resume) for x in self._waiting)
        self._waiting.insert(urgent, _PendingEvent(event))
        self._reader.unpark()

    def _drop(self, unwanted: Callable[[TurnEvent], bool]) -> list[TurnEvent]:
        """Remove events from the queue, as if they had been dealt with."""
        dropped = [x for x in self._waiting if unwanted(x.event)]
        if dropped:
            self._waiting = deque(x for x in self._waiting if not unwanted(x.event))
        for waiting in dropped:
            waiting.done()
        return [x.event for x in dropped]


@attrs.define(eq=False)
class Voice:
    """One speaker's microphone and loudspeaker. Made by `Npc.voice`.

    ``rate`` is the sample rate of the microphone; each `Speech` has its own rate.
    """

    rate: int
    _ear: MicrophoneInput
    _output: PlaybackOutput
    _law: Law | None = None  # of G.711, if the microphone sends that
    _resampler: Resampler = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._resampler = Resampler(self.rate, self._ear.rate)

    def hear(self, pcm: bytes) -> None:
        """Take audio of the microphone: PCM16 (or G.711), mono, of any length.

        Never waits. Silence costs almost nothing, and neither does sending nothing
        while the user is silent, as voice chats do.
        """
        if self._law is not None:
            pcm = g711.decoded(pcm, self._law)
        self._ear.hear(self._resampler.feed(pcm))

    def played(self, ms: float) -> None:
        """Report how many milliseconds were played in all.

        Count from the beginning, or from the last `Flush` that was taken. From the
        first report on, only what was played counts as delivered, so report 0 when you
        begin to listen.
        """
        playback = self._output.playback
        self._output.reported(seconds(ms))
        heard = {turn: playback.heard(turn) for turn in self._output.turns}
        self._ear.played(heard)
        playback.forget()

    def __aiter__(self) -> Voice:
        return self

    async def __anext__(self) -> TurnEvent:
        """Return the next event. For a single reader.

        Raises:
          SpeechError: the microphone is no longer understood; a `HearingFailed` has
            said so. The NPC still works.
        """
        return await self._output.take()


@asynccontextmanager
async def open_voice(
    ear: MicrophoneInput,
    *,
    rate: int,
    encoding: str = PCM,
    session: SessionKey = DEFAULT_SESSION,
) -> AsyncGenerator[Voice]:
    """Listen with ``ear`` until the block is left; then its turns are interrupted.

    Raises:
      ValueError: the ``encoding`` is unknown, or not possible at that rate.
      GlyphoxaError: the ear cannot hear, or audio of that rate cannot be converted.
    """
    law = g711.law_of(encoding, rate)
    output = PlaybackOutput(session)
    voice = Voice(rate, ear, output, law)
    with lone_errors():
        async with trio.open_nursery() as nursery:
            await nursery.start(ear.run, output)
            try:
                yield voice
            finally:
                nursery.cancel_scope.cancel("the microphone is switched off")
