"""Equal calls of several workers are made once: the rules alone, on a real nats-server,
and with real processes of workers and of a server that counts its calls."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio

from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.cluster import (
    ClusterWorker,
    call_sharing,
    knowledge_sharing,
    serve,
)
from glyphoxa_trio.cluster.call_sharing import SharedCallEnd
from glyphoxa_trio.cluster.messages import (
    BeatMessage,
    SharedCallMessage,
    SharedResultMessage,
    ToolName,
)
from glyphoxa_trio.cluster.shared_calls import (
    AVOIDED,
    SILENT,
    CallRing,
    _hash,
    is_shared,
    patience,
)
from glyphoxa_trio.cluster.wire import InvalidMessage, Subjects, pack, read
from glyphoxa_trio.host import Caller, open_host
from glyphoxa_trio.nats import NatsLink, open_nats, open_requests
from glyphoxa_trio.tools.cache import CacheKey
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Media, Outcome, Status, ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier

from ..host.fakes import fake
from ..nats.server import RealServer, a_server
from ..npc.support import ScriptedLLM
from ..runtime.test_snapshots import with_room
from ..runtime.test_turn_keeper import silent
from .counting_process import counting_config

LIMIT = 60.0
WORKERS = ["w1", "w2", "w3", "w4"]
KEYS = [CacheKey(tool="shop.look", arguments=f"[{x}]") for x in range(20)]


# ------------------------------------------------------------------ the rules alone


class RingMachine(RuleBasedStateMachine):
    """The owners of calls, against a look at every point of every worker."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = CallRing()
        self.now = 1000.0
        self.seen: dict[str, float] = {}
        self.avoided: dict[str, float] = {}

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 1.7]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(worker=st.sampled_from(WORKERS), takes_calls=st.booleans())
    def beat(self, worker: str, takes_calls: bool) -> None:
        self.ring.beat(worker, self.now, takes_calls=takes_calls)
        if takes_calls:
            if self.now - self.seen.get(worker, self.now) > SILENT:
                self.avoided.pop(worker, None)
            self.seen[worker] = self.now
        else:
            self.seen.pop(worker, None)
            self.avoided.pop(worker, None)

    @rule(worker=st.sampled_from(WORKERS))
    def avoid(self, worker: str) -> None:
        self.ring.avoid(worker, self.now)
        if worker in self.seen:
            self.avoided[worker] = self.now + AVOIDED

    @invariant()
    def each_call_has_the_owner_that_is_next(self) -> None:
        live = [x for x in self.seen if self.now - self.seen[x] <= SILENT]
        points = [(_hash(f"{n} {x}"), x) for x in live for n in range(32)]
        for key in KEYS:
            at = _hash("\0".join([key.tool, key.arguments, key.scope]))
            _, owner = min(
                (((point - at) % 2**64, x) for point, x in points), default=(0, "")
            )
            if self.now < self.avoided.get(owner, self.now):
                owner = ""
            assert self.ring.owner(key, self.now) == owner


TestRing = RingMachine.TestCase


def test_workers_have_like_shares_and_a_new_one_takes_no_call_from_one_to_another() -> (
    None
):
    ring = CallRing()
    keys = [attrs.evolve(KEYS[0], arguments=str(x)) for x in range(2000)]
    for worker in WORKERS:
        ring.beat(worker, 0.0, takes_calls=True)
    before = [ring.owner(x, 0.0) for x in keys]
    assert all(250 < before.count(x) < 1000 for x in WORKERS)
    ring.beat("w5", 0.0, takes_calls=True)
    after = [ring.owner(x, 0.0) for x in keys]
    moved = [y for x, y in zip(before, after, strict=True) if x != y]
    assert set(moved) == {"w5"}
    assert 150 < len(moved) < 800


def an_estimate(seconds: float, p50: float | None, p99: float | None) -> Estimate:
    return Estimate(
        seconds=seconds,
        tier=Tier.FAST,
        source=EstimateSource.MEASURED,
        p50=p50,
        p99=p99,
        samples=20,
        degraded=None,
        tier_by_number=None,
    )


