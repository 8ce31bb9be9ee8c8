"""What workers tell each other of tools: the rules alone, and on a real nats-server."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio

from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.cluster import ClusterWorker, serve
from glyphoxa_trio.cluster.knowledge import (
    BATCH,
    MOST_A_SECOND,
    MOST_MESSAGES,
    KnowledgeLimits,
    OutgoingKnowledge,
)
from glyphoxa_trio.cluster.messages import KnowledgeMessage, ToolName, ToolTimes
from glyphoxa_trio.cluster.wire import Subjects, pack, read
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.history import ToolPlace
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import SampleKind

from ..nats.server import RealServer, a_server
from ..npc.support import ScriptedLLM
from ..runtime.test_snapshots import with_room
from ..runtime.test_turn_keeper import silent

LIMIT = 60.0
PLACES = [
    ToolPlace("local", "", f"custom.{x}") for x in ("a", "b", "\ud83d", "x" * 400)
]
LOOK = ToolPlace("local", "", "shop.look")
SENT = PLACES[:2]  # the other two are no names of the bus


# ------------------------------------------------------------------ the rules alone


class OutgoingMachine(RuleBasedStateMachine):
    """What waits, against lists of all that was ever added and taken."""

    def __init__(self) -> None:
        super().__init__()
        self.outgoing = OutgoingKnowledge("d")
        self.calls: list[tuple[ToolPlace, str]] = []  # that wait, in order
        self.failing: list[ToolPlace] = []
        self.written: list[str] = []
        self.message: KnowledgeMessage | None = None

    @rule(place=st.sampled_from(PLACES), kind=st.sampled_from(SampleKind))
    def call(self, place: ToolPlace, kind: SampleKind) -> None:
        self.outgoing.called(place, kind, 0.5)
        has_time = kind in (SampleKind.OK, SampleKind.TIMEOUT, SampleKind.CENSORED)
        few = [x for x, _ in self.calls].count(place) < 5
        if has_time and few and place in SENT:
            self.calls.append((place, kind.value))

    @rule(place=st.sampled_from(PLACES))
    def fail(self, place: ToolPlace) -> None:
        self.outgoing.failing(place)
        if place in SENT and place not in self.failing:
            self.failing.append(place)

    @rule(at=st.integers(0, 40))
    def write(self, at: int) -> None:
        self.outgoing.written(f"g{at}")
        if f"g{at}" not in self.written:
            self.written.append(f"g{at}")

    @rule(calls=st.booleans())
    def take(self, calls: bool) -> None:
        message = self.outgoing.take(calls=calls)
        times = Counter(self.calls if calls else [])
        written, self.written = self.written[:32], self.written[32:]
        assert (message is not None) is bool(times or self.failing or written)
        if message is None:
            return
        assert read(pack(message)) == message
        found = Counter(
            (place_of(x.tool), end) for x in message.times for end, _ in x.calls
        )
        assert found == times
        assert {ms for x in message.times for _, ms in x.calls} <= {500.0}
        assert [place_of(x) for x in message.failing] == self.failing
        assert message.written == written
        self.failing = []
        self.calls = [] if calls else self.calls
        self.message = message

    @rule()
    def send_back(self) -> None:
        if self.message is not None:
            self.outgoing.unsent(self.message)
            again = [x for x in self.message.written if x not in self.written]
            self.written += again
            self.message = None

    @invariant()
    def knows_if_something_waits(self) -> None:
        waits = bool(self.calls or self.failing or self.written)
        assert self.outgoing.waiting is waits


TestOutgoing = OutgoingMachine.TestCase


class LimitsMachine(RuleBasedStateMachine):
    """Times arrive at any rate. The model keeps all that was learnt, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = KnowledgeLimits()
        self.now = 1000.0
        self.taken: dict[ToolPlace | str, list[tuple[float, int]]] = {}
        self.offered: Counter[ToolPlace] = Counter()

    @rule(seconds=st.sampled_from([0.01, 0.25, 1.0, 7.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(place=st.sampled_from(PLACES), n=st.integers(0, 64))
    def hear(self, place: ToolPlace, n: int) -> None:
        message = times_of(place, n)
        found = self.limits.samples(message, lambda x: x != PLACES[1], self.now)
        assert found.keys() <= {place} - {PLACES[1]}
        for sample in found.get(place, []):
            assert (sample.at, sample.seconds, sample.probe) == (self.now, 0.04, False)
        self.offered[place] += n
        taken = (self.now, len(found.get(place, [])))
        self.taken.setdefault(place, []).append(taken)

    @rule(worker=st.sampled_from(["w1", "w2"]), n=st.sampled_from([1, 3, 600]))
    def send(self, worker: str, n: int) -> None:
        read = sum(self.limits.admits(worker, self.now) for _ in range(n))
        self.taken.setdefault(worker, []).append((self.now, read))

    @invariant()
    def no_time_has_more_than_was_saved_and_earned(self) -> None:
        for whose, taken in self.taken.items():
            most = MOST_MESSAGES if isinstance(whose, str) else MOST_A_SECOND
            for at, (since, _) in enumerate(taken):
                within = sum(n for _, n in taken[at:])
                assert within <= most * (1 + self.now - since) + 1e-6

    @invariant()
    def what_is_within_the_bounds_is_taken(self) -> None:
        for place, n in self.offered.items():
            if n <= MOST_A_SECOND and place != PLACES[1]:
                assert sum(x for _, x in self.taken[place]) == n


TestLimits = LimitsMachine.TestCase


def place_of(name: ToolName) -> ToolPlace:
    return ToolPlace(name.environment, name.origin, name.key)


def times_of(place: ToolPlace, n: int, ms: float = 40.0) -> KnowledgeMessage:
    name = ToolName(environment=place.environment, origin=place.origin, key=place.key)
    calls = ToolTimes(tool=name, calls=[("ok", ms)] * n)
    return KnowledgeMessage(deployment="default", times=[calls])


def test_what_waits_is_bounded_whatever_the_tools_are_called() -> None:
    outgoing = OutgoingKnowledge("d")
    for at in range(3000):
        place = ToolPlace("local", "", f"custom.{at}")
        outgoing.called(place, SampleKind.OK, 0.1)
        outgoing.failing(place)
        outgoing.written(str(at))
    assert outgoing.left_out == 3000 - 1024
    messages = []
    while (message := outgoing.take(calls=True)) is not None:
        messages.append(message)
    assert len(messages) == 32
    assert all(len(x.times) == 32 for x in messages)


def test_the_largest_message_fits() -> None:
    outgoing = OutgoingKnowledge("d")
    for at in range(40):
        ugly = f"{at:03}" + "\1" * 297
        place = ToolPlace(ugly, ugly, ugly)
        for _ in range(int(MOST_A_SECOND * BATCH)):
            outgoing.called(place, SampleKind.CENSORED, 1 / 3)
        outgoing.failing(place)
        outgoing.written(ugly)
    message = outgoing.take(calls=True)
    assert message is not None
    assert read(pack(message)) == message


# ------------------------------------------------------------- on a real nats-server


@pytest.fixture(scope="module")
def bus() -> Generator[RealServer]:
    with a_server() as server:
        yield server


class Shop:
    """Tools with a switch, as one worker has them."""

    def __init__(self) -> None:
        self.broken = False
        self.read = 0
        self.takes = 0.0

    def tools(self) -> list[Tool]:
        @tool(read_only=True, group="shop")
        async def look() -> str:
            """Look around."""
            await trio.sleep(self.takes)
            if self.broken:
                raise RuntimeError("the shop is closed")
            return "all there"

        @tool(read_only=True, group="shop", cacheable_seconds=600)
        async def prices() -> str:
            """Read the prices."""
            self.read += 1
            return f"list {self.read}"

        @tool(read_only=False, group="shop")
        async def haggle() -> str:
            """Change a price."""
            return "cheaper"

        return [look, prices, haggle]


@asynccontextmanager
async def worker(
    bus: RealServer, tmp: Path, login: Mapping[str, Any] = MappingProxyType({})
) -> AsyncGenerator[tuple[Runtime, ClusterWorker, Shop]]:
    shop = Shop()
    config = silent(with_room(10))
    with trio.fail_after(LIMIT):
        async with (
            open_runtime(
                config,
                llm=ScriptedLLM(lambda request: ["Hm."]),
                tools=shop.tools(),
                memory=tmp / "memory.sqlite",
            ) as runtime,
            open_nats(bus.url, **login) as nats,
            serve(runtime, nats) as served,
        ):
            yield runtime, served, shop


async def until(what: Callable[[], bool]) -> None:
    while not what():  # noqa: ASYNC110 - another worker does it
        await trio.sleep(0.001)


async def ends(runtime: Runtime, calls: int) -> list[Status]:
    return [(await runtime.host.execute("shop.look")).status for _ in range(calls)]


def cached(runtime: Runtime) -> int:
    return runtime.host.statistics().executor.cache.size


def look_of(runtime: Runtime) -> Estimate:
    return runtime.host.snapshot.find("shop.look").estimate


@pytest.mark.border
async def test_a_tool_is_shown_by_what_another_worker_has_measured(
    bus: RealServer, tmp_path: Path
) -> None:
    async with (
        worker(bus, tmp_path) as (first, _, _),
        worker(bus, tmp_path) as (second, _, _),
    ):
        assert look_of(second).source is EstimateSource.TRIAL
        for _ in range(8):
            await first.host.execute("shop.look")
        await until(lambda: look_of(second).source is EstimateSource.ELSEWHERE)
        known = look_of(second)
        assert (known.tier, known.samples, known.p50) == (Tier.FAST, 0, None)
        assert look_of(first).source is EstimateSource.MEASURED
        assert (await first.host.report())["shop.look"].samples == 8


@pytest.mark.long
async def test_a_slow_tool_of_another_worker_is_not_shown_in_fast_turns(
    bus: RealServer, tmp_path: Path
) -> None:
    async with (
        worker(bus, tmp_path) as (first, _, shop),
        worker(bus, tmp_path) as (second, _, _),
    ):
        shop.takes = 0.6
        for _ in range(5):
            await first.host.execute("shop.look")
        await until(lambda: look_of(second).tier is Tier.STANDARD)
        shown = [x.key for x in second.host.tools(Tier.FAST)]
        assert "shop.look" not in shown
        assert look_of(second).next_trial is not None  # there is a way back


async def test_a_tool_that_failed_elsewhere_is_given_up_at_its_first_failure(
    bus: RealServer, tmp_path: Path
) -> None:
    async with (
        worker(bus, tmp_path) as (first, _, shop),
        worker(bus, tmp_path) as (second, _, other),
    ):
        await second.host.execute("shop.prices")
        shop.broken = True
        assert await ends(first, 6) == [Status.CRASHED] * 5 + [Status.UNAVAILABLE]
        await first.host.execute("shop.haggle")  # told after the failures
        await until(lambda: cached(second) == 0)
        assert await ends(second, 1) == [Status.OK]  # nothing is refused for it
        other.broken = True
        assert await ends(second, 2) == [Status.CRASHED, Status.UNAVAILABLE]


async def test_a_write_drops_what_another_worker_has_cached(
    bus: RealServer, tmp_path: Path
) -> None:
    async with (
        worker(bus, tmp_path) as (first, _, _),
        worker(bus, tmp_path) as (second, _, _),
    ):
        times = []
        for at in range(1, 22):
            for _ in range(2):
                answer = await second.host.execute("shop.prices")
                assert answer.data == f"list {at}"
            assert answer.cached
            await first.host.execute("shop.haggle")
            since = trio.current_time()
            await first.host.execute("shop.prices")
            await until(lambda: cached(second) == 0)
            times.append(trio.current_time() - since)
            await trio.sleep(0.02)
            assert cached(first) == 1  # its own words did not come back
        # Half of them, since this machine may be busy with something else.
        assert sorted(times)[10] < 0.05


async def test_messages_of_others_are_ignored_and_counted(
    bus: RealServer, tmp_path: Path
) -> None:
    newer = b'{"type":"knowledge","v":2,"deployment":"default","written":["shop"]}'
    foreign = KnowledgeMessage(deployment="blue", written=["shop"])
    infinite = pack(times_of(LOOK, 1)).replace(b"40.0", b"1e999")
    nowhere = times_of(ToolPlace("the moon", "", "shop.look"), 20)
    unknown = KnowledgeMessage(
        deployment="default",
        written=["no such group"],
        failing=[ToolName(environment="local", key="shop.rob")],
    )
    elsewhere = KnowledgeMessage(
        deployment="default",
        failing=[ToolName(environment="the moon", key="shop.look")],
    )
    async with (
        worker(bus, tmp_path) as (runtime, one, shop),
        open_nats(bus.url) as nats,
    ):
        await runtime.host.execute("shop.prices")
        subject = Subjects("default").knowledge("x")
        for data in (b"", b"\xff", b'{"type":"ping"}', infinite, newer):
            await nats.publish(subject, data)
        for message in (foreign, nowhere, elsewhere, unknown):
            await nats.publish(subject, pack(message))
        await nats.publish(subject, pack(times_of(LOOK, 5)))
        await until(lambda: look_of(runtime).source is EstimateSource.ELSEWHERE)
        assert look_of(runtime).seconds == 0.04
        assert cached(runtime) == 1
        shop.broken = True
        assert await ends(runtime, 2) == [Status.CRASHED] * 2
        assert one.counts == {
            "knowledge_invalid": 4,
            "knowledge_newer": 1,
            "knowledge_other_deployment": 1,
        }


async def test_a_flood_is_bounded_and_others_are_heard(
    bus: RealServer, tmp_path: Path
) -> None:
    async with worker(bus, tmp_path) as (runtime, one, _), open_nats(bus.url) as nats:
        await runtime.host.execute("shop.prices")
        subjects = Subjects("default")
        flood = pack(times_of(LOOK, 64))
        for _ in range(3000):
            await nats.publish(subjects.knowledge("x"), flood, within=5)
        await until(lambda: one.counts["knowledge_flood"] > 1000)
        await until(lambda: cached(runtime) == 0)  # a write may have been among them
        await runtime.host.execute("shop.prices")
        written = KnowledgeMessage(deployment="default", written=["shop"])
        await until(lambda: cached(runtime) == 1)
        await nats.publish(subjects.knowledge("y"), pack(written))
        await until(lambda: cached(runtime) == 0)


@pytest.mark.long
@pytest.mark.border
async def test_what_is_cached_is_dropped_after_a_break_of_the_connection(
    tmp_path: Path,
) -> None:
    with a_server() as own:
        async with worker(own, tmp_path) as (runtime, _, _):
            own.kill()
            await trio.sleep(2 * BATCH)
            await runtime.host.execute("shop.prices")
            await trio.sleep(2 * BATCH)
            assert cached(runtime) == 1  # nobody could be heard anyway
            own.start()
            await until(lambda: cached(runtime) == 0)
            await runtime.host.execute("shop.prices")
            await trio.sleep(2 * BATCH)
            assert cached(runtime) == 1  # once


@pytest.mark.border
async def test_a_worker_that_may_not_hear_the_others_serves_all_the_same(
    tmp_path: Path,
) -> None:
    config = tmp_path / "nats.conf"
    config.write_text(
        "authorization { users = [{ user: me, password: secret-word, permissions: "
        '{ publish: [">"], subscribe: ["gx.default.w.*", "gx.default.ops.*", '
        '"gx.default.beat"] } }] }'
    )
    with a_server(config=config) as own:
        secret = Secret("secret-word")
        login = {"user": "me", "password": secret}
        async with worker(own, tmp_path, login=login) as (runtime, one, _):
            await until(lambda: one._nats.statistics().trouble is not None)
            await trio.sleep(2 * BATCH)
            await runtime.host.execute("shop.haggle")
            await one.drained()
