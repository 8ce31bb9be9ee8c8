"""Attempts: what each end says about the tool, and its effect on the breaker.

Rows G22, G24; decisions D3a, D6, D7. Virtual time, exact.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import LoopLag, SharedTasks, loop_lag
from glyphoxa_trio.host import Caller, Catalogue, open_host
from glyphoxa_trio.host.attempts import Attempts
from glyphoxa_trio.host.executor import LONGEST_FLIGHT, Executor
from glyphoxa_trio.host.measurements import CalibratorSettings, Measurements
from glyphoxa_trio.tools.definition import (
    CallContext,
    ServerFault,
    Tool,
    ToolDefinition,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import Sample, SampleKind

from .fakes import Does, Log, call, fake, fan_out, perform, statuses

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind


@attrs.define
class Bench:
    """Executor and attempts with nobody who measures: estimates stay declared."""

    executor: Executor
    attempts: Attempts
    catalogue: Catalogue
    samples: list[tuple[str, Sample]]
    anew: list[str]

    async def run(self, *calls: str | ToolCall, within: float = 0.5) -> list[Outcome]:
        return await self.executor.fan_out(
            [call(one) if isinstance(one, str) else one for one in calls],
            Caller(grant=EVERYTHING),
            deadline=trio.current_time() + within,
        )

    def kinds(self) -> list[SampleKind]:
        return [sample.kind for _, sample in self.samples]

    def obstacle(self, name: str = "act") -> str | None:
        return self.attempts.obstacle(self.catalogue.current.find(name))

    async def break_it(self, name: str = "act") -> None:
        for n in range(5):
            await self.run(call(name, n=n))
        self.samples.clear()


@attrs.define(eq=False)
class LateLoop(LoopLag):
    """So many seconds ``behind`` as the test says, on a virtual clock."""

    behind: float = 0.0

    def total(self) -> float:
        return self.behind


@asynccontextmanager
async def bench(*tools: Tool, late: LoopLag | None = None) -> AsyncGenerator[Bench]:
    samples: list[tuple[str, Sample]] = []
    anew: list[str] = []
    catalogue = Catalogue(Measurements(CalibratorSettings()).estimate)
    catalogue.register(tools)
    with loop_lag() as lag:
        async with trio.open_nursery() as nursery:
            attempts = Attempts(
                SharedTasks(nursery),
                lambda key, sample: samples.append((key, sample)),
                anew.append,
                late or lag,
            )
            executor = Executor(nursery, catalogue, attempts)
            yield Bench(executor, attempts, catalogue, samples, anew)
            nursery.cancel_scope.cancel()


# Samples


@pytest.mark.parametrize(
    ("does", "limit", "kind", "seconds"),
    [
        (Does.ANSWER, None, OK, 0.25),
        (Does.SAY_NO, None, TOOL_ERROR, 0.25),
        (Does.CRASH, None, FAILED, 0.25),
        (Does.LOSE, None, FAILED, 0.25),
        (Does.HANG, 0.375, TIMEOUT, 0.375),
        (Does.HANG, None, CENSORED, 0.5),  # the turn cut it: longer than this
    ],
)
async def test_a_call_that_reached_its_tool_says_one_thing_of_it(
    does: Does,
    limit: float | None,
    kind: SampleKind,
    seconds: float,
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("act", 0.25, does, max_duration=limit)) as b:
        await trio.sleep(10)
        await b.run("act")
        sample = Sample(kind, seconds, at=10 + seconds)
        assert b.samples == [("fake.act", sample)]


@pytest.mark.parametrize(
    ("remote", "waits", "behind", "end", "sample"),
    [
        (True, 0.0, 0.1, 0.25, None),  # it had its limit only in part
        (True, 0.0, 0.01, 0.25, (TIMEOUT, 0.25)),
        (True, 0.125, 0.0, 0.25, (CENSORED, 0.125)),  # its server started meanwhile
        (True, 0.01, 0.0, 0.25, (TIMEOUT, 0.25)),
        (False, 0.0, 0.125, 0.375, (TIMEOUT, 0.25)),  # it was given more time
    ],
)
async def test_a_limit_met_while_the_loop_stood_still_is_no_failure(
    remote: bool,
    waits: float,
    behind: float,
    end: float,
    sample: tuple[SampleKind, float] | None,
    autojump_clock: MockClock,
) -> None:
    """Found: a tool of 50 ms had "5.5 ms, measured", and an open breaker."""
    late = LateLoop(trio.current_time, True)

    async def handler(_: Any, context: CallContext) -> ToolResult:
        await trio.sleep(waits)
        if remote:
            context.sent()
        late.behind += behind
        await trio.sleep_forever()

    act = attrs.evolve(fake("act", max_duration=0.25), handler=handler, remote=remote)
    async with bench(act, late=late) as b:
        for n in range(5):
            began = trio.current_time()
            (told,) = await b.run(call("act", n=n), within=1.0)
            assert told.status is Status.TIMEOUT
            assert trio.current_time() - began == pytest.approx(end)
        found = [(one.kind, round(one.seconds, 6)) for _, one in b.samples]
        # What the first call in a life of a server was cut after is no sample.
        censored = sample is not None and sample[0] is CENSORED
        assert found == ([] if sample is None else [sample] * (5 - censored))
        assert (b.obstacle() is None) is (sample is None or censored)


def of_this_process(late: LateLoop, seconds: float, behind: float, **more: Any) -> Tool:
    """A tool with a limit of a quarter of a second, under which the loop is late."""

    async def handler(_: Any, __: Any) -> ToolResult:
        late.behind += behind
        await trio.sleep(seconds)
        return ToolResult(text=("act",))

    return attrs.evolve(fake("act", max_duration=0.25, **more), handler=handler)


async def test_a_call_begun_ahead_is_given_the_time_that_the_loop_took(
    autojump_clock: MockClock,
) -> None:
    late = LateLoop(trio.current_time, True)
    tool = of_this_process(late, 0.3, 0.1, read_only=True)
    async with bench(tool, late=late) as b:
        caller = Caller(grant=EVERYTHING)
        ahead = b.executor.ahead(caller, remaining=4.0, until=60.0)
        assert ahead.begin(call("act"))
        await trio.sleep(0.28)
        (end,) = await b.executor.fan_out(
            [call("act")], attrs.evolve(caller, ahead=ahead), deadline=4.0
        )
        ahead.close()
        assert (end.status, trio.current_time()) == (Status.OK, 0.3)
        assert b.kinds() == [OK]


async def test_a_call_begun_ahead_that_met_its_limit_is_a_timeout_also_later(
    autojump_clock: MockClock,
) -> None:
    """Found: `unavailable`, with the tool's key for a message."""
    late = LateLoop(trio.current_time, True)
    tool = of_this_process(late, 3.0, 0.0, read_only=True)
    async with bench(tool, late=late) as b:
        caller = Caller(grant=EVERYTHING)
        ahead = b.executor.ahead(caller, remaining=4.0, until=60.0)
        assert ahead.begin(call("act"))
        await trio.sleep(0.3)
        assert b.kinds() == [TIMEOUT]
        late.behind += 1.0
        (end,) = await b.executor.fan_out(
            [call("act")], attrs.evolve(caller, ahead=ahead), deadline=4.0
        )
        ahead.close()
        assert end.status is Status.TIMEOUT
        assert "the tool's own limit" in end.message


