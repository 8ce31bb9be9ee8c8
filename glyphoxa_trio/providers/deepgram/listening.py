"""One microphone at Deepgram: over as many sockets as it takes.

The server finds turns in audio, not in time. So a microphone that sends nothing, as in
voice chats, is completed with silence: as fast as time passes while something may have
been said, and a little every few seconds otherwise, which keeps the socket open.

A socket that breaks is opened again, and hears what is not settled once more. If none
can be used for a while, recognition ends. A server that stops reporting while somebody
speaks counts as broken.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Final, TypeAlias

import attrs

import trio

from glyphoxa_trio.actors import Signal, Stream
from glyphoxa_trio.providers.audio import Framer, bytes_of
from glyphoxa_trio.providers.live_socket import LiveSocket
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.providers.speech import Recognized, Sounding, SpeechError

from .kept import FRAME, LEAD, KeptAudio
from .turns import FluxTurns
from .wire import RATE, FluxEvent, FluxTurnEvent, SendSound, TurnInfo

# Seconds without audio before silence is sent. Networks deliver unevenly.
_GAP: Final = 0.3
# Seconds after the last audio in which a turn may still be reported.
_ECHO: Final = 3.0
_KEEP_ALIVE: Final = 4.0  # seconds; a socket is closed after ten without audio
_STALL: Final = 6.0  # seconds without a report of an open turn; four come in a second
_TRIES: Final = 2  # sockets that may fall silent over one utterance
_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 4.0)  # seconds before the next attempt
_SOUND: Final = 10.0  # seconds after which a socket has proved itself

FluxLink: TypeAlias = LiveSocket[SendSound, FluxEvent]
_SILENT: Final = bytes(bytes_of(FRAME, RATE))


def _nobody(_: Sounding) -> None:
    pass


@attrs.define(eq=False)
class FluxRecognition:
    """A `Recognition` that tells speech.

    Args:
      label: names the model in errors.
      connect: opens a socket.
      patience: seconds for which no socket may be usable before recognition ends.
    """

    _label: str
    _connect: Callable[[], AbstractAsyncContextManager[FluxLink]]
    _patience: float
    _told: Callable[[Sounding], None] = attrs.field(default=_nobody, init=False)
    _turns: FluxTurns = attrs.field(factory=FluxTurns, init=False)
    _kept: KeptAudio = attrs.field(factory=KeptAudio, init=False)
    _framer: Framer = attrs.field(factory=lambda: Framer(len(_SILENT)), init=False)
    _link: FluxLink | None = attrs.field(default=None, init=False)
    _events: Stream[Recognized] = attrs.field(factory=Stream, init=False)
    _error: SpeechError | None = attrs.field(default=None, init=False)
    _heard_at: float = attrs.field(default=-inf, init=False)
    _filled_at: float = attrs.field(default=-inf, init=False)
    _sounds: Signal = attrs.field(factory=Signal, init=False)
    _told_at: float = attrs.field(default=-inf, init=False)
    # This socket has been of use.
    _proved: bool = attrs.field(default=False, init=False)
    _stalls: int = attrs.field(default=0, init=False)
    _lost: float = attrs.field(default=0.0, init=False)  # seconds, by earlier sockets

    @property
    def dropped(self) -> float:
        """The seconds of audio that were dropped."""
        now = 0 if self._link is None else self._link.statistics().audio_dropped
        return self._kept.dropped + self._lost + now * FRAME

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio, without waiting."""
        if self._error is None:
            if not self._is_busy:
                self._sounds.set()
            self._heard_at = trio.current_time()
            for frame in self._framer.feed(pcm):
                self._put(frame)

    def events(self) -> AsyncIterator[Recognized]:
        """Return the events; see `Recognition.events`."""
        return self

    def tell_speech(self, told: Callable[[Sounding], None]) -> None:
        """Tell the length of speech; see `TellsSpeech`."""
        self._told = told

    def __aiter__(self) -> FluxRecognition:
        return self

    async def __anext__(self) -> Recognized:
        try:
            return await anext(self._events)
        except StopAsyncIteration:
            if self._error is not None:
                raise self._error from None
            raise

    async def run(self) -> None:
        """Recognize, until cancelled or no socket can be used; then end the events."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fill)
                self._error = await self._follow_all()
                nursery.cancel_scope.cancel()
        finally:
            self._events.end()

    # Audio.

    def _put(self, frame: bytes) -> None:
        link = self._link
        # A server that reports nothing may have been frozen since.
        silent = trio.current_time() > self._told_at + LEAD
        whole = link is None or silent or self._turns.is_open
        self._kept.add(frame, sent=link is not None, whole=whole)
        if link is not None:
            link.send(SendSound(frame))

    async def _fill(self) -> None:
        """Complete a microphone that sends nothing with silence, until cancelled."""
        while True:
            with trio.move_on_at(self._due):
                await self._sounds.take()
            now = trio.current_time()
            if now < self._due:
                continue
            missing = now - max(self._heard_at, self._filled_at)
            frames = round(min(missing, _ECHO) / FRAME) if self._is_busy else 1
            self._filled_at = now
            rest = self._framer.end()
            for _ in range(max(1, frames)) if self._link is not None else ():
                self._put(rest.ljust(len(_SILENT), b"\0"))
                rest = b""

    @property
    def _is_busy(self) -> bool:
        return self._turns.is_open or trio.current_time() < self._heard_at + _ECHO

    @property
    def _due(self) -> float:
        """When silence must be sent, if no audio comes."""
        if not self._is_busy:
            return max(self._heard_at, self._filled_at, 0.0) + _KEEP_ALIVE
        return max(self._heard_at + _GAP, self._filled_at + FRAME)

    # Sockets.

    async def _follow_all(self) -> SpeechError:
        """Use one socket after the other; return why there is no more."""
        failing, failures = inf, 0
        while True:
            self._proved = False
            try:
                async with self._connect() as link:
                    await self._follow(link)
            except LinkClosed as closed:
                end = closed
            now = trio.current_time()
            if self._proved or failing == inf:
                failing, failures = now, 0
            pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
            pause = max(pause, end.retry_after or 0.0)
            failures += 1
            if not end.retryable or now + pause > failing + self._patience:
                for event in self._turns.fail(end.detail):
                    await self._events.send(event)
                return SpeechError(f"{self._label}: {end.detail}", end.kind)
            await trio.sleep(pause)

    async def _follow(self, link: FluxLink) -> None:
        """Follow one socket to its end.

        Raises:
          LinkClosed: always.
        """
        self._turns.restart(self._kept.seconds)
        for frame in self._kept.again():
            link.send(SendSound(frame, again=True))
        self._link, self._told_at = link, trio.current_time()
        began, ready = trio.current_time(), False
        try:
            while True:
                event = await self._next(link)
                ready = True
                if isinstance(event, TurnInfo):
                    await self._understand(event)
                self._told_at = trio.current_time()
        finally:
            self._link = None
            lasted = trio.current_time() - began
            self._proved = self._proved or (ready and lasted >= _SOUND)
            self._lost += link.statistics().audio_dropped * FRAME

    async def _next(self, link: FluxLink) -> FluxEvent:
        limit = self._told_at + _STALL if self._turns.is_open else inf
        with trio.move_on_at(limit) as patience:
            return await link.receive()
        assert patience.cancelled_caught
        detail = f"no report of what is being said for {_STALL:g} s"
        self._stalls += 1
        if self._stalls >= _TRIES:
            self._stalls = 0
            self._kept.clear()
            for event in self._turns.fail(detail):
                await self._events.send(event)
        raise LinkClosed(ErrorKind.SILENCE, detail, retryable=True)

    async def _understand(self, info: TurnInfo) -> None:
        found = self._turns.hear(info)
        if (sounding := self._turns.sounding(info)) is not None:
            self._told(sounding)
        if info.event is FluxTurnEvent.END:
            self._kept.settle(info.ends)
            self._proved = True
        elif not self._turns.is_open:
            self._kept.settle(info.ends - LEAD)
        if self._turns.is_open:
            self._sounds.set()
        else:
            self._stalls = 0
        for event in found:
            await self._events.send(event)
