"""A second attempt at another server: when it starts, which answer counts, its price.

Decisions D3, D7, D11, D12, D12a. Virtual time, exact; what each of the two servers
does with a call stands in the call's arguments.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import SharedTasks, loop_lag
from glyphoxa_trio.host import Approvals, Caller, Catalogue, open_host
from glyphoxa_trio.host.attempts import Attempts
from glyphoxa_trio.host.executor import Executor
from glyphoxa_trio.host.hedging import Hedging, HedgingStatistics
from glyphoxa_trio.host.measurements import CalibratorSettings, Measurements
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    CallContext,
    OnInterrupt,
    Tool,
    ToolDefinition,
)
from glyphoxa_trio.tools.gate import EVERYTHING, Availability, Grant, TrustMode
from glyphoxa_trio.tools.hedging import HedgingRules
from glyphoxa_trio.tools.outcome import Effect, Limit, Outcome, Status, ToolResult
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import Sample, SampleKind

from .fakes import Does, Log, call, perform

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind

P95 = 0.25  # of a.look, in every test that does not say otherwise
HAIR = 1e-6  # an answer at the very p95 is in time
SECOND = P95 + HAIR  # when the second attempt starts
ALWAYS = HedgingRules(
    enabled=True, replicas=(("a", "b"),), extra_calls=1.0, min_samples=1
)
Change = dict[str, Any]  # of a definition


@attrs.define
class Notes(Log):
    contexts: list[tuple[str, CallContext]] = attrs.field(factory=list)

    def forget(self) -> None:
        for notes in (self.began, self.ended, self.cancelled, self.contexts):
            notes.clear()


def look(group: str, log: Notes, *, blocking: bool = False, **definition: Any) -> Tool:
    """``look`` of a server, which does what the arguments say of that server."""

    async def handler(arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        log.contexts.append((group, context))
        seconds, does = arguments.get(group, (0.0, "ANSWER"))
        if does == "AT NOON":
            await trio.sleep_until(seconds)
            return ToolResult(text=(group,))
        if does == "MUMBLE":
            await trio.sleep(seconds)
            raise AnswerUnusable("mumble")
        return await perform(group, seconds, Does[does], log)

    fields: dict[str, Any] = {
        "name": "look",
        "group": group,
        "external": True,
        "read_only": True,
        "estimated_duration": 0.01,
    }
    fields |= definition
    return Tool(definition=ToolDefinition(**fields), handler=handler, blocking=blocking)


def plan(a: Any, b: Any = 0.0, **more: Any) -> dict[str, Any]:
    """Arguments: after how many seconds each server does what, by default answers."""
    pairs = {"a": a, "b": b}
    return more | {
        group: [x, "ANSWER"] if isinstance(x, int | float) else [x[0], _name(x[1])]
        for group, x in pairs.items()
    }


def _name(does: Does | str) -> str:
    return does if isinstance(does, str) else does.name


@attrs.define
class Bench:
    """Executor, attempts and hedging; what is observed is recorded at once."""

    executor: Executor
    attempts: Attempts
    hedging: Hedging
    catalogue: Catalogue
    measurements: Measurements
    approvals: Approvals
    nursery: trio.Nursery
    log: Notes
    samples: list[tuple[str, Sample]]
    began: float = 0.0

    async def ask(
        self,
        a: Any,
        b: Any = 0.0,
        *,
        name: str = "a.look",
        within: float = 4.0,
        grant: Grant = EVERYTHING,
        arguments: Mapping[str, Any] | None = None,
        **caller: Any,
    ) -> Outcome:
        """One call of a.look, from now on: `Bench.now` counts from here."""
        self.began = trio.current_time()
        (end,) = await self.executor.fan_out(
            [call(name, "the call", **plan(a, b, **(arguments or {})))],
            Caller(grant=grant, **{"tier": Tier.DEEP} | caller),
            deadline=self.began + within,
        )
        return end

    @property
    def now(self) -> float:
        return trio.current_time() - self.began

    def when(self, notes: list[tuple[str, float]]) -> list[tuple[str, float]]:
        """Times as they count from the call; the clock's own rounding taken off."""
        return [(name, round(at - self.began, 9)) for name, at in notes]

    def said(self) -> list[tuple[str, SampleKind, float]]:
        """What attempts said of their tools since the beginning of the call."""
        return [(key, x.kind, round(x.seconds, 9)) for key, x in self.samples]

    def figures(self) -> HedgingStatistics:
        figures = self.executor.statistics().hedging
        return attrs.evolve(figures, wasted=round(figures.wasted, 9))

    def afresh(self) -> None:
        """What a.look was measured at since then does not count any more."""
        self.know("a", *[P95] * 100)

    def know(self, group: str, *seconds: float) -> None:
        """Measured before the test began."""
        definition = self.catalogue.current.by_key[f"{group}.look"].definition
        for one in seconds:
            self.measurements.record(definition, Sample(OK, one, trio.current_time()))