@pytest.mark.parametrize(
    ("seconds", "status", "at"), [(0.3, Status.OK, 0.3), (3.0, Status.TIMEOUT, 0.35)]
)
async def test_a_call_that_goes_on_is_given_the_time_that_the_loop_took(
    seconds: float, status: Status, at: float, autojump_clock: MockClock
) -> None:
    late = LateLoop(trio.current_time, True)
    ends: list[tuple[Status, float]] = []

    def note(end: Outcome) -> None:
        ends.append((end.status, round(trio.current_time(), 6)))

    async with bench(of_this_process(late, seconds, 0.1), late=late) as b:
        caller = Caller(grant=EVERYTHING, on_late=note)
        with trio.move_on_after(0.05):
            await b.executor.fan_out([call("act")], caller, deadline=4.0)
        await trio.sleep(4)
        assert ends == [(status, at)]


async def test_what_did_not_reach_a_tool_says_nothing_of_it(
    autojump_clock: MockClock,
) -> None:
    # D7: refusals, caller's mistakes, kept results, followers, a server away
    schema = {"type": "object", "required": ["x"]}
    async with bench(
        fake("away", 0, Does.BE_AWAY),
        fake("strict", parameters=schema),
        fake("slow", estimated_duration=2),
        fake("look", read_only=True, cacheable=60),
    ) as b:
        outcomes = await b.run("away", "strict", "slow", "nonsense")
        assert statuses(outcomes) == [
            "unavailable",
            "invalid_arguments",
            "skipped",
            "denied",
        ]
        assert b.samples == []
        await b.run("look", "look")
        await b.run("look")
        assert b.kinds() == [OK]


