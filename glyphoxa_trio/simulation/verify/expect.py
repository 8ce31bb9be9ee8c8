"""Expectations that a configuration can break by itself, compared with its reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.runtime.grants import NameProblem
from glyphoxa_trio.simulation.latency import LatencyOrigin as How
from glyphoxa_trio.simulation.plans import PlannedUtterance, RehearsalPlan
from glyphoxa_trio.simulation.verify.reach import SETTLED, ReachInputs
from glyphoxa_trio.simulation.verify.verdict import (
    NOTHING,
    Called,
    Finding,
    NpcReach,
    Severity,
)
from glyphoxa_trio.tools.estimate import Unknown
from glyphoxa_trio.tools.gate import Reason, Refusal
from glyphoxa_trio.tools.naming import names_in_full
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import in_ms

_NAMED: Final = 5  # so many of the tools are named
_SOME: Final = 0.05  # of the calls: fewer are an accident


def expectations(scene: ReachInputs, reaches: Sequence[NpcReach]) -> Iterator[Finding]:
    """Everything that is written down and does not come true."""
    yield from _grants(scene)
    yield from _limits(scene)
    yield from _unknown(scene, reaches)
    for npc in scene.config.npcs:
        mine = [reach for reach in reaches if reach.npc == npc.name]
        reached = {one.key for reach in mine for one in reach.called}
        granted = scene.granted(npc)
        out_of_reach = [x for x in granted if x.key not in reached]
        yield from _out_of_reach(scene, npc, out_of_reach, mine, alone=not reached)
        if npc.tools and not granted:
            yield _offered_nothing(scene, npc)
        for listing in granted:
            if listing.key in reached:
                yield from _tool(scene, npc, listing, mine)


def _grants(scene: ReachInputs) -> Iterator[Finding]:
    for problem in scene.problems:
        if isinstance(problem, NameProblem):
            yield Finding(
                severity=Severity.ERROR,
                what="several tools have one name",
                tool=problem.collision.left_out[0],
                text=problem.text,
                remedy="give one of them another name with expose_as",
            )
            continue
        yield Finding(
            severity=Severity.ERROR if problem.error else Severity.WARNING,
            what="no source offers it",
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


def _limits(scene: ReachInputs) -> Iterator[Finding]:
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
    scene: ReachInputs,
    npc: NpcConfig,
    listing: CatalogueEntry,
    reaches: Sequence[NpcReach],
) -> Iterator[Finding]:
    called = [
        (reach, one)
        for reach in reaches
        for one in reach.called
        if one.key == listing.key
    ]
    late = [(reach, one) for reach, one in called if one.status is Status.TIMEOUT]
    if late:
        yield _cut(scene, npc, listing, late, always=len(late) == len(called))
        return
    yield from _sometimes_cut(npc, listing, called)


def _unknown(scene: ReachInputs, reaches: Sequence[NpcReach]) -> Iterator[Finding]:
    """Tools in use whose latency is neither declared, measured nor stated."""
    used = {one.key for reach in reaches for one in reach.called}
    keys = [
        x.key
        for x in scene.listings
        if x.key in used and scene.usual[x.key].known is How.UNKNOWN
    ]
    if not keys:
        return
    deep = scene.config.calibration.unknown is Unknown.DEEP
    named = " ".join(keys) if len(keys) <= _NAMED else "--all"
    longest = max(scene.usual[key].percentile(50) for key in keys)
    taken = f"and rehearsed as if they took {in_ms(longest)}"
    yield Finding(
        severity=Severity.WARNING,
        what="its latency is unknown",
        tool=keys[0] if len(keys) == 1 else "",
        text=f"nothing is declared or measured of {_some(keys)}:"
        f" {'shown in deep turns' if deep else 'on trial in every turn'}, {taken}",
        remedy=f"glyphoxa calibrate CONFIG {named}, which calls what it names, or"
        " declare estimated_duration_ms, or play: after five calls it is known",
    )


def _offered_nothing(scene: ReachInputs, npc: NpcConfig) -> Finding:
    wrong = any(x.error for x in scene.problems if x.npc == npc.name)
    return Finding(
        severity=Severity.ERROR if wrong else Severity.WARNING,
        what=NOTHING,
        npc=npc.name,
        text=f"{npc.name}, granted {_some(npc.tools)}: no such tool is there",
        remedy="start the servers that have them, or write the names of tools",
    )


def _out_of_reach(
    scene: ReachInputs,
    npc: NpcConfig,
    listings: Sequence[CatalogueEntry],
    reaches: Sequence[NpcReach],
    *,
    alone: bool,
) -> Iterator[Finding]:
    """The tools that an NPC is granted but has in none of its turns, by the reason.

    Args:
      alone: the NPC can reach no other tools.
    """
    groups: dict[tuple[Severity, str, str], list[tuple[CatalogueEntry, str]]] = {}
    for listing in listings:
        known = [x.hidden[listing.key] for x in reaches if listing.key in x.hidden]
        no = known[-1] if known else None
        why = "it is in none of its turns" if no is None else no.text
        if len(listings) > 1:  # the names are in front of it
            why = why.removeprefix(listing.exposed).strip()
        remedy = _remedy(scene, npc, listing, no)
        general = remedy.replace(f"[{listing.definition.name}]", "[TOOL]").replace(
            listing.key, "TOOL"
        )
        place = (_severity(scene, npc, listing, no), general, _kind(no))
        groups.setdefault(place, []).append((listing, why))
    for (severity, general, _), members in groups.items():
        first, why = members[0]
        keys = [listing.key for listing, _ in members]
        starts = f"{npc.name}, granted" if alone else f"{npc.name} can never use"
        yield Finding(
            severity=severity,
            what=NOTHING if alone else "granted and never to be reached",
            npc=npc.name,
            tool=keys[0] if len(keys) == 1 else "",
            text=f"{starts} {_some(keys)}: {why}"
            f" (in {npc.budget_tier} turns, its slowest)",
            remedy=general if len(keys) > 1 else _remedy_of(scene, npc, first, reaches),
            example=_calls(scene, npc, first, npc.budget_tier),
        )


def _remedy_of(
    scene: ReachInputs,
    npc: NpcConfig,
    listing: CatalogueEntry,
    reaches: Sequence[NpcReach],
) -> str:
    known = [x.hidden[listing.key] for x in reaches if listing.key in x.hidden]
    return _remedy(scene, npc, listing, known[-1] if known else None)


def _kind(no: Refusal | None) -> str:
    return "" if no is None else str(no.reason)


def _severity(
    scene: ReachInputs, npc: NpcConfig, listing: CatalogueEntry, no: Refusal | None
) -> Severity:
    """An error if the tool is granted by its name and can never be used."""
    in_full = any(
        names_in_full(x, listing.definition, listing.exposed) for x in npc.tools
    )
    # A tool that is only not measured yet may turn out to be fast enough.
    unknown = scene.usual[listing.key].known is How.UNKNOWN
    open_ = unknown and listing.definition.min_tier <= npc.budget_tier
    asked = no is not None and no.reason is Reason.NEEDS_APPROVAL
    return Severity.ERROR if in_full and not open_ and not asked else Severity.WARNING


def _some(names: Sequence[str]) -> str:
    """The first few of many names."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"


