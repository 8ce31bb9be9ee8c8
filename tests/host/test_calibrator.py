"""The calibrator: measurements become an estimate, and probes do no harm.

Rows G21 to G24; decisions D1, D7, D9, D10. Virtual time, exact.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import Backoff, Failed, Ref, SupervisionEvent, spawn
from glyphoxa_trio.errors import ActorGone, DeadlineExceeded
from glyphoxa_trio.host import (
    CalibratorSettings,
    Catalogue,
    CatalogueEntry,
    Probed,
    Sampled,
    ToolHost,
    open_host,
)
from glyphoxa_trio.host.attempts import ProbeResult
from glyphoxa_trio.host.calibrator import (
    PROBES,
    Calibrate,
    Calibrator,
    Forget,
    HealthAnew,
    Observe,
    Reckon,
    ReportEstimates,
)
from glyphoxa_trio.host.measurements import Measurements
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.instance import minimal_instance
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import Sample, SampleKind

from .fakes import Does, Log, fake, fan_out

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind
KEY = "fake.look"


class Fragile(Catalogue):
    """Raises once, like a bug would."""

    broken = False

    def set_estimate(self, key: str, estimate: Estimate) -> None:
        if self.broken:
            self.broken = False
            raise RuntimeError("a bug")
        super().set_estimate(key, estimate)


@attrs.define
class Bench:
    """The actor alone, with a probe of the test's own."""

    ref: Ref[Any]
    catalogue: Fragile
    events: list[SupervisionEvent]
    probes: list[tuple[str, Mapping[str, Any]]]
    told: list[tuple[Probed | Sampled, Estimate | None]]  # and the listed one then

    async def observe(self, *kinds: SampleKind, seconds: float = 0.25) -> None:
        for kind in kinds:
            self.ref.tell(Observe(KEY, Sample(kind, seconds, trio.current_time())))
        await wait_all_tasks_blocked()

    def listed(self) -> Estimate:
        return self.catalogue.current.by_key[KEY].estimate

    async def report(self) -> dict[str, Estimate]:
        return await self.ref.ask(ReportEstimates(), within=1)


@asynccontextmanager
async def bench(
    *tools: Tool, capacity: int = 64, settings: CalibratorSettings | None = None
) -> AsyncGenerator[Bench]:
    measurements = Measurements(settings or CalibratorSettings())
    catalogue = Fragile(measurements.reckon)
    catalogue.register(tools)
    events: list[SupervisionEvent] = []
    probes: list[tuple[str, Mapping[str, Any]]] = []

    async def probe(
        listing: CatalogueEntry, arguments: Mapping[str, Any], *, deadline: float
    ) -> ProbeResult:
        probes.append((listing.key, arguments))
        await trio.sleep(0.1)
        return ProbeResult(ToolResult(), 0.1)

    told: list[tuple[Probed | Sampled, Estimate | None]] = []

    def tell(event: Probed | Sampled) -> None:
        listing = catalogue.current.by_key.get(event.key)
        told.append((event, None if listing is None else listing.estimate))

    calibrator = Calibrator(measurements, catalogue, probe, tell)
    async with trio.open_nursery() as nursery:
        ref = spawn(
            nursery,
            calibrator.run,
            capacity=capacity,
            restart=Backoff(first=0.25, jitter=0),
            on_event=events.append,
        )
        yield Bench(ref, catalogue, events, probes, told)
        nursery.cancel_scope.cancel()


# Observations


async def test_a_tool_is_as_declared_until_five_samples_say_otherwise(
    autojump_clock: MockClock,
) -> None:
    # D1, G22, G23
    async with bench(fake("look", estimated_duration=2.0)) as b:
        assert (b.listed().seconds, b.listed().tier) == (2.0, Tier.DEEP)
        await b.observe(*[OK] * 4)
        assert b.listed().source is EstimateSource.DECLARED
        await b.observe(OK)
        assert b.listed().source is EstimateSource.MEASURED
        assert (b.listed().seconds, b.listed().tier) == (0.25, Tier.FAST)


async def test_calls_that_were_run_are_what_is_measured(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("look", 0.75, read_only=True))
        assert len(host.tools(Tier.FAST)) == 1
        for _ in range(5):
            await fan_out(host, "look", within=4)
        await wait_all_tasks_blocked()
        assert host.tools(Tier.FAST) == ()  # at once, being slower
        (listing,) = host.tools(Tier.STANDARD)
        assert listing.estimate.seconds == 0.75
        assert (await host.report())[KEY].p99 == 0.75


