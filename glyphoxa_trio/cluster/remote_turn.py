"""The turn of an utterance that a worker runs, as a client has it."""

from __future__ import annotations

from collections import deque

import attrs

import trio

from glyphoxa_trio.npc import Sentence, TurnDone, TurnEvent
from glyphoxa_trio.npc.events import Timings, TurnEnd
from glyphoxa_trio.npc.turn.listener import Listener

from .messages import RefusedMessage, SayMessage


@attrs.define(eq=False)
class RemoteListener(Listener):
    """The listener of a turn that a worker runs: what was consumed was heard."""

    sentences: list[str] = attrs.field(factory=list, init=False)

    @property
    def heard(self) -> str:
        """The sentences that were consumed."""
        return " ".join(self.sentences)


@attrs.define(eq=False)
class RemoteTurn:
    """An utterance that is open: the listener of its events."""

    say: SayMessage
    listener: RemoteListener
    began: float
    answered: trio.Event = attrs.field(factory=trio.Event, init=False)
    refused: RefusedMessage | None = attrs.field(default=None, init=False)
    worker: str = attrs.field(default="", init=False)
    last: TurnEvent | None = attrs.field(default=None, init=False)
    # The numbers of events that the listener has not consumed yet.
    given: deque[int] = attrs.field(factory=deque, init=False)
    acknowledged: int = attrs.field(default=0, init=False)
    text: list[str] = attrs.field(factory=list, init=False)

    def give(self, worker: str, n: int, event: TurnEvent) -> None:
        """Hand an event out."""
        self.worker, self.last = worker, event
        self.given.append(n)
        if isinstance(event, Sentence):
            self.text.append(event.text)
        self.listener.stream.post(event)

    def consumed(self, event: TurnEvent) -> int:
        """Count an event as heard; return its number, 0 for one of this client."""
        if isinstance(event, Sentence):
            self.listener.sentences.append(event.text)
        return self.given.popleft()

    def acknowledge(self, n: int) -> None:
        """Note that the worker is told of the events up to this one."""
        self.acknowledged = n

    def refuse(self, refused: RefusedMessage) -> None:
        """End it before it began."""
        self.refused = refused
        self.over()

    def over(self) -> None:
        """End the events."""
        self.answered.set()
        self.listener.stream.end()
        self.listener.ended.set()

    def ended(self, end: TurnEnd, error: str) -> TurnDone:
        """Return the end of a turn that its worker did not send."""
        last, say = self.last, self.say
        return TurnDone(
            npc=say.npc if last is None else last.npc,
            turn=0 if last is None else last.turn,
            session=say.session,
            tenant=say.tenant,
            end=end,
            text=" ".join(self.text),
            outcomes=(),
            timings=Timings(
                model=0.0, tools=0.0, total=trio.current_time() - self.began
            ),
            rounds=0,
            error=error,
        )