async def test_an_interruption_says_nothing_of_a_tool(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("look", 3, read_only=True)) as b:
        with trio.move_on_after(0.1):
            await b.run("look")
        await trio.sleep(10)
        assert b.samples == []


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        (2.0, TIMEOUT),
        (None, CENSORED),  # found: our own limit counted as the tool's failure
    ],
)
async def test_a_call_that_went_on_in_vain_says_whose_limit_it_met(
    limit: float | None, kind: SampleKind, autojump_clock: MockClock
) -> None:
    async with bench(fake("act", 0, Does.HANG, max_duration=limit)) as b:
        with trio.move_on_after(0.1):
            await b.run("act")
        await trio.sleep(60)
        seconds = LONGEST_FLIGHT if limit is None else limit
        assert b.samples == [("fake.act", Sample(kind, seconds, at=seconds))]


async def test_a_call_that_went_on_and_came_home_is_a_sample_like_any_other(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("act", 1)) as b:
        with trio.move_on_after(0.1):
            await b.run("act")
        await trio.sleep(5)
        assert b.samples == [("fake.act", Sample(OK, 1, at=1))]


async def test_a_shared_call_is_one_sample_also_when_each_leaves_in_time(
    autojump_clock: MockClock,
) -> None:
    tool = fake("look", 0, Does.HANG, read_only=True, cacheable=60, max_duration=0.25)
    async with bench(tool) as b:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(b.run, "look")
        assert b.samples == [("fake.look", Sample(TIMEOUT, 0.25, at=0.25))]


async def test_a_cancelled_handler_that_ends_later_says_nothing_more(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("act", 3, Does.SHIELD, max_duration=0.25)) as b:
        await b.run("act")
        await trio.sleep(5)
        assert b.samples == [("fake.act", Sample(TIMEOUT, 0.25, at=0.25))]


# The breaker


@pytest.mark.parametrize(
    ("does", "definition"),
    [
        (Does.CRASH, {}),
        (Does.LOSE, {}),
        (Does.HANG, {"max_duration": 0.1}),
        (Does.HANG, {"server_timeout": 0.1}),
    ],
)
async def test_five_failures_in_a_row_close_the_tool_to_calls(
    does: Does, definition: dict[str, Any], autojump_clock: MockClock
) -> None:
    log = Log()
    async with bench(fake("act", 0, does, log=log, **definition)) as b:
        for n in range(5):
            assert b.obstacle() is None
            await b.run(call("act", n=n))
        assert b.obstacle() == "it failed repeatedly, next try in 10000 ms"
        begun = trio.current_time()
        (outcome,) = await b.run(call("act", n=6))
        assert trio.current_time() == begun  # at once
    assert statuses([outcome]) == ["unavailable"]
    assert "it failed repeatedly" in outcome.message
    assert len(log.began) == 5


