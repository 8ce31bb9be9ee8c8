"""The publisher: hands the tools of servers to the host and has new ones measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.mcp import ServerState, ServerWarning
from glyphoxa_trio.tools.consent import Purpose, unasked
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.gate import Availability

_MOST_TOLD: Final = 200
# Seconds that a calibration may take.
CALIBRATION: Final = 120.0
# Batches at once: a server that keeps renaming its tools always has new ones.
_MOST_BATCHES: Final = 16

_AVAILABILITY: Final = {
    ServerState.IDLE: Availability.RESTARTING,
    ServerState.STARTING: Availability.RESTARTING,
    ServerState.READY: Availability.READY,
    ServerState.RESTARTING: Availability.RESTARTING,
    ServerState.FAILED: Availability.DOWN,
    ServerState.STOPPED: Availability.DOWN,
}


@attrs.frozen(eq=False)
class Publisher:
    """The function that takes a server's tools, whenever its state or its list changes.

    It registers them with the host and has new ones measured. It warns once of tools
    that are left out because of their names, and of a list that the host refuses as a
    whole: then the server keeps the tools that it had. Only tools that NPCs are granted
    and approved for (`ToolHost.granted`) are measured without being asked to.
    ``states`` has the latest state of each server.
    """

    _host: ToolHost
    _nursery: trio.Nursery
    _calibrate: bool
    _warn: Callable[[ServerWarning], None]
    _told: set[tuple[str, str]] = attrs.field(factory=set, init=False)
    states: dict[str, ServerState] = attrs.field(factory=dict, init=False)
    # Kept by environment and origin, too: a tool elsewhere has another latency.
    _measured: set[tuple[str, str | None, str]] = attrs.field(factory=set, init=False)
    _running: set[object] = attrs.field(factory=set, init=False)
    # Servers whose new tools are measured when fewer batches run.
    _put_off: set[str] = attrs.field(factory=set, init=False)
    _idle: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def __call__(
        self,
        server: str,
        state: ServerState,
        tools: Sequence[Tool],
        ready_at: float | None = None,
    ) -> None:
        availability = _AVAILABILITY[state]
        before, self.states[server] = self.states.get(server), state
        try:
            prints = {x.key: x.fingerprint for x in tools if x.fingerprint}
            self._host.publish(
                server, availability, tools, fingerprints=prints, ready_at=ready_at
            )
        except GlyphoxaError as error:
            # The tools that stay get the state of their server.
            self._host.publish(server, availability, None, ready_at=ready_at)
            self._tell(server, f"its tools are left out: {error}")
            return
        for collision in self._host.snapshot.collisions:
            # Always reported for the same server, so that it is reported once.
            self._tell(collision.left_out[0].partition(".")[0], str(collision))
        if state is ServerState.READY and before is not ServerState.READY:
            self._host.begin_life(server)
        there = self._host.snapshot.listings
        self._measured.intersection_update(_place(x.definition) for x in there)
        # Cached tools of a server that starts are not measured: the start would count.
        if state is ServerState.READY:
            self._measure([x.definition for x in there if x.definition.group == server])

    def measure(self) -> None:
        """Measure tools that NPCs were granted meanwhile, and those of this process."""
        self._measure(
            [
                x.definition
                for x in self._host.snapshot.listings
                if x.availability is Availability.READY
            ]
        )

    def _measure(self, definitions: Sequence[ToolDefinition]) -> None:
        if not self._calibrate:
            return
        grants = tuple(self._host.granted())
        fresh = [
            definition
            for definition in definitions
            if (place := _place(definition)) not in self._measured
            and unasked(
                definition,
                Purpose.PROBE,
                grants,
                exposed=self._exposed(place[0]),
                agreed=place[0] in self._host.approvals.agreed,
            )
            is None
        ]
        if fresh and len(self._running) >= _MOST_BATCHES:
            self._put_off.update(definition.group for definition in fresh)
        elif fresh:
            self._measured.update(map(_place, fresh))
            keys = [definition.key for definition in fresh]
            batch = object()
            self._running.add(batch)
            self._nursery.start_soon(self._carry_out, batch, keys)

    async def _carry_out(self, batch: object, keys: Sequence[str]) -> None:
        """Measure as many of these tools as possible; a failure is not an error."""
        try:
            with suppress(GlyphoxaError):  # what was measured by then is kept
                await self._host.measure(keys, within=CALIBRATION)
        finally:
            self._running.remove(batch)
            if self._put_off:
                self._put_off.clear()
                self.measure()
            if not self._running:
                self._idle.unpark_all()

    @property
    def measuring(self) -> bool:
        return bool(self._running)

    async def idle(self) -> None:
        """Wait until no measurement runs."""
        while self._running:
            await self._idle.park()

    def _exposed(self, key: str) -> str:
        listing = self._host.snapshot.by_key.get(key)
        return "" if listing is None else listing.exposed

    def _tell(self, server: str, text: str) -> None:
        """Warn, but only once of the same."""
        if (server, text) not in self._told:
            if len(self._told) >= _MOST_TOLD:  # a server may keep renaming
                self._told.clear()
            self._told.add((server, text))
            self._warn(ServerWarning(server=server, text=text))


def _place(definition: ToolDefinition) -> tuple[str, str | None, str]:
    return definition.key, definition.environment, definition.origin
