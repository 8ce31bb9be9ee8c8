"""Counts and distributions of what NPCs do, and of what was measured of tools, from
their events; pure, no clock.

What `metrics` shows and `telemetry` adds up. Nothing in here grows with the words
of players, models or servers: a name that names no tool is ``unknown``, and a
server that renames its tools for ever ends up under ``other``. Times are seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.npc import (
    FanOutDone,
    FellBack,
    Filler,
    ModelFailed,
    ModelSwitched,
    Sentence,
    SpeculationDone,
    TierSelected,
    ToolFinished,
    TurnDone,
    UsageReported,
)
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.tools.outcome import Limit, Status
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier, TierLimits
from glyphoxa_trio.tools.window import Sample, SampleKind

UNKNOWN: Final = "unknown"
OTHER: Final = "other"
_TURNS_REMEMBERED: Final = 1_000  # that have begun and not said a sentence yet
_MODELS: Final = 64  # a configuration has a few; the rest is other

# The badges (0.05, 0.2, 1) and the tier limits (0.5, 1.5, 4) are bounds, so that the
# share of calls within each of them is read and not guessed.
_LATENCIES: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5),
    *(0.75, 1.0, 1.5, 2.5, 4.0, 10.0),
)
# A budget that was used up ends a little late: how little is what the last ones tell.
_SHARES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.01, 1.05, 1.1, 1.5)
_SENTENCES: Final = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)

Labels = tuple[str, ...]
Tool = tuple[str, str]  # server and tool, as labels show them


@attrs.define(eq=False)
class Histogram:
    """The numbers of values that were at most each of ``bounds``, and their sum."""

    bounds: tuple[float, ...]
    counts: list[int] = attrs.field(init=False)  # one more than bounds
    total: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Histogram:
        """As it is now."""
        twin = Histogram(self.bounds)
        twin.counts, twin.total = list(self.counts), self.total
        return twin


@attrs.define(eq=False)
class ToolNames:
    """Which tools have figures of their own; the first ones that came.

    Args:
      most: how many in all.
      of_one: how many of one server, so that one that renames its tools for ever
        takes no place away from the others.
    """

    most: int = 1024
    of_one: int = 128
    _tools: dict[str, Tool] = attrs.field(factory=dict, init=False)
    _per_server: Counter[str] = attrs.field(factory=Counter, init=False)

    def of(self, key: str | None) -> Tool:
        """The labels of a canonical key; None is a call that named no tool."""
        if key is None:
            return UNKNOWN, UNKNOWN
        known = self._tools.get(key)
        if known is not None:
            return known
        server, _, tool = key.partition(".")
        if len(self._tools) < self.most and self._per_server[server] < self.of_one:
            self._per_server[server] += 1
            self._tools[key] = server, tool
            return server, tool
        return (server if self._per_server[server] else OTHER), OTHER


@attrs.define(eq=False)
class Health:
    """Samples that say something of a tool's health, and failures among them."""

    calls: int = 0
    failures: int = 0


@attrs.define(eq=False)
class ModelFigures:
    """The tokens, costs and times of models by name, their failures and switches."""

    failures: Counter[str] = attrs.field(factory=Counter, init=False)
    switches: Counter[Labels] = attrs.field(factory=Counter, init=False)
    tokens: Counter[Labels] = attrs.field(factory=Counter, init=False)
    cost: dict[Labels, float] = attrs.field(factory=dict, init=False)
    seconds: dict[Labels, float] = attrs.field(factory=dict, init=False)
    _known: set[str] = attrs.field(factory=set, init=False)

    def failed(self, event: ModelFailed) -> None:
        self.failures[event.kind.value] += 1

    def switched(self, event: ModelSwitched) -> None:
        self.switches[self._name(event.model), self._name(event.instead_of)] += 1

    def used(self, event: UsageReported) -> None:
        model = self._name(event.model)
        heard, cached = event.audio_input_tokens, event.audio_cached_tokens
        fresh = event.input_tokens - event.cached_tokens
        kinds = {
            "input": fresh - (heard - cached),
            "cached": event.cached_tokens - cached,
            "output": event.output_tokens - event.audio_output_tokens,
            "audio_input": heard - cached,
            "audio_cached": cached,
            "audio_output": event.audio_output_tokens,
        }
        for kind, tokens in kinds.items():
            # A server whose figures do not add up must not make a counter fall.
            if tokens > 0 or not kind.startswith("audio"):
                self.tokens[model, kind] += max(0, tokens)
        if event.audio_time:
            self.seconds[(model,)] = self.seconds.get((model,), 0.0) + event.audio_time
        if event.cost is not None:
            self.cost[(model,)] = self.cost.get((model,), 0.0) + event.cost

    def _name(self, name: str) -> str:
        if len(self._known) < _MODELS:
            self._known.add(name)
        return name if name in self._known else OTHER


