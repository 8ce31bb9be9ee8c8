"""Rank facts by how sure they are, and how new. Pure.

    worth = certainty * recency

What the game master wrote or confirmed is certain, and what was written does not age.
What a model extracted is as certain as its confidence, and what a player claims is half
of that. What was said ages to a half of its worth: half of that way in a month.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from glyphoxa_trio.memory.knowledge import Basis, Fact, Standing

_MONTH: Final = 30 * 86_400.0
_CLAIMED: Final = 0.5


def worth(fact: Fact, now: float) -> float:
    """Return how much a fact counts beside others, above 0 and at most 1.

    ``now`` is Unix time.
    """
    known = fact.provenance
    certainty = 1.0 if known.confirmed else max(known.confidence, 0.1)
    if fact.standing is Standing.CLAIMED:
        certainty *= _CLAIMED
    if known.basis is Basis.AUTHORED or not known.at:
        return certainty
    age = max(0.0, now - known.at)
    return certainty * (0.5 + 0.5 * math.exp2(-age / _MONTH))


def by_worth(facts: Iterable[Fact], now: float) -> list[Fact]:
    """Return facts with those that count most first; of equals the order is kept."""
    return sorted(facts, key=lambda fact: -worth(fact, now))
