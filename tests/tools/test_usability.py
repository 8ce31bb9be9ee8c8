"""One judge of what an NPC can use. It asks the gate; its remedies move the gate."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import (
    Estimate,
    EstimateSource,
    Unknown,
    estimate,
)
from glyphoxa_trio.tools.gate import (
    Availability,
    Candidate,
    Grant,
    Reason,
    TrustMode,
    refusal,
)
from glyphoxa_trio.tools.holding import HeldTool
from glyphoxa_trio.tools.naming import exposed_name
from glyphoxa_trio.tools.remedies import Places, Remedy, RemedyKind
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier, TierLimits
from glyphoxa_trio.tools.usability import Need, Usability, Use, judge
from glyphoxa_trio.tools.window import LatencyWindow

FAST, STANDARD, DEEP = Tier
TOOL = ("mcp", "servers", "clock", "tools", "now")
PLACES = Places(tool=TOOL)


def estimated(seconds: float, **rest: Any) -> Estimate:
    fields: dict[str, Any] = {
        "tier": DEFAULT_LIMITS.tier_of(seconds),
        "source": EstimateSource.MEASURED,
        "p50": seconds,
        "p99": seconds,
        "samples": 9,
        "degraded": None,
        "tier_by_number": None,
    }
    return Estimate(seconds=seconds, **(fields | rest))


def declared(seconds: float) -> Estimate:
    return estimated(
        seconds, source=EstimateSource.DECLARED, p50=None, p99=None, samples=0
    )


def now(estimate: Estimate, **rest: Any) -> Candidate:
    about: dict[str, Any] = {
        name: rest.pop(name)
        for name in ("min_tier", "read_only", "open_world", "probe", "name")
        if name in rest
    }
    fields: dict[str, Any] = {"name": "now", "group": "clock", "external": True}
    definition = ToolDefinition(**(fields | about))
    exposed = exposed_name(definition)
    return Candidate(definition=definition, exposed=exposed, estimate=estimate, **rest)


def stan(*tools: str, **rest: Any) -> Grant:
    return Grant(npc="Stan", tools=tools, **rest)


IN_FULL = stan("clock.now")


def of(
    candidate: Candidate, grant: Grant = IN_FULL, ceiling: Tier = FAST, **rest: Any
) -> Usability:
    rest.setdefault("places", PLACES)
    return judge(candidate, grant, ceiling, DEFAULT_LIMITS, **rest)


def test_what_can_be_used_says_in_which_turns() -> None:
    found = of(now(estimated(0.1)), ceiling=STANDARD)
    assert (found.use, found.fastest, found.needs) == (Use.NOW, FAST, ())
    assert found.text == "can be used in fast and standard turns"
    assert of(now(estimated(0.8)), ceiling=DEEP).fastest is STANDARD


def test_what_somebody_may_be_asked_about_is_usable_from_standard_turns_on() -> None:
    asked = stan("clock", approver=True)
    found = of(now(estimated(0.1)), asked, STANDARD)
    assert (found.use, found.fastest) == (Use.ASKED, STANDARD)
    assert found.text.endswith("standard turns, when a person approves the call")
    found = of(now(estimated(0.1)), asked, FAST)  # no time to ask in a fast turn
    assert found.use is Use.NEVER
    assert found.text == (
        "a fast turn has no time to ask for its approval: raise Stan's budget_tier to"
        " standard, or add 'clock.now' to the tools of Stan, or add 'clock.now' to"
        " trust.allow_tools"
    )


def test_what_a_person_approved_is_not_asked_about() -> None:
    found = of(now(estimated(0.1), agreed=True), stan("clock", approver=True))
    assert (found.use, found.text) == (Use.NOW, "can be used in fast turns")


@pytest.mark.parametrize(
    ("candidate", "grant", "use", "text"),
    [
        (
            now(estimated(0.1)),
            stan("dice"),
            Use.NEVER,
            "it is not granted: add 'clock.now' to the tools of Stan",
        ),
        (
            now(estimated(0.1)),
            stan("clock"),
            Use.NEVER,
            (
                "it is not approved, and turns ask no person: add 'clock.now' to the"
                " tools of Stan, or add 'clock.now' to trust.allow_tools"
            ),
        ),
        (
            now(estimated(0.1), changed=True),
            IN_FULL,
            Use.NEVER,
            (
                "it has changed since it was approved, and is held back: look at it,"
                " then"
                " glyphoxa mcp approve clock.now"
            ),
        ),
        (
            now(estimated(0.805)),
            IN_FULL,
            Use.NEVER,
            "it measures 805 ms: raise Stan's budget_tier to standard",
        ),
        (
            now(declared(2.0)),
            IN_FULL,
            Use.NEVER,
            (
                "it declares 2000 ms: raise Stan's budget_tier to deep, or set"
                " estimated_duration_ms to at most 500 under"
                " mcp.servers[clock].tools[now]"
            ),
        ),
        (
            now(declared(2.0), read_only=True, open_world=False),
            IN_FULL,
            Use.NEVER,
            (
                "it declares 2000 ms: raise Stan's budget_tier to deep, or set"
                " estimated_duration_ms to at most 500 under"
                " mcp.servers[clock].tools[now],"
                " or if it takes less than 500 ms, measure it:"
                " glyphoxa calibrate CONFIG clock.now"
            ),
        ),
        (
            now(estimated(0.1, tier=DEEP), min_tier=DEEP),
            IN_FULL,
            Use.NEVER,
            (
                "its min_tier is deep: raise Stan's budget_tier to deep, or set"
                " min_tier"
                " to"
                " fast under mcp.servers[clock].tools[now]"
            ),
        ),
        (
            now(estimated(0.805, next_trial=60.0)),
            IN_FULL,
            Use.LATER,
            (
                "it measures 805 ms: raise Stan's budget_tier to standard, or wait: it"
                " is"
                " tried again after about 1 min of talk, or forget its measurements,"
                " and"
                " start again: glyphoxa measurements forget CONFIG clock.now"
            ),
        ),
        (
            now(estimated(0.1), availability=Availability.DOWN),
            IN_FULL,
            Use.LATER,
            (
                "the server 'clock' is down: it returns when its server does;"
                " glyphoxa mcp test clock --config CONFIG shows the reason"
            ),
        ),
        (
            now(estimated(0.1), obstacle="it failed 5 times"),
            IN_FULL,
            Use.LATER,
            "it failed 5 times: it returns by itself when it answers again",
        ),
    ],
)
def test_each_reason_is_told_with_what_changes_it(
    candidate: Candidate, grant: Grant, use: Use, text: str
) -> None:
    found = of(candidate, grant)
    assert (found.use, found.fastest) == (use, None)
    assert found.text == text


def test_several_reasons_are_told_together() -> None:
    found = of(now(declared(9.0), changed=True), stan("clock"))
    assert [need.reason for need in found.needs] == [
        Reason.CHANGED,
        Reason.NOT_TRUSTED,
        Reason.OVER_TIER,
        Reason.OVER_BUDGET,
    ]
    assert all(need.remedies for need in found.needs)
    assert "; and it is not approved" in found.text
    # Nor is it said that raising the tier is enough, where it is not.
    assert "; and even then it declares 9000 ms, and a deep turn has" in found.text
    assert found.use is Use.NEVER


def test_a_tool_of_which_nothing_is_known_needs_a_word_of_the_configuration() -> None:
    estimate = estimated(1.5, tier=DEEP, source=EstimateSource.UNKNOWN)
    found = of(now(estimate), unknown=Unknown.DEEP)
    (need,) = found.needs
    assert [(x.kind, x.where, x.value) for x in need.remedies] == [
        (RemedyKind.SET, ("npcs", "Stan", "budget_tier"), "deep"),
        (RemedyKind.SET, ("calibration", "unknown"), "trial"),
        (RemedyKind.SET, (*TOOL, "estimated_duration_ms"), 500),
    ]


def test_what_the_configuration_cannot_change_it_is_not_said_to() -> None:
    own = of(now(declared(2.0)), places=Places())
    (need,) = own.needs
    assert [x.where[-1] for x in need.remedies] == ["budget_tier"]


def test_a_tool_that_is_slower_where_it_used_to_be_is_never_tried_there() -> None:
    # It was declared to be STANDARD, so its trials are in STANDARD turns.
    candidate = now(estimated(2.0, next_trial=60.0))
    definition = attrs.evolve(candidate.definition, estimated_duration=0.8)
    candidate = attrs.evolve(candidate, definition=definition)
    assert of(candidate, ceiling=STANDARD).use is Use.LATER
    assert of(candidate, ceiling=FAST).use is Use.NEVER


def test_an_npc_with_a_trust_of_its_own_is_told_of_that() -> None:
    places = Places(trust=("npcs", "Stan", "trust"))
    found = of(now(estimated(0.1)), stan("clock"), places=places)
    allow = found.needs[0].remedies[1]
    assert allow.where == ("npcs", "Stan", "trust", "allow_tools")
    assert allow.text == "add 'clock.now' to trust.allow_tools of Stan"


def test_names_that_servers_choose_are_harmless_in_a_command() -> None:
    held = now(estimated(0.1), name="x; rm -rf ~", changed=True)
    assert of(held, stan("clock.*", "clock.x; rm -rf ~")).text.endswith(
        "glyphoxa mcp approve 'clock.x; rm -rf ~'"
    )
    # And one that reads like a pattern is granted by its other name.
    starry = now(estimated(0.1), name="*")
    found = of(starry, stan("clock"))
    assert found.needs[0].remedies[0].value == starry.exposed


TIMES = st.sampled_from([0.05, 0.5, 0.8, 1.5, 2.0, 4.0, 4.2, 9.0])
ESTIMATES = st.builds(
    lambda seconds, source, degraded, trial: estimated(
        seconds,
        source=source,
        tier=DEEP
        if source is EstimateSource.UNKNOWN
        else DEFAULT_LIMITS.tier_of(seconds),
        degraded=degraded,
        next_trial=trial,
    ),
    TIMES,
    st.sampled_from(EstimateSource),
    st.sampled_from([None, "4 of 10 failed"]),
    st.sampled_from([None, 60.0]),
)
CANDIDATES = st.builds(
    now,
    ESTIMATES,
    min_tier=st.sampled_from(Tier),
    read_only=st.booleans(),
    open_world=st.booleans(),
    availability=st.sampled_from(Availability),
    obstacle=st.sampled_from([None, "its breaker is open"]),
    changed=st.booleans(),
)
GRANTS = st.builds(
    lambda tools, trust, allow, approver: stan(
        *tools, trust=trust, allow_tools=allow, approver=approver
    ),
    st.sampled_from([(), ("clock",), ("clock.now",), ("dice",)]),
    st.sampled_from(TrustMode),
    st.sampled_from([(), ("clock.now",)]),
    st.booleans(),
)


@given(CANDIDATES, GRANTS, st.sampled_from(Tier))
def test_the_judge_says_what_the_gate_says(
    candidate: Candidate, grant: Grant, ceiling: Tier
) -> None:
    found = of(candidate, grant, ceiling)
    passes = [
        tier
        for tier in Tier
        if tier <= ceiling
        and not refusal(
            candidate, grant, tier=tier, remaining=DEFAULT_LIMITS.ceiling(tier)
        )
    ]
    assert found.usable == bool(passes)
    assert found.fastest == (passes[0] if passes else None)
    if found.usable:
        assert found.needs == ()
        assert passes == list(range(passes[0], ceiling + 1))  # and all slower ones
    else:
        # Nobody is left with a no and nothing to do about it.
        assert all(need.remedies for need in found.needs)
        assert len({need.reason for need in found.needs}) == len(found.needs)


LIMITS = st.sampled_from(
    [
        DEFAULT_LIMITS,
        TierLimits(fast_ceiling=0.2, standard_ceiling=1.0),  # below their thresholds
        TierLimits(fast_ceiling=2.0, standard_ceiling=2.0, deep_ceiling=2.0),
    ]
)


@attrs.frozen
class Setting:
    """All that remedies change, as an operator would find it."""

    candidate: Candidate
    grant: Grant
    ceiling: Tier
    limits: TierLimits
    unknown: Unknown
    places: Places

    @property
    def judged(self) -> Usability:
        return judge(
            self.candidate,
            self.grant,
            self.ceiling,
            self.limits,
            unknown=self.unknown,
            places=self.places,
        )

    def after(self, need: Need, remedy: Remedy) -> Setting:
        """The setting after the remedy, read from its place and value alone."""
        candidate, grant = self.candidate, self.grant
        estimate, definition = candidate.estimate, candidate.definition
        limits, unknown, ceiling = self.limits, self.unknown, self.ceiling
        match remedy.kind, remedy.where, remedy.value:
            case RemedyKind.ADD, (*_, "tools"), name:
                grant = attrs.evolve(grant, tools=(*grant.tools, name))
            case RemedyKind.ADD, (*_, "allow_tools"), name:
                grant = attrs.evolve(grant, allow_tools=(*grant.allow_tools, name))
            case RemedyKind.SET, (*_, "budget_tier"), tier:
                ceiling = Tier.parse(tier)
            case RemedyKind.SET, (*_, "min_tier"), tier:
                definition = attrs.evolve(definition, min_tier=Tier.parse(tier))
            case RemedyKind.SET, (*_, "estimated_duration_ms"), most:
                definition = attrs.evolve(definition, estimated_duration=most / 1000)
            case RemedyKind.SET, ("tiers", "deep", "ceiling_ms"), room:
                limits = attrs.evolve(limits, deep_ceiling=room / 1000)
            case RemedyKind.SET, ("calibration", "unknown"), word:
                unknown = Unknown(word)
            case RemedyKind.RUN, _, ("mcp", "approve", _):
                candidate = attrs.evolve(candidate, changed=False)
            case RemedyKind.RUN, _, ("calibrate", _, _):
                told = re.search(r"less than ([\d.]+) ms", remedy.text)
                assert told is not None
                estimate = estimated(
                    float(told[1]) / 1000,
                    degraded=estimate.degraded,
                    next_trial=estimate.next_trial,
                )
            case RemedyKind.WAIT, _, _ if need.reason is Reason.UNAVAILABLE:
                ready = Availability.READY
                candidate = attrs.evolve(candidate, availability=ready, obstacle=None)
            case (RemedyKind.RUN, _, ("measurements", "forget", *_)) | (
                RemedyKind.WAIT,
                _,
                _,
            ):
                estimate = declared(1.0)  # what it declares is read below
            case _:
                pytest.fail(f"no such remedy is known: {remedy}")
        candidate = attrs.evolve(
            candidate,
            definition=definition,
            estimate=placed(estimate, definition, limits, unknown),
        )
        return Setting(candidate, grant, ceiling, limits, unknown, self.places)


def placed(
    old: Estimate, definition: ToolDefinition, limits: TierLimits, unknown: Unknown
) -> Estimate:
    """The estimate of a tool that is measured as before, and declared as it is."""
    new, source = old, old.source
    if source not in (EstimateSource.MEASURED, EstimateSource.ELSEWHERE):
        none = LatencyWindow()
        new = estimate(definition, none, now=0.0, limits=limits, unknown=unknown)
        if new.source is source is EstimateSource.TRIAL:  # its last call was cut
            new = attrs.evolve(new, seconds=old.seconds, next_trial=old.next_trial)
    if old.degraded:
        trial = old.next_trial
        new = attrs.evolve(new, degraded=old.degraded, next_trial=trial)
    unclear = new.source is EstimateSource.UNKNOWN
    tier = DEEP if unclear else limits.tier_of(new.seconds)
    tier = max(tier, definition.min_tier)
    return attrs.evolve(new, tier=tier.slower() if new.degraded else tier)


@settings(max_examples=300)
@given(
    st.data(),
    GRANTS,
    st.sampled_from(Tier),
    LIMITS,
    st.sampled_from(Unknown),
    st.none() | TIMES,
    st.sampled_from([PLACES, Places()]),
)
def test_whichever_remedy_of_each_need_is_followed_the_tool_can_be_used(
    data: st.DataObject,
    grant: Grant,
    ceiling: Tier,
    limits: TierLimits,
    unknown: Unknown,
    promised: float | None,
    places: Places,
) -> None:
    raw = data.draw(CANDIDATES)
    definition = attrs.evolve(raw.definition, estimated_duration=promised)
    known = placed(raw.estimate, definition, limits, unknown)
    candidate = attrs.evolve(raw, definition=definition, estimate=known)
    before = setting = Setting(candidate, grant, ceiling, limits, unknown, places)
    followed: list[str] = []
    for need in before.judged.needs:
        remedy = data.draw(st.sampled_from(need.remedies))
        followed.append(remedy.text)
        setting = setting.after(need, remedy)
    assert setting.judged.usable, (before.judged.text, followed, setting.judged.text)
    # No key is set twice, to different values.
    firsts = [x.remedies[0] for x in before.judged.needs]
    keys = [x.where for x in firsts if x.kind is RemedyKind.SET]
    assert len(keys) == len(set(keys)), before.judged.text


def test_a_tool_that_holds_the_loop_says_what_its_author_can_do() -> None:
    held = HeldTool(place="shop.py:12 in price", seconds=2.0, next_trial=60.0)
    found = of(now(estimated(0.1), held=held))
    assert found.use is Use.LATER
    for word in ("shop.py:12", "2000 ms", "blocking=True", "isolated=True", "1 min"):
        assert word in found.text, found.text
