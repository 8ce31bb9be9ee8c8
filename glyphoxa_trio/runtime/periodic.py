"""Tools are measured again from time to time, while nobody talks (G21, D9)."""

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

# A time is off by up to so much of it: what was started together must not call its
# servers together for ever.
JITTER: Final = 0.1
# How long one round waits, all in all, for nobody to talk, seconds.
PATIENCE: Final = 60.0


@attrs.define(eq=False)
class Periodic:
    """Probes tools about every ``every`` seconds, because the operator wants it: all
    that only read what is here, and those with configured arguments to probe with.

    A few tools at a time, and none while a turn runs or the machine is busy: a turn
    that begins ends the probes on their way. A round that finds no moment within
    `PATIENCE` is over, and the next one begins with the tools it did not come to.
    """

    _host: ToolHost
    _activity: Activity
    _every: float
    _random: random.Random = attrs.field(factory=random.Random)
    _due: list[str] = attrs.field(factory=list, init=False)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            off = self._random.uniform(-JITTER, JITTER)
            await trio.sleep(self._every * (1 + off))
            await self._round()

    async def _round(self) -> None:
        there = [
            x.key
            for x in self._host.snapshot.listings
            # A server that was not needed yet is not started for this.
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
        """Whether they were probed before somebody said something."""
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
