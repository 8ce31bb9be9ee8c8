"""The delivery of one turn's events: to its listener, to all subscribers, and aloud."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.npc.events import GIVEN_OUT, Flush, Speech, TurnEvent
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.npc.speaking import SPARE, Speaking
from glyphoxa_trio.npc.spoken_audio import SpokenAudio
from glyphoxa_trio.npc.turn.turn_log import TurnLog
from glyphoxa_trio.npc.turn.utterance import Utterance
from glyphoxa_trio.providers.speech import Synthesizer, VoiceStyle


@attrs.define(eq=False)
class TurnOutput:
    """The output of one turn.

    ``listener``: how long an event waits for the listener to take it, in seconds; then
    the turn is ended, because other speakers wait for this NPC. ``log``: is told of
    calls with side effects before they begin. ``of``: the fields that identify the turn
    in each of its events.
    """

    id: NpcId
    utterance: Utterance
    _events: Topic[TurnEvent]
    _listener: float
    log: TurnLog | None = None
    _speaking: Speaking | None = attrs.field(default=None, init=False)
    _gave_out: bool = attrs.field(default=False, init=False)
    _flushed: bool = attrs.field(default=False, init=False)
    of: Mapping[str, Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.of = self.id.of(self.turn)

    @property
    def turn(self) -> int:
        """The turn's number."""
        return self.utterance.number

    async def emit(self, event: TurnEvent, *, voiced: bool = False) -> None:
        """Deliver an event; wait while the listener is slow.

        ``voiced``: the model of the turn speaks the event's text itself.
        """
        # After an interruption no further event is delivered, however close it was.
        await trio.lowlevel.checkpoint_if_cancelled()
        self.publish(event)
        await self._send(event)
        self._say_aloud(event, voiced=voiced)

    def post(self, event: TurnEvent) -> None:
        """Deliver an event without waiting, for code inside a running tool clock."""
        self.publish(event)
        self.utterance.stream.post(event)
        self._say_aloud(event)

    def publish(self, event: TurnEvent) -> None:
        """Deliver an event to the subscribers, and not to the listener."""
        if isinstance(event, GIVEN_OUT):
            self._gave_out = True
        self._events.publish(event)

    def flush(self) -> None:
        """Stop playback: take back unheard events, and send a `Flush`."""
        if self._gave_out and not self._flushed:
            self._flushed = True
            utterance = self.utterance
            utterance.stream.take_back(lambda event: isinstance(event, GIVEN_OUT))
            self.post(Flush(**self.of, reason=utterance.reason))

    @asynccontextmanager
    async def aloud(
        self,
        mouths: Callable[[], Sequence[Synthesizer]],
        voice: VoiceStyle,
        warn: Callable[[str], None],
    ) -> AsyncGenerator[None]:
        """Say the sentences inside the block aloud, as `Speaking` does."""
        aloud = SpokenAudio()
        self.utterance.exchange.aloud = aloud

        async def give(speech: Speech) -> None:
            await self._send(speech, spare=SPARE)

        self._speaking = Speaking(
            mouths=mouths,
            voice=voice,
            aloud=aloud,
            give=give,
            post=self.utterance.stream.post,
            warn=warn,
        )
        async with self._speaking.open():
            try:
                yield
                await self._speaking.finish()
            except Exception:
                raise
            except BaseException:
                self.flush()  # before a voice has stopped
                raise

    def say_unvoiced(self) -> bool:
        """Say the words of the model that came without audio; False if none did."""
        return self._speaking is not None and self._speaking.say_unvoiced()

    def unsay(self, round_: int, since: int) -> None:
        """Do not speak those sentences of a round that are not spoken yet."""
        if self._speaking is not None:
            self._speaking.drop(round_, since)

    async def _send(self, event: TurnEvent, *, spare: int = 0) -> None:
        stream = self.utterance.stream
        if not await stream.send(event, spare=spare, within=self._listener):
            self.utterance.interrupt("the listener stopped listening")

    def _say_aloud(self, event: TurnEvent, *, voiced: bool = False) -> None:
        """Have the voice speak what the listener has received."""
        if self._speaking is not None:
            self._speaking.take(event, voiced=voiced)