@pytest.mark.parametrize(
    ("seconds", "p99", "left", "wait"),
    [
        (0.1, None, 10.0, 0.2),  # no longer than two calls take
        (0.1, 0.3, 0.5, 0.19),  # there is time for its slowest call afterwards
        (0.1, 0.3, 0.44, 0.13),
        (0.1, 0.3, 0.43, 0.0),  # too little to be of use
        (0.03, None, 0.3, 0.06),
        (0.01, None, 0.025, 0.013),
        (0.1, 0.3, 0.1, 0.0),
        (0.1, None, -1.0, 0.0),
    ],
)
def test_nobody_waits_longer_than_there_is_time_to_make_the_call(
    seconds: float, p99: float | None, left: float, wait: float
) -> None:
    assert patience(an_estimate(seconds, None, p99), left) == pytest.approx(wait)


async def test_only_calls_that_take_long_and_stay_valid_are_worth_asking_for() -> None:
    fields: dict[str, Any] = {"read_only": True, "estimated_duration": 0.1}
    async with open_host() as host:
        host.register(
            fake("long", cacheable=5, **fields),
            fake("brief", cacheable=4.9, **fields),
            fake("quick", cacheable=5, read_only=True, estimated_duration=0.02),
        )
        found = host.snapshot.by_key
        shared = {x: is_shared(found[f"fake.{x}"]) for x in ("long", "brief", "quick")}
        assert shared == {"long": True, "brief": False, "quick": False}
        fast = an_estimate(0.1, 0.01, 0.2)  # it has two speeds, and is mostly fast
        assert not is_shared(attrs.evolve(found["fake.long"], estimate=fast))


def test_a_result_arrives_as_it_was() -> None:
    result = ToolResult(
        text=("one", "zw\u00f6lf"),
        structured={"a": [1, None, {"b": 2.5}]},
        media=(Media("image/png", b"\x89\0\xff"),),
        links=("file:///x",),
        truncated=True,
    )
    message = SharedResultMessage(result=result, valid_ms=12.5)
    assert read(pack(message)) == message
    with pytest.raises(InvalidMessage):
        read(pack(message).replace(b'["one"', b'[{"x":1}'))


# ------------------------------------------------------------- on a real nats-server


