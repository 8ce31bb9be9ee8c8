"""The events of one utterance on their way to a client: numbered, sent as far as the
client has acknowledged earlier ones, kept until it acknowledges them.

A client that is slow never slows a turn down: what it has not asked for yet waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.npc import (
    ApprovalNeeded,
    Flush,
    Hold,
    Resume,
    Sentence,
    Speech,
    TurnDone,
    TurnEvent,
)
from glyphoxa_trio.npc.event_json import plain_event
from glyphoxa_trio.npc.events import GIVEN_OUT

from .outbox import Outbox
from .protocol import LaggingReply

WINDOW: Final = 64
"""The number of events that are sent before one is acknowledged."""

MOST_WAITING: Final = 2048
"""The number of events that may wait for the client."""

MOST_AUDIO: Final = 16 * 1024 * 1024
"""The bytes of audio that may wait or be unacknowledged."""

_URGENT: Final = (Flush, Hold, Resume, ApprovalNeeded, TurnDone)


def as_it_is(event: TurnEvent) -> TurnEvent:
    """Return the event: this client may see all of them."""
    return event


def _nobody(*_: TurnEvent) -> None:
    """There is no turn to tell of its delivery."""


@attrs.define(eq=False)
class Delivery:
    """The events of the utterance, or of the microphone, with this ``id``.

    Args:
      overflow: called when more waits than may.
      voiced: False leaves out audio.
      view: returns an event as this client may see it; None leaves it out.
    """

    id: str
    _outbox: Outbox
    _overflow: Callable[[], None]
    _voiced: bool = True
    _view: Callable[[TurnEvent], TurnEvent | None] = as_it_is
    _acknowledged: Callable[..., None] = attrs.field(default=_nobody, init=False)
    # Each with its number; one that is left out has that of the last one before it.
    _sent: deque[tuple[int, TurnEvent]] = attrs.field(factory=deque, init=False)
    _waiting: deque[TurnEvent] = attrs.field(factory=deque, init=False)
    _number: int = attrs.field(default=0, init=False)  # of the last event sent
    _audio: int = attrs.field(default=0, init=False)
    _spoke: tuple[str, int] = attrs.field(default=("", 0), init=False)
    _changed: Signal = attrs.field(factory=Signal, init=False)
    _flush: int = attrs.field(default=0, init=False)  # the number of the last one
    _heard_from: float = attrs.field(default=-inf, init=False)

    def tell(self, acknowledged: Callable[..., None]) -> None:
        """Call ``acknowledged`` with events that have arrived, in their order."""
        self._acknowledged = acknowledged

    def take(self, event: TurnEvent) -> None:
        """Take an event of the turn, and send it if the client is not behind.

        A `Flush` is sent in any case, without what waits to be read or heard.
        """
        if isinstance(event, Speech):
            self._audio += len(event.pcm)
        if isinstance(event, Flush):
            self._drop_of(event)
            self._send(event)
        elif self._waiting or len(self._sent) >= WINDOW:
            self._waiting.append(event)
            if len(self._waiting) == 1:
                self._outbox.put(LaggingReply(id=self.id, waiting=len(self._waiting)))
        else:
            self._send(event)
        if len(self._waiting) > MOST_WAITING or self._audio > MOST_AUDIO:
            self._overflow()

    def _drop_of(self, flush: Flush) -> None:
        """Send what waits, but for what the flush takes back."""
        waiting, self._waiting = self._waiting, deque()
        turn = (flush.npc, flush.turn)
        for event in waiting:
            if not isinstance(event, GIVEN_OUT) or (event.npc, event.turn) != turn:
                self._send(event)
            elif isinstance(event, Speech):
                self._audio -= len(event.pcm)

    def ack(self, n: int) -> None:
        """Note that the events up to number ``n`` have arrived; send what waits."""
        self._heard_from = trio.current_time()
        arrived: list[TurnEvent] = []
        while self._sent and self._sent[0][0] <= n:
            _, event = self._sent.popleft()
            if isinstance(event, Speech):
                self._audio -= len(event.pcm)
            arrived.append(event)
        if arrived:
            self._acknowledged(*arrived)
        while self._waiting and len(self._sent) < WINDOW:
            self._send(self._waiting.popleft())
        self._changed.set()

    def knows_flush(self, n: int) -> bool:
        """Return True if a client that has the events up to ``n`` knows of the last
        `Flush`, if there was one."""
        return n >= self._flush

    def _send(self, event: TurnEvent) -> None:
        seen = self._view(event)
        self._number += seen is not None
        self._sent.append((self._number, event))
        if seen is not None:
            self._pass_on(seen)

    def _pass_on(self, event: TurnEvent) -> None:
        if isinstance(event, Flush):
            self._flush = self._number
        pcm = None
        if isinstance(event, Speech):
            pcm = event.pcm if self._voiced else b""
            event = attrs.evolve(event, pcm=b"")
        told = plain_event(event)
        if pcm is not None:
            del told["pcm"]
            told["bytes"] = len(pcm)
        self._outbox.put_event(
            {"id": self.id, "n": self._number, **told},
            urgent=self._is_urgent(event),
            audio=pcm or None,
        )

    def _is_urgent(self, event: TurnEvent) -> bool:
        if isinstance(event, Sentence) and (event.npc, event.turn) != self._spoke:
            self._spoke = (event.npc, event.turn)
            return True
        return isinstance(event, _URGENT)

    async def wait_arrived(
        self, within: float, more: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until everything was acknowledged and there is not ``more`` to report.

        Gives up when the client has reported nothing ``within`` these seconds.
        """
        self._heard_from = max(self._heard_from, trio.current_time())
        while self._sent or self._waiting or more():
            with trio.move_on_at(self._heard_from + within) as patience:
                await self._changed.changed()
            if patience.cancelled_caught:
                return
