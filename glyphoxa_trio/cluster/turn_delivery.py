"""The events of one turn on their way to a client, from the worker that runs it.

They are numbered, and sent as far as the client has acknowledged earlier ones. A client
that is slow slows no turn down: what it has not asked for yet waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

import attrs
from msgspec.structs import replace

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.npc import (
    ApprovalNeeded,
    ContextAdded,
    Flush,
    Sentence,
    Speech,
    TextDelta,
    ToolsShown,
    TurnDone,
    TurnEvent,
)
from glyphoxa_trio.npc.events import GIVEN_OUT

from .actions import RunTurn
from .messages import AcceptedMessage, AnyMessage, DoneMessage, EventsMessage
from .wire import LargeMessage, plain

_ON_ITS_WAY: Final = 1.0  # seconds

MOST_WAITING: Final = 2048
"""The number of events that may wait for the client."""


_UNSPOKEN: Final = (ContextAdded, TextDelta, ToolsShown)
_URGENT: Final = (ApprovalNeeded, Flush, TurnDone)


def _nobody(*_: TurnEvent) -> None:
    """There is no turn to tell of its delivery."""


@attrs.define(eq=False)
class TurnDelivery:
    """The events of one turn.

    Args:
      accepted: the news that the turn runs, which travels with its first events.
      send: sends a message to the client.
      later: called when something waits to be sent with what comes within the next
        milliseconds; calls `flush` then.
      overflow: called when more waits than may.
    """

    run: RunTurn
    _accepted: AcceptedMessage | None
    _send: Callable[[AnyMessage], None]
    _later: Callable[[TurnDelivery], None]
    _overflow: Callable[[], None]
    _acknowledged: Callable[..., None] = attrs.field(default=_nobody, init=False)
    _waiting: deque[TurnEvent] = attrs.field(factory=deque, init=False)
    # Numbered and not acknowledged. What does not travel has the number of the event
    # before it, and is acknowledged with the next one.
    _sent: deque[tuple[int, TurnEvent]] = attrs.field(factory=deque, init=False)
    _batch: list[TurnEvent] = attrs.field(factory=list, init=False)
    _number: int = attrs.field(default=0, init=False)  # of the last event
    _acked: int = attrs.field(default=0, init=False)
    _spoke: bool = attrs.field(default=False, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _changed: Signal = attrs.field(factory=Signal, init=False)
    _heard_from: float = attrs.field(default=-inf, init=False)
    _patience: float = attrs.field(default=inf, init=False)

    def tell(self, acknowledged: Callable[..., None]) -> None:
        """Call ``acknowledged`` with events that have arrived, in their order."""
        self._acknowledged = acknowledged

    def take(self, event: TurnEvent) -> None:
        """Take an event of the turn. Audio does not travel, nor what nobody asked for.

        A `Flush` is sent in any case, without what waits to be read. `TurnDone` counts
        as arrived with the event before it: it is sent by `done`, when it is known if
        the turn was written, and that waits until it was heard.
        """
        if self._closed:
            return
        if isinstance(event, Flush):
            self._waiting = deque(
                x for x in self._waiting if not isinstance(x, GIVEN_OUT)
            )
        self._waiting.append(event)
        self._fill()
        if len(self._waiting) > MOST_WAITING:
            self._overflow()
        if isinstance(event, _URGENT) or self._is_first_sentence(event):
            self.flush()
        elif self._batch:
            self._later(self)
        if isinstance(event, TurnDone):
            self._arrived(self._acked)

    def _is_first_sentence(self, event: TurnEvent) -> bool:
        first = isinstance(event, Sentence) and not self._spoke
        self._spoke |= first
        return first

    def _fill(self) -> None:
        most = self._acked + self.run.say.credit
        while self._waiting and self._number < most:
            event = self._waiting.popleft()
            if self._travels(event):
                self._number += 1
                self._batch.append(event)
            self._sent.append((self._number, event))

    def _travels(self, event: TurnEvent) -> bool:
        if isinstance(event, Speech | TurnDone):
            return False
        return self.run.say.events == "all" or not isinstance(event, _UNSPOKEN)

    def flush(self) -> None:
        """Send what waits for company."""
        if self._accepted is not None and not self._closed:
            self._send(self._accepted)
            self._accepted = None
        batch, self._batch = self._batch, []
        if batch and not self._closed:
            self._put([plain(x) for x in batch], self._number - len(batch) + 1)

    def _put(self, events: Sequence[dict[str, Any]], n: int) -> None:
        run = self.run
        message = EventsMessage(
            id=run.say.id, epoch=run.epoch, turn=run.turn, n=n, events=list(events)
        )
        try:
            self._send(message)
        except LargeMessage:
            if len(events) > 1:
                half = len(events) // 2
                self._put(events[:half], n)
                self._put(events[half:], n + half)
            else:  # without it the client sees a gap, and ends the turn
                with suppress(LargeMessage):
                    slim = [without_data(events[0])]
                    self._send(replace(message, events=slim))

    def done(self, event: TurnDone, *, kept: bool) -> None:
        """Send the end of the turn, after all of its events."""
        self.flush()
        if self._closed:
            return
        self._number += 1  # nobody waits for its acknowledgement
        run, told = self.run, plain(event)
        message = DoneMessage(
            id=run.say.id,
            epoch=run.epoch,
            turn=run.turn,
            n=self._number,
            end=event.end,
            kept=kept,
            event=told,
        )
        try:
            self._send(message)
        except LargeMessage:
            with suppress(LargeMessage):
                self._send(replace(message, event=without_data(told)))

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        self._changed.set()

    def ack(self, n: int) -> None:
        """Note that the events up to number ``n`` have arrived; send what waits."""
        self._heard_from = trio.current_time()
        self._acked = max(self._acked, min(n, self._number))
        self._fill()
        self._arrived(n)
        self.flush()
        self._changed.set()

    def _arrived(self, n: int) -> None:
        arrived: list[TurnEvent] = []
        while self._sent and self._sent[0][0] <= n:
            arrived.append(self._sent.popleft()[1])
        if arrived:
            self._acknowledged(*arrived)

    def hurry(self) -> None:
        """Wait for no more than what is on its way: the client leaves."""
        self._patience = _ON_ITS_WAY
        self._changed.set()

    async def wait_sent(self, within: float) -> None:
        """Wait until nothing waits for room; see `wait_arrived`."""
        await self._wait(lambda: bool(self._waiting), within)

    async def wait_arrived(self, within: float) -> None:
        """Wait until every event was acknowledged, of which `TurnDone` is none.

        Gives up when the client has reported nothing ``within`` these seconds.
        """
        await self._wait(lambda: bool(self._sent), within)

    async def _wait(self, more: Callable[[], bool], within: float) -> None:
        self._heard_from = max(self._heard_from, trio.current_time())
        while more() and not self._closed:
            patient = min(within, self._patience)
            with trio.move_on_at(self._heard_from + patient) as patience:
                await self._changed.changed()
            if patience.cancelled_caught:
                return


def without_data(told: dict[str, Any]) -> dict[str, Any]:
    """Return a plain event without the data that tools returned."""
    outcomes = [{**x, "data": None} for x in told.get("outcomes", ())]
    one = told.get("outcome")
    changes = {"outcomes": outcomes} if outcomes else {}
    return {**told, **changes, **({"outcome": {**one, "data": None}} if one else {})}