async def test_too_many_failures_cost_a_tier_until_they_are_forgiven(
    autojump_clock: MockClock,
) -> None:
    # G24, D7
    async with bench(fake("look")) as b:
        await b.observe(*[OK] * 6, *[FAILED] * 3)
        assert b.listed().degraded is None
        await b.observe(FAILED)
        assert b.listed().degraded == "4 of the last 10 calls failed"
        assert b.listed().tier is Tier.STANDARD
        b.ref.tell(HealthAnew(KEY))
        await wait_all_tasks_blocked()
        assert (b.listed().degraded, b.listed().tier) == (None, Tier.FAST)
        assert b.listed().samples == 6  # latencies stay


async def test_what_was_measured_while_the_loop_was_late_says_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("look", 0.25, read_only=True))
        for _ in range(6):
            await fan_out(host, "look", within=4)
        assert (await host.report())[KEY].samples == 6
        await trio.sleep(1)
        since = trio.current_time()
        for _ in range(6):
            await fan_out(host, "look", within=4)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(fan_out, host, "look", within=4))
            await trio.sleep(0.125)
            host.disregard(since, trio.current_time())
        assert (await host.report())[KEY].samples == 6  # nor the one on its way
        await fan_out(host, "look", within=4)
        assert (await host.report())[KEY].samples == 7


async def test_observations_of_unknown_tools_are_ignored(
    autojump_clock: MockClock,
) -> None:
    async with bench() as b:
        await b.observe(*[OK] * 5)
        assert await b.report() == {}
        b.catalogue.register([fake("look", estimated_duration=2.0)])
        assert b.listed().source is EstimateSource.DECLARED


async def test_what_is_recorded_is_told_after_what_follows_from_it(
    autojump_clock: MockClock,
) -> None:
    # A47: every sample that was recorded, of each kind, once and in order
    kinds = [OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED, OK, OK]
    async with bench(fake("look", estimated_duration=2.0)) as b:
        await b.observe(*kinds, seconds=0.75)
        assert [event for event, _ in b.told] == [
            Sampled(KEY, Sample(kind, 0.75, 0)) for kind in kinds
        ]
        sources = [listed.source for _, listed in b.told if listed]
        # The fifth that says something of latency is the seventh.
        assert sources == [EstimateSource.DECLARED] * 6 + [EstimateSource.MEASURED]


async def test_probes_are_told_one_by_one_and_then_together(
    autojump_clock: MockClock,
) -> None:
    # A47, D9
    async with bench(fake("look", read_only=True)) as b:
        await b.ref.ask(Calibrate(), within=10)
        *samples, last = [event for event, _ in b.told]
        found = [event.sample for event in samples if isinstance(event, Sampled)]
        assert [(sample.kind, sample.probe) for sample in found] == [(OK, True)] * 5
        assert [sample.at for sample in found] == pytest.approx(
            [0.1, 0.2, 0.3, 0.4, 0.5]
        )
        assert last == Probed(key=KEY, samples=5, done=1, total=1)


async def test_what_is_not_recorded_is_not_told(autojump_clock: MockClock) -> None:
    # A47: of a tool that has gone meanwhile, or that was not taken in
    async with bench(capacity=3) as b:
        await b.observe(OK)
        assert b.told == []
        b.catalogue.register([fake("look")])
        for _ in range(8):
            b.ref.tell(Observe(KEY, Sample(OK, 0.25, 0)))
        await wait_all_tasks_blocked()
        taken = b.ref.statistics().told - 1
        assert len(b.told) == (await b.report())[KEY].samples == taken < 8


async def test_what_is_forgotten_begins_anew_and_what_is_back_is_reckoned(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("look", estimated_duration=2.0)) as b:
        await b.observe(*[OK] * 5)
        tools = [listing.tool for listing in b.catalogue.current.listings]
        b.catalogue.deregister("fake")
        b.catalogue.register(tools)  # a server that was away
        assert b.listed().source is EstimateSource.MEASURED
        b.ref.tell(Forget((KEY,)))
        await wait_all_tasks_blocked()
        assert b.listed().source is EstimateSource.MEASURED  # nobody has asked yet
        b.ref.tell(Reckon((KEY, "fake.gone")))
        await wait_all_tasks_blocked()
        assert b.listed().source is EstimateSource.DECLARED


