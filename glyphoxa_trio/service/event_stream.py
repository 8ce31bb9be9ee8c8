"""The answer to an utterance as server-sent events, for clients without a WebSocket."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from typing import Final

import attrs
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.npc import Speech, Turn, TurnEvent
from glyphoxa_trio.npc.event_json import plain_event

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),  # or a proxy would keep the answer back
]


@attrs.define(eq=False)
class TurnResponse(Response):
    """Sends the events of a turn as they come, without audio.

    An event counts as delivered once it is written. A client that leaves interrupts
    the turn.

    Args:
      turn: entered already; it is left here.
      view: returns an event as this client may see it; None leaves it out.
      within: the turn is interrupted after these seconds.
      over: called when the turn is over.
    """

    turn: Turn
    view: Callable[[TurnEvent], TurnEvent | None]
    within: float = inf
    over: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            start = {"type": "http.response.start", "status": 200, "headers": _HEADERS}
            await send(start)
            with lone_errors():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch, receive, nursery.cancel_scope)
                    await self._send_events(send)
                    nursery.cancel_scope.cancel("all was sent")
        finally:
            with trio.CancelScope(shield=True):
                await self.turn.__aexit__(None, None, None)
            self.over()
        await send({"type": "http.response.body", "body": b""})

    async def _watch(self, receive: Receive, scope: trio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel("the client has left")

    async def _send_events(self, send: Send) -> None:
        self.turn.acknowledge()
        with trio.move_on_after(self.within) as patience:
            await self._pass_on(send)
        if patience.cancelled_caught:
            self.turn.interrupt("the time of its caller is over")
            await self._pass_on(send)

    async def _pass_on(self, send: Send) -> None:
        async for event in self.turn:
            seen = self.view(event)
            if seen is not None and not isinstance(seen, Speech):
                await send(_body_of(seen))
            self.turn.acknowledge(event)


def _body_of(event: TurnEvent) -> dict[str, object]:
    data = json.dumps(plain_event(event))
    text = f"event: {type(event).__name__}\ndata: {data}\n\n"
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}
