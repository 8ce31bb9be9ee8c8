"""Random plans, for Hypothesis. Imported on use: nothing else needs it.

Times are multiples of 1/64 s, exact in binary. Where chance would nearly always
draw something broken, the usual is drawn more often: an example should get far.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

import attrs
from hypothesis import strategies as st

from glyphoxa_trio.config import (
    NO_GROUPS,
    CalibrationConfig,
    Config,
    McpConfig,
    NpcConfig,
    RestartConfig,
    ServerSpec,
    SpeculationConfig,
    ToolOverride,
    TrustConfig,
    TurnConfig,
)
from glyphoxa_trio.config.voices import (
    CascadeMode,
    Engine,
    FillerConfig,
    FillerThresholds,
)
from glyphoxa_trio.tools.definition import OnInterrupt, ToolDefinition
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.hedging import NO_HEDGING, HedgingRules
from glyphoxa_trio.tools.tier import Tier

from .plans import (
    ApproverReply,
    Asks,
    Deed,
    PlannedEvent,
    PlannedPause,
    PlannedUtterance,
    RehearsalPlan,
    Reply,
    Slip,
    Spell,
    Step,
)
from .promises.fake_world import Act, Ending

T = TypeVar("T")
TICK = 1 / 64


class Theme(StrEnum):
    """The main subject of an evening. Everything may happen in each, but chance
    alone would hardly ever bring together what belongs together."""

    ANYTHING = "anything"
    APPROVALS = "approvals"
    RELOADS = "reloads"
    QUESTIONS = "questions"  # the same ones, again and again, and some writes
    REGULARS = "regulars"  # one tool is called all evening
    LEAVERS = "leavers"  # listeners leave before the end
    SERVERS = "servers"  # die, freeze, change what they offer
    UNKNOWN = "unknown"  # a tool has neither a declared nor a measured latency
    SPELLS = "spells"  # a tool is slow, hung or cold for a while, and then well


_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "additionalProperties": False,
}
_NOTHING = "nonsense", "tool_search", "mcp__world__gone", "", "world.t0"
_WORDS = "", "think carefully", "who is", "search the web"


# Made once: Hypothesis looks long at every new strategy, and a plan draws hundreds.
@lru_cache(maxsize=None, typed=True)
def ticks(least: int, most: int) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda count: count * TICK)


def mostly(usual: T, *others: T) -> st.SearchStrategy[T]:
    """Simple cases crowd out the rest, unless the rest is kept rare."""
    try:
        return _mostly(usual, *others)
    except TypeError:  # not hashable
        return st.sampled_from([usual] * 3 * len(others) + list(others))


@lru_cache(maxsize=None, typed=True)
def _mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * 3 * len(others) + list(others))


@lru_cache(maxsize=None, typed=True)
def one_of_these(*these: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(these)


_RARELY = st.sampled_from([False] * 3 + [True])


def sometimes(what: st.SearchStrategy[T], otherwise: T) -> st.SearchStrategy[T]:
    return _RARELY.flatmap(lambda yes: what if yes else st.just(otherwise))


# ------------------------------------------------------- tools and what they do


_TROUBLE = one_of_these("flaky", "stubborn", "slow")
_LONG = one_of_these("slow", "flaky", "bimodal", "steady")
_KINDS = one_of_these("steady", "steady", "bimodal", "flaky", "wild", "stubborn")


@st.composite
def acts(
    draw: st.DrawFn,
    *,
    stubborn: int = 512,
    kinds: st.SearchStrategy[str] | None = None,
) -> tuple[Act, ...]:
    """Draw the runs of a tool: always the same, of two speeds, or anything."""
    kind = draw(_KINDS if kinds is None else kinds)
    quick = draw(ticks(0, 40))
    match kind:
        case "steady":
            return (Act(Ending.ANSWER, quick),)
        case "bimodal":
            slow = Act(Ending.ANSWER, draw(ticks(32, 320)))
            count = draw(st.integers(1, 4))
            return (*[Act(Ending.ANSWER, quick)] * count, slow)
        case "flaky":
            bad = draw(st.sampled_from([Ending.CRASH, Ending.HANG, Ending.SAY_NO]))
            count = draw(st.integers(1, 6 if kinds is None else 9))
            return (*[Act(bad, quick)] * count, Act(Ending.ANSWER, quick))
        case "slow":
            return (Act(Ending.ANSWER, draw(ticks(34, 120))),)
        case "stubborn":
            return (Act(Ending.STUBBORN, draw(ticks(64, stubborn))),)
    endings = st.sampled_from([Ending.ANSWER] * 4 + list(Ending))
    return tuple(
        draw(
            st.lists(
                st.builds(Act, endings, ticks(0, 40) | ticks(0, stubborn)),
                min_size=1,
                max_size=4,
            )
        )
    )


@st.composite
def own_tools(draw: st.DrawFn, name: str, theme: Theme) -> ToolDefinition:
    read_only, idempotent = draw(st.booleans()), draw(st.booleans())
    limit, several = mostly(None, TICK, 0.25, 0.5, 1.0, 2.0, 45.0), st.booleans()
    estimates = mostly(TICK, 0.25, 0.75, 1.0, None)
    if theme is Theme.UNKNOWN:
        estimates, limit = mostly(None, TICK), mostly(None, 2.0, 45.0)
    if theme is Theme.REGULARS and name == "own0":
        read_only, idempotent = draw(one_of_these((False, False), (True, True)))
        limit = one_of_these(None, 0.125, 0.25)
    if theme is Theme.QUESTIONS and name == "own0":
        read_only, idempotent = draw(one_of_these((True, True), (False, True)))
        several = mostly(True, False)
    probeable = read_only or idempotent
    kept = mostly(60.0, 0.0, 1.0) if theme is Theme.QUESTIONS else mostly(0.0, 60.0)
    return ToolDefinition(
        name=name,
        group="own",
        parameters=_SCHEMA,
        estimated_duration=draw(estimates),
        max_duration=draw(limit),
        read_only=read_only,
        idempotent=idempotent,
        open_world=draw(mostly(False, True)),
        cacheable=draw(kept) if probeable else 0.0,
        per_npc=draw(several),
        min_tier=draw(mostly(Tier.FAST, *Tier)),
        on_interrupt=draw(st.none() | st.sampled_from(OnInterrupt)),
        slow_response_threshold=draw(mostly(None, 0.125, 0.375)),
    )


@st.composite
def listed_tools(
    draw: st.DrawFn, name: str, theme: Theme = Theme.ANYTHING
) -> Mapping[str, Any]:
    """A tool as an MCP server lists it."""
    meta: dict[str, Any] = {}
    if draw(mostly(False, True) if theme is Theme.UNKNOWN else mostly(True, False)):
        estimate = draw(mostly(TICK, 0.25, 0.75, 2.0))
        meta["estimated_duration_ms"] = estimate * 1000
    if draw(mostly(False, True)):
        meta["max_duration_ms"] = draw(st.sampled_from([1000, 500, 250, 2000]))
    if draw(mostly(False, True)):
        meta["min_tier"] = draw(st.sampled_from(["standard", "deep"]))
    hints = {"readOnlyHint": draw(st.booleans()), "idempotentHint": draw(st.booleans())}
    for hint in ("destructiveHint", "openWorldHint"):
        if (said := draw(_SAID)) is not None:
            hints[hint] = said
    if any(hints.values()) and draw(mostly(False, True)):
        meta["cacheable_seconds"] = 60
    return {
        "name": name,
        "description": draw(mostly("A tool.", "Another one.")),
        "inputSchema": _SCHEMA,
        "annotations": hints,
        "_meta": meta,
    }


_SAID = one_of_these(None, False, True)


@st.composite
def listings(
    draw: st.DrawFn, theme: Theme = Theme.ANYTHING
) -> tuple[Mapping[str, Any], ...]:
    names = draw(st.lists(st.sampled_from(["t0", "t1", "t2"]), min_size=1, max_size=3))
    return tuple(draw(listed_tools(name, theme)) for name in dict.fromkeys(names))


# --------------------------------------------------------------- configurations


@st.composite
def npcs(
    draw: st.DrawFn,
    name: str,
    known: Sequence[str],
    servers: Sequence[str],
    theme: Theme,
    like: Config | None = None,
) -> NpcConfig:
    engine = draw(mostly(Engine.CASCADED, Engine.SENTENCE_CASCADE))
    if theme in (Theme.REGULARS, Theme.QUESTIONS, Theme.LEAVERS):
        return NpcConfig(
            name=name,
            engine=engine,
            budget_tier=draw(mostly(Tier.DEEP, *Tier)),
            tools=("*.*",),
            trust=TrustConfig(mode=TrustMode.FULL),
            fallback=("Hm.",),
        )
    several = ["*", *known, *servers, *(f"{server}.*" for server in servers)]
    if theme is Theme.APPROVALS:
        modes, allowed = mostly(TrustMode.LIMITED, TrustMode.FULL), _ALLOWED_RARELY
    elif theme is Theme.SERVERS:
        modes, allowed = mostly(TrustMode.LIMITED, TrustMode.FULL), _ALLOWED_OFTEN
    else:
        modes, allowed = mostly(TrustMode.FULL, TrustMode.LIMITED), _ALLOWED_OFTEN
    # A reload that is to be noticed takes something away.
    lessened = theme is Theme.RELOADS and like is not None
    pattern = st.sampled_from(
        several[1:] if lessened else ["*.*"] * (len(several) + 1) + several
    )
    return NpcConfig(
        name=name,
        engine=engine,
        cascade_mode=draw(mostly(CascadeMode.AUTO, *CascadeMode)),
        budget_tier=draw(
            one_of_these(*Tier) if lessened else one_of_these(Tier.DEEP, *Tier)
        ),
        tools=tuple(dict.fromkeys(draw(pattern) for _ in range(draw(_FEW)))),
        trust=TrustConfig(mode=draw(modes), allow_tools=draw(allowed)),
        fallback=("Hm.",),
    )


_ALLOWED_RARELY = mostly((), ("*.*",), ("*.t0",))
_ALLOWED_OFTEN = one_of_these((), ("*.*",), ("*.t0",))
_FEW = one_of_these(1, 1, 2, 3)


@st.composite
def server_specs(draw: st.DrawFn, name: str) -> ServerSpec:
    override = ToolOverride(max_duration=draw(st.sampled_from([0.5, 0.25, 1.0])))
    return ServerSpec(
        name=name,
        command=("nobody-starts-this",),
        timeout=draw(mostly(4.0, 0.5, 1.0, 10.0)),
        start_timeout=2.0,
        restart=RestartConfig(
            backoff=draw(mostly(TICK, 0.0, 1.0)), max_restarts=draw(mostly(5, 0, 1))
        ),
        allow=draw(mostly((), ("t0", "t1"))),
        tools=draw(mostly({}, {"t0": override})),
    )


# Fillers come early, because the tools of these evenings are fast.
_FILLER = FillerConfig(
    after=0.25, thresholds=FillerThresholds(fast=0.125, standard=0.25, deep=0.25)
)
_HEDGING = HedgingRules(
    enabled=True, replicas=(("world", "lore"),), extra_calls=1.0, min_samples=1
)


@st.composite
def configs(
    draw: st.DrawFn,
    people: Sequence[str],
    known: Sequence[str],
    servers: Sequence[str],
    theme: Theme,
    like: Config | None = None,
) -> Config:
    """Any configuration, or one that ``like`` may be reloaded to."""
    if like is None:
        calibration = CalibrationConfig(
            at_start=draw(mostly(False, True)), tier_by=draw(st.sampled_from(TierBy))
        )
        specs = tuple(draw(server_specs(name)) for name in servers)
    else:
        calibration = like.calibration
        kept = draw(mostly(servers, servers[:1], ()))
        specs = tuple(
            spec if draw(mostly(True, False)) else draw(server_specs(spec.name))
            for spec in like.mcp.servers
            if spec.name in kept
        )
    return Config(
        npcs=tuple(draw(npcs(name, known, servers, theme, like)) for name in people),
        mcp=McpConfig(
            remember=False,
            servers=specs,
            defer_threshold=draw(mostly(15, 0, 1)),
        ),
        builtin=NO_GROUPS,
        calibration=calibration,
        speculation=SpeculationConfig(enabled=draw(mostly(False, False, True))),
        filler=draw(mostly(_FILLER, FillerConfig())),
        hedging=_HEDGING
        if len(specs) > 1 and draw(mostly(False, True))
        else NO_HEDGING,
        turn=TurnConfig(
            max_rounds=draw(mostly(4, 4, 1, 2)),
            max_calls=draw(mostly(16, 16, 1, 2)),
            first_token=draw(mostly(5.0, 0.5)),
            silence=draw(mostly(5.0, 0.5)),
            model_total=draw(mostly(30.0, 1.0)),
            queue=draw(mostly(8, 1)),
        ),
    )


# ------------------------------------------------------------ what models answer


@st.composite
def replies(draw: st.DrawFn, names: Sequence[str], theme: Theme) -> tuple[Reply, ...]:
    """A model's answers: some rounds with calls, then words, or trouble."""
    rounds = draw(one_of_these(0, 1, 1, 2, 3, 4))
    return (*(draw(calling(names, theme)) for _ in range(rounds)), draw(ending()))


