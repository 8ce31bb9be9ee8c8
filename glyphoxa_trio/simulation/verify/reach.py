"""Every NPC calls every tool that it can reach, in every tier, once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from glyphoxa_trio.config import Config, NpcConfig
from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.host.measurements import Measurements
from glyphoxa_trio.npc import ApprovalRequest, TierSelected, ToolFinished, ToolsShown
from glyphoxa_trio.runtime import open_runtime
from glyphoxa_trio.runtime.assembly import settings_of
from glyphoxa_trio.runtime.grants import (
    HiddenToolProblem,
    Problem,
    PromptGrantProblem,
    grant_of,
)
from glyphoxa_trio.simulation import virtual
from glyphoxa_trio.simulation.latency import Latency, usual
from glyphoxa_trio.simulation.plans import (
    ApproverReply,
    Asks,
    PlannedUtterance,
    RehearsalPlan,
    Remembering,
    rehearsable,
    rehearse,
    text_of,
)
from glyphoxa_trio.simulation.promises.fake_world import Act, Ending, FakeWorld
from glyphoxa_trio.simulation.verify.verdict import Called, NpcReach, VerifyInputs
from glyphoxa_trio.tools.gate import Reason
from glyphoxa_trio.tools.history import recalled
from glyphoxa_trio.tools.instance import NoInstance, minimal_instance
from glyphoxa_trio.tools.outcome import Outcome
from glyphoxa_trio.tools.schema import BadSchema
from glyphoxa_trio.tools.search import SEARCH
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.usability import Usability
from glyphoxa_trio.tools.window import SampleKind

_ENDED: Final = (SampleKind.OK, SampleKind.TIMEOUT)
_SEARCH: Final = SEARCH.name
# Servers have started by then, and probes at the start have ended.
SETTLED: Final = 200.0
_APART: Final = 60.0  # seconds between two turns: nothing of one is left in the next


@attrs.frozen(kw_only=True)
class ReachInputs:
    """A configuration with everything else that is known.

    Args:
      listings: the tools there are, when all servers are ready.
      problems: grants for which there is no tool.
      warnings: what an operator would see.
      judged: whether an NPC can use a tool, and what changes that, by both.
    """

    config: Config
    known: VerifyInputs
    listings: tuple[CatalogueEntry, ...]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    usual: Mapping[str, Latency] = attrs.field(factory=dict)
    judged: Mapping[tuple[str, str], Usability] = attrs.field(factory=dict)

    def granted(self, npc: NpcConfig) -> list[CatalogueEntry]:
        grant = grant_of(npc, self.config, approver=self.known.approver)
        return [x for x in self.listings if grant.covers(x.definition, x.exposed)]

    def plan(self, *utterances: PlannedUtterance) -> RehearsalPlan:
        """These are said, and every tool takes as long as it usually does."""
        return RehearsalPlan(
            config=self.config,
            offers=self.known.offers,
            acts={
                key: (Act(Ending.ANSWER, latency.percentile(50)),)
                for key, latency in self.usual.items()
            },
            utterances=utterances,
            answers=((ApproverReply.YES, 0.25),) if self.known.approver else None,
            starts=self.starts,
            measured=self.known.measured,
        )

    @property
    def starts(self) -> Mapping[str, float]:
        """Servers of which nothing is known never start here."""
        return {x: math.inf for x in self.known.absent if x not in self.known.offers}

    def asks(self, listing: CatalogueEntry) -> Asks:
        """A call of the tool with arguments that it takes, as far as is known."""
        return Asks(listing.exposed, json.dumps(arguments_of(listing)))


def scout(config: Config, known: VerifyInputs) -> ReachInputs:
    """Open it once, with all servers there, and look at its tools."""
    config = rehearsable(config)

    async def look() -> ReachInputs:
        scenery = FakeWorld(lambda key, arguments: Act(), known.offers)
        for name in known.absent:
            if name not in known.offers:
                scenery.server(name).start_after(math.inf)
        quiet = attrs.evolve(
            config, calibration=attrs.evolve(config.calibration, at_start=False)
        )
        async with open_runtime(
            quiet,
            environment=attrs.evolve(
                scenery.environment(), hooks=Remembering(known.measured)
            ),
            approver=_nobody_is_asked if known.approver else None,
            wait_for_servers=0,
        ) as runtime:
            await runtime.wait_ready(within=SETTLED)
            return ReachInputs(
                config=config,
                known=known,
                listings=runtime.host.snapshot.listings,
                problems=tuple(
                    x
                    for x in runtime.problems()
                    # `judged` has what is hidden; the servers here have no prompts.
                    if not isinstance(x, HiddenToolProblem | PromptGrantProblem)
                ),
                warnings=tuple(f"{x.server}: {x.text}" for x in runtime.warnings),
                judged={(x.npc, x.tool): x for x in runtime.usability()},
            )

    scene = virtual.run(look)
    took = partial(_usual, remembered(config, known), known)
    return attrs.evolve(scene, usual={x.key: took(x) for x in scene.listings})


async def _nobody_is_asked(request: ApprovalRequest) -> bool:
    return False


def remembered(config: Config, known: VerifyInputs) -> Measurements:
    """The measurements that a runtime would remember if it started now."""
    settings = settings_of(config)
    found = Measurements(settings)
    samples = (
        (one.place, recalled(one, now=0.0, today=0.0, expiry=settings.expiry))
        for one in known.measured
    )
    found.recall((place, sample) for place, sample in samples if sample is not None)
    return found


def _usual(
    found: Measurements, known: VerifyInputs, listing: CatalogueEntry
) -> Latency:
    samples = found.window(listing.definition).samples(now=0.0)
    measured = Latency.measured(
        [x.seconds for x in samples if x.kind in _ENDED],
        [x.seconds for x in samples if x.kind is SampleKind.CENSORED],
    )
    return usual(listing.definition, known.stated.get(listing.key), measured)


def arguments_of(listing: CatalogueEntry) -> Mapping[str, object]:
    definition = listing.definition
    if definition.examples:
        return definition.examples[0]
    try:
        return minimal_instance(definition.parameters, foreign=definition.external)
    except (NoInstance, BadSchema):
        return {}


def reaches(
    scene: ReachInputs, tell: Callable[[], None] = lambda: None
) -> list[NpcReach]:
    """The reach of every NPC in each tier up to its ceiling; ``tell`` is called after
    each."""
    found = []
    for npc in scene.config.npcs:
        for tier in Tier:
            if tier <= npc.budget_tier:
                found.append(_reach(scene, npc, tier))
                tell()
    return found


def _reach(scene: ReachInputs, npc: NpcConfig, tier: Tier) -> NpcReach:
    """Call every tool once that is shown in the first turn, or found by a search in it,
    each in a turn of its own."""
    granted = scene.granted(npc)
    first = _first_turn(scene, npc, tier)
    usable = {*first.shown, *first.deferred}
    asked = [x for x in granted if x.exposed in usable]
    ends = _called(scene, npc, tier, asked, deferred=set(first.deferred))
    by_name = {listing.exposed: listing.key for listing in granted}
    return NpcReach(
        npc=npc.name,
        tier=tier,
        ceiling=scene.config.tiers.ceiling(tier),
        model_limit=scene.config.turn.model_total,
        called=tuple(
            Called(
                key=listing.key,
                usual=scene.usual[listing.key],
                status=end.status,
                limit=end.limit,
                took=end.elapsed,
                searched=listing.exposed in first.deferred,
            )
            for listing in asked
            if (end := ends.get(listing.key)) is not None
        ),
        hidden={
            by_name[name]: no
            for name, no in first.hidden
            if name in by_name and no.reason is not Reason.NOT_LOADED
        },
    )


def _first_turn(scene: ReachInputs, npc: NpcConfig, tier: Tier) -> ToolsShown:
    said = PlannedUtterance(at=SETTLED, npc=npc.name, tier=tier)
    monitor = rehearse(scene.plan(said), keep=True)
    for _, event in monitor.events:
        if isinstance(event, ToolsShown):
            return event
    return ToolsShown(npc=npc.name, turn=1, round=0, shown=(), hidden=(), remaining=0.0)


def _called(
    scene: ReachInputs,
    npc: NpcConfig,
    tier: Tier,
    listings: Sequence[CatalogueEntry],
    *,
    deferred: Container[str],
) -> dict[str, Outcome]:
    """Return the end of a call of each tool, by the tool's key."""
    said = [
        PlannedUtterance(
            at=SETTLED + number * _APART,
            npc=npc.name,
            tier=tier,
            replies=(
                *(((_finding(listing),),) if listing.exposed in deferred else ()),
                (scene.asks(listing),),
            ),
        )
        for number, listing in enumerate(listings)
    ]
    if not said:
        return {}
    monitor = rehearse(scene.plan(*said), keep=True)
    texts = {text_of(number, one): number for number, one in enumerate(said)}
    number, ends = 0, dict[str, Outcome]()
    for _, event in monitor.events:
        match event:
            case TierSelected():
                number = texts[event.text]
            case ToolFinished() if event.outcome.call.name == listings[number].exposed:
                ends[listings[number].key] = event.outcome
    return ends


def _finding(listing: CatalogueEntry) -> Asks:
    """A search that finds the tool, by its own name."""
    return Asks(_SEARCH, json.dumps({"query": listing.exposed}), "s")
