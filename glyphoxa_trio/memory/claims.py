"""Rules of what becomes of a statement: does it count as known, and how long? Pure.

A statement is an extracted fact, or one that an NPC was told to remember. How sure a
model is of it says that it was said, not that it is true. So what rests on the word of
players alone stays their claim, however sure the model is, until the game master says
otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from .knowledge import Basis, Fact, Provenance, Standing
from .visibility import Reach


def standing_of(basis: Basis, confidence: float, *, accept_above: float) -> Standing:
    """Return the standing of a new statement.

    ==========  ===========================  =========
    basis       confidence                   standing
    ==========  ===========================  =========
    authored    any                          accepted
    stated      at least ``accept_above``    accepted
    stated      less                         queued
    inferred    at least ``accept_above``    accepted
    inferred    less                         queued
    claimed     any                          claimed
    ==========  ===========================  =========

    A game master who has judged about a fact is not asked again: a store keeps the
    judgement when the same fact is put again (`knowledge.is_that_fact`).
    """
    if basis is Basis.AUTHORED:
        return Standing.ACCEPTED
    if basis is Basis.CLAIMED:
        return Standing.CLAIMED
    return Standing.ACCEPTED if confidence >= accept_above else Standing.QUEUED


def waits(fact: Fact) -> bool:
    """Return True if a fact waits for the game master's word."""
    claimed = fact.standing is Standing.CLAIMED and not fact.provenance.confirmed
    return fact.standing is Standing.QUEUED or claimed


def expired(facts: Iterable[Fact], before: float) -> list[Fact]:
    """Return the facts of a campaign that wait in vain: nothing came of them.

    They became known before that time, nobody has decided about them, and nothing that
    became known later is about an entity of theirs.
    """
    facts = list(facts)
    latest: dict[str, float] = defaultdict(float)
    for fact in facts:
        for entity in fact.about:
            latest[entity] = max(latest[entity], fact.provenance.at)
    return [
        fact
        for fact in facts
        if waits(fact)
        and not fact.provenance.confirmed  # as one that was edited by hand
        and 0 < fact.provenance.at < before
        and all(latest[entity] <= fact.provenance.at for entity in fact.about)
    ]


def remembered_fact(
    text: str,
    *,
    npc: str,
    at: float,
    about: Sequence[str] = (),
    player: tuple[str, str] = ("", ""),
) -> Fact:
    """Return the fact that an NPC remembers of its own accord.

    It reaches that NPC alone. In a turn of a player it is the claim of that player,
    whatever the model calls it, and is forgotten with the player; else the NPC states
    it.

    Args:
      player: the stable id and the name of the player who speaks to the NPC; both are
        empty if none does.

    Raises:
      KnowledgeRefused: a field is one that no store keeps.
    """
    id_, name = player
    return Fact(
        text=text,
        about=tuple(about),
        standing=Standing.CLAIMED if id_ else Standing.ACCEPTED,
        reach=Reach.of(npc),
        provenance=Provenance(
            basis=Basis.CLAIMED if id_ else Basis.STATED,
            at=at,
            player=id_,
            by=name if id_ else npc,
        ),
    )