async def test_noise_is_reported_but_makes_no_new_snapshot(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("look")) as b:
        await b.observe(*[OK] * 5, seconds=0.25)
        before = b.catalogue.current
        await b.observe(*[OK] * 20, seconds=0.2525)  # one percent
        assert b.catalogue.current is before
        assert (await b.report())[KEY].seconds == 0.2525
        await b.observe(*[OK] * 60, seconds=0.3)
        assert b.listed().seconds == 0.3


async def test_a_full_mailbox_drops_and_counts(autojump_clock: MockClock) -> None:
    async with bench(fake("look"), capacity=3) as b:
        await wait_all_tasks_blocked()
        sample = Sample(OK, 0.25, 0)
        told = [b.ref.tell(Observe(KEY, sample)) for _ in range(8)]
        # The reader waits for one already: it takes it past the mailbox.
        assert told == [True] * 4 + [False] * 4
        await wait_all_tasks_blocked()
        counts = b.ref.statistics()
        assert (counts.told, counts.dropped) == (4, 4)
        assert (await b.report())[KEY].samples == 4


async def test_a_crash_costs_neither_measurements_nor_the_actor(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("look", estimated_duration=2.0)) as b:
        await b.observe(*[OK] * 4)
        b.catalogue.broken = True
        await b.observe(OK)  # its publication fails
        assert [e.uptime for e in b.events if isinstance(e, Failed)] == [0]
        assert b.listed().source is EstimateSource.DECLARED
        assert (await b.report())[KEY].samples == 5
        assert trio.current_time() == 0.25  # the next life's
        await b.observe(OK)
        assert b.listed().samples == 6


async def test_a_crash_leaves_no_asker_waiting(autojump_clock: MockClock) -> None:
    async with bench(fake("look", read_only=True)) as b:

        async def crash() -> None:
            await trio.sleep(0.25)
            b.catalogue.broken = True
            await b.observe(*[OK] * 5)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash)
            with pytest.raises(ActorGone):
                await b.ref.ask(Calibrate(), within=10)
        assert trio.current_time() == 0.25


async def test_what_was_measured_expires_also_where_nobody_calls(
    autojump_clock: MockClock,
) -> None:
    # D7. Found: a tool that was slow once was hidden, so never called, so hidden.
    async with open_host(settings=CalibratorSettings(expiry=48)) as host:
        host.register(fake("look", 2, read_only=True))
        for _ in range(5):
            await fan_out(host, "look", within=4)
        await wait_all_tasks_blocked()
        await trio.sleep_until(49)
        assert host.tools(Tier.FAST) == ()
        await trio.sleep_until(51)  # the first of five has expired
        (listing,) = host.tools(Tier.FAST)
        assert listing.estimate.source is EstimateSource.DECLARED


async def test_an_unknown_tool_is_on_trial_again_when_its_slowness_has_expired(
    autojump_clock: MockClock,
) -> None:
    # Found: what nobody had declared was gone for good after its day.
    async with open_host(settings=CalibratorSettings(expiry=48)) as host:
        host.register(fake("look", 2, read_only=True, estimated_duration=None))
        for _ in range(5):
            await fan_out(host, "look", within=4)
        await wait_all_tasks_blocked()
        assert host.tools(Tier.FAST) == ()
        await trio.sleep_until(60)  # all five have expired
        (listing,) = host.tools(Tier.FAST)
        assert listing.estimate.source is EstimateSource.TRIAL


# Probes


async def probed(host: ToolHost, within: float = 60, **rest: Any) -> dict[str, Probed]:
    done = await host.calibrate(within=within, **rest)
    return {one.key.removeprefix("fake."): one for one in done}


async def test_probes_measure_what_may_be_called_without_asking(
    autojump_clock: MockClock,
) -> None:
    # D9, G21
    log = Log()
    async with open_host() as host:
        host.register(
            fake("look", 0.25, read_only=True, log=log),
            fake("search", 0.25, read_only=True, open_world=True, log=log),
            fake("set", 0.25, idempotent=True, log=log),
            fake("chosen", 0.25, probe={}, log=log),
            fake("pay", 0.25, log=log),
        )
        done = await probed(host)
        assert sorted(done) == ["chosen", "look"]
        assert [one.samples for one in done.values()] == [5, 5]
        assert sorted(log.names()) == ["chosen"] * 5 + ["look"] * 5
        assert trio.current_time() == 1.25
        estimates = {
            key: (estimate.source, estimate.samples)
            for key, estimate in (await host.report()).items()
        }
        assert estimates == {
            "fake.look": (EstimateSource.MEASURED, 5),
            "fake.chosen": (EstimateSource.MEASURED, 5),
            "fake.search": (EstimateSource.DECLARED, 0),
            "fake.set": (EstimateSource.DECLARED, 0),
            "fake.pay": (EstimateSource.DECLARED, 0),
        }
        (named,) = (await probed(host, keys=["fake.pay"])).values()
        assert named == Probed(key="fake.pay", samples=5, done=1, total=1)
        assert sorted(await probed(host, unsafe=True)) == [
            "chosen",
            "look",
            "pay",
            "search",
            "set",
        ]