def _remedy(
    scene: ReachInputs, npc: NpcConfig, listing: CatalogueEntry, refusal: Refusal | None
) -> str:
    """As the runtime advises it."""
    judged = scene.judged.get((npc.name, listing.key))
    if judged is None or judged.usable:
        return "" if refusal is None else refusal.remedy
    needed = [need.remedies for need in judged.needs if need.remedies]
    return "; and ".join(", or ".join(x.text for x in any_of) for any_of in needed)


def _cut(
    scene: ReachInputs,
    npc: NpcConfig,
    listing: CatalogueEntry,
    late: Sequence[tuple[NpcReach, Called]],
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
        remedy = (
            f"{says}declare what is true, or measure it with glyphoxa calibrate CONFIG"
            f" {listing.key}, and it is not shown here"
        )
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
    npc: NpcConfig, listing: CatalogueEntry, called: Sequence[tuple[NpcReach, Called]]
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


def _calls(
    scene: ReachInputs, npc: NpcConfig, listing: CatalogueEntry, tier: Tier
) -> RehearsalPlan:
    """Return the shortest evening: a player asks, and the model calls the tool."""
    said = PlannedUtterance(
        at=SETTLED, npc=npc.name, tier=tier, replies=((scene.asks(listing),),)
    )
    return scene.plan(said)
