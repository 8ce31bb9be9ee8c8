"""The keys for what models cost, and how much of it may be spent."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .fields import above_zero, if_given, not_negative


@attrs.frozen(kw_only=True)
class Price:
    """Of one model, in any one currency, per million tokens.

    ``cached`` is for input that a cache had; None is the price of other input.
    """

    input: float = attrs.field(default=0.0, validator=not_negative)
    output: float = attrs.field(default=0.0, validator=not_negative)
    cached: float | None = attrs.field(default=None, validator=if_given(not_negative))


@attrs.frozen(kw_only=True)
class CostConfig:
    """``prices`` by model; ``per_npc`` and ``total`` are ceilings of one run, the
    first of each NPC in each session; None is any amount."""

    prices: Mapping[str, Price] = attrs.field(factory=dict)
    per_npc: float | None = attrs.field(default=None, validator=if_given(above_zero))
    total: float | None = attrs.field(default=None, validator=if_given(above_zero))
