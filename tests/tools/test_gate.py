"""The one gate: every reason, in its order, and that it only ever opens one way.

Rows G17, G31, A37, A38, N29 to N32; decisions D5, D13, D13a.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.gate import (
    EVERYTHING,
    Availability,
    Candidate,
    Grant,
    Reason,
    Refusal,
    TrustMode,
    refusal,
)
from glyphoxa_trio.tools.naming import exposed_name
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier

FAST, STANDARD, DEEP = Tier
READY, RESTARTING, DOWN = Availability


def estimate(
    seconds: float = 0.1,
    *,
    tier: Tier | None = None,
    source: EstimateSource = EstimateSource.MEASURED,
    degraded: str | None = None,
) -> Estimate:
    return Estimate(
        seconds=seconds,
        tier=DEFAULT_LIMITS.tier_of(seconds) if tier is None else tier,
        source=source,
        p50=None,
        p99=None,
        samples=0,
        degraded=degraded,
        tier_by_number=None,
    )


def candidate(
    name: str = "roll",
    group: str = "dice",
    *,
    seconds: float = 0.1,
    external: bool = False,
    **rest: Any,
) -> Candidate:
    definition = ToolDefinition(name=name, group=group, external=external)
    rest.setdefault("estimate", estimate(seconds))
    return Candidate(definition=definition, exposed=exposed_name(definition), **rest)


def foreign(name: str = "time", group: str = "clock", **rest: Any) -> Candidate:
    return candidate(name, group, external=True, **rest)


def reason(
    of: Candidate,
    grant: Grant = EVERYTHING,
    *,
    tier: Tier = DEEP,
    remaining: float = 4.0,
    approved: bool = False,
) -> Reason | None:
    no = refusal(of, grant, tier=tier, remaining=remaining, approved=approved)
    return None if no is None else no.reason


def refused(of: Candidate, grant: Grant = EVERYTHING, **rest: Any) -> Refusal:
    no = refusal(of, grant, **{"tier": DEEP, "remaining": 4.0} | rest)
    assert no is not None
    return no


def test_the_reasons_come_in_their_order() -> None:
    # A10: one filter for every provider and engine
    # D5: granted, trusted, tier, available, budget. Nothing leaks past a refusal:
    # who is not granted a tool does not learn that its server is down.
    changed = foreign(seconds=2.0, availability=DOWN, changed=True)
    wrong = attrs.evolve(changed, changed=False)
    nobody = Grant(npc="Grimjaw")
    granted = Grant(npc="Grimjaw", tools=("mcp__clock__*",))
    trusted = attrs.evolve(granted, allow_tools=("clock.time",))
    up = attrs.evolve(wrong, availability=READY)
    assert [
        reason(changed, nobody, tier=FAST, remaining=0.1),
        reason(changed, granted, tier=FAST, remaining=0.1),
        reason(wrong, granted, tier=FAST, remaining=0.1),
        reason(wrong, attrs.evolve(granted, approver=True), tier=FAST, remaining=0.1),
        reason(wrong, trusted, tier=FAST, remaining=0.1),
        reason(wrong, trusted, tier=DEEP, remaining=0.1),
        reason(up, trusted, tier=DEEP, remaining=0.1),
        reason(up, trusted, tier=DEEP, remaining=2.0),
    ] == [
        Reason.NOT_GRANTED,
        Reason.CHANGED,
        Reason.NOT_TRUSTED,
        Reason.NEEDS_APPROVAL,
        Reason.OVER_TIER,
        Reason.UNAVAILABLE,
        Reason.OVER_BUDGET,
        None,
    ]


@pytest.mark.parametrize(
    ("why", "status"),
    [
        (Reason.UNKNOWN, Status.DENIED),
        (Reason.NOT_GRANTED, Status.DENIED),
        (Reason.CHANGED, Status.DENIED),
        (Reason.NOT_TRUSTED, Status.DENIED),
        (Reason.NEEDS_APPROVAL, Status.DENIED),
        (Reason.REPEATED, Status.DENIED),
        (Reason.OVER_TIER, Status.SKIPPED),
        (Reason.OVER_BUDGET, Status.SKIPPED),
        (Reason.TOO_MANY, Status.SKIPPED),
        (Reason.NOT_LOADED, Status.SKIPPED),
        (Reason.UNAVAILABLE, Status.UNAVAILABLE),
    ],
)
def test_every_reason_has_its_status(why: Reason, status: Status) -> None:  # D6
    assert Refusal(reason=why, text="no").status is status


def test_what_changed_is_held_back_from_all_who_had_to_approve_it() -> None:
    limited_ = limited("clock.time", approver=True)
    full = Grant(tools=("clock.time",), trust=TrustMode.FULL)
    changed = foreign(changed=True)
    assert reason(changed, limited_) is Reason.CHANGED
    assert reason(changed, limited_, approved=True) is Reason.CHANGED  # nor by a yes
    assert reason(changed, full) is None
    assert reason(changed, EVERYTHING) is None
    # A running turn keeps the trust that it began with, and gets no more of it.
    assert reason(changed, attrs.evolve(full, also=limited_)) is Reason.CHANGED
    assert reason(changed, attrs.evolve(limited_, also=full)) is Reason.CHANGED
    assert reason(changed, attrs.evolve(full, also=full)) is None
    no = refused(changed, limited_)
    assert "changed since it was approved" in no.text
    assert no.remedy.endswith("glyphoxa mcp approve clock.time")


# Grants


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("dice.roll", True),
        ("roll", True),  # as it is exposed
        ("dice", True),  # the whole group
        ("dice.*", True),
        ("ro*", True),
        ("dice.table", False),
        ("rol", False),
        ("ROLL", False),  # case counts
        ("world.*", False),
    ],
)
def test_a_grant_names_a_tool_in_any_of_its_ways(pattern: str, covered: bool) -> None:
    # A3
    # G31, D13: the whitelist
    why = reason(candidate(), Grant(npc="Grimjaw", tools=("other", pattern)))
    assert why is (None if covered else Reason.NOT_GRANTED)


def test_an_empty_list_grants_nothing() -> None:
    no = refused(candidate(), Grant(npc="Grimjaw"))
    assert no.text == "roll is not available to you"
    assert "'dice.roll'" in no.remedy


def test_a_bare_name_does_not_reach_into_a_server() -> None:
    # D13: somebody else's server cannot get itself granted by naming its tools
    assert reason(foreign("roll"), Grant(tools=("roll",))) is Reason.NOT_GRANTED


def test_the_operators_own_grant_covers_everything() -> None:
    assert reason(candidate()) is None
    assert reason(foreign()) is None


# Trust


def limited(*tools: str, allow: tuple[str, ...] = (), approver: bool = False) -> Grant:
    return Grant(npc="Grimjaw", tools=tools, allow_tools=allow, approver=approver)


def test_our_own_tools_need_no_approval() -> None:
    assert reason(candidate(), limited("*")) is None


@pytest.mark.parametrize("pattern", ["clock.time", "mcp__clock__time"])
def test_a_foreign_tool_named_in_full_is_approved(pattern: str) -> None:
    # D13a: the operator wrote it down
    assert reason(foreign(), limited(pattern)) is None


@pytest.mark.parametrize("pattern", ["clock.*", "mcp__clock__*", "clock", "*", "*.*"])
def test_a_glob_or_a_group_grants_but_does_not_approve(pattern: str) -> None:
    grant = limited(pattern)
    assert grant.covers(foreign().definition, foreign().exposed)
    assert reason(foreign(), grant) is Reason.NOT_TRUSTED  # N29


@pytest.mark.parametrize("pattern", ["clock.*", "mcp__clock__*", "clock", "clock.time"])
def test_allow_tools_approves_names_and_globs_alike(pattern: str) -> None:  # N31, N32
    assert reason(foreign(), limited("*", allow=(pattern,))) is None


def test_allow_tools_approves_but_does_not_grant() -> None:
    assert reason(foreign(), limited(allow=("*",))) is Reason.NOT_GRANTED


def test_an_empty_allow_list_approves_nothing() -> None:
    no = refused(foreign(), limited("clock"))
    assert (no.reason, no.text) == (
        Reason.NOT_TRUSTED,
        "mcp__clock__time is not allowed",
    )
    assert "trust.allow_tools" in no.remedy


def test_full_trust_approves_everything_granted() -> None:  # N30
    grant = Grant(npc="Grimjaw", tools=("*",), trust=TrustMode.FULL)
    assert reason(foreign(), grant) is None


def test_what_needs_an_approval_is_shown_if_somebody_can_be_asked() -> None:
    grant = limited("clock", approver=True)
    assert reason(foreign(), grant, tier=DEEP) is None
    assert reason(foreign(), grant, tier=STANDARD) is None
    # D13a: not in FAST turns, in which there is no time to ask
    assert reason(foreign(), grant, tier=FAST) is Reason.NEEDS_APPROVAL


def test_a_call_that_was_approved_passes_and_nothing_else_of_it_does() -> None:
    assert reason(foreign(), limited("clock"), approved=True) is None
    assert reason(foreign(), limited(), approved=True) is Reason.NOT_GRANTED
    slow = foreign(seconds=2.0)
    assert reason(slow, limited("clock"), tier=FAST, approved=True) is Reason.OVER_TIER


# Tier, availability, budget


@pytest.mark.parametrize("of", Tier)
@pytest.mark.parametrize("turn", Tier)
def test_a_tool_of_a_slower_tier_is_refused(of: Tier, turn: Tier) -> None:  # G17, A37
    why = reason(candidate(estimate=estimate(0.1, tier=of)), tier=turn)
    assert why is (Reason.OVER_TIER if of > turn else None)


@pytest.mark.parametrize(
    ("of", "remedy"),
    [
        (
            attrs.evolve(estimate(2, degraded="4 of 10 failed"), next_trial=100.0),
            "4 of 10 failed; it is tried again after about 2 min of talk",
        ),
        (
            attrs.evolve(estimate(2), next_trial=10.0),
            "took about 2000 ms; it is tried again after about 1 min of talk",
        ),
        (
            estimate(1.5, tier=DEEP, source=EstimateSource.UNKNOWN),
            "calibration.unknown is deep: measure it with glyphoxa calibrate CONFIG ",
        ),
        (
            estimate(2, source=EstimateSource.DECLARED),
            "it declares 2000 ms: a deep turn has room for it",
        ),
        (
            estimate(2),
            "it measures 2000 ms: a deep turn has room for it, if the NPC's budget",
        ),
    ],
)
def test_the_operator_is_told_the_way_out_of_a_tier(of: Estimate, remedy: str) -> None:
    no = refused(candidate(estimate=of), tier=FAST)  # D1
    assert no.text == "roll is too slow for a fast answer"
    assert remedy in no.remedy


def test_a_restarting_server_stays_visible_and_a_lost_one_does_not() -> None:  # D5
    assert reason(foreign(availability=RESTARTING)) is None
    no = refused(foreign(availability=DOWN))
    assert no.reason is Reason.UNAVAILABLE
    assert no.text == "mcp__clock__time cannot be used now: the server 'clock' is down"


def test_an_obstacle_is_told_in_its_own_words() -> None:
    no = refused(candidate(obstacle="it failed repeatedly, next try in 7000 ms"))
    assert no.reason is Reason.UNAVAILABLE
    assert no.text.endswith("now: it failed repeatedly, next try in 7000 ms")


def test_what_does_not_fit_the_rest_of_the_turn_is_told_in_figures() -> None:  # D4
    no = refused(candidate(seconds=0.8), remaining=0.12)
    assert no.text == "needs about 800 ms, 120 ms left"
    assert (no.reason, no.status) == (Reason.OVER_BUDGET, Status.SKIPPED)


def test_what_fits_exactly_fits() -> None:
    assert reason(candidate(seconds=0.5), remaining=0.5) is None
    assert reason(candidate(seconds=0.5), remaining=0.4999) is Reason.OVER_BUDGET


def test_nothing_left_is_never_less_than_nothing() -> None:
    no = refused(candidate(seconds=0.5), remaining=-3.0)
    assert no.text == "needs about 500 ms, 0 ms left"


# Whatever the candidate: the gate only ever opens one way.

patterns = st.sampled_from(
    ["roll", "dice", "dice.*", "clock", "clock.time", "mcp__clock__*", "*", "*.*"]
)
several = st.lists(patterns, max_size=3).map(tuple)
grants = st.builds(
    Grant,
    npc=st.just("Grimjaw"),
    tools=several,
    trust=st.sampled_from(TrustMode),
    allow_tools=several,
    approver=st.booleans(),
)
times = st.floats(min_value=0, max_value=6)
candidates = st.builds(
    candidate,
    name=st.sampled_from(["roll", "time"]),
    group=st.sampled_from(["dice", "clock"]),
    external=st.booleans(),
    estimate=st.builds(
        estimate,
        times,
        tier=st.sampled_from(Tier),
        source=st.sampled_from(EstimateSource),
        degraded=st.sampled_from([None, "it failed"]),
    ),
    availability=st.sampled_from(Availability),
    obstacle=st.sampled_from([None, "it failed repeatedly"]),
    changed=st.booleans(),
)


@given(candidates, grants, times, st.booleans())
def test_what_a_tier_refuses_every_faster_tier_refuses(
    of: Candidate, grant: Grant, remaining: float, approved: bool
) -> None:
    answers = [
        reason(of, grant, tier=tier, remaining=remaining, approved=approved) is None
        for tier in Tier
    ]
    assert answers == sorted(answers)


@given(candidates, grants, st.sampled_from(Tier), times, times, st.booleans())
def test_more_time_never_refuses_more(
    of: Candidate,
    grant: Grant,
    tier: Tier,
    remaining: float,
    more: float,
    approved: bool,
) -> None:
    if reason(of, grant, tier=tier, remaining=remaining, approved=approved) is None:
        more += remaining
        assert reason(of, grant, tier=tier, remaining=more, approved=approved) is None


@given(candidates, grants, several, st.sampled_from(Tier), times)
def test_more_rights_never_refuse_more(
    of: Candidate, grant: Grant, more: tuple[str, ...], tier: Tier, remaining: float
) -> None:
    if reason(of, grant, tier=tier, remaining=remaining) is not None:
        return
    for wider in (
        attrs.evolve(grant, tools=grant.tools + more),
        attrs.evolve(grant, allow_tools=grant.allow_tools + more),
        attrs.evolve(grant, trust=TrustMode.FULL),
    ):
        assert reason(of, wider, tier=tier, remaining=remaining) is None
    assert reason(of, grant, tier=tier, remaining=remaining, approved=True) is None


@given(candidates, grants, st.sampled_from(Tier), times, st.booleans())
def test_what_passes_is_right_in_every_respect(
    of: Candidate, grant: Grant, tier: Tier, remaining: float, approved: bool
) -> None:
    # The other way round: nothing passes by an order of questions that skips one.
    no = refusal(of, grant, tier=tier, remaining=remaining, approved=approved)
    if no is not None:
        assert no.text
        assert no.remedy
        return
    assert grant.covers(of.definition, of.exposed)
    assert (
        approved
        or grant.approves(of.definition, of.exposed)
        or (grant.approver and tier is not FAST)
    )
    assert of.estimate.tier <= tier
    assert of.availability is not DOWN
    assert of.obstacle is None
    assert not of.changed or grant.trust is TrustMode.FULL
    assert of.estimate.seconds <= remaining
