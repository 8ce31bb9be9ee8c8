"""The measurements of every tool, by where it runs, and the estimates they give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

import trio

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import (
    ENOUGH_SAMPLES,
    HYSTERESIS,
    Estimate,
    EstimateSource,
    TierBy,
    Unknown,
    estimate,
)
from glyphoxa_trio.tools.health import degraded
from glyphoxa_trio.tools.history import ToolPlace
from glyphoxa_trio.tools.readmission import RELAPSE, Readmission, on_trial, reach
from glyphoxa_trio.tools.recommendation import Evidence, evidence
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier, TierLimits
from glyphoxa_trio.tools.window import LatencyWindow, Sample, SampleKind

from .history import SampleHistory

# At this number the oldest window is dropped: a server may rename its tools for ever.
_MOST_WINDOWS: Final = 10_000
# The number of good calls of a server's earlier life that stay as a first guess.
_PRIOR: Final = ENOUGH_SAMPLES
# A tool that is too slow by such an estimate waits for its trials.
_HIDING: Final = (
    EstimateSource.MEASURED,
    EstimateSource.ELSEWHERE,
    EstimateSource.TRIAL,
)


@attrs.frozen(kw_only=True)
class CalibratorSettings:
    """The settings by which measurements become estimates. Times in seconds."""

    limits: TierLimits = DEFAULT_LIMITS
    tier_by: TierBy = TierBy.ADAPTIVE
    unknown: Unknown = Unknown.TRIAL
    window: int = 100
    expiry: float = 24 * 3600.0
    probe_concurrency: int = 4
    environment: str = "local"  # of tools without an environment of their own

    def place(self, definition: ToolDefinition) -> ToolPlace:
        """Return the place under which the tool's measurements are kept."""
        environment = definition.environment or self.environment
        return ToolPlace(environment, definition.origin, definition.key)