@asynccontextmanager
async def bench(
    *tools: Tool,
    rules: HedgingRules = ALWAYS,
    log: Notes | None = None,
    known: tuple[float, ...] = (P95,),
    at: float = 0.0,
) -> AsyncGenerator[Bench]:
    log = log or Notes()
    chosen = tools or (look("a", log), look("b", log))
    samples: list[tuple[str, Sample]] = []
    measurements = Measurements(CalibratorSettings())
    catalogue = Catalogue(measurements.estimate)
    catalogue.register(chosen)
    approvals = Approvals(lambda *_: True)

    def observe(key: str, sample: Sample) -> None:
        samples.append((key, sample))
        measurements.record(catalogue.current.by_key[key].definition, sample)

    with trio.fail_after(100_000), loop_lag() as lag:
        async with trio.open_nursery() as nursery:
            attempts = Attempts(SharedTasks(nursery), observe, lambda _: None, lag)
            hedging = Hedging(rules, nursery, catalogue, attempts, measurements.window)
            executor = Executor(nursery, catalogue, attempts, approvals, hedging)
            made = Bench(
                executor,
                attempts,
                hedging,
                catalogue,
                measurements,
                approvals,
                nursery,
                log,
                samples,
            )
            if known:
                made.know("a", *known)
            await trio.sleep(at)
            yield made
            nursery.cancel_scope.cancel()


# When it starts, and which answer counts


async def test_a_second_attempt_starts_at_the_p95_and_its_answer_counts(
    autojump_clock: MockClock,
) -> None:
    async with bench(at=10.0) as b:
        end = await b.ask(3.0, 0.125)
        assert b.now == pytest.approx(SECOND + 0.125, abs=1e-9)
        await wait_all_tasks_blocked()
    assert b.when(b.log.began) == [("a", 0), ("b", SECOND)]
    assert b.when(b.log.ended) == [("b", SECOND + 0.125)]
    assert b.when(b.log.cancelled) == [("a", SECOND + 0.125)]
    assert (end.status, end.message, end.effect) == (Status.OK, "b", Effect.NONE)
    assert (end.tool, end.answered_by) == ("a.look", "b.look")
    assert end.elapsed == pytest.approx(SECOND + 0.125, abs=1e-9)
    assert b.figures() == HedgingStatistics(
        started=1, won=1, wasted=round(SECOND + 0.125, 9)
    )


async def test_of_a_tool_on_trial_two_run_at_once_second_attempts_included(
    autojump_clock: MockClock,
) -> None:
    log = Notes()
    unknown = look("b", log, estimated_duration=None)
    ends: list[Outcome] = []
    async with bench(look("a", log), unknown, log=log) as b:

        async def ask(n: int) -> None:
            ends.append(await b.ask(1.0, 0.5, arguments={"n": n}))

        for _ in range(2):  # a place that was taken is given back
            log.forget()
            b.afresh()
            ends.clear()
            async with trio.open_nursery() as nursery:
                for n in range(4):
                    nursery.start_soon(ask, n)
            await wait_all_tasks_blocked()
            assert log.names().count("b") == 2
            assert sorted(end.message for end in ends) == ["a", "a", "b", "b"]
        assert b.figures().over_budget == 0


async def test_it_is_the_p95_of_the_tools_own_window(autojump_clock: MockClock) -> None:
    hundred = tuple(n / 128 for n in range(1, 101))  # the 95th is 95/128
    async with bench(known=hundred) as b:
        await b.ask(3.0, 0.125)
    assert b.when(b.log.began) == [("a", 0), ("b", round(95 / 128 + HAIR, 9))]


@pytest.mark.parametrize("a", [0.0, 0.125, P95], ids=["at once", "before", "at it"])
async def test_a_call_that_answers_by_then_is_made_once(
    a: float, autojump_clock: MockClock
) -> None:
    # Also at the p95 itself: a tool that always takes the same would be asked twice.
    async with bench(at=0.3) as b:
        for _ in range(20):
            end = await b.ask(a)
            assert (end.message, end.answered_by) == ("a", None)
    assert b.log.names() == ["a"] * 20
    assert b.figures() == HedgingStatistics()


async def test_the_first_attempt_may_still_win(autojump_clock: MockClock) -> None:
    async with bench() as b:
        end = await b.ask(0.5, 0.375)
        assert b.now == 0.5
        await wait_all_tasks_blocked()
    assert (end.message, end.tool, end.answered_by) == ("a", "a.look", None)
    assert b.when(b.log.cancelled) == [("b", 0.5)]
    assert b.figures() == HedgingStatistics(
        started=1, lost=1, wasted=round(0.5 - SECOND, 9)
    )


async def test_a_tie_goes_to_the_tool_that_was_called(
    autojump_clock: MockClock,
) -> None:
    async with bench() as b:
        for _ in range(20):
            b.afresh()
            noon = trio.current_time() + 0.5
            end = await b.ask((noon, "AT NOON"), (noon, "AT NOON"))
            assert (end.message, end.answered_by) == ("a", None)
        assert b.figures().lost == 20