async def test_probes_are_told_as_they_are_done(autojump_clock: MockClock) -> None:
    async with open_host() as host:
        host.register(
            fake("slow", 0.5, read_only=True), fake("quick", 0.1, read_only=True)
        )
        with host.events.subscribe() as events:
            await host.calibrate(within=10)
        heard = [event async for event in events if isinstance(event, Probed)]
    assert heard == [
        Probed(key="fake.quick", samples=5, done=1, total=2),
        Probed(key="fake.slow", samples=5, done=2, total=2),
    ]


@pytest.mark.parametrize(
    ("does", "note"),
    [
        (Does.SAY_NO, "look says no"),
        (Does.CRASH, "Bug: look is broken"),
        (Does.BE_AWAY, "ToolUnavailable: look is away"),
    ],
)
async def test_a_tool_that_does_not_work_is_probed_once(
    does: Does, note: str, autojump_clock: MockClock
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 0.1, does, read_only=True, log=log))
        assert await probed(host) == {
            "look": Probed(key=KEY, samples=0, done=1, total=1, note=note)
        }
        assert len(log.began) == 1


async def test_a_tool_that_says_no_in_its_result_is_probed_once(
    autojump_clock: MockClock,
) -> None:
    asked = 0

    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        nonlocal asked
        asked += 1
        return ToolResult(text=("not", "here"), is_error=True)

    async with open_host() as host:
        host.register(attrs.evolve(fake("look", read_only=True), handler=handler))
        assert (await probed(host))["look"].note == "not here"
        assert asked == 1


PATTERN = {
    "type": "object",
    "properties": {"id": {"type": "string", "pattern": "^npc-[0-9]{3}$"}},
    "required": ["id"],
}


@pytest.mark.parametrize(
    ("definition", "arguments"),
    [
        ({"examples": ({"id": "npc-001"}, {"id": "npc-002"})}, {"id": "npc-001"}),
        (
            {
                "parameters": {
                    "type": "object",
                    "properties": {
                        "count": {"type": "integer", "minimum": 3},
                        "mood": {"type": "string", "default": "calm"},
                    },
                    "required": ["count", "mood"],
                }
            },
            {"count": 3, "mood": "calm"},
        ),
        ({}, {}),
        # A foreign pattern is its server's business.
        (
            {"external": True, "parameters": PATTERN},
            minimal_instance(PATTERN, foreign=True),
        ),
    ],
)
async def test_probes_take_known_arguments_first_and_make_up_the_least(
    definition: dict[str, Any],
    arguments: dict[str, Any],
    autojump_clock: MockClock,
) -> None:
    # D9
    async with bench(fake("look", read_only=True, **definition)) as b:
        await b.ref.ask(Calibrate(), within=10)
        assert b.probes == [(KEY, arguments)] * PROBES


async def test_a_tool_without_arguments_to_try_is_not_probed(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("look", read_only=True, parameters=PATTERN)) as b:
        (done,) = await b.ref.ask(Calibrate(), within=10)
        assert done.samples == 0
        assert done.note.startswith("no arguments to probe with: ")
        assert b.probes == []


async def test_an_endless_probe_says_longer_than_this(
    autojump_clock: MockClock,
) -> None:
    # D9: the DEEP ceiling is its deadline. D7: right-censored.
    async with open_host() as host:
        host.register(fake("look", 0, Does.HANG, read_only=True))
        done = await probed(host)
        assert trio.current_time() == 4
        assert (done["look"].samples, done["look"].note) == (
            1,
            "no answer after 4000 ms",
        )
        assert (await host.report())[KEY].samples == 1


