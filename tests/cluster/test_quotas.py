"""Quotas of tenants: the shares of workers alone, and on a real nats-server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.cluster import ClusterRefused, TenantQuota, connect, serve
from glyphoxa_trio.cluster.actions import ClaimSession, RunTurn, ToClient
from glyphoxa_trio.cluster.messages import AcceptedMessage, RefusedMessage, SayMessage
from glyphoxa_trio.cluster.ownership import Ownership
from glyphoxa_trio.cluster.quotas import SILENT, QuotaShares
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.npc.identity import SessionKey

from ..nats.server import a_server
from ..npc.support import ScriptedLLM
from ..runtime.test_snapshots import with_room
from ..runtime.test_turn_keeper import silent

QUOTAS = {
    "a": TenantQuota(sessions=5, turns_per_second=4),
    "b": TenantQuota(turns_per_second=0.5),
    "c": TenantQuota(sessions=100),
}


class SharesMachine(RuleBasedStateMachine):
    """Workers come and go. The model keeps every beat, and every turn that began."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = QuotaShares(QUOTAS)
        self.now = 50.0
        self.beats: list[tuple[str, float]] = []
        self.begun: dict[str, list[float]] = {x: [] for x in (*QUOTAS, "none")}
        self.refused = dict.fromkeys(self.begun, 0)

    @rule(seconds=st.sampled_from([0.1, 0.5, 2.0, SILENT]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(worker=st.sampled_from(["w1", "w2", "w3"]))
    def beat(self, worker: str) -> None:
        self.shares.beat(worker, self.now)
        self.beats.append((worker, self.now))

    @rule(tenant=st.sampled_from([*QUOTAS, "none"]), n=st.integers(1, 6))
    def begin(self, tenant: str, n: int) -> None:
        for _ in range(n):
            if self.shares.takes_turn(tenant, self.now):
                self.begun[tenant].append(self.now)
            else:
                self.refused[tenant] += 1

    def living(self) -> int:
        return 1 + len({x for x, at in self.beats if self.now - at < SILENT})

    @invariant()
    def sessions_are_shared_by_those_that_beat(self) -> None:
        assert self.shares.workers(self.now) == self.living()
        for tenant, most in (("a", 5), ("c", 100)):
            share = max(1, most // self.living())
            assert self.shares.most_sessions(tenant, self.now) == share
        assert self.shares.most_sessions("b", self.now) is None
        assert self.shares.most_sessions("none", self.now) is None

    @invariant()
    def no_time_has_more_turns_than_the_whole_quota(self) -> None:
        for tenant, rate in (("a", 4.0), ("b", 0.5)):
            times = self.begun[tenant]
            for at, since in enumerate(times):
                most = max(1.0, rate) + (self.now - since) * rate
                assert len(times) - at <= most + 1e-6

    @invariant()
    def nobody_is_refused_without_a_quota_or_below_its_share(self) -> None:
        assert not self.refused["c"]
        assert not self.refused["none"]
        for tenant in ("a", "b"):
            assert self.begun[tenant] or not self.refused[tenant]


TestShares = SharesMachine.TestCase


def test_a_share_is_what_is_left_of_the_rate_by_the_number_of_workers() -> None:
    shares = QuotaShares(QUOTAS)
    shares.beat("w1", 0.0)
    assert [shares.takes_turn("a", 0.0) for _ in range(3)] == [True, True, False]
    assert shares.takes_turn("a", 0.5)  # two a second
    assert not shares.takes_turn("a", 0.5)
    assert [shares.takes_turn("a", SILENT) for _ in range(5)] == [True] * 4 + [False]


def test_beats_of_any_number_of_workers_are_bounded() -> None:
    shares = QuotaShares(QUOTAS)
    for at in range(5000):
        shares.beat(f"w{at}", 0.0)
    assert shares.workers(0.0) == 1025
    assert shares.most_sessions("c", 0.0) == 1


@pytest.mark.parametrize("wrong", [{"sessions": 0}, {"turns_per_second": 0.0}])
def test_a_quota_of_nothing_is_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TenantQuota(**wrong)


def say(id_: str, session: str, tenant: str = "a") -> SayMessage:
    return SayMessage(
        id=id_, session=session, tenant=tenant, npc="Bo", text="Hm.", remaining_ms=9000
    )


def reason(actions: list[Any]) -> str:
    (action,) = actions
    assert isinstance(action, ToClient)
    assert isinstance(action.message, RefusedMessage)
    return action.message.reason


def test_a_worker_refuses_sessions_and_turns_beyond_its_share() -> None:
    quotas = {"a": TenantQuota(sessions=2, turns_per_second=3)}
    own = Ownership(
        worker="w", deployment="d", version="1", quotas=QuotaShares(quotas), idle=1.0
    )
    for session in ("one", "two"):
        assert isinstance(own.say(say(session, session), "c", 0.0)[0], ClaimSession)
    assert reason(own.say(say("u3", "three"), "c", 0.0)) == "quota"
    assert isinstance(own.say(say("u4", "three", "b"), "c", 0.0)[0], ClaimSession)
    for session in ("one", "two"):
        ran = own.claimed(SessionKey(session, "a"), 1, {}, 0.0)
        assert isinstance(ran[-1], RunTurn)
    assert isinstance(own.say(say("u5", "one"), "c", 0.0)[-1], RunTurn)
    assert reason(own.say(say("u6", "one"), "c", 0.0)) == "quota"
    # An utterance that is sent again is no second one.
    (again,) = own.say(say("u5", "one"), "c", 0.0)
    assert isinstance(again, ToClient)
    assert isinstance(again.message, AcceptedMessage)


@pytest.mark.border
async def test_a_tenant_shares_its_quota_among_the_workers(tmp_path: Path) -> None:
    quotas = {"a": TenantQuota(sessions=4)}
    with a_server() as bus, trio.fail_after(60):
        async with (
            open_runtime(
                silent(with_room(50)),
                llm=ScriptedLLM(lambda request: ["Hm."]),
                memory=tmp_path / "1.sqlite",
            ) as first,
            open_runtime(
                silent(with_room(50)),
                llm=ScriptedLLM(lambda request: ["Hm."]),
                memory=tmp_path / "2.sqlite",
            ) as second,
            open_nats(bus.url) as nats,
            serve(first, nats, quotas=quotas) as one,
            serve(second, nats, quotas=quotas) as two,
            connect(nats, tenant="a") as client,
            connect(nats, tenant="b") as other,
        ):
            shares = [x._ownership.quotas for x in (one, two)]
            while any(x.workers(trio.current_time()) < 2 for x in shares):  # noqa: ASYNC110
                await trio.sleep(0.01)
            refused: list[str] = []
            for at in range(12):
                npc = client.session(f"table {at}").npc("Bo")
                try:
                    async with npc.say("hail", within=5) as turn:
                        await turn.finish()
                except ClusterRefused as no:
                    refused.append(no.reason)
            assert refused == ["quota"] * 8
            assert (one.sessions, two.sessions) == (2, 2)
            async with other.session("table").npc("Bo").say("hail") as turn:
                await turn.finish()