@pytest.mark.parametrize(
    ("does", "within", "arguments"),
    [
        (Does.ANSWER, 0.5, {"x": 1}),
        (Does.SAY_NO, 0.5, {"x": 1}),
        (Does.BE_AWAY, 0.5, {"x": 1}),
        (Does.HANG, 0.25, {"x": 1}),  # cut by the turn: never a health failure
        # A model that writes bad arguments must not take a tool from all others
        # (NousResearch/hermes-agent#61555).
        (Does.ANSWER, 0.5, {}),
    ],
)
async def test_what_is_not_the_tools_fault_does_not_close_it(
    does: Does, within: float, arguments: dict[str, Any], autojump_clock: MockClock
) -> None:
    schema = {"type": "object", "required": ["x"]}
    tool = fake("act", 0.1, does, read_only=True, parameters=schema)
    async with bench(tool) as b:
        for _ in range(12):
            await b.run(call("act", **arguments), within=within)
        assert b.obstacle() is None


async def test_interruptions_do_not_close_a_tool(autojump_clock: MockClock) -> None:
    async with bench(fake("look", 0, Does.HANG, read_only=True)) as b:
        for _ in range(12):
            with trio.move_on_after(0.1):
                await b.run("look")
        assert b.obstacle("look") is None


@attrs.define
class Patient:
    """A tool that can be cured."""

    does: Does = Does.CRASH
    seconds: float = 0.25
    log: Log = attrs.field(factory=Log)

    def tool(self, **definition: Any) -> Tool:
        async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
            return await perform("act", self.seconds, self.does, self.log)

        return attrs.evolve(fake("act", **definition), handler=handler)


async def test_after_the_pause_one_call_is_the_trial(
    autojump_clock: MockClock,
) -> None:
    patient = Patient()
    async with bench(patient.tool(read_only=True)) as b:
        await b.break_it()
        patient.does = Does.ANSWER
        await trio.sleep(10)
        assert b.obstacle() is None
        assert len(b.executor.visible(EVERYTHING, tier=Tier.FAST, remaining=1)) == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(b.run, "act")
            await trio.sleep(0.1)
            assert b.obstacle() == "it failed repeatedly, a trial call is running"
            outcomes = await b.run("act")
            assert statuses(outcomes) == ["unavailable"]
            assert b.anew == []
        assert b.anew == ["fake.act"]  # D7: its health begins anew
        assert statuses(await b.run("act", "act")) == ["ok", "ok"]
        assert b.anew == ["fake.act"]


async def test_a_trial_that_fails_closes_the_tool_for_another_pause(
    autojump_clock: MockClock,
) -> None:
    patient = Patient()
    async with bench(patient.tool()) as b:
        await b.break_it()
        await trio.sleep(10)
        assert statuses(await b.run("act")) == ["crashed"]
        assert b.obstacle() == "it failed repeatedly, next try in 10000 ms"
        assert b.anew == []


async def test_an_interrupted_trial_leaves_its_place_to_the_next_call(
    autojump_clock: MockClock,
) -> None:
    patient = Patient()
    async with bench(patient.tool(read_only=True)) as b:
        await b.break_it()
        patient.does = Does.ANSWER
        await trio.sleep(10)
        with trio.move_on_after(0.1):
            await b.run("act")
        assert b.obstacle() is None
        assert statuses(await b.run("act")) == ["ok"]
        assert b.anew == ["fake.act"]


async def test_a_breaker_is_one_tools_alone(autojump_clock: MockClock) -> None:
    async with bench(fake("act", 0, Does.CRASH), fake("look", read_only=True)) as b:
        await b.break_it()
        assert b.obstacle("look") is None
        assert statuses(await b.run("act", "look")) == ["unavailable", "ok"]


async def test_a_tool_that_was_replaced_begins_with_a_closed_breaker(
    autojump_clock: MockClock,
) -> None:
    async with bench(fake("act", 0, Does.CRASH)) as b:
        await b.break_it()
        b.attempts.forget("fake.act")
        assert b.obstacle() is None
        for n in range(4):
            await b.run(call("act", n=n))
        assert b.obstacle() is None


