"""Quotas of tokens and cost: what a worker knows alone, and on a real database."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.cluster import (
    ClusterError,
    ClusterRefused,
    ClusterWorker,
    TenantQuota,
    connect,
    serve,
)
from glyphoxa_trio.cluster.spending import EVERY, TenantSpending, share_spending
from glyphoxa_trio.config.cost import CostConfig, Price
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.memory.spending import Spending, SpendingTotals
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.npc import UsageReported
from glyphoxa_trio.providers.llm import Finished, Usage

from ..nats.server import RealServer
from ..npc.support import ScriptedLLM
from ..runtime.test_snapshots import with_room
from ..runtime.test_turn_keeper import silent
from ..service.support import until
from .test_cluster import bus, database, postgres

__all__ = ["bus", "database", "postgres"]

HOUR, DAY = 3600.0, 86_400.0
QUOTAS = {
    "a": TenantQuota(tokens_per_hour=100, cost_per_day=5.0),
    "b": TenantQuota(tokens_per_day=300),
    "c": TenantQuota(sessions=7),
}


def usage(tenant: str, tokens: int, cost: float | None = None) -> UsageReported:
    return UsageReported(
        npc="Bo",
        turn=1,
        session="table",
        tenant=tenant,
        model="m",
        input_tokens=tokens - tokens // 3,
        output_tokens=tokens // 3,
        cost=cost,
    )


def totals_of(
    spent: list[tuple[float, str, Spending]], now: float, tenants: Any
) -> SpendingTotals:
    """The dumbest store: all that was ever spent, and when."""
    hour: dict[str, Spending] = {}
    day: dict[str, Spending] = {}
    for at, tenant, one in spent:
        for known, length in ((hour, HOUR), (day, DAY)):
            if tenant in tenants and at // length == now // length:
                known[tenant] = known.get(tenant, Spending()) + one
    return SpendingTotals(
        hour=hour, day=day, hour_left=HOUR - now % HOUR, day_left=DAY - now % DAY
    )


class SpendingMachine(RuleBasedStateMachine):
    """Two workers spend, and share it when they can; an answer may get lost."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10 * DAY
        self.workers = [TenantSpending(QUOTAS) for _ in range(2)]
        self.stored: list[tuple[float, str, Spending]] = []
        self.seen: set[tuple[int, int]] = set()
        # All that was spent, by the time at which its worker had it counted.
        self.spent: list[tuple[int, float, str, Spending]] = []
        self.learnt = [0.0, 0.0]
        self.known = [totals_of([], 0.0, ()), totals_of([], 0.0, ())]
        self.own: list[list[tuple[str, Spending]]] = [[], []]  # not acknowledged
        self.sent: list[list[tuple[str, Spending]]] = [[], []]

    @rule(seconds=st.sampled_from([0.5, 10.0, HOUR / 2, HOUR, DAY]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        at=st.integers(0, 1),
        tenant=st.sampled_from([*QUOTAS, "none"]),
        tokens=st.integers(0, 90),
        cost=st.sampled_from([None, 0.0, 0.5, 3.0]),
    )
    def spend(self, at: int, tenant: str, tokens: int, cost: float | None) -> None:
        self.workers[at].note(usage(tenant, tokens, cost))
        if tenant in ("a", "b"):
            self.own[at].append((tenant, Spending(tokens, cost or 0.0)))

    @rule(at=st.integers(0, 1), answered=st.booleans(), arrives=st.booleans())
    def share(self, at: int, answered: bool, arrives: bool) -> None:
        worker = self.workers[at]
        batch, added = worker.take()
        if not self.sent[at]:
            self.sent[at], self.own[at] = self.own[at], []
        assert dict(added) == summed(self.sent[at])
        if arrives and (at, batch) not in self.seen and added:
            self.seen.add((at, batch))  # as the row of a holder knows its last batch
            self.stored += [(self.now, x, y) for x, y in added.items()]
        if arrives and answered:
            totals = totals_of(self.stored, self.now, worker.tenants)
            worker.learn(totals, self.now)
            self.known[at], self.learnt[at] = totals, self.now
            self.sent[at] = []

    @invariant()
    def a_turn_is_refused_by_all_that_is_known_and_nothing_else(self) -> None:
        for at, worker in enumerate(self.workers):
            own = summed([*self.sent[at], *self.own[at]])
            known, learnt = self.known[at], self.learnt[at]
            here = {}
            for of, length, totals in (
                ("hour", HOUR, known.hour),
                ("day", DAY, known.day),
            ):
                counts = learnt // length == self.now // length
                here[of] = {
                    x: (totals.get(x, Spending()) if counts else Spending())
                    + own.get(x, Spending())
                    for x in "ab"
                }
            used_up = here["hour"]["a"].tokens >= 100 or here["day"]["a"].cost >= 5.0
            assert bool(worker.refusal("a", self.now)) == used_up
            assert bool(worker.refusal("b", self.now)) == (
                here["day"]["b"].tokens >= 300
            )
            assert not worker.refusal("c", self.now)
            assert not worker.refusal("none", self.now)


def summed(spent: list[tuple[str, Spending]]) -> dict[str, Spending]:
    found: dict[str, Spending] = {}
    for tenant, one in spent:
        found[tenant] = found.get(tenant, Spending()) + one
    return found


TestSpending = SpendingMachine.TestCase


def test_a_refusal_names_the_quota_and_when_it_is_free_again() -> None:
    spending = TenantSpending(QUOTAS)
    now = 1000.0
    spending.learn(totals_of([], 30.0, ()), now)
    spending.note(usage("a", 120))
    assert spending.refusal("a", now) == (
        "the tenant's quota of 100 tokens in this hour is used up (120 are spent);"
        " it is free again in 1 h 0 min"
    )
    spending.note(usage("a", 0, 5.5))
    assert spending.refusal("a", now) == (
        "the tenant's quota of a cost of 5 in this day is used up (5.5 is spent);"
        " it is free again in 24 h 0 min"
    )
    spending.take()  # and it was added, by this:
    spending.learn(totals_of([(0.0, "a", Spending(100, 0.0))], 3590.0, "a"), now)
    assert spending.refusal("a", now + 5).endswith("free again in 5 s")
    assert not spending.refusal("a", now + 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens_per_hour": 0},
        {"tokens_per_day": 0},
        {"cost_per_hour": 0.0},
        {"cost_per_day": -1.0},
    ],
)
def test_a_quota_of_nothing_is_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TenantQuota(**wrong)


