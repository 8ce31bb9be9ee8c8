"""What a configuration can break by itself: expectations, held against its reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.host import Listing
from glyphoxa_trio.simulation.latency import Known as How
from glyphoxa_trio.simulation.plans import Plan, Utterance
from glyphoxa_trio.simulation.verify.reach import SETTLED, Scene
from glyphoxa_trio.simulation.verify.verdict import Called, Finding, Reach, Severity
from glyphoxa_trio.tools.gate import Reason, Refusal
from glyphoxa_trio.tools.naming import names_in_full
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import in_ms

_SOME: Final = 0.05  # of the calls: fewer are an accident


def expectations(scene: Scene, reaches: Sequence[Reach]) -> Iterator[Finding]:
    """Everything that is written down and does not come true."""
    yield from _grants(scene)
    yield from _limits(scene)
    for npc in scene.config.npcs:
        mine = [reach for reach in reaches if reach.npc == npc.name]
        for listing in scene.granted(npc):
            yield from _tool(scene, npc, listing, mine)


def _grants(scene: Scene) -> Iterator[Finding]:
    for problem in scene.problems:
        yield Finding(
            severity=Severity.ERROR if problem.error else Severity.WARNING,
            what="nobody offers it",
            npc=problem.npc,
            tool=problem.pattern,
            text=problem.text,
            remedy="write the name of a tool, or take it out of the NPC's tools",
        )
    for name, why in scene.known.absent.items():
        yield Finding(
            severity=Severity.WARNING,
            what="a server was not there",
            tool=name,
            text=f"{name} could not be asked: {why}",
            remedy="start it; until then nothing is known of its tools"
            if name not in scene.known.offers
            else "start it; what it offered last was looked at",
        )


def _limits(scene: Scene) -> Iterator[Finding]:
    """Limits of a model that can never be the first to end its turn."""
    turn = scene.config.turn
    for key, seconds in (
        ("turn.first_token_ms", turn.first_token),
        ("turn.silence_ms", turn.silence),
    ):
        if seconds > turn.model_total:
            yield Finding(
                severity=Severity.WARNING,
                what="a limit that is never reached",
                text=f"{key} is {in_ms(seconds)}, and turn.model_total_ms ends it"
                f" after {in_ms(turn.model_total)}",
                remedy=f"lower {key}, or raise turn.model_total_ms",
            )


def _tool(
    scene: Scene, npc: NpcConfig, listing: Listing, reaches: Sequence[Reach]
) -> Iterator[Finding]:
    called = [
        (reach, one)
        for reach in reaches
        for one in reach.called
        if one.key == listing.key
    ]
    in_full = any(
        names_in_full(x, listing.definition, listing.exposed) for x in npc.tools
    )
    if not called:
        refusal = next(
            (
                x.hidden[listing.key]
                for x in reversed(reaches)
                if listing.key in x.hidden
            ),
            None,
        )
        yield _unreachable(scene, npc, listing, refusal, in_full=in_full)
        return
    usual = scene.usual[listing.key]
    if usual.known is How.ASSUMED:
        yield Finding(
            severity=Severity.WARNING,
            what="nobody knows how long it takes",
            npc=npc.name,
            tool=listing.key,
            text=f"nothing is declared or measured of {listing.key}, so it is deep",
            remedy="glyphoxa calibrate, or declare estimated_duration_ms",
        )
        return
    late = [(reach, one) for reach, one in called if one.status is Status.TIMEOUT]
    if late:
        yield _cut(scene, npc, listing, late, always=len(late) == len(called))
        return
    yield from _sometimes_cut(npc, listing, called)


def _unreachable(
    scene: Scene,
    npc: NpcConfig,
    listing: Listing,
    refusal: Refusal | None,
    *,
    in_full: bool,
) -> Finding:
    usual = scene.usual[listing.key]
    # What is only not measured yet may still come true.
    open_ = (
        usual.known is How.ASSUMED and listing.definition.min_tier <= npc.budget_tier
    )
    asked = refusal is not None and refusal.reason is Reason.NEEDS_APPROVAL
    why = "it is in none of its turns" if refusal is None else refusal.text
    highest = f"in {npc.budget_tier} turns, its slowest"
    return Finding(
        severity=Severity.ERROR
        if in_full and not open_ and not asked
        else Severity.WARNING,
        what="granted and never to be reached",
        npc=npc.name,
        tool=listing.key,
        text=f"{npc.name} can never use {listing.key}: {why} ({highest})",
        remedy=_remedy(scene, npc, listing, refusal),
        example=_calls(scene, npc, listing, npc.budget_tier),
    )


def _remedy(
    scene: Scene, npc: NpcConfig, listing: Listing, refusal: Refusal | None
) -> str:
    if refusal is None or refusal.reason is not Reason.OVER_TIER:
        return "" if refusal is None else refusal.remedy
    belongs = listing.definition.min_tier
    if belongs > npc.budget_tier:
        return f"its min_tier is {belongs}: raise the NPC's budget_tier, or lower that"
    needed = scene.config.tiers.tier_of(scene.usual[listing.key].percentile(50))
    if scene.usual[listing.key].known is How.ASSUMED:
        return refusal.remedy
    return f"raise the NPC's budget_tier to {max(needed, belongs)}, or take it away"


def _cut(
    scene: Scene,
    npc: NpcConfig,
    listing: Listing,
    late: Sequence[tuple[Reach, Called]],
    *,
    always: bool,
) -> Finding:
    reach, one = late[-1]
    usual = scene.usual[listing.key]
    takes = f"it usually takes {in_ms(usual.percentile(50))} ({usual.known})"
    where = (
        "always" if always else f"in {' and '.join(str(x.tier) for x, _ in late)} turns"
    )
    own = {"tool": "max_duration_ms", "server": "its server's timeout_ms"}
    limit = str(one.limit)
    if usual.percentile(50) > reach.ceiling:
        declared = listing.definition.estimated_duration
        says = "" if declared is None else f"it declares {in_ms(declared)}: "
        remedy = f"{says}declare what is true, or calibrate, and it is not shown here"
    elif limit in own:
        remedy = f"raise {own[limit]}, which is {in_ms(one.took)}"
    else:
        remedy = "give it less to wait for, or a slower tier"
    return Finding(
        severity=Severity.ERROR if always else Severity.WARNING,
        what="shown and always cut",
        npc=npc.name,
        tool=listing.key,
        text=f"{npc.name} is shown {listing.key}, and {where} it is cut after"
        f" {in_ms(one.took)}: {takes}",
        remedy=remedy,
        example=_calls(scene, npc, listing, reach.tier),
    )


def _sometimes_cut(
    npc: NpcConfig, listing: Listing, called: Sequence[tuple[Reach, Called]]
) -> Iterator[Finding]:
    reach, one = called[-1]
    limit = min(reach.ceiling, listing.definition.own_limit)
    slow = [x for x in one.usual.seconds if x > limit]
    share = len(slow) / len(one.usual.seconds)
    if share >= _SOME:
        yield Finding(
            severity=Severity.WARNING,
            what="cut again and again",
            npc=npc.name,
            tool=listing.key,
            text=f"{share:.0%} of the calls of {listing.key} take longer than the"
            f" {in_ms(limit)} that it has at most",
            remedy="tier_by: p95 or adaptive shows it only where it fits",
        )


def _calls(scene: Scene, npc: NpcConfig, listing: Listing, tier: Tier) -> Plan:
    """The shortest evening: somebody asks, and the model calls the tool."""
    said = Utterance(
        at=SETTLED, npc=npc.name, tier=tier, replies=((scene.asks(listing),),)
    )
    return scene.plan(said)