async def test_nothing_departs_past_an_open_breaker(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with bench(fake("act", 0, Does.CRASH, log=log)) as b:
        await b.break_it()
        listing = b.catalogue.current.find("act")
        with pytest.raises(ToolUnavailable, match="failed repeatedly"):
            b.attempts.start(listing, {}, CallContext(), None)
        await wait_all_tasks_blocked()
        assert len(log.began) == 5


async def test_a_trial_that_cannot_depart_leaves_its_place(
    autojump_clock: MockClock,
) -> None:
    # The breaker lets a trial through, two lingering tasks of earlier calls do not.
    patient = Patient()
    async with bench(patient.tool(max_duration=0.3)) as b:
        for n in range(3):
            await b.run(call("act", n=n))
        patient.does, patient.seconds = Does.SHIELD, 60
        for n in range(3, 5):
            await b.run(call("act", n=n))
        assert b.kinds() == [FAILED] * 3 + [TIMEOUT] * 2
        await trio.sleep(10)
        listing = b.catalogue.current.find("act")
        for _ in range(2):
            assert b.obstacle() == "2 earlier calls do not stop"
            with pytest.raises(ToolUnavailable, match="do not stop"):
                b.attempts.start(listing, {}, CallContext(), None)
        await trio.sleep(60)
        patient.does, patient.seconds = Does.ANSWER, 0.25
        assert statuses(await b.run("act")) == ["ok"]


# The host as a whole


async def test_an_open_breaker_hides_the_tool_and_a_closed_one_forgives(
    autojump_clock: MockClock,
) -> None:
    # G24: degraded, hidden, and well again as soon as the trial succeeds
    patient = Patient(Does.HANG)
    async with open_host() as host:
        host.register(patient.tool(read_only=True, max_duration=0.3))
        for _ in range(5):
            await fan_out(host, "act")
        assert host.tools() == ()
        ((_, why),) = host.explain()
        assert why is not None
        assert "it failed repeatedly, next try in" in why.text
        estimate = (await host.report())["fake.act"]
        assert estimate.degraded == "5 of the last 5 calls ran into their limit"
        patient.does = Does.ANSWER
        await trio.sleep(10)
        await fan_out(host, "act")
        await wait_all_tasks_blocked()
        assert (await host.report())["fake.act"].degraded is None
        assert len(host.tools(Tier.FAST)) == 1


def _no() -> ToolResult:
    raise ToolError("no such thing")


def _fault() -> ToolResult:
    raise ServerFault("Internal error")


def _error_result() -> ToolResult:
    return ToolResult(text=("no",), is_error=True)


@pytest.mark.parametrize(
    ("asked", "fails", "worked", "degraded"),
    [
        ([{"who": "Bo"}] * 20, _no, [], False),  # a model that does not learn
        ([{"who": "Bo"}, {"who": "Al"}] * 20, _error_result, [], False),
        ([{"who": f"Bo {n}"} for n in range(10)], _error_result, [], True),
        ([{"who": f"Bo {n}"} for n in range(9)] * 3, _no, [], False),
        ([{}] * 10, _error_result, [], True),  # nothing that was wrong with these
        ([{}] * 9, _no, [], False),
        ([{"who": "Bo"}] * 10, _fault, [], True),
        ([{"who": "Bo"}] * 10, _no, [{"who": "Bo"}], True),  # that has worked before
        ([{"who": "Bo"}] * 20, _no, [{"who": "Al"}], False),
    ],
)
async def test_errors_are_blamed_on_the_tool_or_on_the_arguments(
    asked: list[dict[str, str]],
    fails: Callable[[], ToolResult],
    worked: list[dict[str, str]],
    degraded: bool,
    autojump_clock: MockClock,
) -> None:
    # G24: and one success is enough to be well again
    left = len(worked)

    async def find(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        nonlocal left
        left -= 1
        return ToolResult(text=("here",)) if left >= 0 else fails()

    definition = ToolDefinition(name="find", group="fake", estimated_duration=0.01)
    async with open_host() as host:
        host.register(Tool(definition=definition, handler=find))
        for arguments in (*worked, *asked):
            await fan_out(host, call("find", **arguments))
            await trio.sleep(1)
        estimate = (await host.report())["fake.find"]
        assert bool(estimate.degraded) is degraded
        assert estimate.tier is (Tier.STANDARD if degraded else Tier.FAST)
        left = 1
        await fan_out(host, call("find", who="Cy"))
        assert (await host.report())["fake.find"].degraded is None
