"""The spending of tenants, in a PostgreSQL database: a row by process and hour."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final

from glyphoxa_trio.memory.spending import Spending, SpendingTotals

from .rows import Connection, fit

_KEPT: Final = 48  # hours
# A batch that is sent again may have been added in an earlier hour.
_ADD: Final = """
    insert into spent (hour, tenant, holder, batch, tokens, cost)
    select %(hour)s, tenant, %(holder)s, %(batch)s, tokens, cost
    from jsonb_to_recordset(%(added)s::jsonb)
        as x(tenant text, tokens bigint, cost double precision)
    where not exists (
        select from spent where spent.tenant = x.tenant
            and spent.holder = %(holder)s and spent.batch >= %(batch)s)
    on conflict (hour, tenant, holder) do update set
        batch = excluded.batch, tokens = spent.tokens + excluded.tokens,
        cost = spent.cost + excluded.cost
"""
_SUM: Final = """
    select tenant, hour = %(hour)s as now, sum(tokens)::bigint, sum(cost) from spent
    where hour >= %(day)s and tenant = any(%(tenants)s) group by 1, 2
"""


def spend(
    connection: Connection,
    holder: int,
    batch: int,
    added: Mapping[str, Spending],
    tenants: Collection[str],
) -> SpendingTotals:
    row = connection.execute(
        "select extract(epoch from clock_timestamp())::double precision"
    ).fetchone()
    assert row is not None
    at = float(row[0])
    hour = int(at // 3600)
    if added:
        rows = [
            {"tenant": fit(x), "tokens": y.tokens, "cost": y.cost}
            for x, y in sorted(added.items())
        ]
        told = {"hour": hour, "holder": holder, "batch": batch}
        connection.execute(_ADD, {**told, "added": json.dumps(rows)})
        connection.execute("delete from spent where hour < %s", (hour - _KEPT,))
    fitting = {fit(x): x for x in tenants}
    asked = {"hour": hour, "day": hour // 24 * 24, "tenants": list(fitting)}
    hours: dict[str, Spending] = {}
    days: dict[str, Spending] = {}
    for tenant, now, tokens, cost in connection.execute(_SUM, asked):
        name, spent = fitting[tenant], Spending(tokens, cost)
        days[name] = days.get(name, Spending()) + spent
        if now:
            hours[name] = spent
    return SpendingTotals(
        hour=hours,
        day=days,
        hour_left=3600 - at % 3600,
        day_left=86_400 - at % 86_400,
    )
