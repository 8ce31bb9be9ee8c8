"""Notifying a client of changed resources, as fast as it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

import trio

from . import jsonrpc, protocol_versions
from .definition import Changed
from .outbox import LineOutbox
from .pending_notifications import PendingNotifications
from .request import INTERNAL_ERROR, RpcError

MOST_LISTENERS: Final = 16


@attrs.define(eq=False)
class ChangeListener:
    """One subscription of a client to changes.

    Args:
      meta: the ``_meta`` of each notification, which names the subscription.
    """

    _outbox: LineOutbox
    _untold: PendingNotifications
    _meta: Mapping[str, Any] | None = None
    _more: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def note(self, changed: Changed) -> None:
        """Remember a change. Neither waits nor raises."""
        self._untold.note(changed)
        if self._untold:
            self._more.unpark()

    async def tell(self) -> None:
        """Send the notifications as changes come, until cancelled."""
        while True:
            while not self._untold:
                await self._more.park()
            for method, params in self._untold.take():
                await self.send(method, params)

    async def send(self, method: str, params: Mapping[str, Any]) -> None:
        told = dict(params) if self._meta is None else {**params, "_meta": self._meta}
        message = {"jsonrpc": "2.0", "method": method, "params": told}
        await self._outbox.put(jsonrpc.write(message))


@attrs.define(eq=False)
class Listeners:
    """All subscriptions of one connection, until the client disconnects."""

    _outbox: LineOutbox
    _all: set[ChangeListener] = attrs.field(factory=set, init=False)
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)

    def note(self, changed: Changed) -> None:
        for listener in self._all:
            listener.note(changed)

    def hang_up(self) -> None:
        """End every subscription: `tell` and `listen` return."""
        self._over.set()

    async def tell(self, uris: set[str]) -> None:
        """Notify the client of a handshake of changes to ``uris``.

        The set may change meanwhile.
        """
        listener = ChangeListener(self._outbox, PendingNotifications(uris, lists=True))
        await self._tell(listener)

    async def listen(
        self, ident: jsonrpc.Id, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Answer ``subscriptions/listen``.

        The subscription lasts as long as this runs: it returns when the client
        disconnects, and is cancelled when the client cancels its request.

        Raises:
          RpcError: if a parameter is wrong, or the connection has 16 subscriptions.
        """
        untold, honored = protocol_versions.interests(params)
        if len(self._all) >= MOST_LISTENERS:
            wrong = f"at most {MOST_LISTENERS} subscriptions at once"
            raise RpcError(INTERNAL_ERROR, wrong)
        meta = {protocol_versions.SUBSCRIPTION: ident}
        listener = ChangeListener(self._outbox, untold, meta)
        acknowledged = {"notifications": honored}
        await self._tell(listener, (protocol_versions.ACKNOWLEDGED, acknowledged))
        return {"_meta": meta}

    async def _tell(
        self,
        listener: ChangeListener,
        first: tuple[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._all.add(listener)
        try:
            if first is not None:
                await listener.send(*first)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listener.tell)
                await self._over.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._all.remove(listener)
