"""The spending of tenants on models, summed over all processes that share a store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

import attrs


@attrs.frozen
class Spending:
    """Tokens, of input and output, and the cost of those that have a price."""

    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(self.tokens + other.tokens, self.cost + other.cost)


@attrs.frozen(kw_only=True)
class SpendingTotals:
    """The spending of each tenant in this hour and on this day, by UTC and the store's
    clock; and the seconds that are left of both."""

    hour: Mapping[str, Spending]
    day: Mapping[str, Spending]
    hour_left: float
    day_left: float


@runtime_checkable
class SpendingStore(Protocol):
    """A store of memory that several machines share, and that keeps what is spent."""

    async def spend(
        self, batch: int, added: Mapping[str, Spending], tenants: Collection[str]
    ) -> SpendingTotals:
        """Add what this process has spent, and return what all have, for these tenants.

        Args:
          batch: counts the calls of this process that have added something. Repeated,
            it adds nothing: so a call whose outcome is unknown may be made again.

        Raises:
          MemoryUnavailable: the store is away.
        """
        ...