@pytest.mark.parametrize("first", [True, False], ids=["the first", "the second"])
async def test_a_no_is_an_answer(first: bool, autojump_clock: MockClock) -> None:
    no, later = (0.375 if first else 0.0625, Does.SAY_NO), 3.0
    async with bench() as b:
        end = await b.ask(no, later) if first else await b.ask(later, no)
        assert b.now == pytest.approx(0.375 if first else SECOND + 0.0625, abs=1e-9)
        await wait_all_tasks_blocked()
    assert end.status is Status.TOOL_ERROR
    assert end.message == ("a says no" if first else "b says no")
    assert end.answered_by == (None if first else "b.look")
    assert [name for name, _ in b.log.cancelled] == ["b" if first else "a"]


FAILURES = [Does.CRASH, Does.LOSE, Does.BE_AWAY, "MUMBLE"]


@pytest.mark.parametrize("does", FAILURES)
async def test_a_failure_of_the_first_waits_for_the_second(
    does: Does | str, autojump_clock: MockClock
) -> None:
    async with bench() as b:
        end = await b.ask((0.375, does), 0.5)
        assert b.now == pytest.approx(SECOND + 0.5, abs=1e-9)
    assert (end.status, end.message, end.answered_by) == (Status.OK, "b", "b.look")
    assert b.figures() == HedgingStatistics(started=1, won=1)  # it had ended by itself


@pytest.mark.parametrize("does", FAILURES)
async def test_a_failure_of_the_second_leaves_the_first_alone(
    does: Does | str, autojump_clock: MockClock
) -> None:
    async with bench() as b:
        end = await b.ask(0.5, (0.125, does))
        assert b.now == 0.5
    assert (end.status, end.message, end.answered_by) == (Status.OK, "a", None)
    assert b.figures() == HedgingStatistics(started=1, lost=1, wasted=0.125)


@pytest.mark.parametrize("sooner", ["a", "b"])
async def test_if_both_fail_it_is_the_failure_of_the_tool_that_was_called(
    sooner: str, autojump_clock: MockClock
) -> None:
    a, second = (0.375, 0.5) if sooner == "a" else (0.5, 0.0625)
    async with bench() as b:
        end = await b.ask((a, Does.CRASH), (second, Does.LOSE))
        assert b.now == pytest.approx(SECOND + 0.5 if sooner == "a" else 0.5, abs=1e-9)
    assert (end.status, end.message) == (Status.CRASHED, "Bug: a is broken")
    assert (end.effect, end.answered_by) == (Effect.NONE, None)
    assert b.figures().lost == 1


async def test_a_failure_before_the_p95_is_the_end(autojump_clock: MockClock) -> None:
    # A second attempt is for what is slow. What failed is repeated by a connection.
    async with bench() as b:
        end = await b.ask((0.125, Does.CRASH))
    assert (end.status, b.log.names()) == (Status.CRASHED, ["a"])


# Inside the limits of the call


async def test_neither_outlives_the_turn(autojump_clock: MockClock) -> None:
    async with bench() as b:
        end = await b.ask(3.0, 3.0, within=0.5)
        assert b.now == 0.5
        await wait_all_tasks_blocked()
    assert (end.status, end.limit, end.tool) == (Status.TIMEOUT, Limit.TURN, "a.look")
    assert sorted(b.when(b.log.cancelled)) == [("a", 0.5), ("b", 0.5)]
    assert b.figures() == HedgingStatistics(
        started=1, lost=1, wasted=round(0.5 - SECOND, 9)
    )


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ({"max_duration": 0.5}, Limit.TOOL),
        ({"max_duration": 1.0, "server_timeout": 0.5}, Limit.SERVER),
    ],
)
async def test_neither_outlives_the_limit_of_the_tool_that_was_called(
    limits: Change, limit: Limit, autojump_clock: MockClock
) -> None:
    log = Notes()
    async with bench(look("a", log, **limits), look("b", log), log=log) as b:
        end = await b.ask(3.0, 3.0)
        assert b.now == 0.5
        await wait_all_tasks_blocked()
        assert b.said() == [("a.look", TIMEOUT, 0.5)]
    assert (end.status, end.limit) == (Status.TIMEOUT, limit)
    assert sorted(b.when(b.log.cancelled)) == [("a", 0.5), ("b", 0.5)]
    assert b.figures().lost == 1


async def test_the_second_has_its_own_limit_too(autojump_clock: MockClock) -> None:
    log = Notes()
    async with bench(look("a", log), look("b", log, max_duration=0.25), log=log) as b:
        end = await b.ask(1.0, 3.0)
        assert b.now == 1.0
        await wait_all_tasks_blocked()
        assert b.said() == [("b.look", TIMEOUT, 0.25), ("a.look", OK, 1.0)]
    assert (end.message, end.answered_by) == ("a", None)
    assert b.when(log.cancelled) == [("b", round(SECOND + 0.25, 9))]
    assert b.figures() == HedgingStatistics(started=1, lost=1, wasted=0.25)


