"""The end of a turn at which somebody listens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

import trio

from glyphoxa_trio.actors import Stream
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.events import TurnEvent
from glyphoxa_trio.npc.s2s import Interaction


@attrs.define(eq=False)
class Listener:
    """Made by whoever says something, and handed over before their message goes.

    ``stream`` is how events come, and how the turn is cancelled, begun or not: by
    leaving it. ``ended`` is set when the turn has ended and is remembered. Of the turn
    it knows its ``number`` and what is heard of it, once that was accepted;
    ``interaction`` if a model has heard it.
    """

    stream: Stream[TurnEvent] = attrs.field(factory=Stream)
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    number: int = attrs.field(default=0, init=False)
    interaction: Interaction | None = attrs.field(default=None, init=False)
    _exchange: Exchange | None = attrs.field(default=None, init=False)
    _played: float | None = attrs.field(default=None, init=False)
    _report: Callable[[float], None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._report = self._play

    def hears(
        self, exchange: Exchange, number: int, interaction: Interaction | None
    ) -> None:
        """It is the turn of that number, and this is what becomes of it."""
        self.number, self.interaction = number, interaction
        self._exchange = exchange
        if self._played is not None:
            exchange.played(self._played)

    def listen_through(
        self,
        stream: Stream[TurnEvent],
        played: Callable[[Callable[[float], None], float], None] | None = None,
    ) -> None:
        """Events come through another stream; nothing has come yet. What is played of
        them is told to ``played``, with what to do when it counts."""
        if played is not None:
            self._report = partial(played, self._play)
        before, self.stream = self.stream, stream
        if before.cancelled is not None:
            stream.cancel(before.cancelled)

    def played(self, seconds: float) -> None:
        """So much of the turn's audio was heard, in all."""
        self._report(seconds)

    def _play(self, seconds: float) -> None:
        self._played = seconds
        if self._exchange is not None:
            self._exchange.played(seconds)

    @property
    def text(self) -> str:
        """What was said to the NPC, as far as it is understood."""
        return "" if self._exchange is None else self._exchange.text

    @property
    def heard(self) -> str:
        """What was heard of its answer."""
        return "" if self._exchange is None else self._exchange.heard

    @property
    def unplayed(self) -> float:
        """Seconds that are still to be heard, if somebody says what was played."""
        return 0.0 if self._exchange is None else self._exchange.unplayed
