"""Which calls are begun before anybody has said the words, and whose time they take.

As in `test_speculation`: what is heard at 0 begins at 0.125, virtual and exact.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import Caller, ToolHost
from glyphoxa_trio.npc import (
    ApprovalNeeded,
    ApprovalRequest,
    FanOutDone,
    SpeculationDone,
    SpeculationEnd,
    ToolsShown,
    ToolStarted,
)
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.tools.breaker import Breaker
from glyphoxa_trio.tools.definition import OnInterrupt, Tool, ToolDefinition
from glyphoxa_trio.tools.gate import EVERYTHING, Grant
from glyphoxa_trio.tools.outcome import Limit, Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

from .support import HANG, Heard, Ran, Reply, Table, ask, call, no, open_table
from .test_speculation import ON, SAID, WORDS, hear_and_say, looks

FAST, STANDARD, DEEP = Tier


def makes(*calls: ToolCall) -> Any:
    """A model that makes these calls at once, then answers."""

    def script(request: LLMRequest) -> Reply:
        return calls if request.messages[-1].role == "user" else ["Done."]

    return script


def told(table: Table) -> SpeculationDone:
    (done,) = table.events.all(SpeculationDone)
    return done  # type: ignore[no-any-return]


async def other(host: ToolHost, name: str, arguments: str = "{}") -> Outcome:
    """A call of somebody else."""
    return await host.execute(name, arguments, grant=EVERYTHING)


# What may begin.


@pytest.mark.parametrize(
    "definition",
    [
        {"read_only": False},
        {"read_only": False, "idempotent": True},
        {"read_only": False, "idempotent": True, "cacheable": 1.0},
    ],
    ids=["a write", "an idempotent write", "a cacheable one"],
)
async def test_what_may_change_something_never_begins_before_its_words(
    autojump_clock: MockClock, definition: dict[str, Any]
) -> None:
    # Twice is as good as once, but once is too often for words that never come.
    ran = Ran()
    write = ran.tool("write", 0.25, **definition)
    script = makes(call("write"), call("look"))
    async with open_table(
        script, write, ran.tool("look", 0.25), speculation=ON
    ) as table:
        heard = await hear_and_say(table, at=1.0)
        assert sorted(ran.began) == [("look", 0.125), ("write", 1.0)]
        assert [o.status for o in heard.done.outcomes] == [Status.OK] * 2
        await hear_and_say(table, at=3.0, said="something else entirely")
    assert [at for name, at in ran.began if name == "write"] == [1.0, 3.0]


async def test_a_call_that_cannot_be_taken_back_never_begins(
    autojump_clock: MockClock,
) -> None:
    # A thread goes on whatever is said, and two that do cost the tool its place.
    ran: list[float] = []

    def handler(arguments: Any, context: Any) -> str:
        ran.append(1)
        return "ran"

    definition = ToolDefinition(
        name="look", group="test", read_only=True, estimated_duration=0.125
    )
    tool = Tool(definition=definition, handler=handler, blocking=True)  # type: ignore[arg-type]
    async with open_table(looks, tool, speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(1)
        await table.npc.hearing("")
        assert (told(table).calls, ran) == (0, [])


async def test_nothing_begins_that_somebody_has_to_approve(
    autojump_clock: MockClock,
) -> None:  # D13a
    ran, asked = Ran(), []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append((request.tool, trio.current_time()))
        await trio.sleep(1)
        return True

    tool = ran.tool("look", 0.25, group="world", external=True)
    grant = Grant(npc="Bob", tools=("mcp__*",), approver=True)
    script = makes(call("mcp__world__look"))
    async with open_table(
        script, tool, speculation=ON, grant=grant, approver=approver
    ) as table:
        heard = await hear_and_say(table, at=1.0)
        assert heard.of(ApprovalNeeded)
        assert heard.done.outcomes[0].ok
    assert (asked, ran.began) == ([("world.look", 1.0)], [("look", 2.0)])
    assert told(table).end is SpeculationEnd.ADOPTED


@pytest.mark.parametrize(
    ("made", "status"),
    [
        (call("hidden"), Status.DENIED),
        (call("slow"), Status.SKIPPED),
        (call("nothing"), Status.DENIED),
        (call("look", "{broken"), Status.INVALID_ARGUMENTS),
        (call("look", '{"n": "x"}'), Status.INVALID_ARGUMENTS),
    ],
    ids=["not granted", "too slow", "unknown", "no JSON", "not its schema"],
)
async def test_what_the_gate_refuses_does_not_begin_either(
    autojump_clock: MockClock, made: ToolCall, status: Status
) -> None:  # D5
    ran = Ran()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [
        ran.tool("look", 0.125, parameters=schema),
        ran.tool("slow", 3.0),
        ran.tool("hidden", 0.125, group="secret"),
    ]
    grant = Grant(npc="Bob", tools=("test.*",))
    async with open_table(makes(made), *tools, speculation=ON, grant=grant) as table:
        heard = await hear_and_say(table, at=1.0)
        assert [outcome.status for outcome in heard.done.outcomes] == [status]
        counted = table.host.statistics().executor.refusals
        assert sum(counted.values()) == (status is not Status.INVALID_ARGUMENTS)
    assert (ran.began, told(table).calls) == ([], 0)


async def test_calls_beyond_the_most_of_a_response_do_not_begin(
    autojump_clock: MockClock,
) -> None:  # D4
    ran = Ran()
    script = makes(*(call("look", id=f"{n}") for n in range(20)))
    async with open_table(script, ran.tool("look", 0.25), speculation=ON) as table:
        heard = await hear_and_say(table, at=1.0)
    assert len(ran.began) == 16
    statuses = [outcome.status for outcome in heard.done.outcomes]
    assert statuses == [Status.OK] * 16 + [Status.SKIPPED] * 4
    assert (told(table).calls, told(table).calls_used) == (16, 16)


async def test_a_trial_of_a_breaker_is_left_to_a_turn(
    autojump_clock: MockClock,
) -> None:  # D7
    ran = Ran()
    fail = ran.tool("look", 0.125, error=ValueError("a bug"))
    async with open_table(looks, fail, speculation=ON) as table:
        for _ in range(5):
            await other(table.host, "test.look")
        await trio.sleep(Breaker().pause)
        await table.npc.hearing(WORDS)
        await trio.sleep(1)
        assert (len(ran.began), len(table.llm.requests)) == (5, 1)
        heard = await ask(table.npc, SAID)
        assert heard.done.outcomes[0].status is Status.CRASHED
    assert len(ran.began) == 6


async def test_searching_for_tools_ahead_loads_nothing(
    autojump_clock: MockClock,
) -> None:  # N25
    ran = Ran()
    tools = [ran.tool(f"go_{n}", 0.125, group="w", external=True) for n in range(20)]
    grant = Grant(npc="Bob", tools=("*",), allow_tools=("*.*",))
    finds = call("tool_search", '{"query": "go_7"}')
    script = makes(finds, call("mcp__w__go_3"))
    async with open_table(script, *tools, speculation=ON, grant=grant) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(1)
        await table.npc.hearing("")
        assert told(table).calls == 0
        heard = await ask(table.npc, "What is there?")
        shown = [event.shown for event in heard.of(ToolsShown)]
        assert shown[0] == ("tool_search",)
        assert len(shown[1]) > 1
    assert ran.began == []  # not loaded: its schema was never shown


# Whose time it is.


async def test_its_own_limit_counts_from_its_real_beginning(
    autojump_clock: MockClock,
) -> None:  # D3
    ran = Ran()
    tool = ran.tool("look", HANG, estimated_duration=0.25, max_duration=0.75)
    async with open_table(looks, tool, speculation=ON) as table:
        heard = await hear_and_say(table, at=0.5)
        (outcome,) = heard.done.outcomes
        # Asked at 0.125, called at 0.375, and 0.75 after that its limit is reached.
        assert heard.only(FanOutDone).elapsed == 0.625
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.TOOL)
        assert ran.cancelled == [("look", 1.125)]


async def test_a_call_at_its_limit_before_the_words_has_timed_out(
    autojump_clock: MockClock,
) -> None:  # D6, D7: it is this call's outcome, and one failure of its tool
    ran = Ran()
    tool = ran.tool("look", HANG, estimated_duration=0.25, max_duration=0.75)
    async with open_table(looks, tool, speculation=ON) as table:
        heard = await hear_and_say(table, at=2.0)
        (outcome,) = heard.done.outcomes
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.TOOL)
        assert heard.only(FanOutDone).elapsed == 0
        assert ran.began == [("look", 0.375)]
        assert ran.cancelled == [("look", 1.125)]
        for _ in range(4):
            await other(table.host, "test.look")
        refused = await other(table.host, "test.look")
        assert refused.status is Status.UNAVAILABLE  # five in a row, not six
    assert len(ran.began) == 5


async def test_a_result_from_within_its_limit_is_kept_beyond_it(
    autojump_clock: MockClock,
) -> None:
    tool = Ran().tool("look", 0.5, max_duration=0.75)
    async with open_table(looks, tool, speculation=ON) as table:
        heard = await hear_and_say(table, at=3.0)
    assert [o.message for o in heard.done.outcomes] == ["look is done"]
    assert heard.done.timings.total == 0


async def test_it_never_holds_a_turn_beyond_its_tier(
    autojump_clock: MockClock,
) -> None:  # D3
    ran = Ran()
    tool = ran.tool("look", HANG, estimated_duration=0.25)
    async with open_table(looks, tool, speculation=ON, tier=FAST) as table:
        heard = await hear_and_say(table, at=0.5)
        (outcome,) = heard.done.outcomes
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.TURN)
        assert heard.only(FanOutDone).elapsed == 0.5
        assert ran.cancelled == [("look", 1.0)]
        # Right-censored, from its real beginning: "longer than 625 ms".
        assert (await table.host.report())["test.look"].p50 == pytest.approx(0.625)


async def test_its_server_is_told_of_no_more_time_than_a_turn_may_have(
    autojump_clock: MockClock,
) -> None:
    seen: list[tuple[float, float]] = []

    async def handler(arguments: Any, context: Any) -> str:
        seen.append((context.deadline, context.awaited_until))
        return "seen"

    definition = ToolDefinition(
        name="look",
        group="test",
        read_only=True,
        estimated_duration=0.125,
        max_duration=20.0,
    )
    tool = Tool(definition=definition, handler=handler)  # type: ignore[arg-type]
    async with open_table(looks, tool, speculation=ON) as table:
        await hear_and_say(table, at=0.5)
    # Until it is claimed, the model has written and the tier's tool time is over.
    latest = 0.125 + 4.0 + 30.0 + 1.5
    assert seen == [(0.375 + 20.0, latest)]


async def test_a_tool_that_says_no_has_said_it_to_the_turn(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    tool = ran.tool("look", 0.25, error=no())
    async with open_table(looks, tool, speculation=ON) as table:
        heard = await hear_and_say(table, at=1.0)
    assert [o.status for o in heard.done.outcomes] == [Status.TOOL_ERROR]
    assert len(ran.began) == 1


# Beside others.


async def test_what_a_write_has_outdated_is_read_again(
    autojump_clock: MockClock,
) -> None:  # D11: a turn must not be told of a world from before somebody's change
    ran = Ran()
    tools = [ran.tool("look", 0.125), ran.tool("write", 0.125, read_only=False)]
    for at, begun in ((0.75, [0.375, 0.75]), (0.375, [0.375])):
        ran.began.clear()
        async with open_table(looks, *tools, speculation=ON) as table:
            start = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    partial(hear_and_say, table, at=start + 0.75, heard=WORDS)
                )
                # It ends while the read is on its way or kept, or before it begins.
                await trio.sleep(at - 0.25)
                await other(table.host, "test.write")
            looked = [t - start for name, t in ran.began if name == "look"]
            assert looked == begun
            assert told(table).calls_used == 2 - len(begun)


async def test_two_identical_calls_are_two_calls(autojump_clock: MockClock) -> None:
    ran = Ran()
    script = makes(call("look", id="a"), call("look", id="b"))
    async with open_table(script, ran.tool("look", 0.25), speculation=ON) as table:
        heard = await hear_and_say(table, at=0.25)
    assert ran.began == [("look", 0.125)] * 2
    assert [o.call.id for o in heard.done.outcomes] == ["a", "b"]
    assert len(heard.of(ToolStarted)) == 2
    assert heard.done.timings.total == 0.125


async def test_a_repeated_id_is_still_the_right_call(autojump_clock: MockClock) -> None:
    ran = Ran()
    script = makes(call("look", '{"n": 1}', id="a"), call("look", '{"n": 2}', id="a"))
    async with open_table(script, ran.tool("look", 0.25), speculation=ON) as table:
        heard = await hear_and_say(table, at=1.0)
    assert len(ran.began) == 2
    assert [o.call.arguments for o in heard.done.outcomes] == ['{"n": 1}', '{"n": 2}']


async def test_a_cacheable_call_is_shared_with_whoever_asks_meanwhile(
    autojump_clock: MockClock,
) -> None:  # D11
    ran = Ran()
    tool = ran.tool("look", 0.5, cacheable=60.0)
    async with open_table(looks, tool, speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        shared = Heard()

        async def ask_too() -> None:
            outcome = await other(table.host, "test.look")
            assert (outcome.ok, outcome.shared) == (True, True)
            shared.events.append((trio.current_time(), None))  # type: ignore[arg-type]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_too)
            await wait_all_tasks_blocked()
            await table.npc.hearing("")  # no one wants it any more but the other
        assert [at for at, _ in shared.events] == [0.875]
        heard = await ask(table.npc, SAID)
        assert heard.done.outcomes[0].cached
    assert len(ran.began) == 1


async def test_what_is_known_or_on_its_way_does_not_begin_again(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    tool = ran.tool("look", 0.5, cacheable=60.0)
    for already in (0.25, 1.0):
        ran.began.clear()
        async with open_table(looks, tool, speculation=ON) as table:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other, table.host, "test.look")
                await trio.sleep(already - 0.25)
                heard = await hear_and_say(table, at=trio.current_time() + 0.4375)
            assert len(ran.began) == 1
            assert heard.done.outcomes[0].cached is (already == 1.0)
            assert told(table).calls == 0


async def test_what_was_given_up_is_found_by_nobody(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 0.25)) as table:
        caller = Caller(grant=EVERYTHING)
        ahead = table.host.ahead(caller, remaining=4.0, until=60.0)
        assert ahead.begin(call("look"))
        await trio.sleep(0.125)
        ahead.close()
        assert not ahead.begin(call("look"))
        (end,) = await table.host.fan_out(
            [call("look")], attrs.evolve(caller, ahead=ahead), deadline=4.0
        )
    assert (end.status, ran.began) == (Status.OK, [("look", 0), ("look", 0.125)])


async def test_a_cached_answer_is_counted_when_a_turn_has_it(
    autojump_clock: MockClock,
) -> None:
    tool = Ran().tool("look", 0.25, cacheable=60.0)
    async with open_table(looks, tool, speculation=ON) as table:

        def counted() -> tuple[int, int]:
            cache = table.host.statistics().executor.cache
            return cache.hits, cache.misses

        await hear_and_say(table, at=1.0)
        assert counted() == (0, 1)
        await table.npc.hearing(WORDS)
        await trio.sleep(1.0)
        await table.npc.hearing("")  # nobody said it
        assert counted() == (0, 1)
        heard = await hear_and_say(table, at=trio.current_time() + 1.0)
        assert heard.done.outcomes[0].cached
        assert counted() == (1, 1)


async def test_a_call_whose_policy_is_to_finish_is_cancelled_ahead_of_its_turn(
    autojump_clock: MockClock,
) -> None:  # D12a is about interrupted turns; nobody asked for this one
    ran = Ran()
    tool = ran.tool("look", 1.0, on_interrupt=OnInterrupt.FINISH_SILENTLY)
    async with open_table(looks, tool, speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        await table.npc.hearing("")
        await trio.sleep(5)
    assert (ran.cancelled, ran.ended) == ([("look", 0.5)], [])


async def test_an_adopted_call_whose_policy_is_to_finish_does(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    tool = ran.tool("look", 1.0, on_interrupt=OnInterrupt.FINISH_SILENTLY)
    async with open_table(looks, tool, speculation=ON) as table:
        await hear_and_say(table, at=0.5, leave_at=0.75)
        await trio.sleep(5)
    assert (ran.cancelled, ran.ended) == ([], [("look", 1.375)])


async def test_a_handler_that_ignores_being_cancelled_is_not_begun_over_and_over(
    autojump_clock: MockClock,
) -> None:  # D3a: two of them cost a tool its place
    begun: list[float] = []

    async def handler(arguments: Any, context: Any) -> str:
        begun.append(trio.current_time())
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        return "at last"

    definition = ToolDefinition(
        name="look", group="test", read_only=True, estimated_duration=0.25
    )
    tool = Tool(definition=definition, handler=handler)  # type: ignore[arg-type]
    async with open_table(looks, tool, speculation=ON) as table:
        for n in range(3):
            await table.npc.hearing(f"look at number {n}")
            await trio.sleep(0.625)
        await table.npc.hearing("")
        assert begun == [0.375]
        assert table.host.statistics().shared_tasks.lingering == {"test.look": 1}
        assert len(table.host.tools()) == 1  # it is still there for a turn


async def test_ahead_is_closed_once_and_takes_nothing_more(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 1.0)) as table:
        caller = Caller(grant=EVERYTHING)
        ahead = table.host.ahead(caller, remaining=4.0, until=9.0)
        assert ahead.begin(call("test.look", id="a"))
        assert not ahead.begin(call("test.look", "[]", id="b"))
        await trio.sleep(0.25)
        ahead.close()
        await trio.sleep(1)
        ahead.close()
        assert not ahead.begin(call("test.look", id="c"))
        counted = ahead.statistics()
        assert (counted.begun, counted.used, counted.wasted) == (1, 0, 1)
        assert counted.waste == 0.25
        assert ran.cancelled == [("look", 0.25)]
        assert table.host.statistics().shared_tasks.running == 0


@pytest.mark.parametrize(
    ("made", "times"),
    [
        ([call("test.look", id="a")], 1),
        ([call("test.look", id="a")] * 2, 2),  # one after the other
        ([call("test.look", id="b")], 2),
        ([call("test.look", '{"n": 1}', id="a")], 2),
        ([call("test.smell", id="a")], 2),
    ],
    ids=["itself", "twice", "another id", "other arguments", "another tool"],
)
async def test_what_was_begun_is_taken_once_and_by_that_very_call(
    autojump_clock: MockClock, made: list[ToolCall], times: int
) -> None:
    ran = Ran()
    tools = [ran.tool("look", 0.25), ran.tool("smell", 0.25)]
    async with open_table(looks, *tools) as table:
        caller = Caller(grant=EVERYTHING)
        ahead = table.host.ahead(caller, remaining=4.0, until=9.0)
        assert ahead.begin(call("test.look", id="a"))
        caller = Caller(grant=EVERYTHING, ahead=ahead)
        for each in made:
            deadline = trio.current_time() + 4.0
            (outcome,) = await table.host.fan_out([each], caller, deadline=deadline)
            assert outcome.ok
        ahead.close()
    assert len(ran.began) == times
