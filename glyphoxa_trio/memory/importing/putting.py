"""An import into the memory of a campaign, and the report of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.knowledge import Entity, Fact
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey

from .archiving import ALL, all_facts
from .data import Skipped
from .drafts import Drafts
from .dropped import dropped


@attrs.frozen(kw_only=True)
class ImportReport:
    """The outcome of an import: numbers by name, what was left out, and the facts that
    the files state no longer."""

    counts: Mapping[str, int]
    skipped: Sequence[Skipped]
    removed: Sequence[Fact]


async def put(
    memory: Memory, key: CampaignKey, drafts: Drafts, *, dry_run: bool = False
) -> ImportReport:
    """Put drafts into a campaign, and remove what their files state no longer.

    Cancelled in between, some facts that should be gone may be left; the same import
    again removes them.

    Args:
      dry_run: nothing is changed, and the report says what would be.

    Raises:
      ImportRefused: a file of ours names something that does not exist.
    """
    existing = await memory.graph.entities(key, GAME_MASTER, limit=ALL)
    imported = drafts.imported(existing)
    before = {x.id: x for x in existing}
    new = sum(x.id not in before for x in imported.entities)
    same = sum(_is_same(x, before.get(x.id)) for x in imported.entities)
    known = await all_facts(memory, key)
    if dry_run:
        texts = {(x.text, x.reach) for x in known}
        facts = sum((x.text, x.reach) not in texts for x in imported.facts)
    else:
        ids = await memory.graph.put(
            key,
            entities=imported.entities,
            relationships=imported.relationships,
            facts=imported.facts,
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
        removed=removed,
    )


def _is_same(new: Entity, before: Entity | None) -> bool:
    return before is not None and attrs.evolve(new, provenance=before.provenance) == (
        before
    )
