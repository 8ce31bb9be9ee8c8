"""What was measured of every tool, by where it runs, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

import trio

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, TierBy, estimate
from glyphoxa_trio.tools.history import Place
from glyphoxa_trio.tools.recommendation import Evidence, evidence
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, TierLimits
from glyphoxa_trio.tools.window import LatencyWindow, Sample

from .history import History

# Then the one that was there first goes: a server may rename its tools for ever.
_MOST_WINDOWS: Final = 10_000


@attrs.frozen(kw_only=True)
class CalibratorSettings:
    """How measurements become estimates. Times in seconds."""

    limits: TierLimits = DEFAULT_LIMITS
    tier_by: TierBy = TierBy.ADAPTIVE
    window: int = 100
    expiry: float = 24 * 3600.0
    probe_concurrency: int = 4
    environment: str = "local"  # of tools that do not say where they run


@attrs.define(eq=False)
class Measurements:
    """The windows, by environment and tool. They outlive a crash of the actor."""

    settings: CalibratorSettings
    _history: History | None = None
    _windows: dict[Place, LatencyWindow] = attrs.field(factory=dict, init=False)

    def place(self, definition: ToolDefinition) -> Place:
        """What has the tool's history of measurements (D10, G25)."""
        environment = definition.environment or self.settings.environment
        return Place(environment, definition.origin, definition.key)

    def window(self, definition: ToolDefinition) -> LatencyWindow:
        """What was measured of the tool where it runs now."""
        return self._window(self.place(definition))

    def record(self, definition: ToolDefinition, sample: Sample) -> None:
        """One more sample, for this run and for later ones."""
        place = self.place(definition)
        self._window(place).record(sample)
        if self._history is not None:
            self._history.add(place, sample)

    def recall(self, samples: Iterable[tuple[Place, Sample]]) -> None:
        """What earlier runs measured, oldest first.

        It says nothing of health: failures that were forgiven must not come back,
        and what failed then has been started anew.
        """
        found: set[Place] = set()
        for place, sample in samples:
            self._window(place).record(sample)
            found.add(place)
        for place in found:
            self._window(place).start_health_anew()

    def withdraw(self, since: float) -> None:
        """Take back what was measured from ``since`` on, as far as it is not on the
        disk yet, where it comes a second later."""
        for window in self._windows.values():
            window.withdraw(since)
        if self._history is not None:
            self._history.withdraw(since)

    def forget(self, key: str) -> None:
        """A tool has gone for good. In this process another of its name may be
        another tool; one of a server is known by its origin when it is back, and
        until then its measurements expire."""
        gone = [place for place in self._windows if place.key == key]
        for place in gone:
            if not place.origin:
                del self._windows[place]

    def _window(self, place: Place) -> LatencyWindow:
        window = self._windows.get(place)
        if window is None:
            if len(self._windows) >= _MOST_WINDOWS:
                del self._windows[next(iter(self._windows))]
            window = self._windows[place] = LatencyWindow(
                size=self.settings.window, expiry=self.settings.expiry
            )
        return window

    def estimate(
        self, definition: ToolDefinition, previous: Estimate | None = None
    ) -> Estimate:
        """One number for tier and admission, from what is known now (D1)."""
        return estimate(
            definition,
            self.window(definition),
            now=trio.current_time(),
            limits=self.settings.limits,
            tier_by=self.settings.tier_by,
            previous=previous.tier_by_number if previous is not None else None,
        )

    def evidence(self, definitions: Iterable[ToolDefinition]) -> dict[str, Evidence]:
        """What each ``tier_by`` makes of these tools, by key (D8)."""
        now, limits = trio.current_time(), self.settings.limits
        return {
            definition.key: found
            for definition in definitions
            if (found := evidence(definition, self.window(definition), now, limits))
        }
