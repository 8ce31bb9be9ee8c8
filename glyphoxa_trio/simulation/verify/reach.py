"""Every NPC calls every tool that it can reach, in every tier, once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Final

import attrs

from glyphoxa_trio.config import Config, NpcConfig
from glyphoxa_trio.host import Listing
from glyphoxa_trio.host.measurements import Measurements
from glyphoxa_trio.npc import TierSelected, ToolFinished, ToolsShown
from glyphoxa_trio.runtime import open_runtime
from glyphoxa_trio.runtime.assembly import settings_of
from glyphoxa_trio.runtime.grants import GrantProblem, grant_of
from glyphoxa_trio.simulation import virtual
from glyphoxa_trio.simulation.latency import Latency, usual
from glyphoxa_trio.simulation.plans import (
    Answer,
    Asks,
    Plan,
    Utterance,
    rehearsable,
    rehearse,
    text_of,
)
from glyphoxa_trio.simulation.scenery import Act, Ending, Scenery
from glyphoxa_trio.simulation.verify.verdict import Called, Known, Reach
from glyphoxa_trio.tools.gate import Refusal
from glyphoxa_trio.tools.instance import NoInstance, minimal_instance
from glyphoxa_trio.tools.outcome import Outcome
from glyphoxa_trio.tools.schema import BadSchema
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import SampleKind

_ENDED: Final = (SampleKind.OK, SampleKind.TIMEOUT)
# Servers have started by then, and what is measured at the start has been.
SETTLED: Final = 200.0
_APART: Final = 60.0  # seconds between two turns: nothing of one is left in the next


@attrs.frozen(kw_only=True)
class Scene:
    """A configuration with everything that is known beside it.

    Args:
      listings: the tools there are, when all servers are ready.
      problems: what NPCs are granted and nobody offers.
      warnings: what an operator would see.
    """

    config: Config
    known: Known
    listings: tuple[Listing, ...]
    problems: tuple[GrantProblem, ...] = ()
    warnings: tuple[str, ...] = ()
    usual: Mapping[str, Latency] = attrs.field(factory=dict)

    def granted(self, npc: NpcConfig) -> list[Listing]:
        grant = grant_of(npc, self.config, approver=self.known.approver)
        return [x for x in self.listings if grant.covers(x.definition, x.exposed)]

    def plan(self, *utterances: Utterance) -> Plan:
        """These are said, and every tool takes as long as it usually does."""
        return Plan(
            config=self.config,
            offers=self.known.offers,
            acts={
                key: (Act(Ending.ANSWER, latency.percentile(50)),)
                for key, latency in self.usual.items()
            },
            utterances=utterances,
            answers=((Answer.YES, 0.25),) if self.known.approver else None,
            starts=self.starts,
            measured=self.known.measured,
        )

    @property
    def starts(self) -> Mapping[str, float]:
        """Servers of which nothing is known never start here."""
        return {x: math.inf for x in self.known.absent if x not in self.known.offers}

    def asks(self, listing: Listing) -> Asks:
        """A call of the tool with arguments that it takes, as far as is known."""
        return Asks(listing.exposed, json.dumps(arguments_of(listing)))


def scout(config: Config, known: Known) -> Scene:
    """Open it once, with all servers there, and look at its tools."""
    config = rehearsable(config)

    async def look() -> Scene:
        scenery = Scenery(lambda key, arguments: Act(), known.offers)
        for name in known.absent:
            if name not in known.offers:
                scenery.server(name).starts = math.inf
        quiet = attrs.evolve(
            config, calibration=attrs.evolve(config.calibration, at_start=False)
        )
        async with open_runtime(
            quiet, world=scenery.world(), wait_for_servers=0
        ) as runtime:
            await runtime.wait_ready(within=SETTLED)
            return Scene(
                config=config,
                known=known,
                listings=runtime.host.snapshot.listings,
                problems=tuple(runtime.problems()),
                warnings=tuple(f"{x.server}: {x.text}" for x in runtime.warnings),
            )

    scene = virtual.run(look)
    took = partial(_usual, config, known)
    return attrs.evolve(scene, usual={x.key: took(x) for x in scene.listings})


def _usual(config: Config, known: Known, listing: Listing) -> Latency:
    place = Measurements(settings_of(config)).place(listing.definition)
    samples = [x for x in known.measured if x.place == place]
    measured = Latency.measured(
        [x.seconds for x in samples if x.kind in _ENDED],
        [x.seconds for x in samples if x.kind is SampleKind.CENSORED],
    )
    return usual(listing.definition, known.stated.get(listing.key), measured)


def arguments_of(listing: Listing) -> Mapping[str, object]:
    definition = listing.definition
    if definition.examples:
        return definition.examples[0]
    try:
        return minimal_instance(definition.parameters, foreign=definition.external)
    except (NoInstance, BadSchema):
        return {}


def reaches(scene: Scene) -> list[Reach]:
    """For every NPC and tier up to its ceiling."""
    return [
        _reach(scene, npc, tier)
        for npc in scene.config.npcs
        for tier in Tier
        if tier <= npc.budget_tier
    ]


def _reach(scene: Scene, npc: NpcConfig, tier: Tier) -> Reach:
    granted = scene.granted(npc)
    said = [
        Utterance(at=SETTLED, npc=npc.name, tier=tier),
        *(
            Utterance(
                at=SETTLED + number * _APART,
                npc=npc.name,
                tier=tier,
                replies=((scene.asks(listing),),),
            )
            for number, listing in enumerate(granted, start=1)
        ),
    ]
    monitor = rehearse(scene.plan(*said), keep=True)
    texts = {text_of(number, one): number for number, one in enumerate(said)}
    number = 0
    shown: dict[int, ToolsShown] = {}
    ends: dict[int, Outcome] = {}
    for _, event in monitor.events:
        match event:
            case TierSelected():
                number = texts[event.text]
            case ToolsShown() if number not in shown:
                shown[number] = event
            case ToolFinished():
                ends[number] = event.outcome
    by_name = {listing.exposed: listing for listing in granted}
    usable = {x for one in shown.values() for x in (*one.shown, *one.deferred)}
    hidden: dict[str, Refusal] = {}
    for one in shown.values():
        for name, refusal in one.hidden:
            if name in by_name and name not in usable:
                hidden.setdefault(by_name[name].key, refusal)
    return Reach(
        npc=npc.name,
        tier=tier,
        ceiling=scene.config.tiers.ceiling(tier),
        model_limit=scene.config.turn.model_total,
        called=tuple(
            Called(
                key=listing.key,
                usual=scene.usual[listing.key],
                status=ends[number].status,
                limit=ends[number].limit,
                took=ends[number].elapsed,
            )
            for number, listing in enumerate(granted, start=1)
            if number in ends and listing.exposed in usable
        ),
        hidden=hidden,
    )