@attrs.define(eq=False)
class Figures:
    """Everything that is counted of one runtime, from its start on.

    Args:
      limits: of the tiers: the configured ones are bounds of the latencies too.

    ``faults`` are events that could not be counted, by a mistake of ours.
    """

    limits: TierLimits = DEFAULT_LIMITS
    names: ToolNames = attrs.field(factory=ToolNames)
    calls: Counter[tuple[str, str, Status]] = attrs.field(factory=Counter, init=False)
    latency: dict[Labels, Histogram] = attrs.field(factory=dict, init=False)
    health: defaultdict[Tool, Health] = attrs.field(
        factory=lambda: defaultdict(Health), init=False
    )
    stalls: Counter[Labels] = attrs.field(factory=Counter, init=False)
    turns: Counter[Labels] = attrs.field(factory=Counter, init=False)
    tool_time: dict[Tier, Histogram] = attrs.field(init=False)
    first_sentence: dict[Tier, Histogram] = attrs.field(init=False)
    fan_outs: Counter[Tier] = attrs.field(factory=Counter, init=False)
    fan_outs_cut: Counter[Tier] = attrs.field(factory=Counter, init=False)
    fallbacks: Counter[str] = attrs.field(factory=Counter, init=False)
    fillers: int = attrs.field(default=0, init=False)
    models: ModelFigures = attrs.field(factory=ModelFigures, init=False)
    speculations: Counter[str] = attrs.field(factory=Counter, init=False)
    speculation_waste: float = attrs.field(default=0.0, init=False)
    faults: int = attrs.field(default=0, init=False)
    _bounds: tuple[float, ...] = attrs.field(init=False)
    # Turns that have begun and not said a sentence yet: when, and their tier.
    _silent: dict[tuple[NpcId, int], tuple[float, Tier]] = attrs.field(
        factory=dict, init=False
    )

    def __attrs_post_init__(self) -> None:
        limits = [x for x in attrs.astuple(self.limits) if x < math.inf]
        self._bounds = tuple(sorted({*_LATENCIES, *limits}))
        self.tool_time = {tier: Histogram(_SHARES) for tier in Tier}
        self.first_sentence = {tier: Histogram(_SENTENCES) for tier in Tier}

    def take(self, event: object, now: float) -> None:
        """Count an event of a turn, just published; of no interest is nothing.

        Args:
          now: on any clock that does not run backwards.
        """
        count = COUNTED.get(type(event))
        if count is not None:
            count(self, event, now)

    def miss(self) -> None:
        """One could not be counted."""
        self.faults += 1

    def sample(self, key: str, sample: Sample) -> None:
        """Count a sample by the rules of its window, which say what counts as a
        latency and what counts for the tool's health.

        A call that was cut took longer than that, so it counts as just longer.
        """
        tool, kind, seconds = self.names.of(key), sample.kind, sample.seconds
        if kind is not SampleKind.CENSORED and not sample.probe:
            health = self.health[tool]
            health.calls += 1
            health.failures += kind.is_failure
        if kind is SampleKind.TOOL_ERROR or kind is SampleKind.FAILED:
            return
        if kind is SampleKind.CENSORED:
            seconds = math.nextafter(seconds, math.inf)
        histogram = self.latency.get(tool)
        if histogram is None:
            histogram = self.latency[tool] = Histogram(self._bounds)
        histogram.add(seconds)

    def stalled(self, key: str) -> None:
        """Count a call of a tool of this process that held the event loop."""
        self.stalls[self.names.of(key)] += 1

    def _called(self, event: ToolFinished, _: float) -> None:
        outcome = event.outcome
        self.calls[(*self.names.of(outcome.tool), outcome.status)] += 1

    def _begun(self, event: TierSelected, now: float) -> None:
        while len(self._silent) >= _TURNS_REMEMBERED:  # whose end was missed
            del self._silent[next(iter(self._silent))]
        self._silent[event.id, event.turn] = now, event.tier

    def _said(self, event: Sentence, now: float) -> None:
        begun = self._silent.pop((event.id, event.turn), None)
        if begun is not None:
            since, tier = begun
            self.first_sentence[tier].add(now - since)

    def _fanned_out(self, event: FanOutDone, _: float) -> None:
        self.fan_outs[event.tier] += 1
        if any(outcome.limit is Limit.TURN for outcome in event.outcomes):
            self.fan_outs_cut[event.tier] += 1

    def _failed(self, event: ModelFailed, _: float) -> None:
        self.models.failed(event)

    def _switched(self, event: ModelSwitched, _: float) -> None:
        self.models.switched(event)

    def _used(self, event: UsageReported, _: float) -> None:
        self.models.used(event)

    def _filled(self, event: Filler, _: float) -> None:
        self.fillers += 1

    def _fell_back(self, event: FellBack, _: float) -> None:
        self.fallbacks[event.reason.value] += 1

    def _speculated(self, event: SpeculationDone, _: float) -> None:
        self.speculations[event.end.value] += 1
        self.speculation_waste += event.wasted

    def _done(self, event: TurnDone, _: float) -> None:
        self._silent.pop((event.id, event.turn), None)
        tier = event.tier
        self.turns[event.end.value, "none" if tier is None else str(tier)] += 1
        if tier is not None and event.outcomes:
            budget = self.limits.ceiling(tier)
            self.tool_time[tier].add(event.timings.tools / budget)


# By type: most events are pieces of text, and they cost one look.
COUNTED: Final[Mapping[type, Callable[[Figures, Any, float], None]]] = {
    ToolFinished: Figures._called,
    TierSelected: Figures._begun,
    Sentence: Figures._said,
    FanOutDone: Figures._fanned_out,
    ModelFailed: Figures._failed,
    ModelSwitched: Figures._switched,
    UsageReported: Figures._used,
    FellBack: Figures._fell_back,
    Filler: Figures._filled,
    SpeculationDone: Figures._speculated,
    TurnDone: Figures._done,
}
