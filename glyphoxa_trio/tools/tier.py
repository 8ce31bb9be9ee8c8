"""Latency tiers: how long a turn may wait for tools, and which tools fit.

Their default figures are in this module and nowhere else.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import attrs


class Tier(IntEnum):
    """A latency tier of turns and tools. Ordered: FAST < STANDARD < DEEP."""

    FAST = 0
    STANDARD = 1
    DEEP = 2

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def parse(cls, text: str) -> Tier:
        """Return the tier of ``"fast"``, ``"standard"`` or ``"deep"``, in any case.

        Raises:
          ValueError: for any other text; the message names the three.
        """
        try:
            return cls[text.strip().upper()]
        except KeyError:
            known = ", ".join(str(tier) for tier in cls)
            raise ValueError(f"tier must be one of {known}, got {text!r}") from None

    def slower(self) -> Tier:
        """Return the next slower tier; DEEP stays DEEP."""
        return Tier(min(self + 1, Tier.DEEP))


_positive = attrs.validators.gt(0.0)


@attrs.frozen(kw_only=True)
class TierLimits:
    """Thresholds that place a tool, and ceilings that end a turn's tool time.

    All in seconds. A tool whose estimate is at most ``fast_threshold`` is FAST,
    at most ``standard_threshold`` STANDARD, and anything else DEEP.
    """

    fast_threshold: float = attrs.field(
        default=0.5, converter=float, validator=_positive
    )
    standard_threshold: float = attrs.field(
        default=1.5, converter=float, validator=_positive
    )
    fast_ceiling: float = attrs.field(default=0.5, converter=float, validator=_positive)
    standard_ceiling: float = attrs.field(
        default=1.5, converter=float, validator=_positive
    )
    deep_ceiling: float = attrs.field(default=4.0, converter=float, validator=_positive)

    def __attrs_post_init__(self) -> None:
        if self.fast_threshold > self.standard_threshold:
            raise ValueError("the FAST threshold is above the STANDARD threshold")
        if not self.fast_ceiling <= self.standard_ceiling <= self.deep_ceiling:
            raise ValueError("tier ceilings must not shrink from FAST to DEEP")

    def tier_of(self, seconds: float) -> Tier:
        """Return the tier of a tool that takes ``seconds``."""
        if seconds <= self.fast_threshold:
            return Tier.FAST
        if seconds <= self.standard_threshold:
            return Tier.STANDARD
        return Tier.DEEP

    def threshold(self, tier: Tier) -> float:
        """Return the largest estimate that is in ``tier``; infinite for DEEP."""
        return (self.fast_threshold, self.standard_threshold, float("inf"))[tier]

    def ceiling(self, tier: Tier) -> float:
        """Return the tool budget of a turn: a fan-out costs its slowest call."""
        return (self.fast_ceiling, self.standard_ceiling, self.deep_ceiling)[tier]


DEFAULT_LIMITS: Final = TierLimits()

# The badges of the marketplace, by measured p50 below so many seconds.
_BADGES: Final = ((0.05, "Lightning"), (0.2, "Fast"), (1.0, "Standard"))


# The tags of the marketplace: the turns that have room for a tool, by its tier.
_TAGS: Final = ("FAST compatible", "STANDARD compatible", "DEEP only")


def badge(p50: float) -> str:
    """Return Lightning below 50 ms, Fast below 200, Standard below 1000, else Slow."""
    return next((name for below, name in _BADGES if p50 < below), "Slow")


def tag(tier: Tier) -> str:
    """Return the turns that have room for a tool of ``tier``, as a tag."""
    return _TAGS[tier]
