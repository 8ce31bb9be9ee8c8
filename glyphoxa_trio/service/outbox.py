"""Messages and events that wait to be sent to one client of the gateway.

Messages and events are put in without waiting, from any task; one task sends them.
Events that fall due within five milliseconds travel in one message, unless one of them
is urgent: the first sentence of an answer, or the end of its playback.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

import trio

from .protocol import GatewayMessage

TOGETHER: Final = 0.005
"""How long events are kept back for others to travel with them. Seconds."""

MOST_WAITING: Final = 4096
"""Messages and events that may wait for a client that does not read."""

_encoded: Final = json.JSONEncoder(separators=(",", ":")).encode

# Sends a text frame or a binary one.
Send: TypeAlias = Callable[[str | bytes], Awaitable[None]]


@attrs.frozen
class _DueEvent:
    """An event, and its audio if it has any."""

    event: Mapping[str, Any]
    audio: bytes | None


@attrs.define(eq=False)
class Outbox:
    """The queue of one client, in order.

    ``overflow`` is called once, when more waits than `MOST_WAITING`.
    """

    overflow: Callable[[], None]
    _waiting: deque[str | _DueEvent] = attrs.field(factory=deque, init=False)
    _arrived: trio.Event = attrs.field(factory=trio.Event, init=False)
    _urgent: trio.Event = attrs.field(factory=trio.Event, init=False)
    _overflown: bool = attrs.field(default=False, init=False)

    def put(self, message: GatewayMessage, *, urgent: bool = True) -> None:
        """Put a message in; unless it is not urgent it is sent at once."""
        self._add(message.model_dump_json(exclude_none=True), urgent=urgent)

    def put_event(
        self, event: Mapping[str, Any], *, urgent: bool, audio: bytes | None = None
    ) -> None:
        """Put an event in, and the audio that belongs to it."""
        self._add(_DueEvent(event, audio), urgent=urgent or audio is not None)

    def _add(self, item: str | _DueEvent, *, urgent: bool) -> None:
        if self._overflown:
            return
        self._waiting.append(item)
        self._arrived.set()
        if urgent:
            self._urgent.set()
        if len(self._waiting) > MOST_WAITING:
            self._overflown = True
            self._waiting.clear()
            self.overflow()

    async def run(self, send: Send) -> None:
        """Send what is put in, until cancelled or ``send`` raises."""
        while True:
            await self._arrived.wait()
            with trio.move_on_after(TOGETHER):
                await self._urgent.wait()
            await self.flush(send)

    async def flush(self, send: Send) -> None:
        """Send what waits now."""
        self._arrived, self._urgent = trio.Event(), trio.Event()
        due, self._waiting = self._waiting, deque()
        together: list[_DueEvent] = []
        for item in due:
            if isinstance(item, _DueEvent):
                together.append(item)
            else:
                await _send_events(together, send)
                together = []
                await send(item)
        await _send_events(together, send)


async def _send_events(due: list[_DueEvent], send: Send) -> None:
    if due:
        events = [item.event for item in due]
        await send(_encoded({"type": "events", "events": events}))
    for item in due:
        if item.audio is not None:
            await send(item.audio)
