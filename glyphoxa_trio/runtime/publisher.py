"""From a server to the host: its tools as they come and go, measured when new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.mcp import ServerState, ServerWarning
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.gate import Availability

_MOST_TOLD: Final = 200
# How long a calibration may take, seconds.
CALIBRATION: Final = 120.0

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
    """Hands a server's tools to the host, and new ones to calibration.

    A list that the host does not take (two tools under one name) is a warning,
    once; what the server had before stays.
    """

    _host: ToolHost
    _nursery: trio.Nursery
    _calibrate: bool
    _warn: Callable[[ServerWarning], None]
    _told: set[tuple[str, str]] = attrs.field(factory=set, init=False)
    # By where they are, too: elsewhere, a tool is as fast as nobody knows.
    _measured: set[tuple[str, str | None, str]] = attrs.field(factory=set, init=False)

    def __call__(self, server: str, state: ServerState, tools: Sequence[Tool]) -> None:
        availability = _AVAILABILITY[state]
        try:
            prints = {x.key: x.fingerprint for x in tools if x.fingerprint}
            self._host.publish(server, availability, tools, fingerprints=prints)
        except GlyphoxaError as error:
            # What stays must not look better than its server is.
            self._host.publish(server, availability, None)
            text = f"its tools are left out: {error}"
            if (server, text) not in self._told:
                if len(self._told) >= _MOST_TOLD:  # a server may rename for ever
                    self._told.clear()
                self._told.add((server, text))
                self._warn(ServerWarning(server=server, text=text))
            return
        there = self._host.snapshot.listings
        self._measured.intersection_update(_place(x.definition) for x in there)
        # What is remembered of a server that starts is not measured with its start.
        if state is ServerState.READY and self._calibrate:
            places = [_place(x.definition) for x in tools]
            fresh = [place for place in places if place not in self._measured]
            if fresh:
                self._measured.update(fresh)
                keys = [key for key, *_ in fresh]
                self._nursery.start_soon(calibrate, self._host, keys)


def _place(definition: ToolDefinition) -> tuple[str, str | None, str]:
    return definition.key, definition.environment, definition.origin


async def calibrate(host: ToolHost, keys: Sequence[str]) -> None:
    """Measure these tools, as far as it goes; it is nobody's error if it does not."""
    try:
        await host.calibrate(within=CALIBRATION, keys=keys)
    except GlyphoxaError:
        return  # what was measured by then is kept
