"""The requests of one client that were read and are not answered yet."""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs

import trio

from . import jsonrpc

MOST_REQUESTS: Final = 1024  # open requests; beyond that no more is read
MOST_BYTES: Final = 16 * 2**20  # of the lines that the open requests came in
MOST_RUNNING: Final = 64  # requests that run at once


@attrs.define(eq=False)
class InFlightRequest:
    """One open request. ``taken_back``: the client cancelled it."""

    size: int
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    runs: bool = False
    taken_back: bool = False


@attrs.define(eq=False)
class Requests:
    """The open requests by id, within bounds."""

    _all: dict[jsonrpc.Id, InFlightRequest] = attrs.field(factory=dict, init=False)
    _held: int = attrs.field(default=0, init=False)
    _places: trio.Semaphore = attrs.field(
        factory=partial(trio.Semaphore, MOST_RUNNING), init=False
    )
    _fewer: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def __contains__(self, ident: jsonrpc.Id) -> bool:
        return ident in self._all

    def add(self, ident: jsonrpc.Id, size: int) -> InFlightRequest:
        """Add a request whose line has ``size`` bytes, under an unused id."""
        taken = self._all[ident] = InFlightRequest(size)
        self._held += size
        return taken

    async def run(self, taken: InFlightRequest) -> None:
        """Wait for one of the slots for running requests."""
        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            await self._places.acquire()
        taken.runs = True

    def done(self, ident: jsonrpc.Id) -> None:
        """Remove a request that has been answered, or never will be."""
        taken = self._all.pop(ident)
        self._held -= taken.size
        if taken.runs:
            self._places.release()
        self._fewer.unpark_all()

    def take_back(self, ident: object) -> None:
        """Cancel the request that the client means by ``ident``, if there is one."""
        for known in (ident, jsonrpc.same_id(ident)):
            if isinstance(known, int | str) and known in self._all:
                taken = self._all[known]
                taken.taken_back = True
                taken.scope.cancel("the client cancelled it")
                return

    async def room(self, size: int) -> None:
        """Wait until a request whose line has ``size`` bytes may be added."""
        while self._all and (
            len(self._all) >= MOST_REQUESTS or self._held + size > MOST_BYTES
        ):
            await self._fewer.park()

    async def none(self) -> None:
        """Wait until no request is open."""
        while self._all:
            await self._fewer.park()