async def test_the_second_is_told_how_long_it_is_awaited(
    autojump_clock: MockClock,
) -> None:
    log = Notes()
    cases: list[tuple[Change, Change, float, float]] = [
        ({}, {}, 2.0, 2.0),
        ({"max_duration": 1.0}, {}, 2.0, 1.0),
        ({}, {"server_timeout": 0.5}, 2.0, SECOND + 0.5),
    ]
    for mine, its, within, deadline in cases:
        log.forget()
        async with bench(look("a", log, **mine), look("b", log, **its), log=log) as b:
            await b.ask(3.0, 0.125, within=within, npc="Bo", session="table")
            (_, context) = next(x for x in log.contexts if x[0] == "b")
            assert context.deadline - b.began == pytest.approx(deadline, abs=1e-9)
            assert context.awaited_until == b.began + within
            assert (context.npc, context.session) == ("Bo", "table")
            assert context.call_id == "the call"


@pytest.mark.parametrize("limit", [None, 0.5], ids=["the turn's", "its own"])
async def test_what_failed_has_failed_when_the_time_is_up(
    limit: float | None, autojump_clock: MockClock
) -> None:
    log = Notes()
    async with bench(look("a", log, max_duration=limit), look("b", log), log=log) as b:
        end = await b.ask((0.375, Does.CRASH), 3.0, within=0.5 if limit is None else 1)
        assert b.now == 0.5
        await wait_all_tasks_blocked()
    assert (end.status, end.limit, end.message) == (
        Status.CRASHED,
        None,
        "Bug: a is broken",
    )
    assert b.when(log.cancelled) == [("b", 0.5)]
    assert b.figures().lost == 1


async def test_nobody_waits_for_a_second_that_has_met_its_limit(
    autojump_clock: MockClock,
) -> None:
    log = Notes()
    async with bench(look("a", log), look("b", log, max_duration=0.25), log=log) as b:
        end = await b.ask((0.375, Does.CRASH), 3.0)
        assert b.now == pytest.approx(SECOND + 0.25, abs=1e-9)
        assert b.said() == [("a.look", FAILED, 0.375), ("b.look", TIMEOUT, 0.25)]
    assert (end.status, end.message) == (Status.CRASHED, "Bug: a is broken")


async def test_a_loser_that_does_not_stop_holds_nobody(
    autojump_clock: MockClock,
) -> None:
    async with bench() as b:
        end = await b.ask((3.0, Does.SHIELD), 0.125)
        assert b.now == pytest.approx(SECOND + 0.125, abs=1e-9)
        assert end.message == "b"
        await trio.sleep(10)
        assert b.said() == [("b.look", OK, 0.125), ("a.look", CENSORED, SECOND + 0.125)]


async def test_what_was_begun_ahead_and_has_answered_is_not_asked_again(
    autojump_clock: MockClock,
) -> None:
    # It began before the turn, and its p95 is over when the turn comes for it.
    asked = call("a.look", "the call", **plan(0.5))
    async with bench() as b:
        caller = Caller(grant=EVERYTHING)
        ahead = b.executor.ahead(caller, remaining=4.0, until=60.0)
        assert ahead.begin(asked)
        await trio.sleep(1.0)
        (end,) = await b.executor.fan_out(
            [asked], attrs.evolve(caller, ahead=ahead), deadline=4.0
        )
        ahead.close()
        assert (end.message, b.log.names()) == ("a", ["a"])


async def test_what_was_begun_ahead_may_have_a_second_attempt_at_once(
    autojump_clock: MockClock,
) -> None:
    asked = call("a.look", "the call", **plan(3.0, 0.125))
    async with bench() as b:
        caller = Caller(grant=EVERYTHING)
        ahead = b.executor.ahead(caller, remaining=4.0, until=60.0)
        assert ahead.begin(asked)
        await trio.sleep(1.0)
        (end,) = await b.executor.fan_out(
            [asked], attrs.evolve(caller, ahead=ahead), deadline=4.0
        )
        ahead.close()
        assert end.answered_by == "b.look"
        assert trio.current_time() == 1.125
        await wait_all_tasks_blocked()
        assert [name for name, _ in b.log.cancelled] == ["a"]


async def test_of_a_call_begun_ahead_the_second_ends_at_the_limit_of_the_first(
    autojump_clock: MockClock,
) -> None:
    asked, log = call("a.look", "the call", **plan(3.0, 3.0)), Notes()
    tools = look("a", log, max_duration=2.0), look("b", log)
    async with bench(*tools, log=log) as b:
        caller = Caller(grant=EVERYTHING)
        ahead = b.executor.ahead(caller, remaining=4.0, until=60.0)
        assert ahead.begin(asked)
        await trio.sleep(1.0)
        (end,) = await b.executor.fan_out(
            [asked], attrs.evolve(caller, ahead=ahead), deadline=5.0
        )
        ahead.close()
        assert (end.limit, trio.current_time()) == (Limit.TOOL, 2.0)
        assert [context.deadline for _, context in log.contexts] == [2.0, 2.0]


