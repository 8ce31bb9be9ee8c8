"""Whatever two servers do with one call: what a fan-out promises, holds; and what
hedging promises beside it.

The tables of `test_random_fan_outs`, where every tool has a twin at another server
that is its replica, every tool has been measured, and there is budget for a second
attempt of every call. The checks of that file hold for the first attempts and for
what came of the calls; here, each outcome is worked out from what its attempts did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import inf

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import Caller, CatalogueEntry, ToolHost, open_host
from glyphoxa_trio.host.attempts import TRIALS_AT_ONCE
from glyphoxa_trio.host.calibrator import Observe
from glyphoxa_trio.tools.definition import OnInterrupt, ToolDefinition
from glyphoxa_trio.tools.estimate import EstimateSource
from glyphoxa_trio.tools.gate import Availability, Candidate, TrustMode, refusal
from glyphoxa_trio.tools.hedging import HedgingRules
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall
from glyphoxa_trio.tools.window import Sample, SampleKind

from .fakes import Does
from .test_random_fan_outs import (
    SCHEMA,
    STATUS,
    TICK,
    Act,
    Flown,
    Seen,
    Table,
    act_of,
    definitions,
    effects_are_told_as_they_are,
    limits_are_named_and_kept,
    mostly,
    never_late,
    one_outcome_a_call,
    refused_calls_never_run,
    tables,
    ticks,
    tool,
    writes_run_once_and_in_order,
)

HAIR = 1e-6
RULES = HedgingRules(
    enabled=True, replicas=(("dice", "world"),), extra_calls=1.0, min_samples=1
)
ANSWERS = (Does.ANSWER, Does.SHIELD, Does.SAY_NO)


@attrs.frozen
class Twins:
    """A table whose tools come in pairs, and the p95 of each by key."""

    table: Table
    p95: dict[str, float]


@st.composite
def pairs(draw: st.DrawFn, name: str) -> list[tuple[ToolDefinition, Act]]:
    """A tool of ``dice`` and one of ``world``, which usually are the same."""
    made: list[tuple[ToolDefinition, Act]] = []
    for group in ("dice", "world"):
        drawn = draw(definitions(name))
        definition = attrs.evolve(
            drawn,
            group=group,
            external=True,
            read_only=draw(mostly(True, drawn.read_only)),
            parameters=draw(mostly(SCHEMA, {**SCHEMA, "additionalProperties": True})),
            estimated_duration=draw(mostly(TICK, drawn.estimated_duration)),
            max_duration=draw(mostly(None, drawn.max_duration)),
            server_timeout=draw(mostly(None, drawn.server_timeout)),
        )
        does = draw(st.sampled_from([Does.ANSWER] * 4 + [*Does]))
        made.append((definition, Act(does, draw(ticks(0, 24)))))
    return made


@st.composite
def twins(draw: st.DrawFn) -> Twins:
    tools = [x for n in range(draw(st.integers(1, 2))) for x in draw(pairs(f"tool{n}"))]
    keys = [definition.key for definition, _ in tools]
    named = st.sampled_from([*keys * 4, "nonsense"])
    arguments = mostly('{"x": 1}', "{}", '{"x": "?"}')
    asked = draw(st.lists(st.tuples(named, arguments), min_size=1, max_size=5))
    calls = [ToolCall(f"call{n}", key, text) for n, (key, text) in enumerate(asked)]
    drawn = draw(tables())
    patterns = mostly("*.*", *keys, "dice", "world")
    grant = attrs.evolve(
        drawn.grant,
        tools=tuple(draw(st.lists(patterns, min_size=1, max_size=3))),
        trust=draw(mostly(TrustMode.FULL, TrustMode.LIMITED)),
        allow_tools=tuple(draw(st.lists(st.sampled_from(keys), max_size=2))),
    )
    table = attrs.evolve(
        drawn,
        tools=tuple(tools),
        calls=tuple(calls),
        grant=grant,
        budget=draw(ticks(12, 40)),
        patience=draw(st.just(inf) | ticks(0, 32)),
        max_calls=draw(mostly(16, drawn.max_calls)),
        approved=draw(st.frozensets(st.sampled_from([call.id for call in calls]))),
    )
    return Twins(table, {key: draw(ticks(0, 8)) for key in keys})


async def play(twins: Twins) -> Seen:
    table, flown = twins.table, list[Flown]()
    async with open_host(hedging=RULES) as host:
        host.register(*(tool(one, act, flown) for one, act in table.tools))
        for group in table.down:
            host.publish(group, Availability.DOWN, None)
        for key, seconds in twins.p95.items():
            host._calibrator.tell(Observe(key, Sample(SampleKind.OK, seconds, 0.0)))
        await host.report()
        seen = Seen(host.snapshot, flown)
        await fan_out(host, table, seen)
        seen.took = trio.current_time()
        await wait_all_tasks_blocked()
        seen.flying = host.statistics().shared_tasks.running
        seen.launched = host.statistics().shared_tasks.started
        await trio.sleep(60)
        seen.flying_later = host.statistics().shared_tasks.running
        check_the_figures(host, seen)
    return seen


async def fan_out(host: ToolHost, table: Table, seen: Seen) -> None:
    def started(index: int, _: CatalogueEntry) -> None:
        assert index not in seen.started
        seen.started[index] = trio.current_time()

    def ended(index: int, end: Outcome) -> None:
        seen.ended.append((index, end, trio.current_time()))

    def late(end: Outcome) -> None:
        seen.late.append(end)
        seen.late_at[end.call.id] = trio.current_time()

    caller = Caller(
        grant=table.grant,
        tier=table.tier,
        max_calls=table.max_calls,
        approved=table.approved,
        unknown_effects=seen.unknown,
        on_start=started,
        on_outcome=ended,
        on_late=late,
    )
    with trio.move_on_after(table.patience):
        seen.returned = await host.fan_out(table.calls, caller, deadline=table.budget)


def check_the_figures(host: ToolHost, seen: Seen) -> None:
    """What was started has been won or lost by now, and it was what ran."""
    figures = host.statistics().executor.hedging
    firsts, seconds = split(seen)
    assert figures.started == sum(map(len, seconds.values()))
    assert figures.started == figures.won + figures.lost
    assert figures.over_budget == 0
    told = {end.call.id for end in [*seen.outcomes, *seen.late] if end.answered_by}
    assert figures.won >= len(told & {run.call_id for run in firsts})
    assert figures.wasted >= 0
    assert (figures.wasted > 0) <= (figures.started > 0)


def split(seen: Seen) -> tuple[list[Flown], dict[str, list[Flown]]]:
    """The runs of the tools that were called; and by id of the call, the others."""
    called = {end.call.id: end.tool for end in seen.outcomes}
    firsts = [run for run in seen.flown if run.key == called[run.call_id]]
    seconds: dict[str, list[Flown]] = defaultdict(list)
    for run in seen.flown:
        if run.key != called[run.call_id]:
            seconds[run.call_id].append(run)
    return firsts, seconds


@settings(max_examples=settings().max_examples * 2)  # ci: 200
@given(twins())
def test_a_fan_out_keeps_its_promises_with_two_attempts(twins: Twins) -> None:
    table = twins.table
    seen = trio.run(play, twins, clock=MockClock(autojump_threshold=0))
    firsts, seconds = split(seen)
    alone = attrs.evolve(seen, flown=firsts)
    never_late(table, seen)
    one_outcome_a_call(table, seen)
    refused_calls_never_run(table, alone)
    writes_run_once_and_in_order(alone)
    limits_are_named_and_kept(table, seen)
    effects_are_told_as_they_are(seen)
    only_what_may_be_is_asked_twice(twins, seen, seconds)
    the_outcome_is_that_of_its_attempts(twins, seen, firsts, seconds)
    nothing_is_left(table, seen, seconds)


def may_answer(table: Table, seen: Seen, key: str, other: str, left: float) -> bool:
    """Whether the tool ``other`` may be asked, for ``key``, with so much time left."""
    listing, mine = seen.snapshot.by_key[other], seen.definition(key)
    candidate = Candidate(
        definition=listing.definition,
        exposed=listing.exposed,
        estimate=listing.estimate,
        availability=listing.availability,
    )
    no = refusal(candidate, table.grant, tier=table.tier, remaining=left)
    return (
        mine.read_only
        and listing.definition.read_only
        and mine.parameters == listing.definition.parameters
        and listing.availability is Availability.READY
        and no is None
        and table.grant.approves(listing.definition, listing.exposed)
    )


def twin_of(key: str) -> str:
    group, _, name = key.partition(".")
    return f"{'world' if group == 'dice' else 'dice'}.{name}"


def belongs(seen: Seen, second: Flown, first: Flown) -> bool:
    """Whether it is of the same call, or of one that shares its first attempt: of
    those anybody may be the one who starts it."""
    same = second.arguments == first.arguments and seen.definition(first.key).cacheable
    return bool(same) or second.call_id == first.call_id


def only_what_may_be_is_asked_twice(
    twins: Twins, seen: Seen, seconds: dict[str, list[Flown]]
) -> None:
    """A second attempt is one, at the twin, at the p95, of who has every right."""
    table = twins.table
    for runs in seconds.values():
        (run,) = runs
        key = twin_of(run.key)
        first = next(x for x in seen.flown if x.key == key and belongs(seen, run, x))
        assert run.began == first.began + twins.p95[key] + HAIR
        end = min(table.budget, first.began + seen.definition(key).own_limit)
        assert run.began < min(end, table.patience)
        assert may_answer(table, seen, key, run.key, end - run.began)
        assert act_of(table, key).does is Does.HANG or (
            first.began + act_of(table, key).seconds > first.began + twins.p95[key]
        )


def the_outcome_is_that_of_its_attempts(
    twins: Twins, seen: Seen, firsts: list[Flown], seconds: dict[str, list[Flown]]
) -> None:
    """What each call came to, and when, as its one or two attempts have it."""
    table = twins.table
    times = {end.call.id: at for _, end, at in seen.ended}
    by_id = {end.call.id: end for end in seen.outcomes}
    for first in firsts:
        end, key = by_id[first.call_id], first.key
        own = first.began + seen.definition(key).own_limit
        latest = min(own, table.budget)
        assert seen.late_at.get(first.call_id, -inf) <= own
        a, a_does = ends(table, first, inf)
        hedged = [
            run
            for runs in seconds.values()
            for run in runs
            if twin_of(run.key) == key and belongs(seen, run, first)
        ]
        wanted = first.began + twins.p95[key] + HAIR
        if min(a, latest, table.patience) > wanted and may_answer(
            table, seen, key, twin_of(key), latest - wanted
        ):
            twin = seen.snapshot.by_key[twin_of(key)]
            flies = sum(
                run.key == twin.key and run.began <= wanted <= ends(table, run, inf)[0]
                for run in seen.flown
            )
            # A tool on trial has so many seats, and nobody waits for one to hedge.
            full = (
                twin.estimate.source is EstimateSource.TRIAL and flies >= TRIALS_AT_ONCE
            )
            assert hedged or full, "there was a right to a second attempt"
        b, b_does = -inf, None
        if hedged:
            limit = hedged[0].began + seen.definition(hedged[0].key).own_limit
            b, b_does = ends(table, hedged[0], limit)
            if b == limit and b_does is not None:
                continue  # a tie: either is right
        expected = expect(a, a_does, b, b_does, latest)
        if expected is None:
            continue
        at, does, by_second = expected
        if at == table.patience:
            continue
        if at > table.patience:
            if table.patience < table.budget:
                assert end.status is Status.CANCELLED
            continue
        assert times[first.call_id] == at
        if does is None:
            assert end.status is Status.TIMEOUT
        else:
            assert end.status is STATUS[does]
        assert end.answered_by == (hedged[0].key if hedged and by_second else None)


def ends(table: Table, run: Flown, limit: float) -> tuple[float, Does | None]:
    """When a run is over, and how it ended by itself, if it did before its limit."""
    act = act_of(table, run.key)
    end = run.began + act.seconds
    if act.does is Does.HANG or end > limit:
        return limit, None
    return end, act.does


def expect(
    a: float, a_does: Does | None, b: float, b_does: Does | None, latest: float
) -> tuple[float, Does | None, bool] | None:
    """When a call ends, how, and whether by its second attempt; None at a tie."""
    both = ((a, a_does, False), (b, b_does, True))
    first = min(
        ((at, does, second) for at, does, second in both if does in ANSWERS),
        key=lambda one: one[0],
        default=(inf, None, False),
    )
    if first[0] < latest:
        return first
    if a_does is not None and a_does not in ANSWERS and a < latest:
        return min(max(a, b), latest), a_does, False  # the second was hope
    return None if latest in (first[0], a) else (latest, None, False)


def nothing_is_left(table: Table, seen: Seen, seconds: dict[str, list[Flown]]) -> None:
    """What shields itself, and what may finish, both attempts of it; then nothing."""
    strays = sum(act_of(table, run.key).does is Does.SHIELD for run in seen.flown)
    going_on = Counter(end.call.id for end in seen.outcomes if "goes on" in end.message)
    for index, end, _ in seen.ended:
        if end.status is Status.CANCELLED and index in seen.started:
            policy = seen.definition(end.tool).interruption
            if table.patience < table.budget:
                goes_on = policy is not OnInterrupt.CANCEL
                assert bool(going_on[end.call.id]) is goes_on
    assert seen.launched == len(seen.flown)
    twice = sum(bool(seconds.get(one)) for one in going_on)
    assert seen.flying <= strays + going_on.total() + twice
    assert seen.flying_later == 0
    assert len(seen.late) == going_on.total()