@attrs.define
class _Store:
    """A store that is away now and then."""

    spent: list[tuple[float, str, Spending]] = attrs.field(factory=list)
    away: bool = False

    async def spend(self, batch: int, added: Any, tenants: Any) -> SpendingTotals:
        await trio.sleep(0.1)
        if self.away:
            raise MemoryUnavailable("gone fishing")
        now = trio.current_time()
        self.spent += [(now, x, y) for x, y in added.items()]
        return totals_of(self.spent, now, tenants)


async def test_what_is_spent_is_shared_each_second_and_at_the_end(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    spending, store = TenantSpending(QUOTAS), _Store()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(share_spending, spending, store)
        await trio.sleep(EVERY / 2)
        spending.note(usage("a", 40))
        await trio.sleep(EVERY)
        ((at, tenant, spent),) = store.spent
        assert at == pytest.approx(1.2)
        assert (tenant, spent) == ("a", Spending(40, 0.0))
        store.away = True
        spending.note(usage("a", 60))
        await trio.sleep(3 * EVERY)
        assert "100 tokens" in spending.refusal("a", trio.current_time())
        store.away = False
        await trio.sleep(2 * EVERY)
        assert [x for _, _, x in store.spent] == [Spending(40, 0.0), Spending(60, 0.0)]
        spending.note(usage("a", 7))
        nursery.cancel_scope.cancel()
    assert store.spent[-1][2] == Spending(7, 0.0)
    assert len([x for x in caplog.records if "not shared" in x.message]) == 1


@pytest.mark.border
async def test_a_database_sums_what_processes_spend(database: str) -> None:
    await within_an_hour()
    async with open_postgres(database) as one, open_postgres(database) as two:
        first = {"a": Spending(100, 0.5), "b\0": Spending(1, 0.0)}
        await one.spend(1, first, ())
        await two.spend(1, {"a": Spending(20, 0.25)}, ())
        for _ in range(2):  # nobody knows whether it arrived
            await one.spend(2, {"a": Spending(3, 0.0)}, ())
        totals = await two.spend(1, {}, ("a", "b\0", "none"))
        assert totals.hour["a"] == Spending(123, 0.75)
        assert totals.hour == totals.day
        assert totals.hour["b\0"] == Spending(1, 0.0)
        assert "none" not in totals.day
        assert 0 < totals.hour_left <= HOUR
        assert totals.hour_left <= totals.day_left <= DAY
        assert not (await two.spend(1, {}, ("none",))).day  # of no other tenant


async def test_a_batch_that_is_sent_again_in_the_next_hour_adds_nothing(
    database: str,
) -> None:
    async with open_postgres(database) as store:
        await store.spend(1, {"a": Spending(40, 1.0)}, ["a"])
        with psycopg.connect(database) as connection:  # its answer was lost meanwhile
            connection.execute("update glyphoxa.spent set hour = hour - 1")
        await store.spend(1, {"a": Spending(40, 1.0)}, ["a"])
        with psycopg.connect(database) as connection:
            rows = connection.execute("select tokens, cost from glyphoxa.spent")
            assert rows.fetchall() == [(40, 1.0)]


async def test_earlier_hours_count_for_the_day_and_old_ones_go(database: str) -> None:
    await within_an_hour()
    async with open_postgres(database) as store:
        hour = int(time.time() // HOUR)
        with psycopg.connect(database) as connection:
            for back in (1, 24, 49):
                connection.execute(
                    "insert into glyphoxa.spent values (%s, 'a', 5, 1, 10, 1.0)",
                    (hour - back,),
                )
        totals = await store.spend(1, {"a": Spending(5, 0.0)}, ("a",))
        same_day = hour // 24 == (hour - 1) // 24
        assert totals.hour == {"a": Spending(5, 0.0)}
        assert totals.day == {"a": Spending(15 if same_day else 5, float(same_day))}
        with psycopg.connect(database) as connection:
            rows = connection.execute("select hour from glyphoxa.spent").fetchall()
        assert sorted(hour - x for (x,) in rows) == [0, 1, 24]


async def within_an_hour() -> None:
    """Wait for the next hour, if this one is about to end."""
    left = HOUR - time.time() % HOUR
    if left < 30:
        await trio.sleep(left + 1)


PRICED = CostConfig(prices={"m": Price(input=1e6, output=0.0)})


@asynccontextmanager
async def a_worker(
    bus: RealServer, database: str, quotas: dict[str, TenantQuota]
) -> AsyncGenerator[ClusterWorker]:
    spent = Usage(input_tokens=1, output_tokens=9, model="m")
    async with (
        open_postgres(database) as store,
        open_runtime(
            attrs.evolve(silent(with_room(50)), cost=PRICED),
            llm=ScriptedLLM(lambda _: ["Hm.", Finished(usage=spent)]),
            memory=store,
        ) as runtime,
        open_nats(bus.url) as nats,
        serve(runtime, nats, quotas=quotas) as worker,
    ):
        yield worker


@pytest.mark.border
@pytest.mark.parametrize(
    ("quota", "why"),
    [
        (TenantQuota(tokens_per_day=40), "40 tokens in this day"),
        (TenantQuota(cost_per_hour=4.0), "a cost of 4 in this hour"),
    ],
)
async def test_a_tenant_spends_its_quota_at_all_workers(
    bus: RealServer, database: str, quota: TenantQuota, why: str
) -> None:
    quotas = {"a": quota}
    await within_an_hour()
    with trio.fail_after(60):
        async with AsyncExitStack() as stack:
            workers = [
                await stack.enter_async_context(a_worker(bus, database, quotas))
                for _ in range(2)
            ]
            nats = await stack.enter_async_context(open_nats(bus.url))
            tenant = await stack.enter_async_context(connect(nats, tenant="a"))
            other = await stack.enter_async_context(connect(nats, tenant="b"))
            await until(lambda: len(tenant.workers) == 2)
            done = 0
            with pytest.raises(ClusterRefused) as refused:
                while done < 100:
                    npc = tenant.session(f"table {done}").npc("Bo")
                    async with npc.say("hail") as turn:
                        await turn.finish()
                    done += 1
                    await trio.sleep(0.4)
            assert refused.value.reason == "quota"
            assert why in str(refused.value)
            assert "free again in" in str(refused.value)
            assert done >= 4
            for worker in workers:
                # Both know it soon, also where nothing was said.
                spends = worker._ownership.spending
                while why not in spends.refusal("a", trio.current_time()):  # noqa: ASYNC110
                    await trio.sleep(0.05)
                # And a microphone is no way round it.
                npc_of_a = worker._runtime.session("mic", tenant="a").npc("Bo")
                async with npc_of_a.say("hail") as turn:
                    await turn.finish()
                assert turn.done is not None
                assert why in turn.done.error
            async with other.session("table").npc("Bo").say("hail") as turn:
                await turn.finish()
        # It is kept when all of them are gone.
        async with a_worker(bus, database, quotas) as later:
            spending = later._ownership.spending
            await until(lambda: why in spending.refusal("a", trio.current_time()))


async def test_what_is_spent_needs_a_database(bus: RealServer, tmp_path: Path) -> None:
    async with (
        open_runtime(
            silent(with_room(50)), llm=ScriptedLLM([]), memory=tmp_path / "1.sqlite"
        ) as runtime,
        open_nats(bus.url) as nats,
    ):
        with pytest.raises(ClusterError, match="tokens and cost need"):
            async with serve(runtime, nats, quotas=QUOTAS):
                pytest.fail("it serves")