# Whether it starts at all


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param({"read_only": False}, {}, id="it writes"),
        pytest.param({"read_only": False, "idempotent": True}, {}, id="idempotent"),
        pytest.param({}, {"read_only": False}, id="the other writes"),
        pytest.param(
            {}, {"read_only": False, "idempotent": True}, id="the other is idempotent"
        ),
        pytest.param({}, {"name": "peek"}, id="another name"),
        pytest.param(
            {}, {"parameters": {"type": "object", "minProperties": 1}}, id="schema"
        ),
        pytest.param({}, {"group": "c"}, id="no replica"),
        pytest.param({}, {"min_tier": Tier.DEEP}, id="over tier"),
        pytest.param({}, {"estimated_duration": 0.25}, id="does not fit"),
        pytest.param({"max_duration": 0.251}, {}, id="nor into its own limit"),
    ],
)
async def test_a_tool_that_may_not_stand_in_is_not_asked(
    a: Change, b: Change, autojump_clock: MockClock
) -> None:
    # D12: nothing with side effects is sent twice, however it is described.
    log = Notes()
    made = bench(look("a", log, **a), look(**Change(group="b", log=log) | b), log=log)
    async with made as x:
        end = await x.ask(0.4375, within=0.48, tier=Tier.STANDARD)
        assert log.names() == ["a"]
        assert x.figures() == HedgingStatistics()
    assert end.answered_by is None


async def test_that_call_would_have_been_made_twice(autojump_clock: MockClock) -> None:
    async with bench() as b:  # but for what each case above has changed
        end = await b.ask(0.4375, within=0.48, tier=Tier.STANDARD)
    assert end.answered_by == "b.look"


async def test_a_thread_cannot_be_taken_back(autojump_clock: MockClock) -> None:
    log = Notes()
    tools = look("a", log), look("b", log, blocking=True)
    async with bench(*tools, log=log) as b:
        await b.ask(0.5)
    assert log.names() == ["a"]


BO = "mcp__a__look"


@pytest.mark.parametrize(
    ("grant", "answered_by"),
    [
        (Grant(tools=("a", "b"), trust=TrustMode.FULL), "b.look"),
        (Grant(tools=("a.look", "b.look")), "b.look"),
        (Grant(tools=("a.*", "b.*"), allow_tools=("a.*", "b.*")), "b.look"),
        (Grant(tools=("a",), trust=TrustMode.FULL), None),
        (Grant(tools=("a.look", "b.*")), None),
        # Shown, because somebody could be asked: who said yes to one call of the
        # first has not been asked about the other.
        (Grant(tools=("a.*", "b.*"), approver=True), None),
        (Grant(tools=("a.*", "b.look"), approver=True), "b.look"),
    ],
)
async def test_an_npc_is_answered_by_whom_it_may_ask(
    grant: Grant, answered_by: str | None, autojump_clock: MockClock
) -> None:
    async with bench() as b:
        end = await b.ask(3.0, 0.125, grant=grant, approved=frozenset({"the call"}))
    assert (end.ok, end.answered_by) == (True, answered_by)
    assert b.log.names() == ["a", "b"][: 1 + bool(answered_by)]


async def test_a_right_that_is_gone_meanwhile_counts(autojump_clock: MockClock) -> None:
    # D16: the gate is asked when the second attempt would start.
    both = Grant(tools=("a", "b"), trust=TrustMode.FULL)
    one = Grant(tools=("a",), trust=TrustMode.FULL)

    def still() -> tuple[Grant, Tier]:
        return (both if trio.current_time() < 0.2 else one), Tier.DEEP

    async with bench() as b:
        end = await b.ask(1.0, grant=both, still=still)
    assert (end.answered_by, b.log.names()) == (None, ["a"])


async def test_a_tool_that_is_held_back_stands_in_for_nobody(
    autojump_clock: MockClock,
) -> None:
    both = Grant(tools=("a.look", "b.look"))
    async with bench() as b:
        for print_ in ("one", "another"):
            b.approvals.offer("b", {"b.look": print_})
            b.approvals.review(b.catalogue.current.listings)
        end = await b.ask(1.0, grant=both)
        assert (end.answered_by, b.log.names()) == (None, ["a"])
        b.approvals.approve("b.look")
        b.afresh()
        assert (await b.ask(1.0, grant=both)).answered_by == "b.look"


@pytest.mark.parametrize("how", [Availability.RESTARTING, Availability.DOWN])
async def test_a_server_that_is_not_there_is_not_asked(
    how: Availability, autojump_clock: MockClock
) -> None:
    async with bench() as b:
        b.catalogue.set_availability("b", how)
        assert (await b.ask(1.0)).answered_by is None
        assert b.log.names() == ["a"]
        b.catalogue.set_availability("b", Availability.READY)
        b.afresh()
        assert (await b.ask(1.0)).answered_by == "b.look"


async def test_a_second_attempt_is_nobodys_trial(autojump_clock: MockClock) -> None:
    async with bench() as b:
        for _ in range(5):
            await b.ask(0, (0, Does.CRASH), name="b.look")
        for pause in (1.0, 10.0):  # its breaker is open, and then may be tried
            await trio.sleep(pause)
            b.log.forget()
            b.afresh()
            assert (await b.ask(1.0)).answered_by is None
            assert b.log.names() == ["a"]
        assert (await b.ask(0, name="b.look")).ok
        b.afresh()
        assert (await b.ask(1.0)).answered_by == "b.look"


