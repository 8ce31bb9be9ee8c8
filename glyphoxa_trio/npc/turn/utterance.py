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


@attrs.define(eq=False)
class Utterance:
    """One thing said to an NPC, the turn that answers it, and who listens.

    A ``script`` is said by the NPC as it stands, with no model in between, and so is
    its greeting if it ``greets``: nothing was said to it then. ``waiting`` players want
    to be answered in its scene beside those who wait for this NPC.

    ``scope`` belongs to the listener: leaving cancels the turn, also one that has
    not begun. ``begins`` is set when it does, ``ended`` when the turn has ended and
    is remembered. ``shed``: why it is turned away instead of being answered, and
    ``shed_for``, in a word. ``interaction``: it was spoken to a model that hears for
    itself.
    """

    text: str
    speaker: str
    override: Tier | None = None
    script: str | None = None
    greets: bool = False
    waiting: int = 0
    interaction: Interaction | None = None
    stream: Stream[TurnEvent] = attrs.field(init=False)
    exchange: Exchange = attrs.field(init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    begins: trio.Event = attrs.field(factory=trio.Event, init=False)
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    shed: str = attrs.field(default="", init=False)
    shed_for: Fallback = attrs.field(default=Fallback.OVERLOADED, init=False)
    number: int = attrs.field(default=0, init=False)
    _reason: str = attrs.field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self.exchange = Exchange(self.speaker, self.text, asked=not self.scripted)
        # Not a method: a stream that knew its utterance would leave a cycle of twenty
        # objects a turn to the collector, whose pauses hold everybody up.
        self.stream = Stream(on_consumed=partial(_consumed, self.exchange))

    def accepted(self, number: int) -> None:
        """It is the session's, which counts its turns."""
        self.number = number

    def beside(self, waiting: int) -> None:
        """So many more wait to be answered, in its scene."""
        self.waiting = waiting

    def begin(self, shed: str = "", shed_for: Fallback = Fallback.OVERLOADED) -> None:
        """Its turn begins, or is turned away because of ``shed``."""
        self.shed, self.shed_for = shed, shed_for
        self.begins.set()

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
        self._reason = self._reason or reason
        self.scope.cancel(reason)

    @property
    def reason(self) -> str:
        """Why it was interrupted: whoever cancels the scope is the listener."""
        gone = "the listener left" if self.scope.cancel_called else "the session ended"
        return self._reason or gone

    @property
    def scripted(self) -> bool:
        return self.script is not None or self.greets

    def understood(self, text: str) -> None:
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
