"""One utterance to an NPC or by it, from its speaker to its last event."""

from __future__ import annotations

from functools import partial

import attrs

import trio

from glyphoxa_trio.actors import Stream
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.events import Fallback, Sentence, Speech, TurnEvent
from glyphoxa_trio.npc.s2s import Interaction
from glyphoxa_trio.tools.tier import Tier

from .listener import Listener


@attrs.define(eq=False)
class _End:
    """The early end of a turn.

    This is not part of the utterance, because a stream that refers to the utterance
    would form a cycle of twenty objects per turn, and the pauses of the garbage
    collector delay every task.
    """

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    reason: str = attrs.field(default="", init=False)

    def now(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.scope.cancel(reason)


@attrs.define(eq=False)
class Utterance:
    """One utterance to an NPC, with the turn that answers it and its listener.

    With a ``script``, or if it ``greets``, nothing was said to the NPC: it says the
    script or its greeting literally, without a model. ``waiting``: the players who wait
    in the scene beside those who wait for this NPC. ``interaction``: it was spoken to a
    model that hears. ``id``: the caller's own, which is kept with the turn.

    ``begins`` is set when the turn begins. ``shed``: why the utterance is turned away
    instead of being answered; ``shed_for``: the reason as a value.
    """

    text: str
    speaker: str
    override: Tier | None = None
    script: str | None = None
    greets: bool = False
    waiting: int = 0
    interaction: Interaction | None = None
    listener: Listener = attrs.field(factory=Listener)
    id: str = ""
    exchange: Exchange = attrs.field(init=False)
    begins: trio.Event = attrs.field(factory=trio.Event, init=False)
    shed: str = attrs.field(default="", init=False)
    shed_for: Fallback = attrs.field(default=Fallback.OVERLOADED, init=False)
    number: int = attrs.field(default=0, init=False)
    _end: _End = attrs.field(factory=_End, init=False)

    def __attrs_post_init__(self) -> None:
        self.exchange = Exchange(
            self.speaker, self.text, asked=not self.scripted, utterance=self.id
        )

    def accepted(self, number: int) -> None:
        """Record that the session has accepted the utterance, as turn ``number``."""
        self.number = number
        self.listener.hears(self.exchange, number, self.interaction)
        self.stream.produced_by(partial(_consumed, self.exchange), self._end.now)

    def begin(self, shed: str = "", shed_for: Fallback = Fallback.OVERLOADED) -> None:
        """Begin the turn, or turn the utterance away because of ``shed``."""
        self.shed, self.shed_for = shed, shed_for
        self.begins.set()

    @property
    def stream(self) -> Stream[TurnEvent]:
        """The stream by which the listener gets the events."""
        return self.listener.stream

    @property
    def scope(self) -> trio.CancelScope:
        """The cancel scope of the turn, begun or not."""
        return self._end.scope

    @property
    def own(self) -> bool:
        """True if the NPC speaks for itself."""
        return self.script is None

    @property
    def dm(self) -> bool:
        """True if the DM speaks as the NPC."""
        return self.script is not None

    def interrupt(self, reason: str) -> None:
        """Cancel the turn, begun or not."""
        self._end.now(reason)

    def over(self) -> None:
        """Record that the turn has ended and is remembered."""
        self.stream.end()
        self.listener.ended.set()

    @property
    def reason(self) -> str:
        """Why the turn was interrupted."""
        return self._end.reason or "the session ended"

    @property
    def scripted(self) -> bool:
        """True if the turn says words that exist already."""
        return self.script is not None or self.greets

    def understood(self, text: str, final: bool = False) -> None:
        """Set what was spoken, as far as it is known; possibly after the turn."""
        self.text = text
        self.exchange.text = text


def _consumed(exchange: Exchange, event: TurnEvent) -> None:
    match event:
        case Sentence(round=round_):
            exchange.delivered(round_)
        case Speech(seconds=seconds):
            exchange.taken(seconds)
        case _:
            pass
