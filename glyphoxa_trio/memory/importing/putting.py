"""An import into the memory of a campaign, and the report of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.knowledge import Basis, Entity, Fact, Relationship, Standing
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey

from .archiving import ALL, all_edges, all_facts
from .data import Skipped
from .drafts import Drafts
from .dropped import dropped
from .names import NpcNames


@attrs.frozen(kw_only=True)
class ImportReport:
    """The outcome of an import: numbers by name, what was left out or is to be looked
    at, and the facts that the files state no longer."""

    counts: Mapping[str, int]
    skipped: Sequence[Skipped]
    notes: Sequence[str]
    removed: Sequence[Fact]


async def put(
    memory: Memory,
    key: CampaignKey,
    drafts: Drafts,
    *,
    npcs: Sequence[str] = (),
    dry_run: bool = False,
) -> ImportReport:
    """Put drafts into a campaign, and remove what their files state no longer.

    Cancelled in between, some facts that should be gone may be left; the same import
    again removes them.

    Args:
      npcs: the names of the configured NPCs.
      dry_run: nothing is changed, and the report says what would be.

    Raises:
      ImportRefused: a file of ours names something that does not exist.
    """
    existing = await memory.graph.entities(key, GAME_MASTER, limit=ALL)
    imported = drafts.imported(existing, npcs)
    before = {x.id: x for x in existing}
    new = sum(x.id not in before for x in imported.entities)
    same = sum(_is_same(x, before.get(x.id)) for x in imported.entities)
    known = await all_facts(memory, key)
    decided = {x.text for x in known if _is_decided(x)}
    there = {(x.text, x.reach): x for x in known}
    wanted = [
        _as_well(x, there.get((x.text, x.reach)))
        for x in imported.facts
        if x.text not in decided
    ]
    if dry_run:
        facts = sum((x.text, x.reach) not in there for x in wanted)
    else:
        ids = await memory.graph.put(
            key,
            entities=imported.entities,
            relationships=imported.relationships,
            facts=wanted,
        )
        facts = len(set(ids) - {x.id for x in known})
    removed = dropped(imported, existing, known)
    if not dry_run:
        for fact in removed:
            await memory.graph.remove(key, fact=fact.id)
    return ImportReport(
        counts={
            "entities": len(imported.entities),
            "entities_new": new,
            "entities_changed": len(imported.entities) - new - same,
            "relationships": len(imported.relationships),
            "facts": len(imported.facts),
            "facts_new": facts,
            "facts_removed": len(removed),
        },
        skipped=imported.skipped,
        notes=imported.notes,
        removed=removed,
    )


async def misnamed(
    memory: Memory, key: CampaignKey, npcs: Sequence[str]
) -> tuple[str, ...]:
    """Return a sentence about each name of an NPC that may know something written
    down in a campaign, and that is neither of these NPCs nor there."""
    entities = await memory.graph.entities(key, GAME_MASTER, limit=ALL)
    cast = NpcNames(npcs, entities)
    edges, facts = await all_edges(memory, key), await all_facts(memory, key)
    every: list[Entity | Relationship | Fact] = [*entities, *edges, *facts]
    for item in every:
        if item.provenance.basis is Basis.AUTHORED:
            cast.of(item)
    return tuple(cast.unknown())


def _is_decided(fact: Fact) -> bool:
    """Return True of what the game master has rejected, or made a secret by hand."""
    by_hand = fact.reach.secret and not fact.provenance.by
    return fact.standing is Standing.REJECTED or by_hand


def _as_well(new: Fact, known: Fact | None) -> Fact:
    """Return a fact to put: the known one pinned, and with more keywords, if that is
    new. What the game master has added to it stays."""
    if known is None or known.standing is not Standing.ACCEPTED:
        return new
    keywords = tuple(dict.fromkeys((*known.keywords, *new.keywords)))
    more = attrs.evolve(known, pinned=known.pinned or new.pinned, keywords=keywords)
    return new if more == known else more


def _is_same(new: Entity, before: Entity | None) -> bool:
    return before is not None and attrs.evolve(new, provenance=before.provenance) == (
        before
    )