async def test_a_server_with_calls_that_do_not_stop_is_not_asked(
    autojump_clock: MockClock,
) -> None:
    async with bench() as b:
        await b.ask(0, (60.0, Does.SHIELD), name="b.look", within=0.1)
        await trio.sleep(1.0)
        assert (await b.ask(1.0)).answered_by is None
        await trio.sleep(60.0)
        b.afresh()
        assert (await b.ask(1.0)).answered_by == "b.look"


async def test_of_several_the_one_that_is_reckoned_fastest_is_asked(
    autojump_clock: MockClock,
) -> None:
    log = Notes()
    rules = attrs.evolve(ALWAYS, replicas=(("b", "a", "c", "d"),))
    tools = [
        look("a", log),
        look("b", log, estimated_duration=0.3),
        look("c", log, estimated_duration=0.1),
        look("d", log, estimated_duration=0.05),
    ]
    async with bench(*tools, rules=rules, log=log) as b:
        assert (await b.ask(3.0)).answered_by == "d.look"
        b.catalogue.set_availability("d", Availability.DOWN)
        assert (await b.ask(3.0)).answered_by == "c.look"


async def test_too_little_measured_is_no_p95(autojump_clock: MockClock) -> None:
    rules = attrs.evolve(ALWAYS, min_samples=4)
    async with bench(rules=rules, known=(P95,)) as b:
        for samples in (2, 3, 4):
            await b.ask(1.0)
            assert b.log.names() == ["a"] * (samples - 1)
            # What was measured elsewhere is of another tool.
            b.know("b", P95)
        assert (await b.ask(1.25)).answered_by == "b.look"
        await trio.sleep(25 * 3600)  # D7: what was measured has expired
        b.log.forget()
        await b.ask(1.25)
        assert b.log.names() == ["a"]


# The budget


async def test_one_second_attempt_in_twenty_calls(autojump_clock: MockClock) -> None:
    rules = HedgingRules(enabled=True, replicas=(("a", "b"),), min_samples=1)
    async with bench(rules=rules) as b:
        hedged = []
        for number in range(1, 61):
            b.afresh()
            if (await b.ask(0.375)).answered_by:
                hedged.append(number)
        assert hedged == [20, 40, 60]
        figures = b.figures()
        assert (figures.started, figures.over_budget) == (3, 57)


async def test_each_tool_has_a_budget_of_its_own(autojump_clock: MockClock) -> None:
    rules = attrs.evolve(ALWAYS, extra_calls=0.5)
    async with bench(rules=rules) as b:
        ends = []
        for a, second, name in [(0.375, 0, "a"), (0, 0.375, "b")] * 2:
            b.afresh()
            b.know("b", *[P95] * 100)
            ends.append(await b.ask(a, second, name=f"{name}.look"))
    assert [end.answered_by for end in ends] == [None, None, "b.look", "a.look"]


async def test_nothing_is_kept_of_tools_that_have_gone(
    autojump_clock: MockClock,
) -> None:
    async with bench() as b:
        for n in range(5):
            b.catalogue.register(look(x, b.log, name=f"look{n}") for x in "ab")
            await b.ask(0.0, name=f"a.look{n}")
            for x in "ab":
                b.catalogue.deregister(f"{x}.look{n}")
        await b.ask(0.0)
        assert list(b.hedging._budgets) == ["a.look"]


async def test_what_was_refused_for_want_of_budget_is_counted_once(
    autojump_clock: MockClock,
) -> None:
    # And one attempt earns once, however many wait for it.
    log = Notes()
    rules = attrs.evolve(ALWAYS, extra_calls=0.5)
    tools = look("a", log, cacheable=60), look("b", log)
    async with bench(*tools, rules=rules, log=log) as b, trio.open_nursery() as askers:
        for _ in range(3):  # one attempt, which three wait for
            askers.start_soon(b.ask, 1.0)
    assert log.names() == ["a"]
    assert b.figures() == HedgingStatistics(over_budget=1)


# What it says of its tool (D7)


async def test_the_answer_counts_for_its_own_tool_and_the_loser_took_longer(
    autojump_clock: MockClock,
) -> None:
    async with bench() as b:
        await b.ask(3.0, 0.125)
        await trio.sleep(10)
        assert b.said() == [("b.look", OK, 0.125), ("a.look", CENSORED, SECOND + 0.125)]


async def test_a_second_attempt_that_was_soon_cut_says_nothing(
    autojump_clock: MockClock,
) -> None:
    # A hundred of these would make a server that is hardly asked look fast.
    async with bench() as b:
        b.know("b", 0.125)
        await b.ask(0.25 + 0.0625, 3.0)
        assert b.said() == [("a.look", OK, 0.3125)]


async def test_one_that_is_slow_for_its_tool_says_so(autojump_clock: MockClock) -> None:
    async with bench() as b:
        b.know("b", 0.125)
        await b.ask(0.5, 3.0)
        assert b.said() == [("a.look", OK, 0.5), ("b.look", CENSORED, 0.25 - HAIR)]


async def test_of_a_server_that_was_never_measured_nothing_is_longer(
    autojump_clock: MockClock,
) -> None:
    async with bench() as b:
        await b.ask(1.0, 3.0)
        assert b.said() == [("a.look", OK, 1.0)]


