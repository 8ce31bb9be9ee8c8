"""Quotas of tenants: a worker's share of what a tenant may use in the deployment. Pure.

Of sessions and turns each worker enforces an equal share by itself: what a tenant may
use, divided by the number of workers whose beats it hears. So nobody has to be asked,
and a tenant whose sessions are spread unevenly gets less than its quota. It gets more
only until a worker that has just started has heard the others, which takes half a
second. What a tenant spends is summed for all workers: see `spending`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

SILENT: Final = 3.0
"""Seconds without a beat after which a worker counts no more."""

_MOST_WORKERS: Final = 1024


@attrs.frozen(kw_only=True)
class TenantQuota:
    """The most that one tenant may use of a deployment; None is without a bound.

    Args:
      sessions: held at a time. Each worker may hold one, so it should be no less than
        the number of workers.
      turns_per_second: begun, on average, and as many at once as in one second.
      tokens_per_hour, tokens_per_day: of input and output, in an hour or a day by UTC.
      cost_per_hour, cost_per_day: in the currency of ``cost.prices``; tokens of a model
        without a price cost nothing.

    Raises:
      ValueError: a bound is not positive.
    """

    sessions: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    turns_per_second: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    tokens_per_hour: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    tokens_per_day: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    cost_per_hour: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    cost_per_day: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )

    @property
    def of_spending(self) -> bool:
        """True if it bounds tokens or cost."""
        hour = self.tokens_per_hour, self.cost_per_hour
        return {*hour, self.tokens_per_day, self.cost_per_day} != {None}


@attrs.define
class _Turns:
    """A token bucket whose rate may change."""

    left: float
    at: float

    def take(self, rate: float, now: float) -> bool:
        most = max(1.0, rate)
        self.left = min(most, self.left + max(0.0, now - self.at) * rate)
        self.at = now
        if self.left < 1.0 - 1e-9:
            return False
        self.left -= 1.0
        return True


@attrs.define(eq=False)
class QuotaShares:
    """The quotas of the deployment, by tenant, and how much of each one is used here.

    ``now`` is on trio's clock, and does not run backwards.
    """

    quotas: Mapping[str, TenantQuota] = attrs.field(factory=dict)
    _beats: dict[str, float] = attrs.field(factory=dict, init=False)  # of others
    _turns: dict[str, _Turns] = attrs.field(factory=dict, init=False)

    def beat(self, worker: str, now: float) -> None:
        """Note that another worker lives."""
        self._forget_silent(now)
        if worker in self._beats or len(self._beats) < _MOST_WORKERS:
            self._beats[worker] = now

    def workers(self, now: float) -> int:
        """Return the number of workers that live, this one included."""
        self._forget_silent(now)
        return 1 + len(self._beats)

    def most_sessions(self, tenant: str, now: float) -> int | None:
        """Return how many of the tenant's sessions this worker may hold."""
        quota = self.quotas.get(tenant)
        if quota is None or quota.sessions is None:
            return None
        return max(1, quota.sessions // self.workers(now))

    def takes_turn(self, tenant: str, now: float) -> bool:
        """Count a turn that begins; return False if it must not."""
        quota = self.quotas.get(tenant)
        if quota is None or quota.turns_per_second is None:
            return True
        rate = quota.turns_per_second / self.workers(now)
        turns = self._turns.get(tenant)
        if turns is None:
            turns = self._turns[tenant] = _Turns(max(1.0, rate), now)
        return turns.take(rate, now)

    def _forget_silent(self, now: float) -> None:
        silent = [x for x, at in self._beats.items() if now - at >= SILENT]
        for worker in silent:
            del self._beats[worker]
