"""Quotas of tokens and cost: what tenants have spent, as far as this worker knows.

Each worker adds what it has spent once a second in the database, and learns what all
have. Until then it knows its own, and not what others have spent meanwhile: so a tenant
may exceed its quota by what it spends in that second, and by the turns that run.

Pure but for `share_spending`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import attrs

import trio

from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.spending import Spending, SpendingStore, SpendingTotals
from glyphoxa_trio.npc import TurnEvent, UsageReported

from .quotas import TenantQuota

logger = logging.getLogger(__name__)

EVERY: Final = 1.0
"""Seconds from one sum of all workers to the next."""

_LAST: Final = 2.0  # seconds, when the worker ends
_NOTHING: Final = Spending()


@attrs.define(eq=False)
class TenantSpending:
    """The spending of tenants that have a quota of it. ``now`` is on trio's clock.

    ``batch`` is on its way to the store, or waits to be sent again; ``added`` is what
    was spent since.
    """

    quotas: Mapping[str, TenantQuota]
    tenants: frozenset[str] = attrs.field(init=False)
    _number: int = attrs.field(default=0, init=False)
    _batch: dict[str, Spending] = attrs.field(factory=dict, init=False)
    _added: dict[str, Spending] = attrs.field(factory=dict, init=False)
    # As the store knew them last, and until when that hour, and that day, lasts.
    _hour: Mapping[str, Spending] = attrs.field(factory=dict, init=False)
    _day: Mapping[str, Spending] = attrs.field(factory=dict, init=False)
    _hour_ends: float = attrs.field(default=0.0, init=False)
    _day_ends: float = attrs.field(default=0.0, init=False)

    @tenants.default
    def _bounded(self) -> frozenset[str]:
        return frozenset(x for x, quota in self.quotas.items() if quota.of_spending)

    def note(self, event: TurnEvent) -> None:
        """Count the usage of a response of a model."""
        if isinstance(event, UsageReported) and event.tenant in self.tenants:
            tokens = event.input_tokens + event.output_tokens
            spent = Spending(tokens, event.cost or 0.0)
            self._added[event.tenant] = self._added.get(event.tenant, _NOTHING) + spent

    def take(self) -> tuple[int, Mapping[str, Spending]]:
        """Return what is to be added in the store, with its number: the same again
        until `learn` says that it was added."""
        if not self._batch and self._added:
            self._number += 1
            self._batch, self._added = self._added, {}
        return self._number, self._batch

    def learn(self, totals: SpendingTotals, now: float) -> None:
        """Take what all have spent, with the batch of this worker."""
        self._batch = {}
        self._hour, self._hour_ends = totals.hour, now + totals.hour_left
        self._day, self._day_ends = totals.day, now + totals.day_left

    def refusal(self, tenant: str, now: float) -> str:
        """Return why a turn of this tenant must not begin; empty if it may."""
        if tenant not in self.tenants:
            return ""
        return next(self._reached(tenant, now), "")

    def _reached(self, tenant: str, now: float) -> Iterator[str]:
        quota = self.quotas[tenant]
        own = self._batch.get(tenant, _NOTHING) + self._added.get(tenant, _NOTHING)
        known = (
            ("day", quota.tokens_per_day, quota.cost_per_day, self._day),
            ("hour", quota.tokens_per_hour, quota.cost_per_hour, self._hour),
        )
        for of, tokens, cost, totals in known:
            ends = self._day_ends if of == "day" else self._hour_ends
            # What is known of a time that is over says nothing of the next one.
            spent = own + (totals.get(tenant, _NOTHING) if now < ends else _NOTHING)
            left = f"it is free again in {_told(max(0.0, ends - now))}"
            if tokens is not None and spent.tokens >= tokens:
                yield (
                    f"the tenant's quota of {tokens} tokens in this {of} is used up"
                    f" ({spent.tokens} are spent); {left}"
                )
            if cost is not None and spent.cost >= cost:
                yield (
                    f"the tenant's quota of a cost of {cost:g} in this {of} is used up"
                    f" ({spent.cost:.4g} is spent); {left}"
                )


def _told(seconds: float) -> str:
    minutes = int(seconds // 60) + 1
    if minutes < 2:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


async def share_spending(spending: TenantSpending, store: SpendingStore) -> None:
    """Add what is spent here, and learn what all have spent, until cancelled."""
    away = False
    try:
        while True:
            try:
                await _share(spending, store)
                away = False
            except MemoryUnavailable as error:
                if not away:
                    logger.warning("what tenants spend is not shared: %s", error)
                away = True
            await trio.sleep(EVERY)
    finally:
        with trio.move_on_after(_LAST, shield=True), suppress(MemoryUnavailable):
            await _share(spending, store)


async def _share(spending: TenantSpending, store: SpendingStore) -> None:
    batch, added = spending.take()
    totals = await store.spend(batch, added, spending.tenants)
    spending.learn(totals, trio.current_time())
