"""What is said to an NPC or by it: on its way from who says it to its last event."""

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
    """How a turn ends before its time. Apart from its utterance, because a stream that
    knew that would leave a cycle of twenty objects a turn to the collector, whose
    pauses hold everybody up."""

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    reason: str = attrs.field(default="", init=False)

    def now(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.scope.cancel(reason)


@attrs.define(eq=False)
class Utterance:
    """One thing said to an NPC, the turn that answers it, and who listens.

    A ``script`` is said by the NPC as it stands, with no model in between, and so is
    its greeting if it ``greets``: nothing was said to it then. ``waiting`` players want
    to be answered in its scene beside those who wait for this NPC.

    ``begins`` is set when its turn does. ``shed``: why it is turned away instead of
    being answered, and ``shed_for``, in a word. ``interaction``: it was spoken to a
    model that hears for itself.
    """

    text: str
    speaker: str
    override: Tier | None = None
    script: str | None = None
    greets: bool = False
    waiting: int = 0
    interaction: Interaction | None = None
    listener: Listener = attrs.field(factory=Listener)
    exchange: Exchange = attrs.field(init=False)
    begins: trio.Event = attrs.field(factory=trio.Event, init=False)
    shed: str = attrs.field(default="", init=False)
    shed_for: Fallback = attrs.field(default=Fallback.OVERLOADED, init=False)
    number: int = attrs.field(default=0, init=False)
    _end: _End = attrs.field(factory=_End, init=False)

    def __attrs_post_init__(self) -> None:
        self.exchange = Exchange(self.speaker, self.text, asked=not self.scripted)

    def accepted(self, number: int) -> None:
        """It is the session's, which counts its turns."""
        self.number = number
        self.listener.hears(self.exchange, number, self.interaction)
        self.stream.produced_by(partial(_consumed, self.exchange), self._end.now)

    def begin(self, shed: str = "", shed_for: Fallback = Fallback.OVERLOADED) -> None:
        """Its turn begins, or is turned away because of ``shed``."""
        self.shed, self.shed_for = shed, shed_for
        self.begins.set()

    @property
    def stream(self) -> Stream[TurnEvent]:
        """Where its listener gets the events."""
        return self.listener.stream

    @property
    def scope(self) -> trio.CancelScope:
        """Of its turn, begun or not."""
        return self._end.scope

    @property
    def own(self) -> bool:
        """Whether the NPC speaks for itself."""
        return self.script is None

    @property
    def dm(self) -> bool:
        """Whether somebody speaks as the NPC."""
        return self.script is not None

    def interrupt(self, reason: str) -> None:
        """Cancel the turn, begun or not."""
        self._end.now(reason)

    def over(self) -> None:
        """Its turn has ended and is remembered."""
        self.stream.end()
        self.listener.ended.set()

    @property
    def reason(self) -> str:
        """Why it was interrupted."""
        return self._end.reason or "the session ended"

    @property
    def scripted(self) -> bool:
        return self.script is not None or self.greets

    def understood(self, text: str, final: bool = False) -> None:
        """What was spoken, as it becomes known: it may be long over by then."""
        self.text = text
        self.exchange.understood(text)


def _consumed(exchange: Exchange, event: TurnEvent) -> None:
    match event:
        case Sentence(round=round_):
            exchange.delivered(round_)
        case Speech(seconds=seconds):
            exchange.taken(seconds)
        case _:
            pass
