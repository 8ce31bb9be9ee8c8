"""The keys for what models cost, and how much of it may be spent."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .fields import above_zero, if_given, not_negative


@attrs.frozen(kw_only=True)
class Price:
    """Of one model, in any one currency, per million tokens.

    ``cached`` is for input that a cache had; None is the price of other input. The
    ``audio`` prices are of tokens that are sound; None is the price of text, and for
    ``audio_cached`` that of ``audio_input``. ``minute`` is for models that are paid by
    the minute of audio.
    """

    input: float = attrs.field(default=0.0, validator=not_negative)
    output: float = attrs.field(default=0.0, validator=not_negative)
    cached: float | None = attrs.field(default=None, validator=if_given(not_negative))
    audio_input: float | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    audio_output: float | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    audio_cached: float | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    minute: float = attrs.field(default=0.0, validator=not_negative)

    @property
    def of_text_alone(self) -> bool:
        """True if audio counts as if it were text."""
        return self.audio_input is None or self.audio_output is None


@attrs.frozen(kw_only=True)
class CostConfig:
    """``prices`` by model; ``per_npc`` and ``total`` are ceilings of one run, the
    first of each NPC in each session; None is any amount."""

    prices: Mapping[str, Price] = attrs.field(factory=dict)
    per_npc: float | None = attrs.field(default=None, validator=if_given(above_zero))
    total: float | None = attrs.field(default=None, validator=if_given(above_zero))
