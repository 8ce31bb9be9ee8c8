"""Random tools and random calls: the promises of a fan-out hold.

Random tools, calls, grants, tiers, deadlines and interruptions on virtual time.
D3 to D6, D3a, D12a; rows G17, G26, A38. Each promise is one check below, and each
was seen to fail when the line of the product that keeps it was taken out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import Caller, CatalogueEntry, open_host
from glyphoxa_trio.host.catalogue import Snapshot
from glyphoxa_trio.tools.arguments import InvalidArguments, canonical
from glyphoxa_trio.tools.definition import (
    CallContext,
    OnInterrupt,
    Tool,
    ToolDefinition,
)
from glyphoxa_trio.tools.gate import Availability, Candidate, Grant, TrustMode, refusal
from glyphoxa_trio.tools.outcome import (
    Effect,
    Limit,
    Outcome,
    Status,
    ToolCall,
    ToolResult,
)
from glyphoxa_trio.tools.tier import Tier

from .fakes import Does, answer

T = TypeVar("T")

# Multiples of 1/64 s are exact in binary: times can be compared with ==.
TICK = 1 / 64


def ticks(least: int, most: int) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda count: count * TICK)


def mostly(usual: T, *others: T) -> st.SearchStrategy[T]:
    """Simple cases crowd out the rest, unless the rest is kept rare."""
    return st.sampled_from([usual] * 3 * len(others) + list(others))


SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "additionalProperties": False,
}


@attrs.frozen
class Act:
    """What a tool does when it is called: how, and after how many seconds."""

    does: Does
    seconds: float


@attrs.frozen
class Flown:
    """One run of a handler, as it wrote it down itself."""

    key: str
    call_id: str
    arguments: str
    began: float


@attrs.frozen
class Table:
    """Everything that one example needs."""

    tools: tuple[tuple[ToolDefinition, Act], ...]
    down: frozenset[str]
    calls: tuple[ToolCall, ...]
    grant: Grant
    tier: Tier
    budget: float
    patience: float  # until the interruption, if any
    max_calls: int
    approved: frozenset[str]


@st.composite
def definitions(draw: st.DrawFn, name: str) -> ToolDefinition:
    read_only = draw(st.booleans())
    idempotent = draw(st.booleans())
    cacheable = draw(st.sampled_from([60, 0])) if read_only or idempotent else 0
    return ToolDefinition(
        name=name,
        group=draw(st.sampled_from(["dice", "world"])),
        parameters=SCHEMA,
        estimated_duration=draw(mostly(TICK, 0.25, 0.75, None)),
        max_duration=draw(st.none() | ticks(1, 24)),
        server_timeout=draw(st.none() | ticks(1, 24)),
        read_only=read_only,
        idempotent=idempotent,
        cacheable=cacheable,
        external=draw(st.booleans()),
        on_interrupt=draw(st.none() | st.sampled_from(OnInterrupt)),
    )


@st.composite
def tables(draw: st.DrawFn) -> Table:
    acts = st.builds(Act, st.sampled_from([Does.ANSWER] * 5 + [*Does]), ticks(0, 24))
    names = [f"tool{n}" for n in range(draw(st.integers(1, 4)))]
    tools = tuple((draw(definitions(name)), draw(acts)) for name in names)
    known = [definition.key for definition, _ in tools]
    name = st.sampled_from([*known * 5, "tool0", "nonsense"])
    arguments = mostly('{"x": 1}', '{"x": 1.0}', "{}", '{"x": "?"}', "{")
    ids = st.sampled_from(["a", "b", "c", "d", "e"])
    calls = draw(
        st.lists(st.builds(ToolCall, ids, name, arguments), min_size=1, max_size=6)
    )
    patterns = mostly("*.*", *known, "dice.*", "world", "*", "mcp__*")
    several = st.lists(patterns, min_size=1, max_size=2).map(tuple)
    grant = st.builds(
        Grant,
        npc=st.just("Grimjaw"),
        tools=several,
        trust=mostly(TrustMode.LIMITED, TrustMode.FULL),
        allow_tools=st.lists(st.sampled_from(known), max_size=1).map(tuple),
        approver=st.booleans(),
    )
    return Table(
        tools=tools,
        down=draw(mostly(frozenset[str](), frozenset({"dice"}))),
        calls=tuple(calls),
        grant=draw(grant),
        tier=draw(mostly(Tier.DEEP, *Tier)),
        budget=draw(ticks(16, 48) | ticks(16, 48) | ticks(0, 48)),
        patience=draw(st.just(inf) | ticks(0, 32)),
        max_calls=draw(mostly(16, 1, 3)),
        approved=draw(st.frozensets(ids, max_size=5)),
    )


def tool(definition: ToolDefinition, act: Act, flown: list[Flown]) -> Tool:
    async def handler(arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        began = trio.current_time()
        text = canonical(arguments)
        flown.append(Flown(definition.key, context.call_id, text, began))
        with trio.CancelScope(shield=act.does is Does.SHIELD):
            if act.does is Does.HANG:
                await trio.sleep_forever()
            if act.seconds:
                await trio.sleep(act.seconds)
        return answer(definition.name, act.does)

    return Tool(definition=definition, handler=handler)


@attrs.define
class Seen:
    """What came of one example. Times count from its beginning."""

    snapshot: Snapshot
    flown: list[Flown] = attrs.field(factory=list)
    started: dict[int, float] = attrs.field(factory=dict)
    ended: list[tuple[int, Outcome, float]] = attrs.field(factory=list)
    late: list[Outcome] = attrs.field(factory=list)
    late_at: dict[str, float] = attrs.field(factory=dict)  # by id of the call
    returned: list[Outcome] | None = None  # None if it was interrupted
    unknown: set[tuple[str, str]] = attrs.field(factory=set)
    took: float = 0.0
    flying: int = 0  # when whatever could stop has stopped
    flying_later: int = 0
    launched: int = 0

    @property
    def outcomes(self) -> list[Outcome]:
        return [end for _, end, _ in sorted(self.ended, key=lambda one: one[0])]

    def definition(self, key: str | None) -> ToolDefinition:
        assert key is not None
        return self.snapshot.by_key[key].definition


async def play(table: Table) -> Seen:
    flown: list[Flown] = []
    async with open_host() as host:
        host.register(*(tool(one, act, flown) for one, act in table.tools))
        for group in table.down:
            host.publish(group, Availability.DOWN, None)
        seen = Seen(host.snapshot, flown)

        def started(index: int, _: CatalogueEntry) -> None:
            assert index not in seen.started
            seen.started[index] = trio.current_time()

        def ended(index: int, end: Outcome) -> None:
            seen.ended.append((index, end, trio.current_time()))

        caller = Caller(
            grant=table.grant,
            tier=table.tier,
            max_calls=table.max_calls,
            approved=table.approved,
            unknown_effects=seen.unknown,
            on_start=started,
            on_outcome=ended,
            on_late=seen.late.append,
        )
        with trio.move_on_after(table.patience):
            seen.returned = await host.fan_out(
                table.calls, caller, deadline=table.budget
            )
        seen.took = trio.current_time()
        await wait_all_tasks_blocked()
        seen.flying = host.statistics().shared_tasks.running
        seen.launched = host.statistics().shared_tasks.started
        await trio.sleep(60)
        seen.flying_later = host.statistics().shared_tasks.running
    return seen


def act_of(table: Table, key: str) -> Act:
    return next(act for definition, act in table.tools if definition.key == key)


@settings(max_examples=settings().max_examples * 4)  # ci: 400
@given(tables())
def test_a_fan_out_keeps_its_promises(table: Table) -> None:
    seen = trio.run(play, table, clock=MockClock(autojump_threshold=0))
    never_late(table, seen)
    one_outcome_a_call(table, seen)
    what_finished_is_kept(table, seen)
    refused_calls_never_run(table, seen)
    writes_run_once_and_in_order(seen)
    limits_are_named_and_kept(table, seen)
    effects_are_told_as_they_are(seen)
    nothing_is_left_but_what_may_be(table, seen)


def never_late(table: Table, seen: Seen) -> None:
    """It costs no more than it may, exactly, and no more than it must."""
    assert seen.took <= min(table.budget, table.patience)
    assert seen.took == max(at for _, _, at in seen.ended)


def one_outcome_a_call(table: Table, seen: Seen) -> None:
    """In call order, and told once each, also when nobody gets the list."""
    assert sorted(index for index, _, _ in seen.ended) == list(range(len(table.calls)))
    assert [end.call for end in seen.outcomes] == list(table.calls)
    if seen.returned is not None:
        assert seen.returned == seen.outcomes
        assert all(end.status is not Status.CANCELLED for end in seen.returned)


def what_finished_is_kept(table: Table, seen: Seen) -> None:
    """A handler that ended by itself before every limit: its end is the outcome."""
    due: Counter[tuple[str | None, str, Status]] = Counter()
    for run in seen.flown:
        act = act_of(table, run.key)
        own = seen.definition(run.key).own_limit
        end = run.began + act.seconds
        if (
            act.does is not Does.HANG
            and act.seconds < own
            and end < min(table.budget, table.patience)
        ):
            due[run.key, run.call_id, STATUS[act.does]] += 1
    assert due <= Counter(
        (end.tool, end.call.id, end.status) for end in seen.outcomes if not end.cached
    )


STATUS = {
    Does.ANSWER: Status.OK,
    Does.SHIELD: Status.OK,
    Does.SAY_NO: Status.TOOL_ERROR,
    Does.CRASH: Status.CRASHED,
    Does.LOSE: Status.UNAVAILABLE,
    Does.BE_AWAY: Status.UNAVAILABLE,
}


def refused_calls_never_run(table: Table, seen: Seen) -> None:
    """No handler ran but for a call that had every right to.

    The rights are those of the beginning: time only makes the gate stricter.
    """
    permitted: Counter[tuple[str, str]] = Counter()
    ids = Counter(call.id for call in table.calls)
    for call in table.calls[: table.max_calls]:
        names = seen.snapshot.by_exposed, seen.snapshot.by_key
        listing = next((x[call.name] for x in names if call.name in x), None)
        if listing is None:
            continue
        candidate = Candidate(
            definition=listing.definition,
            exposed=listing.exposed,
            estimate=listing.estimate,
            availability=listing.availability,
        )
        approved = call.id in table.approved and ids[call.id] == 1
        no = refusal(
            candidate,
            table.grant,
            tier=table.tier,
            remaining=table.budget,
            approved=approved,
        )
        trusted = approved or table.grant.approves(listing.definition, listing.exposed)
        with suppress(InvalidArguments):
            arguments = canonical(listing.schema.parse(call.arguments))
            permitted[listing.key, arguments] += no is None and trusted
    assert Counter((run.key, run.arguments) for run in seen.flown) <= permitted
    # And whoever was refused was not begun either.
    for index, end, _ in seen.ended:
        if end.status in (Status.DENIED, Status.SKIPPED, Status.INVALID_ARGUMENTS):
            assert index not in seen.started


def writes_run_once_and_in_order(seen: Seen) -> None:
    """A write begins once, and in its group when the one before has an outcome."""
    over = {index: at for index, _, at in seen.ended}
    last: dict[str, int] = {}
    for index, end in enumerate(seen.outcomes):
        if index not in seen.started or not seen.definition(end.tool).side_effects:
            continue
        group = seen.definition(end.tool).group
        if group in last:
            assert over[last[group]] <= seen.started[index]
        last[group] = index
    # As many runs as calls that began, but for those who shared one.
    began = Counter(
        end.tool
        for index, end in enumerate(seen.outcomes)
        if index in seen.started and not end.shared
    )
    runs = Counter[str | None](run.key for run in seen.flown)
    assert runs <= began
    lost = Counter(
        (end.tool, end.call.arguments)
        for end in seen.outcomes
        if end.effect is Effect.UNKNOWN
    )
    assert all(count == 1 for count in lost.values())


def limits_are_named_and_kept(table: Table, seen: Seen) -> None:
    """Nothing lasts longer than its limit, and whose it was is told."""
    for index, end, at in seen.ended:
        if index in seen.started:
            own = seen.definition(end.tool).own_limit
            assert at - seen.started[index] <= own
        match end.status, end.limit:
            case Status.TIMEOUT, Limit.TURN:
                assert at == table.budget
            case Status.TIMEOUT, limit:
                definition = seen.definition(end.tool)
                own = definition.own_limit
                assert own == (
                    definition.max_duration
                    if limit is Limit.TOOL
                    else definition.server_timeout
                )
                assert at - seen.started[index] == end.elapsed <= own
                assert end.elapsed == own or definition.cacheable  # joined later
            case Status.SKIPPED, Limit.TURN:
                assert at == table.budget
            case Status.PENDING, limit:  # a write that is being tried out (D1a)
                assert at == table.budget
                assert limit is None
                assert seen.definition(end.tool).side_effects
                assert seen.definition(end.tool).estimated_duration is None
            case _, limit:
                assert limit is None


def effects_are_told_as_they_are(seen: Seen) -> None:
    """DONE for a write that said so, UNKNOWN for one that was not heard of."""
    for index, end, _ in seen.ended:
        listing = seen.snapshot.by_key.get(end.tool or "")
        if listing is None or listing.definition.read_only:
            assert end.effect is Effect.NONE
        elif end.ok:
            assert end.effect is (Effect.NONE if end.cached else Effect.DONE)
        elif end.status in (Status.TIMEOUT, Status.CRASHED, Status.PENDING):
            assert end.effect is Effect.UNKNOWN
        elif end.status is Status.CANCELLED:
            assert (end.effect is Effect.UNKNOWN) is (index in seen.started)
        elif end.status is Status.UNAVAILABLE:
            assert (end.effect is Effect.UNKNOWN) is end.message.endswith("is lost")
        else:
            assert end.effect is Effect.NONE
    assert {key for key, _ in seen.unknown} == {
        end.tool for end in seen.outcomes if end.effect is Effect.UNKNOWN
    }


def nothing_is_left_but_what_may_be(table: Table, seen: Seen) -> None:
    """What shields itself, and what may finish after an interruption; then nothing."""
    strays = sum(act_of(table, run.key).does is Does.SHIELD for run in seen.flown)
    going_on = sum(
        "goes on" in end.message or end.status is Status.PENDING
        for end in seen.outcomes
    )
    if table.patience == 0:  # it was over before it began
        assert seen.flown == []
    if table.patience < table.budget:
        for index, end, _ in seen.ended:
            if end.status is Status.CANCELLED and index in seen.started:
                policy = seen.definition(end.tool).interruption
                assert ("goes on" in end.message) is (policy is not OnInterrupt.CANCEL)
    assert seen.launched == len(seen.flown)
    assert seen.flying <= strays + going_on
    assert seen.flying_later == 0
    assert len(seen.late) == going_on
