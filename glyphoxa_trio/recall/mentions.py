"""The entities that extracted facts are about: known ones by name, and new ones.

A model only gives names. An entity that exists is never changed by one, but for the
reach of one that was made here before: it grows with the NPCs that hear the name. A
name that the audience of a fact may not know is left out without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from glyphoxa_trio.memory.contract import FoundLine, Memory, Named
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Standing,
    slug,
)
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Reach, Viewer
from glyphoxa_trio.memory.words import words_of

Words = tuple[str, ...]


@attrs.define(eq=False)
class Mentions:
    """The names of a campaign, and of those who spoke in an evening.

    Args:
      accept_above: the confidence from which an unknown name becomes an entity.
    """

    _memory: Memory
    _campaign: CampaignKey
    _accept_above: float
    _known: dict[Words, list[Named]]
    _taken: set[str]  # ids
    _speakers: dict[Words, tuple[str, str]]  # name, and player if it is one
    _made: dict[str, Entity] = attrs.field(factory=dict, init=False)  # by id
    # Those that were made here in earlier evenings, as far as they were looked for.
    _ours: dict[str, Entity] = attrs.field(factory=dict, init=False)

    @classmethod
    async def of(
        cls,
        memory: Memory,
        campaign: CampaignKey,
        lines: Iterable[FoundLine],
        *,
        accept_above: float,
    ) -> Mentions:
        """Read the names of a campaign."""
        names = await memory.graph.names(campaign)
        known: dict[Words, list[Named]] = {}
        for one in names:
            known.setdefault(tuple(words_of(one.name)), []).append(one)
        speakers: dict[Words, tuple[str, str]] = {}
        for found in lines:
            name = " ".join(found.line.speaker.split())
            if words := tuple(words_of(name)):
                speakers.setdefault(words, (name, found.line.player))
        taken = {x.entity for x in names}
        return cls(memory, campaign, accept_above, known, taken, speakers)

    async def link(
        self, fact: Fact, about: Iterable[tuple[str, EntityKind | None]]
    ) -> Fact:
        """Return the fact with the entities that it is about.

        If a name is unknown and cannot become an entity, the fact waits for the game
        master, unless it is a claim.
        """
        ids: list[str] = []
        strange = False
        for name, kind in about:
            await self._look_for(tuple(words_of(name)))
            found = self._entity(fact, name, kind)
            if found:
                ids.append(found)
            strange = strange or found is None
        standing = fact.standing
        if strange and standing is Standing.ACCEPTED:
            standing = Standing.QUEUED
        return attrs.evolve(fact, about=tuple(dict.fromkeys(ids)), standing=standing)

    def entities(self, facts: Iterable[Fact]) -> Sequence[Entity]:
        """Return the entities to put with these facts: new, or known to more NPCs."""
        needed = {id_ for fact in facts for id_ in fact.about}
        return [x for x in self._made.values() if x.id in needed]

    async def _look_for(self, words: Words) -> None:
        """Learn which entities of that name were made here."""
        for named in self._known.get(words, ()):
            if named.entity in self._ours:
                continue
            try:
                found = await self._memory.graph.identity(
                    self._campaign, GAME_MASTER, named.entity, depth=0
                )
            except UnknownItem:  # removed meanwhile
                continue
            if _made_here(found.entity):
                self._ours[named.entity] = found.entity

    def _entity(self, fact: Fact, name: str, kind: EntityKind | None) -> str | None:
        """Return an id; "" for one that is left out, None for an unknown name."""
        words = tuple(words_of(name))
        for named in self._known.get(words, ()):
            if within(fact.reach, named.reach):
                return named.entity
        if words in self._speakers:
            return self._speaker(fact, *self._speakers[words])
        id_ = slug(name)
        for made in self._made.values():
            if tuple(words_of(made.name)) == words:
                return self._widened(made, fact.reach)
        for named in self._known.get(words, ()):
            if named.entity in self._ours:
                return self._widened(self._ours[named.entity], fact.reach)
        if words in self._known or id_ in self._taken:
            return ""  # it exists, and some of the audience may not know it
        sure = fact.provenance.confidence >= self._accept_above
        claimed = fact.standing is Standing.CLAIMED
        # The ids of players are not names: only lines tell them.
        if kind in (None, EntityKind.PLAYER) or claimed or not sure:
            return None
        return self._new(id_, kind or EntityKind.CONCEPT, name, fact)

    def _speaker(self, fact: Fact, name: str, player: str) -> str:
        id_ = player or slug(name)
        known = self._made.get(id_) or self._ours.get(id_)
        if known is not None:
            return self._widened(known, fact.reach)
        if id_ in self._taken:
            return ""
        kind = EntityKind.PLAYER if player else EntityKind.NPC
        return self._new(id_, kind, name, fact)

    def _new(self, id_: str, kind: EntityKind, name: str, fact: Fact) -> str:
        told = Provenance(
            basis=Basis.INFERRED,
            at=fact.provenance.at,
            evening=fact.provenance.evening,
            confidence=fact.provenance.confidence,
        )
        entity = Entity(id=id_, kind=kind, name=name, reach=fact.reach, provenance=told)
        self._made[id_] = entity
        return id_

    def _widened(self, entity: Entity, reach: Reach) -> str:
        """Have an entity, which is no more than its name, reach these NPCs as well."""
        ours, more = entity.reach.npcs, reach.npcs
        both = None if ours is None or more is None else ours | more
        self._made[entity.id] = attrs.evolve(entity, reach=Reach(both))
        return entity.id


def _made_here(entity: Entity) -> bool:
    """Return True for an entity that is nothing but a name that was heard."""
    more = entity.summary or entity.attributes or entity.aliases
    plain = not (entity.reach.topics or entity.reach.secret)
    return entity.provenance.basis is Basis.INFERRED and not more and plain


def within(one: Reach, other: Reach) -> bool:
    """Return True if ``other`` reaches every NPC that ``one`` reaches."""
    if one.npcs is None:
        return other == Reach()
    return all(other.reaches(Viewer(npc)) for npc in one.npcs)
