"""What models cost, by NPC and by model, and whether an NPC may ask for more. Pure.

Every engine has each response's `Usage` charged here and publishes the event that
comes back; before a turn begins it asks for a refusal. Turns that run go on to their
end, so what is spent may exceed a ceiling by the turns that were under way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from glyphoxa_trio.config.cost import CostConfig
from glyphoxa_trio.providers.llm import Usage

from .events import UsageReported
from .identity import NpcId, SessionKey


@attrs.frozen(kw_only=True)
class Spent:
    """Tokens, and what those of them cost that have a price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=self.cost + other.cost,
        )

    def plus(self, event: UsageReported) -> Spent:
        return Spent(
            input_tokens=self.input_tokens + event.input_tokens,
            output_tokens=self.output_tokens + event.output_tokens,
            cached_tokens=self.cached_tokens + event.cached_tokens,
            cost=self.cost + (event.cost or 0.0),
        )


@attrs.frozen(kw_only=True)
class CostStatistics:
    """Since the runtime was opened. ``turned_away`` counts turns."""

    total: Spent
    npcs: Mapping[str, Spent]
    models: Mapping[str, Spent]
    turned_away: int


_NOTHING: Final = Spent()
_PER: Final = 1e6  # tokens that a price is for


@attrs.define(eq=False)
class Costs:
    """Of one run, its reloads included.

    Args:
      warn: told once of each ceiling that is reached, and of each model without a
        price whose tokens therefore count for nothing under a ceiling.
    """

    config: CostConfig = attrs.field(factory=CostConfig)
    warn: Callable[[str], None] = lambda _: None
    _total: Spent = attrs.field(factory=Spent, init=False)
    _npcs: defaultdict[str, Spent] = attrs.field(
        factory=lambda: defaultdict(Spent), init=False
    )
    _parts: defaultdict[NpcId, Spent] = attrs.field(
        factory=lambda: defaultdict(Spent), init=False
    )
    _models: defaultdict[str, Spent] = attrs.field(
        factory=lambda: defaultdict(Spent), init=False
    )
    _turned_away: int = attrs.field(default=0, init=False)
    _warned: set[str] = attrs.field(factory=set, init=False)

    def charge(
        self, npc: NpcId, turn: int, usage: Usage, *, model: str = ""
    ) -> UsageReported:
        """Count one response of an NPC's model; the event is the caller's to publish.

        Args:
          turn: 0 if no turn has asked for it.
          model: for a ``usage`` that names none.
        """
        model = usage.model or model
        event = UsageReported(
            **npc.of(turn),
            model=model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cost=self._price_of(usage, model),
        )
        self._total = self._total.plus(event)
        self._npcs[npc.npc] = self._npcs[npc.npc].plus(event)
        self._parts[npc] = self._parts[npc].plus(event)
        self._models[model] = self._models[model].plus(event)
        for what, reason in self._reached(npc):
            self._warn_once(what, f"{reason}: turns are turned away")
        return event

    def refusal(self, npc: NpcId) -> str:
        """Why no turn of ``npc`` may begin; empty if one may. Counts what it says."""
        _, reason = next(self._reached(npc), ("", ""))
        self._turned_away += bool(reason)
        return reason

    def exhausted(self, npc: NpcId) -> bool:
        """Whether a turn of ``npc`` would be refused now."""
        return next(self._reached(npc), None) is not None

    def adopt(self, config: CostConfig) -> None:
        """Go by other prices from now on, and by other ceilings at once."""
        if config != self.config:
            self.config = config
            self._warned.clear()

    def statistics(self) -> CostStatistics:
        return CostStatistics(
            total=self._total,
            npcs=dict(self._npcs),
            models=dict(self._models),
            turned_away=self._turned_away,
        )

    def _price_of(self, usage: Usage, model: str) -> float | None:
        price = self.config.prices.get(model)
        if price is None:
            if self.config.per_npc is not None or self.config.total is not None:
                text = f"cost.prices lacks {model!r}: no ceiling counts what it takes"
                self._warn_once(f"price of {model}", text)
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        of_cached = price.input if price.cached is None else price.cached
        return (
            (usage.input_tokens - cached) * price.input
            + cached * of_cached
            + usage.output_tokens * price.output
        ) / _PER

    def of(self, session: SessionKey) -> Spent:
        """What one session has taken since it began."""
        parts = [x for key, x in self._parts.items() if key.session == session]
        return sum(parts[1:], parts[0]) if parts else _NOTHING

    def part(self, npc: NpcId) -> Spent:
        """What one NPC has taken in its session."""
        return self._parts.get(npc, _NOTHING)

    def restore(self, npc: NpcId, spent: Spent) -> None:
        """It had taken this before, in a session that goes on."""
        if spent != _NOTHING:
            self._parts[npc] = self._parts[npc] + spent

    def forget(self, session: SessionKey) -> None:
        """It has ended, or is set aside; what it took counts in all."""
        for key in [x for x in self._parts if x.session == session]:
            del self._parts[key]

    def _reached(self, npc: NpcId) -> Iterator[tuple[str, str]]:
        """Which ceilings have been reached, and in words."""
        most, spent = self.config.per_npc, self._parts.get(npc, _NOTHING).cost
        if most is not None and spent >= most:
            yield (
                npc.text,
                f"{npc.npc} has cost {spent:.4g}, and cost.per_npc is {most:g}",
            )
        most, spent = self.config.total, self._total.cost
        if most is not None and spent >= most:
            yield "", f"models have cost {spent:.4g}, and cost.total is {most:g}"

    def _warn_once(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            self.warn(text)
