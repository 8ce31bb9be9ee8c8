"""The facts that a file stated in an earlier import, and states no longer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glyphoxa_trio.memory.knowledge import Basis, Entity, Fact, Standing

from .data import Imported


def dropped(
    imported: Imported, entities: Iterable[Entity], facts: Sequence[Fact]
) -> list[Fact]:
    """Return the facts that are to be removed after an import.

    They are known by the same file, and no file of this import has their text for the
    same NPCs: a fact that a file makes a secret later must not stay known. What
    the game master has rejected or added by hand, and what was said in play, stays. A
    file that repeats nothing of what one of its name stated is taken for another one.

    Args:
      entities: the entities of the campaign before the import.
      facts: the facts of the campaign before the import.
    """
    texts = {x.text for x in imported.facts}
    stated = {(x.text, x.reach) for x in imported.facts}
    ids = {x.id for x in imported.entities}
    known = [x for x in facts if _is_imported(x)]
    again = {x.provenance.by for x in known if x.text in texts}
    again |= {x.provenance.by for x in entities if x.id in ids}
    again &= {x.provenance.by for x in imported.entities} | {
        x.provenance.by for x in imported.facts
    }
    return [
        x for x in known if x.provenance.by in again and (x.text, x.reach) not in stated
    ]


def _is_imported(fact: Fact) -> bool:
    told = fact.provenance
    return (
        told.basis is Basis.AUTHORED
        and bool(told.by)
        and fact.standing is Standing.ACCEPTED
        and not fact.lines
    )