_ODD_ARGUMENTS = one_of_these(
    "{}", '{"x": 1.0}', "{", '{"x": "?"}', '{"y": 1}', "[]", ""
)
_SLIPS = st.sampled_from(Slip)
# Of ten calls, so many have arguments of their own.
_RARELY_THE_SAME = {Theme.QUESTIONS: 0, Theme.APPROVALS: 3, Theme.REGULARS: 3}


@st.composite
def calling(draw: st.DrawFn, names: Sequence[str], theme: Theme) -> Reply:
    steps: list[Step] = []
    pausing = theme in (Theme.RELOADS, Theme.SERVERS)
    if draw(mostly(True, False) if pausing else mostly(False, True)):
        steps.append(PlannedPause(draw(ticks(0, 64))))
    if draw(mostly(False, True)):
        steps.append("Let me see. ")
    for index in range(draw(one_of_these(1, 1, 2, 3, 4, 5))):
        odd = draw(st.integers(0, 9))
        name = names[0]
        if odd == 9:
            name = draw(one_of_these(*_NOTHING))
        elif odd > 5 or theme not in (Theme.REGULARS, Theme.QUESTIONS):
            name = draw(one_of_these(*names))
        if odd == 8:
            arguments = draw(_ODD_ARGUMENTS)
        elif odd > _RARELY_THE_SAME.get(theme, 6):
            arguments = '{"x": 1}'
        else:
            arguments = json.dumps({"x": draw(_MANY)})
        id_ = "c0" if theme is Theme.APPROVALS and odd < 5 else f"c{index}"
        steps.append(Asks(name, arguments, id_))
    if draw(mostly(False, False, False, True)):
        steps.append(draw(_SLIPS))
    return tuple(steps)