@attrs.define(eq=False)
class Measurements:
    """The windows, by environment and tool. They outlive a crash of the actor."""

    settings: CalibratorSettings
    _history: SampleHistory | None = None
    _windows: dict[ToolPlace, LatencyWindow] = attrs.field(factory=dict, init=False)
    # What other processes have measured: for estimates alone, and never kept.
    _elsewhere: dict[ToolPlace, LatencyWindow] = attrs.field(factory=dict, init=False)
    # The tools that are hidden because of their measurements, and their readmission.
    _hidden: dict[ToolPlace, Readmission] = attrs.field(factory=dict, init=False)
    # For tools that were readmitted a short while ago: the number of good calls that
    # they need if they are hidden again, and until when (trio's clock) that holds.
    _relapses: dict[ToolPlace, tuple[int, float]] = attrs.field(
        factory=dict, init=False
    )

    def place(self, definition: ToolDefinition) -> ToolPlace:
        """Return the place under which the tool's measurements are kept."""
        return self.settings.place(definition)

    def window(self, definition: ToolDefinition) -> LatencyWindow:
        """Return the measurements of the tool where it runs now."""
        return self._window(self.place(definition))

    def record(self, definition: ToolDefinition, sample: Sample) -> None:
        """Add a sample, for this run and for later ones."""
        place = self.place(definition)
        window = self._window(place)
        window.record(sample)
        if self._history is not None:
            self._history.add(place, sample)
        hidden = self._hidden.get(place)
        if hidden is None:
            return
        if sample.kind is SampleKind.TOOL_ERROR:  # says nothing of its speed
            if not degraded(window, sample.at):
                hidden.said_nothing()
            return
        if sample.probe and degraded(window, sample.at):
            return  # a probe is no sample of health, good or bad
        room = self._room(hidden.tier)
        good = sample.kind is SampleKind.OK and sample.seconds <= HYSTERESIS * room
        if hidden.judge(good=good):
            # A tool that was hidden twice within a short time may have two speeds: keep
            # some of its slow calls, so that a few more are enough to show that.
            again = hidden.needed > 1 and self.settings.tier_by is TierBy.ADAPTIVE
            slow = HYSTERESIS * room
            window.drop_slower(slow, but=window.most_outliers(slow) if again else 0)
            if place in self._elsewhere:  # else they would hide it again
                self._elsewhere[place].drop_slower(slow)
            if not sample.probe:
                window.start_health_anew()
            self._readmit(place, hidden)

    def learn(self, definition: ToolDefinition, sample: Sample) -> None:
        """Add a sample of another process, for as long as there are few of its own."""
        self._window(self.place(definition), self._elsewhere).record(sample)

    def recall(self, samples: Iterable[tuple[ToolPlace, Sample]]) -> None:
        """Add the samples of earlier runs, oldest first.

        They do not count for health: failures that were forgiven must not come back,
        and a tool that failed then has been started anew. The samples of a server's
        tools are from an earlier life of the server.
        """
        found: set[ToolPlace] = set()
        for place, sample in samples:
            self._window(place).record(sample)
            found.add(place)
        for place in found:
            if place.origin:
                self._window(place).begin_life(_PRIOR)
            else:
                self._window(place).start_health_anew()

    def begin_life(self, definition: ToolDefinition) -> None:
        """Note that the tool's server has started again: keep little of its past."""
        place = self.place(definition)
        self._window(place).begin_life(_PRIOR)
        if place in self._elsewhere:
            self._elsewhere[place].begin_life(_PRIOR)

    def wait(self, definition: ToolDefinition, seconds: float) -> bool:
        """Count ``seconds`` of turns of NPCs from whom the tool is hidden for being
        slow. Return True if it is due for a trial."""
        hidden = self._hidden.get(self.place(definition))
        return hidden is not None and hidden.wait(seconds)

    def tried(self, definition: ToolDefinition) -> None:
        """Note that a call has started: the tool's trial, if it was due for one."""
        hidden = self._hidden.get(self.place(definition))
        if hidden is not None:
            hidden.called()

    def said_nothing(self, definition: ToolDefinition) -> None:
        """Note that a call has ended without a sample; a trial of it is void."""
        hidden = self._hidden.get(self.place(definition))
        if hidden is not None:
            hidden.said_nothing()

    def withdraw(self, since: float) -> None:
        """Discard the samples from ``since`` on (trio's clock), as far as they are not
        yet on the disk, where they are written after a second."""
        for window in self._windows.values():
            window.withdraw(since)
        if self._history is not None:
            self._history.withdraw(since)

    def forget(self, key: str) -> None:
        """Drop the measurements of a tool that has gone for good. A later tool of this
        process with its name may be a different one. A server's tool is recognised by
        its origin when it returns; its measurements stay until they expire."""
        gone = [place for place in self._windows if place.key == key]
        for place in gone:
            if not place.origin:
                del self._windows[place]
                self._elsewhere.pop(place, None)
                self._hidden.pop(place, None)
                self._relapses.pop(place, None)

    def _window(
        self, place: ToolPlace, windows: dict[ToolPlace, LatencyWindow] | None = None
    ) -> LatencyWindow:
        windows = self._windows if windows is None else windows
        window = windows.get(place)
        if window is None:
            if len(windows) >= _MOST_WINDOWS:
                oldest = next(iter(windows))
                del windows[oldest]
                self._hidden.pop(oldest, None)
                self._relapses.pop(oldest, None)
            window = windows[place] = self._blank()
        return window

    def _blank(self) -> LatencyWindow:
        return LatencyWindow(size=self.settings.window, expiry=self.settings.expiry)

    def estimate(
        self, definition: ToolDefinition, previous: Estimate | None = None
    ) -> Estimate:
        """Return the estimate, for tier and admission, from present measurements.
        Changes nothing."""
        place = self.place(definition)
        fresh = self._known(definition, place, previous)
        return self._as_it_waits(definition, place, fresh)

    def reckon(
        self, definition: ToolDefinition, previous: Estimate | None = None
    ) -> Estimate:
        """Return `estimate`, and apply it: a tool that its measurements make too slow
        to show starts to wait for its next trial."""
        place, limits = self.place(definition), self.settings.limits
        fresh = self._known(definition, place, previous)
        hidden = self._hidden.get(place)
        if hidden is not None:
            if reach(fresh, limits) <= hidden.tier:
                # Only a tool that returns for its good calls can relapse. Otherwise its
                # bad samples were withdrawn, have expired, or were of an earlier life.
                if hidden.good:
                    self._readmit(place, hidden)
                else:
                    del self._hidden[place]
        elif fresh.source in _HIDING or fresh.degraded:
            needs = reach(fresh, limits)  # a tool of the fastest tier is never hidden
            tier = (
                Tier.FAST
                if needs <= Tier.FAST
                else self._used_to_be(definition, previous)
            )
            if tier < needs:
                needed, until = self._relapses.get(place, (1, 0.0))
                if trio.current_time() > until:
                    needed = 1
                self._hidden[place] = Readmission(tier, needed)
        return self._as_it_waits(definition, place, fresh)

    def _as_it_waits(
        self, definition: ToolDefinition, place: ToolPlace, fresh: Estimate
    ) -> Estimate:
        """Return the estimate, with the state of readmission if the tool is hidden."""
        hidden = self._hidden.get(place)
        if hidden is None:
            return fresh
        if hidden.open:
            return on_trial(fresh, hidden.tier, definition.round_trip)
        return attrs.evolve(fresh, next_trial=hidden.left)

    def _used_to_be(
        self, definition: ToolDefinition, previous: Estimate | None
    ) -> Tier:
        """Return the tier of the tool before it was measured, or its tier until now,
        whichever is faster."""
        tier = self._estimate(definition, self._blank(), None).tier
        if previous is None or reach(previous, self.settings.limits) > max(Tier):
            return tier
        return min(tier, previous.tier)

    def _known(
        self, definition: ToolDefinition, place: ToolPlace, previous: Estimate | None
    ) -> Estimate:
        own, others = self._window(place), self._elsewhere.get(place)
        return self._estimate(definition, own, previous, others)

    def _estimate(
        self,
        definition: ToolDefinition,
        window: LatencyWindow,
        previous: Estimate | None,
        others: LatencyWindow | None = None,
    ) -> Estimate:
        return estimate(
            definition,
            window,
            now=trio.current_time(),
            limits=self.settings.limits,
            tier_by=self.settings.tier_by,
            unknown=self.settings.unknown,
            previous=previous,
            others=others,
        )

    def _room(self, tier: Tier) -> float:
        limits = self.settings.limits
        return min(limits.threshold(tier), limits.ceiling(tier))

    def _readmit(self, place: ToolPlace, hidden: Readmission) -> None:
        del self._hidden[place]
        self._relapses[place] = hidden.again(), trio.current_time() + RELAPSE

    def evidence(self, definitions: Iterable[ToolDefinition]) -> dict[str, Evidence]:
        """Return the tier of these tools by each ``tier_by``, by key."""
        now, limits = trio.current_time(), self.settings.limits
        return {
            definition.key: found
            for definition in definitions
            if (found := evidence(definition, self.window(definition), now, limits))
        }