@pytest.fixture(scope="module")
def bus() -> Generator[RealServer]:
    with a_server() as server:
        yield server


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give busy machines time, and share calls of a tool that is measured as quick: how
    long is waited, and for what, is shown by the rules alone."""
    monkeypatch.setattr(call_sharing, "taken_within", lambda estimate: 20.0)
    monkeypatch.setattr(call_sharing, "patience", lambda estimate, left: 20.0)
    monkeypatch.setattr(call_sharing, "is_shared", lambda listing: True)


@attrs.define
class Shop:
    """One shop for all workers, and what was asked there."""

    asked: list[str] = attrs.field(factory=list)
    price: int = 1
    broken: bool = False
    hold: trio.Event | None = None

    def tools(self) -> list[Tool]:
        @tool(
            read_only=True,
            group="shop",
            cacheable_seconds=600,
            estimated_duration_ms=100,
        )
        async def look(at: str) -> str:
            """Look at something."""
            self.asked.append(at)
            price = self.price
            await trio.sleep(0.01)
            if self.hold is not None:
                await self.hold.wait()
            if self.broken:
                raise RuntimeError("the shop is closed")
            return f"{at} for {price}"

        @tool(read_only=False, group="shop")
        async def haggle() -> str:
            """Change the price."""
            self.price += 1
            return "cheaper"

        return [look, haggle]


Pair = tuple[tuple[Runtime, ClusterWorker], tuple[Runtime, ClusterWorker]]


@asynccontextmanager
async def worker(
    bus: RealServer, tmp: Path, tools: list[Tool]
) -> AsyncGenerator[tuple[Runtime, ClusterWorker]]:
    async with (
        open_runtime(
            silent(with_room(10)),
            llm=ScriptedLLM(lambda request: ["Hm."]),
            tools=tools,
            memory=tmp / "memory.sqlite",
        ) as runtime,
        open_nats(bus.url) as nats,
        serve(runtime, nats) as served,
    ):
        yield runtime, served


@asynccontextmanager
async def two(bus: RealServer, tmp: Path, shop: Shop) -> AsyncGenerator[Pair]:
    with trio.fail_after(LIMIT):
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(worker(bus, tmp, shop.tools()))
            second = await stack.enter_async_context(worker(bus, tmp, shop.tools()))
            await until(lambda: all(known(x) == 2 for _, x in (first, second)))
            yield first, second


def known(one: ClusterWorker) -> int:
    return one.calls._ring.workers


async def until(what: Callable[[], bool]) -> None:
    while not what():  # noqa: ASYNC110 - another worker does it
        await trio.sleep(0.001)


async def look(runtime: Runtime, at: str, tenant: str = "") -> Outcome:
    (end,) = await runtime.host.fan_out(
        [ToolCall("1", "shop.look", f'{{"at": "{at}"}}')],
        Caller(grant=EVERYTHING, tier=Tier.DEEP, tenant=tenant),
        deadline=trio.current_time() + 50,
    )
    return end


async def haggle(runtime: Runtime) -> None:
    assert (await runtime.host.execute("shop.haggle")).status is Status.OK


def belonging_to(name: str, one: ClusterWorker, first: int = 0) -> str:
    """Return an argument whose call belongs to the worker of that name."""
    for at in range(first, first + 1000):
        key = CacheKey(tool="shop.look", arguments=f'{{"at":"{at}"}}')
        if one.calls._ring.owner(key, trio.current_time()) == name:
            return str(at)
    raise AssertionError("none of 1000 belongs to it")


@pytest.mark.border
async def test_equal_calls_of_two_workers_are_made_once(
    bus: RealServer, tmp_path: Path
) -> None:
    shop = Shop()
    async with two(bus, tmp_path, shop) as ((first, one), (second, other)):
        names = [str(x) for x in range(12)]
        ends: list[Outcome] = []

        async def ask(runtime: Runtime, at: str) -> None:
            ends.append(await look(runtime, at))

        async with trio.open_nursery() as nursery:
            for at in names:
                for runtime in (first, second, first):
                    nursery.start_soon(ask, runtime, at)
        assert sorted(shop.asked) == sorted(names)
        assert sorted(x.data for x in ends) == sorted(f"{x} for 1" for x in names * 3)
        answered, made = SharedCallEnd.ANSWERED, SharedCallEnd.MADE
        assert one.calls.ends[answered] == other.calls.ends[made]
        assert other.calls.ends[answered] == one.calls.ends[made]
        assert one.calls.ends[answered] + other.calls.ends[answered] == 12
        assert (await look(first, "0")).cached
        assert (await look(second, "0")).cached
        await look(first, "new")
        await look(second, "new")  # it is cached where it belongs
        assert shop.asked.count("new") == 1


async def test_nobody_reads_what_was_there_before_their_own_write(
    bus: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge_sharing, "_PAUSE", 5.0)
    shop = Shop()
    async with two(bus, tmp_path, shop) as ((first, one), (second, other)):
        theirs = belonging_to(other.name, one)
        for _ in range(20):
            await look(second, theirs)  # it is cached there
            await haggle(first)
            await haggle(first)  # which would be told later, if nobody asked
            end = await look(first, theirs)
            assert end.data == f"{theirs} for {shop.price}"
        assert one.calls.ends[SharedCallEnd.ANSWERED] == 20
        # Nor do they join a call that began before it.
        await haggle(second)
        shop.hold = hold = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look, second, theirs)
            before = len(shop.asked)
            await until(lambda: len(shop.asked) > before)
            await haggle(first)
            ends: list[Outcome] = []

            async def read_again() -> None:
                ends.append(await look(first, theirs))

            nursery.start_soon(read_again)
            await until(lambda: len(shop.asked) > before + 1)
            hold.set()
        assert ends[0].data == f"{theirs} for {shop.price}"


async def test_tenants_share_nothing(bus: RealServer, tmp_path: Path) -> None:
    shop = Shop()
    async with two(bus, tmp_path, shop) as ((first, _), (second, _)):
        for tenant in ("guild", "", "tower"):
            for runtime in (first, second, first):
                assert (await look(runtime, "it", tenant)).status is Status.OK
        assert len(shop.asked) == 3


async def test_a_failure_is_not_shared(bus: RealServer, tmp_path: Path) -> None:
    shop = Shop(broken=True)
    async with two(bus, tmp_path, shop) as ((first, one), (_, other)):
        theirs = belonging_to(other.name, one)
        assert (await look(first, theirs)).status is Status.CRASHED
        assert len(shop.asked) == 2  # both have called it
        shop.broken = False
        assert (await look(first, theirs)).status is Status.OK
        assert one.calls.ends == {SharedCallEnd.REFUSED: 1, SharedCallEnd.ANSWERED: 1}


@asynccontextmanager
async def ghost(
    bus: RealServer, answers: list[SharedResultMessage] | None
) -> AsyncGenerator[NatsLink]:
    """A worker that beats, and answers calls with these messages alone; with None it
    does not even hear them."""
    subjects = Subjects("default")
    async with open_nats(bus.url) as nats, trio.open_nursery() as nursery:

        async def live() -> None:
            for n in range(1, 10_000):
                beat = BeatMessage(
                    worker="ghost", deployment="default", version="1", n=n
                )
                await nats.publish(subjects.beat, pack(beat))
                await trio.sleep(0.1)

        async def hear(said: list[SharedResultMessage]) -> None:
            async with nats.subscribe(subjects.calls("ghost")) as calls:
                nursery.start_soon(live)
                async for call in calls:
                    for message in said:
                        await nats.publish(call.reply, pack(message))

        if answers is None:
            nursery.start_soon(live)
        else:
            nursery.start_soon(hear, answers)
        yield nats
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("answers", "end"),
    [
        (None, SharedCallEnd.LATE),
        ([], SharedCallEnd.LATE),
        ([SharedResultMessage(taken=True)], SharedCallEnd.LATE),
        ([SharedResultMessage(taken=True)] * 9, SharedCallEnd.LATE),
        ([SharedResultMessage(message="no")], SharedCallEnd.REFUSED),
        (
            [SharedResultMessage(taken=True), SharedResultMessage(message="no")],
            SharedCallEnd.REFUSED,
        ),
    ],
)
async def test_a_worker_that_does_not_answer_costs_a_moment_and_no_call(
    bus: RealServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[SharedResultMessage] | None,
    end: SharedCallEnd,
) -> None:
    if answers == []:
        monkeypatch.setattr(call_sharing, "taken_within", lambda estimate: 0.3)
    if answers and end is SharedCallEnd.LATE:
        monkeypatch.setattr(call_sharing, "patience", lambda estimate, left: 0.1)
    shop = Shop()
    with trio.fail_after(LIMIT):
        async with (
            ghost(bus, answers),
            worker(bus, tmp_path, shop.tools()) as (
                runtime,
                one,
            ),
        ):
            await until(lambda: known(one) == 2)
            theirs = belonging_to("ghost", one)
            assert (await look(runtime, theirs)).data == f"{theirs} for 1"
            assert one.calls.ends == {end: 1}
            if end is SharedCallEnd.LATE:  # it is left alone for a while
                now = trio.current_time()
                key = CacheKey(tool="shop.look", arguments=f'{{"at":"{theirs}"}}')
                assert one.calls._ring.owner(key, now) in ("", one.name)


async def test_calls_that_cannot_be_made_for_others_are_refused_and_counted(
    bus: RealServer, tmp_path: Path
) -> None:
    shop = Shop()
    subjects = Subjects("default")
    with trio.fail_after(LIMIT):
        async with (
            worker(bus, tmp_path, shop.tools()) as (runtime, one),
            open_nats(bus.url) as nats,
        ):
            listing = runtime.host.snapshot.find("shop.look")
            good = SharedCallMessage(
                deployment="default",
                tool=ToolName(environment="local", key="shop.look"),
                fingerprint=one.calls._print_of(listing),
                arguments='{"at": "it"}',
                remaining_ms=30_000,
            )
            bad: list[dict[str, Any]] = [
                {"fingerprint": "another"},
                {"tool": ToolName(environment="local", key="shop.rob")},
                {"tool": ToolName(environment="the moon", key="shop.look")},
                {"tool": ToolName(environment="local", key="shop.haggle")},
                {"arguments": "[]"},
            ]
            with open_requests(nats) as requests:

                async def ask(message: SharedCallMessage) -> list[SharedResultMessage]:
                    found: list[SharedResultMessage] = []
                    async with requests.stream(
                        subjects.calls(one.name), pack(message), within=30
                    ) as replies:
                        async for reply in replies:
                            said = read(reply.payload)
                            assert isinstance(said, SharedResultMessage)
                            found.append(said)
                            if not said.taken:
                                return found
                    return found

                for fields in bad:
                    (said,) = await ask(
                        SharedCallMessage(**{**_fields(good), **fields})
                    )
                    assert said.result is None
                    assert said.message
                assert shop.asked == []
                first, last = await ask(good)
                assert first.taken
                assert last.result == ToolResult(text=("it for 1",))
                assert 590_000 < last.valid_ms <= 600_000
                (cached,) = await ask(good)
                assert cached.result == last.result
                foreign = SharedCallMessage(**{**_fields(good), "deployment": "blue"})
                subject = subjects.calls(one.name)
                for data in (b"", b"{}", pack(foreign), pack(cached)):
                    await nats.publish(subject, data, reply="gx.x")
                await nats.publish(subject, pack(good))  # nobody to be answered
                await ask(good)
            assert one.counts == {"calls_invalid": 4, "calls_other_deployment": 1}
            assert one.calls.ends == {SharedCallEnd.MADE: 3, SharedCallEnd.DECLINED: 5}


def _fields(message: SharedCallMessage) -> dict[str, Any]:
    return {x: getattr(message, x) for x in message.__struct_fields__}


# ------------------------------------------------------ processes, and one is killed


@pytest.mark.long  # its servers start for seconds
async def test_a_call_whose_worker_is_killed_is_made_by_the_one_that_asked(
    bus: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger"
    memory = tmp_path / "memory.sqlite"
    process = await trio.lowlevel.open_process(
        [
            *(sys.executable, "-m", "tests.cluster.counting_process"),
            *(bus.url, str(memory), str(ledger)),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        with trio.fail_after(LIMIT):
            assert process.stdout is not None
            told = b""
            while b"\n" not in told:
                told += await process.stdout.receive_some()
            name = told.decode().strip()
            async with (
                open_runtime(
                    counting_config(ledger),
                    llm=ScriptedLLM(lambda request: ["Hm."]),
                    memory=memory,
                ) as runtime,
                open_nats(bus.url) as nats,
                serve(runtime, nats) as one,
            ):
                assert await runtime.wait_ready(within=LIMIT)
                await until(lambda: known(one) == 2)
                theirs = belonging_to(name, one)
                end = await look(runtime, theirs)
                assert (end.status, end.message) == (Status.OK, f"{theirs} is here")
                assert _calls(ledger) == [(theirs, process.pid)]
                assert one.calls.ends == {SharedCallEnd.ANSWERED: 1}

                wait, more = 3.0, belonging_to(name, one, 1000)
                monkeypatch.setattr(call_sharing, "patience", lambda *_: wait)
                async with trio.open_nursery() as nursery:
                    ends: list[Outcome] = []

                    async def ask() -> None:
                        ends.append(await look(runtime, more))

                    nursery.start_soon(ask)
                    await until(lambda: len(_calls(ledger)) == 2)
                    process.send_signal(signal.SIGKILL)
                assert ends[0].message == f"{more} is here"
                assert one.calls.ends[SharedCallEnd.LATE] == 1
                _, second, (third, pid) = _calls(ledger)
                assert second == (more, process.pid)
                assert (third, pid != process.pid) == (more, True)
    finally:
        process.kill()
        await process.wait()


def _calls(ledger: Path) -> list[tuple[str, int]]:
    if not ledger.exists():
        return []
    rows = [x.split() for x in ledger.read_text().splitlines()]
    return [(at, int(pid)) for at, pid in rows]