_MANY = st.integers(0, 9999)


_OPENERS: tuple[Reply, ...] = (
    ("Aye.",),
    (PlannedPause(0.25), "Hm... ", "Let me see. "),
    (PlannedPause(float("inf")),),
    ("Half of a sen", PlannedPause(float("inf"))),
    ("Half of a sen", Slip.FAILS),
    (Slip.IS_A_BUG,),
    (),
    ("word " * 40,),
)
_USUAL_OPENER: Reply = ("So it ", PlannedPause(0.125), "is. ", "And")


@st.composite
def ending(draw: st.DrawFn) -> Reply:
    usual: Reply = ("So it is. ", "And so be it.")
    odd: list[Reply] = [
        (),
        ("",),
        (PlannedPause(0.25), "Yes."),
        (PlannedPause(float("inf")),),
        ("Well. ", PlannedPause(float("inf"))),
        ("Half of a sen", Slip.FAILS),
        (Slip.IS_A_BUG,),
        ("Well. ", Slip.HANGS_UP),
    ]
    return draw(mostly(usual, *odd))


# ----------------------------------------------------------------- what happens


@st.composite
def utterances(
    draw: st.DrawFn,
    people: Sequence[str],
    names: Sequence[str],
    theme: Theme,
    most: int = 5,
) -> tuple[PlannedUtterance, ...]:
    """Several, at once or one after the other."""
    crowded = draw(st.booleans())
    at, said = 0.0, []
    for _ in range(draw(st.integers(1, most))):
        at = draw(ticks(0, 256)) if crowded else at + draw(ticks(16, 640))
        said.append(
            PlannedUtterance(
                at=at,
                npc=draw(one_of_these(*people)),
                speaker=draw(mostly("player", "dm", "bard")),
                words=draw(one_of_these(*_WORDS)),
                tier=draw(
                    one_of_these(Tier.DEEP, Tier.DEEP, Tier.FAST)
                    if theme is Theme.REGULARS
                    else one_of_these(None, None, Tier.DEEP, Tier.DEEP, *Tier)
                ),
                replies=draw(replies(names, theme)),
                opener=draw(mostly(_USUAL_OPENER, *_OPENERS)),
                leaves=draw(
                    ticks(1, 64)
                    if theme is Theme.LEAVERS
                    else sometimes(ticks(0, 128), float("inf"))
                ),
                pace=draw(mostly(0.0, TICK, 1.0)),
                heard=draw(mostly(None, 0.25, 1.0)) if at >= 1 else None,
                misheard=draw(mostly(False, True)),
            )
        )
    return tuple(said)