async def test_what_the_turn_cuts_is_longer_than_this(
    autojump_clock: MockClock,
) -> None:
    async with bench() as b:
        b.know("b", 0.125)
        await b.ask(3.0, 3.0, within=0.5)
        assert b.said() == [
            ("a.look", CENSORED, 0.5),
            ("b.look", CENSORED, 0.25 - HAIR),
        ]


async def test_slow_calls_that_lose_keep_the_p95_where_it_is(
    autojump_clock: MockClock,
) -> None:
    # Dropped, they would leave a window of fast calls only, and its p95 would sink.
    async with bench(known=tuple([0.0625] * 90 + [P95] * 10)) as b:
        for number in range(200):
            await b.ask(3.0 if number % 10 == 9 else 0.0625, 0.0625)
        definition = b.catalogue.current.by_key["a.look"].definition
        window = b.measurements.window(definition)
        now = trio.current_time()
        assert window.percentile(50, now) == 0.0625
        p95 = window.percentile(95, now)
        assert p95 is not None
        assert p95 > P95


async def test_losers_are_no_failures(autojump_clock: MockClock) -> None:
    # G24: neither the breaker nor the health of either server.
    async with bench() as b:
        for _ in range(12):
            await b.ask(3.0, 0.0625)
            b.afresh()
        for _ in range(12):
            await b.ask(0.5, 3.0)
            b.afresh()
        for key in ("a.look", "b.look"):
            listing = b.catalogue.current.by_key[key]
            assert b.attempts.is_trusted(listing, ("", ""))
            window = b.measurements.window(listing.definition)
            assert window.failures == 0
        figures = b.figures()
        assert (figures.won, figures.lost) == (12, 12)


async def test_a_failure_is_one_of_its_own_tool(autojump_clock: MockClock) -> None:
    async with bench() as b:
        await b.ask((0.375, Does.CRASH), 0.5)
        await b.ask(0.5, (0.125, Does.CRASH))
        assert b.said() == [
            ("a.look", FAILED, 0.375),
            ("b.look", OK, 0.5),
            ("b.look", FAILED, 0.125),
            ("a.look", OK, 0.5),
        ]


# Interruption (D12a)


async def test_an_interruption_cancels_both_and_says_nothing(
    autojump_clock: MockClock,
) -> None:
    ends: list[Outcome] = []
    async with bench() as b:
        b.know("b", 0.0625)
        with trio.move_on_after(0.5):
            await b.ask(3.0, 3.0, on_outcome=lambda _, end: ends.append(end))
        await wait_all_tasks_blocked()
        assert b.said() == []
        assert sorted(b.when(b.log.cancelled)) == [("a", 0.5), ("b", 0.5)]
        assert b.figures().lost == 1
    ((status, effect),) = [(end.status, end.effect) for end in ends]
    assert (status, effect) == (Status.CANCELLED, Effect.NONE)


@pytest.mark.parametrize(
    ("a", "b", "message", "answered_by", "at"),
    [
        (3.0, 1.0, "b", "b.look", SECOND + 1.0),
        (1.0, 3.0, "a", None, 1.0),
        ((0.375, Does.CRASH), 1.0, "b", "b.look", SECOND + 1.0),
    ],
)
async def test_a_call_that_may_finish_goes_on_with_both(
    a: Any,
    b: Any,
    message: str,
    answered_by: str | None,
    at: float,
    autojump_clock: MockClock,
) -> None:
    log = Notes()
    late: list[tuple[Outcome, float]] = []
    silently = look("a", log, on_interrupt=OnInterrupt.FINISH_SILENTLY)
    async with bench(silently, look("b", log), log=log) as x:
        with trio.move_on_after(0.5):
            await x.ask(a, b, on_late=lambda end: late.append((end, x.now)))
        await trio.sleep(20)
        figures = x.figures()
        assert figures.won + figures.lost == 1
    ((end, when),) = late
    assert (end.message, end.answered_by) == (message, answered_by)
    assert when == pytest.approx(at, abs=1e-9)


async def test_nor_does_what_may_finish_outlive_the_limit_of_its_tool(
    autojump_clock: MockClock,
) -> None:
    # The tool that was called has failed, so it has met its limit for nobody.
    log = Notes()
    late: list[tuple[Outcome, float]] = []
    silently = look("a", log, on_interrupt=OnInterrupt.FINISH_SILENTLY, max_duration=1)
    async with bench(silently, look("b", log), log=log) as x:
        with trio.move_on_after(0.5):
            await x.ask(
                (0.375, Does.CRASH),
                3.0,
                on_late=lambda end: late.append((end, x.now)),
            )
        await trio.sleep(20)
        assert x.when(log.cancelled) == [("b", 1.0)]
        assert x.figures().lost == 1
    ((end, when),) = late
    assert (end.status, when) == (Status.CRASHED, 1.0)


async def test_nobody_waits_so_nobody_else_is_asked(autojump_clock: MockClock) -> None:
    log = Notes()
    silently = look("a", log, on_interrupt=OnInterrupt.FINISH_SILENTLY)
    async with bench(silently, look("b", log), log=log) as b:
        with trio.move_on_after(0.125):
            await b.ask(3.0)
        await trio.sleep(20)
        assert log.names() == ["a"]


