"""Every call ends in one outcome, in call order, inside its limits.

Rows G17, G26, G31, A37, A38, N29; decisions D3 to D6, D13a. Virtual time, exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.host import CatalogueEntry, open_host
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.gate import Availability, Grant, Reason
from glyphoxa_trio.tools.outcome import (
    Effect,
    Limit,
    Outcome,
    Status,
    ToolCall,
    ToolResult,
)
from glyphoxa_trio.tools.tier import Tier

from .fakes import Does, Log, call, fake, fan_out, messages, statuses

NONE, DONE, UNKNOWN = Effect


def tool_of(handler: Any, **definition: Any) -> Tool:
    fields: dict[str, Any] = {"name": "odd", "estimated_duration": 0.01}
    fields |= definition
    return Tool(definition=ToolDefinition(**fields), handler=handler)


# How calls end


@pytest.mark.parametrize(
    ("does", "status", "effect", "message"),
    [
        (Does.ANSWER, Status.OK, DONE, "act"),
        (Does.SAY_NO, Status.TOOL_ERROR, NONE, "act says no"),
        (Does.CRASH, Status.CRASHED, UNKNOWN, "Bug: act is broken"),
        (Does.BE_AWAY, Status.UNAVAILABLE, NONE, "act is away"),
        (Does.LOSE, Status.UNAVAILABLE, UNKNOWN, "act is lost"),
    ],
)
async def test_every_way_of_ending_has_a_status_and_an_effect(
    does: Does, status: Status, effect: Effect, message: str, autojump_clock: MockClock
) -> None:
    # D6: what a tool with side effects did is unknown once its answer is lost.
    async with open_host() as host:
        host.register(fake("act", 0.25, does), fake("look", 0.25, does, read_only=True))
        act, look = await fan_out(host, "act", "look")
    assert act == Outcome(
        call=call("act"),
        tool="fake.act",
        status=status,
        effect=effect,
        message=message,
        data="act" if status is Status.OK else None,
        elapsed=0.25,
    )
    assert (look.status, look.effect) == (status, NONE)


async def test_results_come_in_call_order_and_cost_the_slowest(
    autojump_clock: MockClock,
) -> None:
    # G26, with the example of the seed: 15, 80 and 200 ms cost 200 ms.
    async with open_host() as host:
        host.register(
            fake("dice", 0.015, read_only=True),
            fake("summary", 0.08, read_only=True),
            fake("search", 0.2, read_only=True),
        )
        outcomes = await fan_out(host, "search", "dice", "summary")
        assert trio.current_time() == 0.2
    assert messages(outcomes) == ["search", "dice", "summary"]
    assert [outcome.elapsed for outcome in outcomes] == [0.2, 0.015, 0.08]


async def test_rounds_one_after_the_other_add_up(autojump_clock: MockClock) -> None:
    async with open_host() as host:  # G26
        host.register(fake("look", 0.25, read_only=True))
        for end in (0.25, 0.5, 0.75):
            await fan_out(host, "look", "look")
            assert trio.current_time() == end


async def test_no_calls_take_no_time(autojump_clock: MockClock) -> None:
    async with open_host() as host:
        assert await fan_out(host) == []
        assert trio.current_time() == 0


@pytest.mark.parametrize(
    ("tool", "server", "turn", "limit", "end", "words"),
    [
        (0.25, 0.5, 1.0, Limit.TOOL, 0.25, "the tool's own limit"),
        (0.5, 0.25, 1.0, Limit.SERVER, 0.25, "its server's limit"),
        (0.5, 0.75, 0.25, Limit.TURN, 0.25, "the turn's tool time"),
        (None, 0.5, 1.0, Limit.SERVER, 0.5, "its server's limit"),
        (0.5, None, 1.0, Limit.TOOL, 0.5, "the tool's own limit"),
        (None, None, 1.0, Limit.TURN, 1.0, "the turn's tool time"),
    ],
)
async def test_the_earliest_limit_ends_a_call_and_is_named(
    tool: float | None,
    server: float | None,
    turn: float,
    limit: Limit,
    end: float,
    words: str,
    autojump_clock: MockClock,
) -> None:
    # D3, G20: max_duration is a hard timeout
    async with open_host() as host:
        host.register(fake("act", 3, max_duration=tool, server_timeout=server))
        (outcome,) = await fan_out(host, "act", within=turn)
        assert trio.current_time() == end
    assert (outcome.status, outcome.limit, outcome.elapsed) == (
        Status.TIMEOUT,
        limit,
        end,
    )
    assert outcome.message == f"no answer after {end * 1000:g} ms, {words} was reached"


async def test_what_finished_is_kept_and_the_rest_is_a_timeout(
    autojump_clock: MockClock,
) -> None:
    # D3, D6
    log = Log()
    async with open_host() as host:
        host.register(
            fake("act", 3, log=log),
            fake("look", 3, read_only=True, log=log),
            fake("quick", 0.25, read_only=True),
        )
        act, quick, look = await fan_out(host, "act", "quick", "look")
        assert trio.current_time() == 0.5
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(log.cancelled) == [("act", 0.5), ("look", 0.5)]
    assert quick.ok
    assert statuses([act, look]) == ["timeout", "timeout"]
    assert (act.effect, look.effect) == (UNKNOWN, NONE)


async def test_a_raising_handler_costs_only_its_own_call(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("bad", 0.1, Does.CRASH), fake("good", 0.25, read_only=True))
        outcomes = await fan_out(host, "bad", "good", "bad")
        assert statuses(outcomes) == ["crashed", "ok", "denied"]


def nested(depth: int) -> Any:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        float("nan"),
        nested(100_000),
        ToolResult(text=cast(Any, (None,))),
    ],
    ids=["an object", "a set", "NaN", "too deep", "no text"],
)
async def test_a_result_that_is_none_costs_only_its_own_call(
    value: Any, autojump_clock: MockClock
) -> None:
    # Found: a value too deep for JSON ended the host, and a kept one that could
    # not be presented ended the fan-out.
    async def handler(_: Mapping[str, Any], __: CallContext) -> Any:
        return value

    async with open_host() as host:
        host.register(
            tool_of(handler, read_only=True, cacheable=60), fake("good", 0.25)
        )
        for _ in range(2):
            outcomes = await fan_out(host, "odd", "good")
            assert statuses(outcomes) == ["crashed", "ok"]


async def test_a_handler_that_is_no_coroutine_costs_only_its_own_call(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(tool_of(lambda *_: None), fake("good"))
        assert statuses(await fan_out(host, "odd", "good")) == ["crashed", "ok"]


# The gate, once more, when a call arrives (A38)


async def test_a_call_may_use_the_exposed_name_or_the_key(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("look", group="world", external=True))
        outcomes = await fan_out(
            host, "mcp__world__look", call("world.look", x=1), "look"
        )
        assert [outcome.tool for outcome in outcomes] == ["world.look"] * 2 + [None]


async def test_refused_calls_never_run(autojump_clock: MockClock) -> None:
    log = Log()
    grimjaw = Grant(npc="Grimjaw", tools=("near", "slow", "down", "mcp__far__away"))
    async with open_host() as host:
        host.register(
            fake("near", log=log),
            fake("secret", log=log),
            fake("slow", log=log, estimated_duration=1.0),
        )
        down = fake("down", group="lost", log=log, expose_as="down", external=True)
        host.publish("lost", Availability.DOWN, [down])
        outcomes = await fan_out(
            host,
            *("secret", "slow", "down", "nonsense", "near"),
            grant=grimjaw,
            tier=Tier.FAST,
        )
    assert statuses(outcomes) == ["denied", "skipped", "unavailable", "denied", "ok"]
    assert [outcome.tool for outcome in outcomes] == [
        "fake.secret",
        "fake.slow",
        "lost.down",
        None,
        "fake.near",
    ]
    assert log.names() == ["near"]


async def test_a_call_that_does_not_fit_is_answered_at_once(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("slow", 0.8, log=log, estimated_duration=0.8))
        (outcome,) = await fan_out(host, "slow", within=0.12)
        assert trio.current_time() == 0
    assert outcome.status is Status.SKIPPED  # D4
    assert outcome.message == "needs about 800 ms, 120 ms left"
    assert log.names() == []


async def test_a_tool_that_has_gone_meanwhile_is_refused(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("look"))
        (shown,) = host.tools()
        host.deregister("fake")
        (outcome,) = await fan_out(host, shown.exposed)
    assert (outcome.status, outcome.tool) == (Status.DENIED, None)
    assert outcome.message == "there is no tool 'look'"


async def test_the_gate_is_asked_when_a_write_begins_not_when_it_queues(
    autojump_clock: MockClock,
) -> None:
    # D5: whatever is true at that moment
    log = Log()
    async with open_host() as host:
        host.register(fake("first", 0.25), fake("second", log=log))
        async with trio.open_nursery() as nursery:

            async def remove() -> None:
                await trio.sleep(0.1)
                host.deregister("fake.second")

            nursery.start_soon(remove)
            outcomes = await fan_out(host, "first", "second")
    assert statuses(outcomes) == ["ok", "denied"]
    assert log.names() == []


@pytest.mark.parametrize(
    ("tools", "hint"),
    [
        (("*",), ", did you mean look_around?"),
        (("other",), ""),  # what an NPC may not use it does not learn of either
    ],
)
async def test_a_hallucinated_name_is_answered_from_what_is_visible(
    tools: tuple[str, ...], hint: str, autojump_clock: MockClock
) -> None:
    grant = Grant(npc="Grimjaw", tools=tools)
    async with open_host() as host:
        host.register(
            fake("look_around"), fake("other"), fake("look_aroun", min_tier=Tier.DEEP)
        )
        (outcome,) = await fan_out(host, "look_arond", grant=grant, tier=Tier.FAST)
    assert outcome.status is Status.DENIED
    assert outcome.message == f"there is no tool 'look_arond'{hint}"


async def test_more_calls_than_allowed_are_not_run(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_host() as host:  # D4
        host.register(fake("look", log=log, read_only=True))
        calls = [call("look", n=n) for n in range(4)]
        outcomes = await fan_out(host, *calls, max_calls=2)
    assert statuses(outcomes) == ["ok", "ok", "skipped", "skipped"]
    assert outcomes[3].message == "no more calls are made in this turn"
    assert outcomes[3].tool == "fake.look"
    assert len(log.began) == 2


# Arguments


async def test_invalid_arguments_never_run_the_handler(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    schema = {
        "type": "object",
        "properties": {"sides": {"type": "integer"}},
        "required": ["sides"],
    }
    async with open_host() as host:
        host.register(fake("roll", log=log, parameters=schema))
        outcomes = await fan_out(
            host,
            call("roll"),
            call("roll", sides="six"),
            ToolCall("3", "roll", '{"sides": '),
            ToolCall("4", "roll", "[]"),
            call("roll", sides=6.0),
        )
    assert statuses(outcomes) == ["invalid_arguments"] * 4 + ["ok"]
    assert 'missing "sides"' in outcomes[0].message
    assert all(outcome.effect is NONE for outcome in outcomes[:4])
    assert log.names() == ["roll"]


async def test_a_schema_that_never_ends_costs_only_its_own_call(
    autojump_clock: MockClock,
) -> None:
    twice = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)}
    endless = {"type": "object", "$ref": "#/$defs/0", "$defs": twice | {"60": {}}}
    log = Log()
    async with open_host() as host:
        host.register(fake("odd", log=log, parameters=endless), fake("good"))
        outcomes = await fan_out(host, call("odd", x=1), "good")
    assert statuses(outcomes) == ["invalid_arguments", "ok"]
    assert log.names() == []


async def test_a_handler_learns_for_whom_and_until_when_it_runs(
    autojump_clock: MockClock,
) -> None:
    seen: list[tuple[Mapping[str, Any], CallContext]] = []

    async def handler(arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        seen.append((arguments, context))
        return ToolResult()

    async with open_host() as host:
        host.register(
            tool_of(handler, name="own", max_duration=0.25),
            tool_of(handler, name="turn", max_duration=0.75, read_only=True),
        )
        await fan_out(
            host, call("own", "c1", x=5.0), "turn", npc="Grimjaw", session="s"
        )
    assert sorted(seen, key=lambda one: one[1].deadline) == [
        (
            {"x": 5},
            CallContext(
                npc="Grimjaw",
                session="s",
                call_id="c1",
                deadline=0.25,
                awaited_until=0.5,
            ),
        ),
        (
            {},
            CallContext(
                npc="Grimjaw",
                session="s",
                call_id="turn",
                deadline=0.5,
                awaited_until=0.5,
            ),
        ),
    ]


# Calls with side effects


async def test_writes_of_one_group_run_in_call_order_and_all_else_in_parallel(
    autojump_clock: MockClock,
) -> None:
    # D3a
    log = Log()
    async with open_host() as host:
        host.register(
            fake("look", 0.25, group="door", read_only=True, log=log),
            fake("open", 0.25, group="door", log=log),
            fake("walk", 0.25, group="door", log=log),
            fake("sing", 0.25, group="bard", log=log),
        )
        calls = [call("open", n=1), *map(call, ("walk", "look", "sing"))]
        outcomes = await fan_out(host, *calls, call("open", n=2), within=1)
        assert trio.current_time() == 0.75
    assert all(outcome.ok for outcome in outcomes)
    assert sorted(log.began) == [
        ("look", 0),
        ("open", 0),
        ("open", 0.5),
        ("sing", 0),
        ("walk", 0.25),
    ]


@pytest.mark.parametrize("does", [Does.SAY_NO, Does.CRASH, Does.SHIELD])
async def test_the_next_write_begins_when_the_one_before_has_an_outcome(
    does: Does, autojump_clock: MockClock
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("first", 0.25, does, max_duration=0.2), fake("x", log=log))
        await fan_out(host, "first", "x")
        assert log.began == [("x", 0.2)]


async def test_a_write_that_could_not_begin_any_more_did_nothing(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("first", 3), fake("second", log=log))
        first, second = await fan_out(host, "first", "second")
    assert (first.status, first.effect) == (Status.TIMEOUT, UNKNOWN)
    assert second == Outcome(
        call=call("second"),
        tool="fake.second",
        status=Status.SKIPPED,
        limit=Limit.TURN,
        message="the turn's tool time ended before this call could begin",
    )
    assert log.names() == []


async def test_the_same_call_is_not_made_again_when_its_effect_is_unknown(
    autojump_clock: MockClock,
) -> None:
    # D6, within a response and in the rounds that follow
    log = Log()
    unknown: set[tuple[str, str]] = set()
    async with open_host() as host:
        host.register(fake("pay", 0, Does.LOSE, log=log), fake("look", 0, Does.CRASH))

        async def pay(*amounts: float) -> list[str]:
            calls = [call("pay", amount=amount) for amount in amounts]
            return statuses(await fan_out(host, *calls, unknown_effects=unknown))

        assert await pay(5, 5) == ["unavailable", "denied"]
        assert await pay(5.0) == ["denied"]  # the same number
        assert await pay(6) == ["unavailable"]
        assert len(log.began) == 2
        unknown.clear()  # the next turn
        assert await pay(5) == ["unavailable"]


async def test_a_read_may_be_repeated_after_any_end(autojump_clock: MockClock) -> None:
    unknown: set[tuple[str, str]] = set()
    async with open_host() as host:
        host.register(fake("look", 3, max_duration=0.1, read_only=True))
        for _ in range(2):
            outcomes = await fan_out(host, "look", unknown_effects=unknown)
            assert statuses(outcomes) == ["timeout"]


# Approvals (D13a, N29)

GRIMJAW = Grant(npc="Grimjaw", tools=("clock",), approver=True)


async def approving(*calls: ToolCall, approved: set[str], log: Log) -> list[str]:
    async with open_host() as host:
        tool = fake("time", group="clock", external=True, log=log)
        host.publish("clock", Availability.READY, [tool])
        ends = await fan_out(host, *calls, grant=GRIMJAW, approved=frozenset(approved))
        return [str(end.status) for end in ends]


async def test_a_foreign_tool_runs_for_the_very_call_that_was_approved(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    yes, no = (call("mcp__clock__time", name) for name in ("yes", "no"))
    assert await approving(no, yes, approved={"yes"}, log=log) == ["denied", "ok"]
    assert len(log.began) == 1


async def test_an_approval_of_two_calls_with_one_id_is_of_neither(
    autojump_clock: MockClock,
) -> None:
    # Found: whoever approved the first had approved the second unseen.
    log = Log()
    shown = call("mcp__clock__time", "same", zone="UTC")
    hidden = call("mcp__clock__time", "same", zone="elsewhere")
    assert await approving(shown, hidden, approved={"same"}, log=log) == ["denied"] * 2
    assert log.names() == []


# What callers hear


async def test_the_caller_hears_of_every_start_and_every_end_once(
    autojump_clock: MockClock,
) -> None:
    heard: list[tuple[str, int, str, float]] = []

    def started(index: int, listing: CatalogueEntry) -> None:
        heard.append(("start", index, listing.key, trio.current_time()))

    def ended(index: int, outcome: Outcome) -> None:
        heard.append(("end", index, outcome.status, trio.current_time()))

    async with open_host() as host:
        host.register(fake("long", 3), fake("short", 0.25, read_only=True))
        await fan_out(
            host,
            *("long", "short", "nonsense", "long"),
            on_start=started,
            on_outcome=ended,
        )
    assert sorted(heard, key=lambda one: (one[3], one[:2])) == [
        ("end", 2, "denied", 0),
        ("start", 0, "fake.long", 0),
        ("start", 1, "fake.short", 0),
        ("end", 1, "ok", 0.25),
        ("end", 0, "timeout", 0.5),
        ("end", 3, "skipped", 0.5),
    ]


async def test_outcomes_and_refusals_are_counted(autojump_clock: MockClock) -> None:
    async with open_host() as host:
        host.register(fake("look", read_only=True))
        await fan_out(host, "look", "look", "nonsense", max_calls=3)
        await fan_out(host, "look", max_calls=0)
        counts = host.statistics().executor
    assert counts.outcomes == {Status.OK: 2, Status.DENIED: 1, Status.SKIPPED: 1}
    assert counts.refusals == {Reason.UNKNOWN: 1, Reason.TOO_MANY: 1}