@st.composite
def happenings(
    draw: st.DrawFn,
    people: Sequence[str],
    servers: Sequence[str],
    *,
    moments: Sequence[float],
    reloads: int = 0,
    offers: Sequence[str] = (),
    theme: Theme = Theme.ANYTHING,
) -> tuple[PlannedEvent, ...]:
    """Draw the other events of an evening, mostly soon after an utterance.

    Args:
      offers: the servers that may list something else, one or the other thing.
    """
    deeds = [Deed.INTERRUPT, Deed.ELEVATE, Deed.ELEVATE, Deed.PREVIEW]
    if servers:
        deeds += [Deed.DIE, Deed.FREEZE, Deed.THAW] * (3 if theme is _SERVERS else 1)
    if offers:
        deeds += [Deed.OFFER] * (8 if theme is _SERVERS else 2)
    if reloads:
        deeds += [Deed.RELOAD] * (9 if theme is Theme.RELOADS else 2)
    found = []
    for _ in range(draw(one_of_these(0, 0, 1, 1, 2, 3, 4))):
        deed = draw(one_of_these(*deeds))
        if deed is Deed.OFFER:
            whom = draw(one_of_these(*offers))
        elif deed in (Deed.DIE, Deed.FREEZE, Deed.THAW):
            whom = draw(one_of_these(*servers))
        else:
            whom = draw(one_of_these(*people))
        most = {Deed.OFFER: 2, Deed.RELOAD: reloads}.get(deed, 1)
        found.append(
            PlannedEvent(
                at=draw(one_of_these(*moments)) + draw(ticks(0, 96)),
                deed=deed,
                whom=whom,
                which=draw(st.integers(0, most - 1)),
                tier=draw(_TIERS),
                seconds=draw(ticks(1, 256)),
            )
        )
    return tuple(found)


