"""A microphone and a loudspeaker at a voice: what `talk` does until it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.devices import SoundInput, SoundOutput
from glyphoxa_trio.npc import (
    Flush,
    Hold,
    Resume,
    Scripted,
    Sentence,
    Shed,
    Speech,
    TierSelected,
    TurnDone,
    TurnEvent,
)
from glyphoxa_trio.npc.events import HearingFailed
from glyphoxa_trio.npc.voice import Voice, Which, which
from glyphoxa_trio.providers.audio import level

from .talk_latency import LatencyMeter, TurnLatency
from .talk_microphone import SpeechGate

_BEAT: Final = 0.02  # seconds between two looks at the devices
_SHOWN: Final = 0.1  # seconds between two pictures of the level
_HANG_OVER: Final = 0.3  # seconds of echo after the loudspeaker
_SETTLES: Final = 0.06  # seconds left to play when no more audio is expected
_ENDS: Final = 1.0  # seconds of silence that end a script
_ANSWERED: Final = 20.0  # seconds to wait for an answer, at the end of a script
_UNHEARD: Final = 5.0  # seconds after the end of speech in which words are expected


class TalkView(Protocol):
    """The screen of a conversation, or what writes it down."""

    def event(self, event: TurnEvent) -> None: ...

    def latency(self, latency: TurnLatency) -> None: ...

    def state(self, loudness: float, what: str) -> None: ...

    def note(self, text: str) -> None: ...


@attrs.define(eq=False, kw_only=True)
class TalkLoop:
    """The conversation.

    Args:
      full_duplex: hear the microphone while the loudspeaker plays, too.
      answered: called when a turn is over.
    """

    voice: Voice
    microphone: SoundInput
    loudspeaker: SoundOutput
    gate: SpeechGate
    view: TalkView
    full_duplex: bool
    answered: Callable[[], Awaitable[None]]
    _meter: LatencyMeter = attrs.field(factory=LatencyMeter, init=False)
    _given: float = attrs.field(default=0.0, init=False)  # since the last flush
    _open: set[Which] = attrs.field(factory=set, init=False)  # turns that run
    _asked: float | None = attrs.field(default=None, init=False)  # and no answer yet
    _noted: float | None = attrs.field(default=None, init=False)  # of those, the last
    _deaf_until: float = attrs.field(default=0.0, init=False)
    _shown: float = attrs.field(default=0.0, init=False)
    _busy: float = attrs.field(default=0.0, init=False)  # when something last went on

    async def run(self) -> None:
        """Talk until the file in place of the microphone has ended and is answered;
        with a device, until cancelled.

        Raises:
          SpeechError: the player is not understood any more.
          DeviceError: a device has gone.
        """
        self.voice.played(0)
        self._busy = trio.current_time()
        with lone_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, nursery.cancel_scope)
                await self._beat()
                nursery.cancel_scope.cancel("the conversation is over")

    async def _listen(self, scope: trio.CancelScope) -> None:
        async for event in self.voice:
            await self._take(event)
        scope.cancel("the voice has ended")

    async def _take(self, event: TurnEvent) -> None:
        out, turn = self.loudspeaker, which(event)
        self._meter.event(event, trio.current_time(), out.written)
        if not isinstance(event, Speech):
            self.view.event(event)
        match event:
            case TierSelected() | Scripted() | Shed() | Sentence():
                self._open.add(turn)
            case Speech(pcm=pcm, rate=rate):
                self._given += event.seconds
                await out.play(pcm, rate)
            case Flush():
                out.flush()
                self._given = 0.0
            case Hold():
                out.pause()
            case Resume():
                out.resume()
            case HearingFailed():
                self._asked = None
            case TurnDone():
                out.finish()
                self._open.discard(turn)
                self._asked = None
                await self.answered()
            case _:
                pass

    async def _beat(self) -> None:
        while not self._is_over(trio.current_time()):
            self._hear(trio.current_time())
            self._report(trio.current_time())
            await trio.sleep(_BEAT)

    def _hear(self, now: float) -> None:
        """Pass on what the microphone has given since the last time."""
        pcm = self.microphone.take()
        if not self.full_duplex and self.loudspeaker.left:
            self._deaf_until = now + _HANG_OVER
        deaf = now < self._deaf_until
        heard = self.gate.feed(pcm, deaf=deaf)
        if heard.began:
            self._meter.begins()
        if heard.speech is not None:
            self._meter.speaks(now - heard.speech)
        if heard.ended is not None:
            self._meter.over(now - heard.ended)
            self._asked = now
        if heard.pcm:
            self.voice.hear(heard.pcm)
        if now >= self._shown + _SHOWN and pcm:
            self._shown = now
            self.view.state(level(pcm), self._doing(deaf))

    def _report(self, now: float) -> None:
        """Tell the NPC what was played, and the screen what it took."""
        out = self.loudspeaker
        if out.left < _SETTLES:
            out.settle()
        # Its last sample may be lost in the conversion of rates, and is not missed.
        played = out.played if out.left else self._given + _BEAT
        if self._given:
            self.voice.played(1000 * played)
        self._note_unheard(now)
        for latency in self._meter.heard(now, out.played):
            self.view.latency(latency)

    def _note_unheard(self, now: float) -> None:
        asked = self._asked
        if asked is None or asked == self._noted or self._open:
            return
        if now >= asked + _UNHEARD:
            self._noted = asked
            self.view.note("no words were found in what you said")

    def _doing(self, deaf: bool) -> str:
        if self.loudspeaker.left:
            return "speaks; you are not heard" if deaf else "speaks"
        if self.gate.speaking:
            return "hears you"
        return "thinks" if self._open or self._asked is not None else "listens"

    def _is_over(self, now: float) -> bool:
        """Return True at the end of a script."""
        waits = self._asked is not None and now < self._asked + _ANSWERED
        goes_on = self.gate.speaking or self._open or self.loudspeaker.left > 0
        if waits or goes_on or not self.microphone.ended.is_set():
            self._busy = now
        return now >= self._busy + _ENDS
