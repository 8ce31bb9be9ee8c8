"""Periodic measurement of tools, at moments when no turn runs."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.tools.consent import measured_unnamed
from glyphoxa_trio.tools.gate import Availability

from .publisher import CALIBRATION

# The share by which each interval varies: programs that were started together must not
# call their servers together for ever.
JITTER: Final = 0.1
# Seconds that one round waits, in all, for moments when no turn runs.
PATIENCE: Final = 60.0


@attrs.define(eq=False)
class Periodic:
    """A task that probes tools about every ``every`` seconds (`calibration.every`).

    It probes all tools that only read local data, and those with configured arguments
    for probing. It probes a few at a time, and none while a turn runs or the machine is
    busy: a turn that begins cancels the probes under way. A round that finds no moment
    within `PATIENCE` ends, and the next round begins with the tools that it did not
    reach.
    """

    _host: ToolHost
    _activity: Activity
    _every: float
    _random: random.Random = attrs.field(factory=random.Random)
    _due: list[str] = attrs.field(factory=list, init=False)

    async def run(self) -> None:
        """Probe round after round, until cancelled."""
        while True:
            off = self._random.uniform(-JITTER, JITTER)
            await trio.sleep(self._every * (1 + off))
            await self._round()

    async def _round(self) -> None:
        there = [
            x.key
            for x in self._host.snapshot.listings
            # An on-demand server that was not needed yet is not started for this.
            if x.availability is Availability.READY and measured_unnamed(x.definition)
        ]
        first = [key for key in self._due if key in there]
        self._due = first + [key for key in there if key not in first]
        at_once = self._host.settings.probe_concurrency
        waited = 0.0
        while self._due:
            began = trio.current_time()
            with trio.move_on_after(max(0.0, PATIENCE - waited)) as waiting:
                await self._activity.quiet()
            if waiting.cancelled_caught or self._activity.busy:
                return
            waited += trio.current_time() - began
            if await self._undisturbed(self._due[:at_once]):
                del self._due[:at_once]

    async def _undisturbed(self, keys: list[str]) -> bool:
        """Probe these tools; return False if a turn began before the end."""
        done = False
        async with trio.open_nursery() as nursery:

            async def give_way() -> None:
                await self._activity.begun()
                nursery.cancel_scope.cancel("a turn begins")

            nursery.start_soon(give_way)
            with suppress(GlyphoxaError):  # what was measured by then is kept
                await self._host.calibrate(
                    within=CALIBRATION, keys=keys, harmless_only=True
                )
            done = True
            nursery.cancel_scope.cancel("the probes are done")
        return done
