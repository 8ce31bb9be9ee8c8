"""The listener's end of a turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import Stream
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.events import TurnEvent
from glyphoxa_trio.npc.s2s import Interaction
from glyphoxa_trio.tracing import here


@attrs.define(eq=False)
class Listener:
    """The listener of one turn; made by the speaker and handed over before the message.

    ``stream`` delivers the events. Leaving it cancels the turn, begun or not. ``ended``
    is set when the turn has ended and is remembered. Once the turn was accepted, the
    listener knows its ``number`` and what was heard of it, and its ``interaction`` if a
    speech-to-speech model answers. ``present``: the NPCs that hear the turn in a scene,
    whose actor sets it.
    ``context``: the trace of the speaker, which the turn belongs to.
    """

    stream: Stream[TurnEvent] = attrs.field(factory=Stream)
    context: Any = attrs.field(factory=here)
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    number: int = attrs.field(default=0, init=False)
    interaction: Interaction | None = attrs.field(default=None, init=False)
    present: tuple[str, ...] = attrs.field(default=(), init=False)
    _exchange: Exchange | None = attrs.field(default=None, init=False)
    _played: float | None = attrs.field(default=None, init=False)
    _words: tuple[str, bool] | None = attrs.field(default=None, init=False)
    _report: Callable[[float], None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._report = self._play

    def hears(
        self, exchange: Exchange, number: int, interaction: Interaction | None
    ) -> None:
        """Connect the listener to its accepted turn."""
        self.number, self.interaction = number, interaction
        self._exchange = exchange
        if self._played is not None:
            exchange.played(self._played)
        if self._words is not None:
            text, over = self._words
            exchange.heard_words(text, over=over)

    def listen_through(
        self,
        stream: Stream[TurnEvent],
        played: Callable[[Callable[[float], None], float], None] | None = None,
    ) -> None:
        """Receive the events through another stream, before any event has come.

        Args:
          stream: the other stream.
          played: called for each report of playback, with a function that accepts the
            report and the seconds that were played; None accepts every report at once.
        """
        if played is not None:
            self._report = partial(played, self._play)
        before, self.stream = self.stream, stream
        if before.cancelled is not None:
            stream.cancel(before.cancelled)

    def played(self, seconds: float) -> None:
        """Report that this many seconds of the turn's audio were heard in all."""
        self._report(seconds)

    def _play(self, seconds: float) -> None:
        self._played = seconds
        if self._exchange is not None:
            self._exchange.played(seconds)

    def heard_words(self, text: str, *, over: bool) -> None:
        """Report the beginning of the answer that was heard, spoken by others."""
        self._words = text, over
        if self._exchange is not None:
            self._exchange.heard_words(text, over=over)

    @property
    def text(self) -> str:
        """The words said to the NPC, as far as they were understood."""
        return "" if self._exchange is None else self._exchange.text

    @property
    def heard(self) -> str:
        """The part of the NPC's answer that was heard."""
        return "" if self._exchange is None else self._exchange.heard

    @property
    def unplayed(self) -> float:
        """Seconds of audio that are still to be heard, if playback is reported."""
        return 0.0 if self._exchange is None else self._exchange.unplayed
