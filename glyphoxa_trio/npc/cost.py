"""The costs of models, by NPC and by model, and the ceilings on them. Pure.

Every engine reports each response's `Usage` to `charge` and publishes the event that is
returned. Before a turn begins it asks for a refusal. Running turns are not stopped, so
the costs may exceed a ceiling by the turns that were running.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs

from glyphoxa_trio.config.cost import CostConfig, Price
from glyphoxa_trio.providers.llm import Usage

from .events import UsageReported
from .identity import NpcId, SessionKey


@attrs.frozen(kw_only=True)
class Spent:
    """Tokens, and the cost of those that have a price.

    The ``audio`` tokens are part of the others. ``audio_time`` is the seconds of audio
    that are paid by time.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0
    audio_cached_tokens: int = 0
    audio_time: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Spent | UsageReported) -> Spent:
        mine, its = attrs.asdict(self), attrs.asdict(other, recurse=False)
        return Spent(**{key: mine[key] + (its[key] or 0) for key in mine})


@attrs.frozen(kw_only=True)
class CostStatistics:
    """Costs since the runtime was opened. ``turned_away`` counts refused turns."""

    total: Spent
    npcs: Mapping[str, Spent]
    models: Mapping[str, Spent]
    turned_away: int


_NOTHING: Final = Spent()
_PER: Final = 1e6  # the number of tokens that a price is for


def _no_refusal(_: NpcId) -> str:
    return ""


@attrs.define(eq=False)
class Costs:
    """The costs of one runtime, through its reloads.

    Args:
      config: prices and ceilings.
      warn: called once for each ceiling that is reached, and for each model without a
        price, whose tokens do not count towards a ceiling.
    """

    config: CostConfig = attrs.field(factory=CostConfig)
    warn: Callable[[str], None] = lambda _: None
    _beyond: Callable[[NpcId], str] = attrs.field(default=_no_refusal, init=False)
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
        """Count one response of an NPC's model; the caller publishes the event.

        Args:
          npc: the NPC.
          turn: the turn's number; 0 if no turn requested the response.
          usage: the tokens.
          model: the model, for a ``usage`` that names none.
        """
        model = usage.model or model
        event = UsageReported(
            **npc.of(turn),
            model=model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            audio_input_tokens=usage.audio_input_tokens,
            audio_output_tokens=usage.audio_output_tokens,
            audio_cached_tokens=usage.audio_cached_tokens,
            audio_time=usage.audio_time,
            cost=self._price_of(usage, model),
        )
        self._total = self._total + event
        self._npcs[npc.npc] = self._npcs[npc.npc] + event
        self._parts[npc] = self._parts[npc] + event
        self._models[model] = self._models[model] + event
        for what, reason in self._reached(npc):
            self._warn_once(what, f"{reason}: turns are turned away")
        return event

    def refusal(self, npc: NpcId) -> str:
        """Return why no turn of ``npc`` may begin, and count it; empty if one may."""
        _, reason = next(self._reached(npc), ("", self._beyond(npc)))
        self._turned_away += bool(reason)
        return reason

    def exhausted(self, npc: NpcId) -> bool:
        """Return True if a turn of ``npc`` would be refused now."""
        return next(self._reached(npc), None) is not None or bool(self._beyond(npc))

    @contextmanager
    def limited(self, beyond: Callable[[NpcId], str]) -> Generator[None]:
        """Refuse turns for which ``beyond`` returns a reason, too, inside the block."""
        self._beyond = beyond
        try:
            yield
        finally:
            self._beyond = _no_refusal

    def adopt(self, config: CostConfig) -> None:
        """Use other prices from now on, and other ceilings at once."""
        if config != self.config:
            self.config = config
            self._warned.clear()

    def statistics(self) -> CostStatistics:
        """Return the costs so far."""
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
                text = (
                    f"cost.prices lacks {model!r}: its tokens count towards no ceiling"
                )
                self._warn_once(f"price of {model}", text)
            return None
        return price_of(usage, price)

    def of(self, session: SessionKey) -> Spent:
        """Return the costs of one session since it began."""
        parts = [x for key, x in self._parts.items() if key.session == session]
        return sum(parts[1:], parts[0]) if parts else _NOTHING

    def part(self, npc: NpcId) -> Spent:
        """Return the costs of one NPC in its session."""
        return self._parts.get(npc, _NOTHING)

    def restore(self, npc: NpcId, spent: Spent) -> None:
        """Add earlier costs of a session that is continued."""
        if spent != _NOTHING:
            self._parts[npc] = self._parts[npc] + spent

    def forget(self, session: SessionKey) -> None:
        """Forget a session that has ended or is suspended; the totals are kept."""
        for key in [x for x in self._parts if x.session == session]:
            del self._parts[key]

    def _reached(self, npc: NpcId) -> Iterator[tuple[str, str]]:
        """Yield each ceiling that is reached, with the reason in words."""
        most, spent = self.config.per_npc, self._parts.get(npc, _NOTHING).cost
        if most is not None and spent >= most:
            yield (
                npc.text,
                f"{npc.npc} has cost {spent:.4g}, and cost.per_npc is {most:g}",
            )
        most, spent = self.config.total, self._total.cost
        if most is not None and spent >= most:
            yield (
                "",
                f"models have cost {spent:.4g}, and cost.total is {most:g}",
            )

    def _warn_once(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            self.warn(text)


def price_of(usage: Usage, price: Price) -> float:
    """Return the cost of a usage. A part never counts for more than its whole."""
    heard = min(usage.audio_input_tokens, usage.input_tokens)
    cached = min(usage.cached_tokens, usage.input_tokens)
    # Divide the cached tokens into audio and text, neither more than there was.
    cached_heard = min(usage.audio_cached_tokens, cached, heard)
    cached_read = min(cached - cached_heard, usage.input_tokens - heard)
    read = usage.input_tokens - heard - cached_read
    heard -= cached_heard
    spoken = min(usage.audio_output_tokens, usage.output_tokens)
    of_heard = _or(price.audio_input, price.input)
    tokens = (
        read * price.input
        + cached_read * _or(price.cached, price.input)
        + heard * of_heard
        + cached_heard * _or(price.audio_cached, of_heard)
        + spoken * _or(price.audio_output, price.output)
        + (usage.output_tokens - spoken) * price.output
    )
    return tokens / _PER + usage.audio_time / 60 * price.minute


def _or(price: float | None, otherwise: float) -> float:
    return otherwise if price is None else price
