"""The looks of operators at a worker: pages of its runtime, and turns as they happen.

Watching is best effort: what is too much for the bus is dropped, and whoever watches
sees it by the numbers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.npc import TextDelta, TurnEvent
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.service.approval_desk import ApprovalDesk
from glyphoxa_trio.service.editing import ServerEditing
from glyphoxa_trio.service.endpoints import (
    ServiceEndpoint,
    ServiceRequest,
    answer_of,
)
from glyphoxa_trio.service.operating import OperatorApi
from glyphoxa_trio.service.runtime_api import RuntimeOverview
from glyphoxa_trio.service.watching import SeenEvent, TurnHistory
from glyphoxa_trio.units import seconds

from .messages import AnyMessage, LookMessage, SeenMessage, ShownMessage, WatchMessage
from .wire import InvalidMessage, LargeMessage, pack

logger = logging.getLogger(__name__)

MOST_LOOKS: Final = 16  # pages that are made at a time
MOST_WATCHES: Final = 64
MOST_EVENTS: Final = 1000
"""The number of events that wait for one watch; more are dropped."""

_TOGETHER: Final = 0.02  # seconds within which events travel in one message
_TOO_LARGE: Final = 507


@attrs.define(eq=False)
class _Watch:
    """One that watches: until its time is over, unless it asks again."""

    asked: WatchMessage
    to: str
    until: float
    due: Callable[[], None]
    held: ExitStack = attrs.field(factory=ExitStack, init=False)
    _events: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _n: int = attrs.field(default=1, init=False)  # of the first that waits
    _dropped: int = attrs.field(default=0, init=False)  # since then

    @property
    def next(self) -> int:
        """The number of the next event to be sent."""
        return self._n

    def renew(self, now: float) -> None:
        self.until = now + seconds(self.asked.for_ms)

    def look(self, seen: SeenEvent) -> None:
        """Take an event, unless it is none of those that are asked for."""
        event, asked = seen.event, self.asked
        if isinstance(event, TurnEvent):
            key = event.id.session
            wanted = key.tenant == asked.tenant and asked.session in (None, key.id)
        else:
            wanted = asked.session is None
        if not wanted or (isinstance(event, TextDelta) and not asked.deltas):
            return
        if self._dropped or len(self._events) >= MOST_EVENTS:
            self._dropped += 1
            return
        self._events.append(seen.plain())
        self.due()

    def taken(self) -> tuple[int, list[dict[str, Any]]]:
        """Return what waits, and the number of the first."""
        n, events = self._n, self._events
        self._n += len(events) + self._dropped
        self._events, self._dropped = [], 0
        return n, events


@attrs.define(eq=False)
class WorkerLooks:
    """The answers of a worker to operators.

    Args:
      send: sends a message to whoever asked.
    """

    _worker: str
    _runtime: Runtime
    _send: Callable[[str, AnyMessage], None]
    _nursery: trio.Nursery
    _history: TurnHistory = attrs.field(init=False)
    _desk: ApprovalDesk = attrs.field(init=False)
    _watches: dict[tuple[str, str], _Watch] = attrs.field(factory=dict, init=False)
    _due: Signal = attrs.field(factory=Signal, init=False)
    _looking: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._history = TurnHistory(self._runtime)
        self._desk = ApprovalDesk(self._runtime)

    async def run(self) -> None:
        """Keep the turns, and send what is watched, until cancelled."""
        with self._history.kept(self._nursery):
            self._nursery.start_soon(self._desk.run)
            try:
                await self._run()
            finally:
                for watch in self._watches.values():
                    watch.held.close()

    async def _run(self) -> None:
        while True:
            with trio.move_on_after(1.0):
                await self._due.take()
            await trio.sleep(_TOGETHER)
            now = trio.current_time()
            for key, watch in list(self._watches.items()):
                n, events = watch.taken()
                if events:
                    self._put(watch, n, events)
                if watch.until < now:
                    self.leave(*key)

    def watch(self, asked: WatchMessage, to: str) -> None:
        """Begin to show turns, or go on."""
        key, now = (to, asked.id), trio.current_time()
        watch = self._watches.get(key)
        if watch is None:
            if len(self._watches) >= MOST_WATCHES:
                return
            watch = _Watch(asked, to, now, self._due.set)
            watch.held.enter_context(self._history.watched(watch.look))
            if asked.directs:
                watch.held.enter_context(self._desk.present())
            self._watches[key] = watch
        watch.renew(now)
        self._send(to, SeenMessage(id=asked.id, worker=self._worker, n=watch.next))

    def leave(self, to: str, id_: str) -> None:
        """Show no more turns to this one."""
        if (watch := self._watches.pop((to, id_), None)) is not None:
            watch.held.close()

    def _put(self, watch: _Watch, n: int, events: Sequence[dict[str, Any]]) -> None:
        message = SeenMessage(
            id=watch.asked.id, worker=self._worker, n=n, events=list(events)
        )
        try:
            self._send(watch.to, message)
        except LargeMessage:
            if len(events) > 1:  # an event that is too large by itself is dropped
                half = len(events) // 2
                self._put(watch, n, events[:half])
                self._put(watch, n + half, events[half:])
        except TypeError:  # border: what tools return; it must not end the worker
            logger.exception("events of turns cannot be shown")

    def look(self, asked: LookMessage, to: str) -> None:
        """Answer with a page, as soon as it is there."""
        if self._looking >= MOST_LOOKS:
            why = {"error": f"{self._worker} answers many already", "code": "busy"}
            self._answer(asked, to, 503, why)
            return
        self._looking += 1
        self._nursery.start_soon(self._show, asked, to)

    async def _show(self, asked: LookMessage, to: str) -> None:
        status, body = 404, {"error": f"no page {asked.page}", "code": "not_found"}
        try:
            if (endpoint := self._pages(asked.tenant).get(asked.page)) is not None:
                request = ServiceRequest(None, asked.path, asked.query, {}, _nothing)
                response = await answer_of(endpoint, request)
                status, body = response.status_code, json.loads(bytes(response.body))
        finally:
            self._looking -= 1
        self._answer(asked, to, status, body)

    def _answer(self, asked: LookMessage, to: str, status: int, body: Any) -> None:
        shown = ShownMessage(id=asked.id, worker=self._worker, status=status, body=body)
        try:
            pack(shown)
        except InvalidMessage as error:
            why = {"error": f"the answer of {self._worker}: {error}", "code": "refused"}
            shown = ShownMessage(
                id=asked.id, worker=self._worker, status=_TOO_LARGE, body=why
            )
        self._send(to, shown)

    def _pages(self, tenant: str) -> dict[str, ServiceEndpoint]:
        found = [
            *RuntimeOverview(self._runtime, tenant).endpoints(),
            *OperatorApi(self._runtime, self._history, tenant).endpoints(),
            *ServerEditing(self._runtime, None).endpoints(),
        ]
        jsons = "application/json"
        return {x.path: x for x in found if x.method == "GET" and x.answer == jsons}


async def _nothing() -> Any:
    return {"type": "http.request", "body": b""}