_SERVERS = Theme.SERVERS
_TIERS = st.sampled_from(Tier)


def approvers(
    theme: Theme,
) -> st.SearchStrategy[tuple[tuple[ApproverReply, float], ...] | None]:
    if theme is Theme.APPROVALS:
        return _ANSWERS
    return _RARELY.flatmap(lambda yes: _ANSWERS if yes else st.none())


_ANSWERS = st.lists(
    st.tuples(
        st.sampled_from([ApproverReply.YES] * 4 + list(ApproverReply)), ticks(0, 160)
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@st.composite
def plans(draw: st.DrawFn) -> RehearsalPlan:
    """Any table there is: its tools, its people, and an evening at it."""
    theme = draw(_THEMES)
    if theme is Theme.SPELLS:
        return draw(spells())
    many = one_of_these(1, 2, 2) if theme is Theme.QUESTIONS else mostly(1, 2)
    people = ["Bo", "Ada"][: draw(many)]
    count = draw(one_of_these(0, 1, 1, 2))
    if theme in (Theme.APPROVALS, Theme.SERVERS):
        count = max(1, count)
    servers = ["world", "lore"][:count]
    count = draw(st.integers(0 if servers else 1, 2))
    if theme is Theme.QUESTIONS:
        count = 2
    own = tuple(draw(own_tools(f"own{n}", theme)) for n in range(count))
    offers = {name: draw(listings(theme)) for name in servers}
    keys = [f"{name}.{tool['name']}" for name in servers for tool in offers[name]]
    known = [*keys, *(definition.name for definition in own)]
    config = draw(configs(people, known, servers, theme))
    count = draw(one_of_these(1, 2) if theme is Theme.RELOADS else mostly(0, 1, 2))
    later = tuple(
        draw(configs(people, known, servers, theme, like=config)) for _ in range(count)
    )
    later_offers = {
        name: (draw(changed(offers[name])), draw(listings()))
        for name in servers
        if theme is Theme.SERVERS or draw(st.booleans())
    }
    named = [f"mcp__{key.replace('.', '__')}" for key in keys]
    names = [*(definition.name for definition in own), *named]
    quiet = (Act(Ending.ANSWER, draw(ticks(0, 12))),)
    said = draw(utterances(people, names, theme))
    return RehearsalPlan(
        config=config,
        own=own,
        offers=offers,
        later_offers=later_offers,
        starts={name: draw(ticks(0, 96)) for name in servers if draw(_RARELY)},
        acts={
            key: quiet
            if theme is Theme.QUESTIONS
            else draw(acts(kinds=_kinds(theme, key)))
            for key in (*keys, *(definition.key for definition in own))
        },
        utterances=said,
        events=draw(
            happenings(
                people,
                servers,
                moments=[x.at for x in said],
                reloads=len(later),
                offers=tuple(later_offers),
                theme=theme,
            )
        ),
        answers=draw(approvers(theme)),
        later=later,
        closes=draw(sometimes(ticks(0, 640), None)),
        seed=draw(_SEEDS),
    )


@st.composite
def spells(draw: st.DrawFn) -> RehearsalPlan:
    """A quarter of an hour with one tool that is ill at first, perhaps twice, and then
    well. A player asks for it all the time."""
    external, tier = draw(st.booleans()), draw(one_of_these(*Tier))
    listed = draw(listed_tools("t0", draw(one_of_these(Theme.UNKNOWN, Theme.ANYTHING))))
    own = attrs.evolve(
        draw(own_tools("own0", draw(one_of_these(Theme.UNKNOWN, Theme.ANYTHING)))),
        cacheable=0.0,
    )
    key, name = ("world.t0", "mcp__world__t0") if external else ("own.own0", "own0")
    well = Act(Ending.ANSWER, draw(ticks(0, 12)))
    ill = one_of_these(
        None, Act(Ending.ANSWER, 0.75), Act(Ending.ANSWER, 2.0), Act(Ending.HANG)
    )
    ends, ended, found = draw(ticks(640, 5120)), 0.0, []
    for _ in range(draw(one_of_these(1, 1, 2))):
        found.append(Spell(whom=key, begins=ended, ends=ends, act=draw(ill)))
        ended, ends = ends + draw(ticks(0, 6400)), ends + 100.0 + draw(ticks(0, 1920))
    over = max(x.ends for x in found)
    at, every = 0.0, draw(ticks(256, 1600))
    said: list[PlannedUtterance] = []
    while at < over + 480.0:
        ill_now = any(x.begins <= at < x.ends for x in found)
        at += min(every, 6.0) if ill_now else every
        said.append(
            PlannedUtterance(
                at=at,
                npc="Bo",
                tier=tier,
                replies=((Asks(name, json.dumps({"x": len(said)})),), _ENDS),
            )
        )
    config = draw(configs(["Bo"], [], ["world"] if external else [], Theme.REGULARS))
    (npc,) = config.npcs
    return RehearsalPlan(
        config=attrs.evolve(
            config,
            npcs=(attrs.evolve(npc, budget_tier=tier),),
            turn=TurnConfig(),
            speculation=SpeculationConfig(),
        ),
        own=() if external else (own,),
        offers={"world": (listed,)} if external else {},
        acts={key: (well,)},
        spells=tuple(found),
        utterances=tuple(said),
        seed=draw(_SEEDS),
    )


_ENDS: Reply = ("So it is. ",)


def _kinds(theme: Theme, key: str) -> st.SearchStrategy[str] | None:
    if theme is Theme.REGULARS and key == "own.own0":
        return _TROUBLE
    if theme is Theme.UNKNOWN:
        return mostly("slow", "steady", "bimodal")
    return _LONG if theme in (Theme.LEAVERS, Theme.SERVERS) else None


_THEMES = st.sampled_from(Theme)
_SEEDS = st.integers(0, 99)


@st.composite
def changed(
    draw: st.DrawFn, offers: tuple[Mapping[str, Any], ...]
) -> tuple[Mapping[str, Any], ...]:
    """The same tools, described otherwise."""
    return tuple(
        {**tool, "description": "Now it is another one."}
        if draw(mostly(True, False))
        else tool
        for tool in offers
    )