# One question of many (D11)


def cacheable(log: Notes) -> tuple[Tool, Tool]:
    return look("a", log, cacheable=60), look("b", log)


async def test_a_question_of_twenty_is_asked_twice(autojump_clock: MockClock) -> None:
    # G20: and its answer is kept for nobody, who might not be allowed to ask b.
    log = Notes()
    ends: list[Outcome] = []
    async with bench(*cacheable(log), log=log) as b:

        async def ask(after: float) -> None:
            await trio.sleep(after)
            began = b.began
            ends.append(await b.ask(3.0, 0.125))
            b.began = began

        async with trio.open_nursery() as askers:
            for n in range(20):  # the last of them when the second is on its way
                askers.start_soon(ask, n / 64)
        assert trio.current_time() == pytest.approx(SECOND + 0.125, abs=1e-9)
        assert sorted(log.names()) == ["a", "b"]
        await wait_all_tasks_blocked()
        assert [name for name, _ in log.cancelled] == ["a"]
        assert {(end.message, end.answered_by) for end in ends} == {("b", "b.look")}
        assert [end.shared for end in ends].count(False) == 1
        figures = b.figures()
        assert (figures.started, figures.won, figures.wasted) == (
            1,
            1,
            round(SECOND + 0.125, 9),
        )
        again = await b.ask(3.0, 0.125)
        assert (again.cached, again.message) == (False, "b")
        # The other server's own tool keeps nothing, and was not asked by anybody.
        assert not (await b.ask(0.0, 0.5, name="b.look")).cached


async def test_one_leaving_stops_neither_for_the_others(
    autojump_clock: MockClock,
) -> None:
    log = Notes()
    ends: list[Outcome] = []
    async with bench(*cacheable(log), log=log) as b:

        async def ask() -> None:
            ends.append(await b.ask(3.0, 0.5))

        async with trio.open_nursery() as askers:
            with trio.move_on_after(0.375):
                askers.start_soon(ask)
                await b.ask(3.0, 0.5)
            assert log.cancelled == []
            assert b.figures() == HedgingStatistics(started=1)
        await wait_all_tasks_blocked()
    ((message, answered_by),) = [(end.message, end.answered_by) for end in ends]
    assert (message, answered_by) == ("b", "b.look")
    assert [name for name, _ in log.cancelled] == ["a"]


async def test_who_may_not_ask_the_other_waits_for_the_first(
    autojump_clock: MockClock,
) -> None:
    log = Notes()
    one = Grant(tools=("a",), trust=TrustMode.FULL)
    ends: dict[str, tuple[str | None, float]] = {}
    async with bench(*cacheable(log), log=log) as b:

        async def ask(who: str, grant: Grant) -> None:
            end = await b.ask(1.0, 0.125, grant=grant)
            ends[who] = (end.answered_by, round(b.now, 9))

        async with trio.open_nursery() as askers:
            askers.start_soon(ask, "may", EVERYTHING)
            askers.start_soon(ask, "may not", one)
        assert log.cancelled == []
    assert ends == {"may": ("b.look", round(SECOND + 0.125, 9)), "may not": (None, 1.0)}
    figures = b.figures()
    assert (figures.won, figures.wasted) == (1, 0.0)  # the first was needed after all


async def test_what_a_write_has_crossed_is_not_kept(autojump_clock: MockClock) -> None:
    log = Notes()
    write = look("a", log, name="write", read_only=False)
    async with bench(*cacheable(log), write, log=log) as b:
        async with trio.open_nursery() as askers:
            askers.start_soon(b.ask, 3.0, 0.125)
            await trio.sleep(0.125)
            await b.ask(0.0, name="a.write")
        assert log.names() == ["a", "a", "b"]
        assert not (await b.ask(0.0)).cached
        assert (await b.ask(0.0)).cached


# The end


async def test_closing_the_host_ends_the_wait(autojump_clock: MockClock) -> None:
    log, ends = Notes(), []
    rules = attrs.evolve(ALWAYS)
    async with trio.open_nursery() as callers:
        with trio.fail_after(60):
            async with open_host(hedging=rules) as host:
                host.register(look("a", log), look("b", log))
                await host.execute("a.look", plan(P95))

                async def ask() -> None:
                    ends.append(await host.execute("a.look", plan(60.0, 60.0)))

                callers.start_soon(ask)
                await trio.sleep(1.0)
                assert log.names() == ["a", "a", "b"]
    assert [end.status for end in ends] == [Status.UNAVAILABLE]


async def test_a_host_hedges_if_it_is_told_to(autojump_clock: MockClock) -> None:
    for rules in (HedgingRules(), ALWAYS):
        log = Notes()
        async with open_host(hedging=rules) as host:
            host.register(look("a", log), look("b", log))
            await host.execute("a.look", plan(P95))
            await wait_all_tasks_blocked()
            end = await host.execute("a.look", plan(1.0))
            figures = host.statistics().executor.hedging
        assert end.answered_by == ("b.look" if rules.enabled else None)
        assert figures.started == rules.enabled