async def test_a_probe_that_gives_up_by_itself_says_nothing(
    autojump_clock: MockClock,
) -> None:
    # Found: five quick failures to reach something else were "at least 10 ms".
    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        await trio.sleep(0.01)
        raise DeadlineExceeded("its own")

    async with open_host() as host:
        host.register(attrs.evolve(fake("look", read_only=True), handler=handler))
        done = await probed(host)
        assert (done["look"].samples, done["look"].note) == (
            0,
            "DeadlineExceeded: its own",
        )
        assert (await host.report())[KEY].samples == 0


async def test_probes_that_succeed_do_not_hide_failures(
    autojump_clock: MockClock,
) -> None:
    # D9. Found: they counted as healthy calls.
    async with bench(fake("look", read_only=True)) as b:
        await b.observe(*[OK] * 6, *[FAILED] * 4)
        assert b.listed().degraded == "4 of the last 10 calls failed"
        await b.ref.ask(Calibrate(), within=10)
        assert (await b.report())[KEY].degraded == "4 of the last 10 calls failed"


@pytest.mark.parametrize("does", [Does.CRASH, Does.LOSE, Does.HANG])
async def test_probes_that_fail_do_not_count_either(
    does: Does, autojump_clock: MockClock
) -> None:
    async with open_host() as host:
        host.register(fake("look", 0, does, read_only=True, max_duration=0.1))
        for _ in range(6):
            await probed(host)
        estimate = (await host.report())[KEY]
        assert estimate.degraded is None
        ((_, why),) = host.explain(remaining=10)
        assert why is None  # the breaker is closed


async def test_few_probes_run_at_once_whoever_asks(autojump_clock: MockClock) -> None:
    # Found: every request had a bound of its own.
    running, most = 0, 0

    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(0.1)
        running -= 1
        return ToolResult()

    tools = [
        Tool(
            definition=ToolDefinition(name=f"look{n}", group="fake", read_only=True),
            handler=handler,
        )
        for n in range(6)
    ]
    async with open_host(settings=CalibratorSettings(probe_concurrency=2)) as host:
        host.register(*tools)
        async with trio.open_nursery() as nursery:
            for half in (tools[:3], tools[3:]):
                keys = [tool.key for tool in half]
                nursery.start_soon(partial(host.calibrate, within=9, keys=keys))
    assert most == 2


async def test_a_tool_that_goes_while_it_is_probed_leaves_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    # Found: its probes were the next tool's of that name.
    async with open_host() as host:
        host.register(fake("look", 0.25, read_only=True))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(host.calibrate, within=9))
            await trio.sleep(0.1)
            host.deregister("fake")
        host.register(fake("look", 2, read_only=True))
        assert (await host.report())[KEY].samples == 0


async def test_probes_are_not_refused_by_a_breaker_nor_kept(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 0.1, read_only=True, cacheable=60, log=log))
        await probed(host)
        (outcome,) = await fan_out(host, "look")
        assert not outcome.cached
        await probed(host)
        assert len(log.began) == 11


async def test_the_same_tool_here_and_there_has_two_histories(
    autojump_clock: MockClock,
) -> None:
    # G25, D10
    async with bench(fake("look", environment="here")) as b:
        await b.observe(*[OK] * 5, seconds=0.25)
        b.catalogue.replace("fake", [fake("look", environment="there")])
        assert b.listed().source is EstimateSource.DECLARED
        await b.observe(*[OK] * 5, seconds=1.0)
        assert b.listed().seconds == 1.0
        b.catalogue.replace("fake", [fake("look", environment="here")])
        assert b.listed().seconds == 0.25


async def test_what_is_forgotten_is_forgotten_everywhere(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("look", environment="here")) as b:
        await b.observe(*[OK] * 5)
        b.catalogue.replace("fake", [fake("look")])
        b.ref.tell(Forget((KEY,)))
        await wait_all_tasks_blocked()
        b.catalogue.replace("fake", [fake("look", environment="here")])
        assert b.listed().source is EstimateSource.DECLARED


async def test_a_handler_on_the_loop_is_probed_between_turns_only(
    autojump_clock: MockClock,
) -> None:
    # It may block the loop, and with it the turn that waits for this very tool.
    log, over = Log(), trio.Event()
    async with open_host() as host, trio.open_nursery() as nursery:
        host.register(fake("ours", 1.0, log=log))
        host.quiet = over.wait
        nursery.start_soon(partial(host.calibrate, within=60, keys=["fake.ours"]))
        await trio.sleep(10)
        assert log.names() == []
        over.set()
        await trio.sleep(10)
        assert log.names() == ["ours"] * PROBES
