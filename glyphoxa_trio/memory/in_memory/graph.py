"""The knowledge graph of a memory in this process."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import TypeVar

import attrs

from glyphoxa_trio.memory.checks import as_json
from glyphoxa_trio.memory.contract import MOST_FACTS, MOST_NEIGHBOURS, FoundFact, Named
from glyphoxa_trio.memory.errors import unknown_entity, unknown_fact, unknown_line
from glyphoxa_trio.memory.knowledge import (
    Entity,
    EntityKind,
    Fact,
    Identity,
    Neighbour,
    Relationship,
    Standing,
    found_by,
    is_that_fact,
)
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer
from glyphoxa_trio.memory.words import MOST_QUERY, folded, words_in_query, words_of

from .rows import Rows, drop_chunks

Kept = TypeVar("Kept", Entity, Relationship)


@attrs.frozen(eq=False)
class InMemoryGraph:
    """The `KnowledgeGraph` of the rows."""

    rows: Rows

    async def put(
        self,
        campaign: CampaignKey,
        *,
        entities: Sequence[Entity] = (),
        relationships: Sequence[Relationship] = (),
        facts: Sequence[Fact] = (),
    ) -> tuple[int, ...]:
        known = {x for owner, x in self.rows.entities if owner == campaign}
        known |= {x.id for x in entities}
        needed = {end for x in relationships for end in (x.source, x.target)}
        needed |= {end for x in facts for end in x.about}
        if missing := sorted(needed - known):
            raise unknown_entity(missing[0])
        said = {(row.name, kept.n) for row, kept in self.rows.lines(campaign)}
        for fact in facts:
            if fact.id:
                self._known(campaign, fact.id)
            if gone := [x for x in fact.lines if x not in said]:
                raise unknown_line(*gone[0])
        for entity in entities:
            self.rows.entities[campaign, entity.id] = _copied(entity)
        for one in relationships:
            key = campaign, one.source, one.type, one.target
            self.rows.relationships[key] = _copied(one)
        return tuple(self._fact(campaign, fact) for fact in facts)

    def _fact(self, campaign: CampaignKey, fact: Fact) -> int:
        if not fact.id:
            for owner, known in self.rows.facts.values():
                if owner == campaign and is_that_fact(fact, known):
                    return known.id
        id_ = fact.id or self.rows.ids()
        self._set(campaign, attrs.evolve(fact, id=id_))
        return id_

    def _set(self, campaign: CampaignKey, fact: Fact) -> None:
        _, before = self.rows.facts.get(fact.id, (None, None))
        self.rows.facts[fact.id] = campaign, fact
        if before is not None and _in_chunk(before) != _in_chunk(fact):
            drop_chunks(self.rows, lambda x: x.fact == fact.id)

    async def remove(
        self, campaign: CampaignKey, *, entity: str = "", fact: int = 0
    ) -> bool:
        if fact:
            if self.rows.facts.get(fact, (None,))[0] != campaign:
                return False
            del self.rows.facts[fact]
            drop_chunks(self.rows, lambda x: x.fact == fact)
            return True
        if self.rows.entities.pop((campaign, entity), None) is None:
            return False
        for key in [
            x
            for x in self.rows.relationships
            if x[0] == campaign and entity in (x[1], x[3])
        ]:
            del self.rows.relationships[key]
        for id_, (owner, one) in list(self.rows.facts.items()):
            if owner == campaign and entity in one.about:
                about = tuple(x for x in one.about if x != entity)
                self.rows.facts[id_] = owner, attrs.evolve(one, about=about)
        return True

    async def entities(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        name: str = "",
        kind: EntityKind | None = None,
        limit: int = 20,
    ) -> tuple[Entity, ...]:
        wanted = words_of(name)
        if (name.strip() and not wanted) or len(name) > MOST_QUERY:
            return ()
        found = []
        for (owner, _), entity in self.rows.entities.items():
            if owner != campaign or not entity.reach.reaches(viewer):
                continue
            if kind is not None and entity.kind is not kind:
                continue
            ranks = [_rank(wanted, x) for x in (entity.name, *entity.aliases)]
            if (rank := min(ranks)) < 3:
                found.append((rank, folded(entity.name), entity.id, entity))
        found.sort(key=lambda x: x[:3])
        return tuple(x for *_, x in found[: max(0, limit)])

    async def relationships(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        after: tuple[str, str, str] | None = None,
        limit: int = 200,
    ) -> tuple[Relationship, ...]:
        every, found = self.rows.entities, []
        for key in sorted(x for x in self.rows.relationships if x[0] == campaign):
            one = self.rows.relationships[key]
            known = one, every[campaign, one.source], every[campaign, one.target]
            if key[1:] > (after or ()) and all(x.reach.reaches(viewer) for x in known):
                found.append(one)
        return tuple(found[: max(0, limit)])

    def _seen(self, campaign: CampaignKey, viewer: Viewer, entity: str) -> Entity:
        one = self.rows.entities.get((campaign, entity))
        if one is None or not one.reach.reaches(viewer):
            wanted = words_of(entity) if len(entity) <= MOST_QUERY else []
            named = [
                x
                for (owner, _), x in self.rows.entities.items()
                if owner == campaign
                and x.reach.reaches(viewer)
                and wanted
                and wanted in [words_of(y) for y in (x.name, *x.aliases)]
            ]
            one = min(named, key=lambda x: (folded(x.name), x.id), default=None)
        if one is None:
            raise unknown_entity(entity)
        return one

    async def identity(
        self, campaign: CampaignKey, viewer: Viewer, entity: str, *, depth: int = 1
    ) -> Identity:
        start = self._seen(campaign, viewer, entity)
        # An entity keeps its place when it is replaced.
        places = [id_ for owner, id_ in self.rows.entities if owner == campaign]
        edges = [
            one
            for (owner, *_), one in self.rows.relationships.items()
            if owner == campaign and one.reach.reaches(viewer)
        ]
        at, seen, found = [start.id], {start.id}, list[Neighbour]()
        for step in range(1, depth + 1):
            outgoing = [x for x in edges if x.source in at]
            incoming = [x for x in edges if x.target in at and x.source not in at]
            outgoing.sort(
                key=lambda x: (at.index(x.source), x.type, places.index(x.target))
            )
            incoming.sort(
                key=lambda x: (at.index(x.target), x.type, places.index(x.source))
            )
            following: list[str] = []
            for one in (*outgoing, *incoming):
                end = one.target if one.source in at else one.source
                other = self.rows.entities[campaign, end]
                if other.reach.reaches(viewer):
                    edges.remove(one)  # each is found once
                    found.append(Neighbour(relationship=one, entity=other, depth=step))
                    if end not in seen:
                        following.append(end)
                        seen.add(end)
            at = following
        facts = await self.facts(campaign, viewer, about=(start.id,), limit=MOST_FACTS)
        return Identity(
            entity=start,
            neighbours=tuple(found[:MOST_NEIGHBOURS]),
            facts=tuple(x.fact for x in facts),
            more=len(found) > MOST_NEIGHBOURS,
        )

    async def facts(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        query: str = "",
        *,
        about: Sequence[str] = (),
        standings: Sequence[Standing] = (Standing.ACCEPTED, Standing.CLAIMED),
        limit: int = 10,
    ) -> tuple[FoundFact, ...]:
        telling = words_in_query(query)[1] if query.strip() else []
        seen = [
            self._as_seen(campaign, viewer, fact)
            for owner, fact in self.rows.facts.values()
            if owner == campaign and fact.reach.reaches(viewer)
            if fact.standing in standings
        ]
        if about:
            seen = [x for x in seen if not set(about).isdisjoint(x.about)]
        scores = {x.id: 0.0 for x in seen}
        # A rare word counts for more: rare among these facts, since a score that
        # depended on facts that the viewer may not know would betray them.
        for word in telling:
            having = [x for x in seen if word in words_of(found_by(x))]
            for fact in having:
                scores[fact.id] += 1 / (1 + math.log(len(having)))
        found = [
            FoundFact(fact=x, score=round(scores[x.id], 6))
            for x in seen
            if scores[x.id] or not telling
        ]
        found.sort(key=lambda x: (-x.score, -x.fact.provenance.at, -x.fact.id))
        return tuple(found[: max(0, limit)])

    async def pinned(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 12
    ) -> tuple[Fact, ...]:
        known = await self.facts(
            campaign, viewer, standings=(Standing.ACCEPTED,), limit=sys.maxsize
        )
        return tuple(x.fact for x in known if x.fact.pinned)[: max(0, limit)]

    def _as_seen(self, campaign: CampaignKey, viewer: Viewer, fact: Fact) -> Fact:
        every = self.rows.entities
        about = (x for x in fact.about if every[campaign, x].reach.reaches(viewer))
        heard = {
            (row.name, kept.n)
            for row, kept in self.rows.lines(campaign)
            if kept.entry.line and kept.entry.line.reach.reaches(viewer)
        }
        lines = tuple(x for x in fact.lines if x in heard)
        return attrs.evolve(fact, about=tuple(about), lines=lines)

    async def judge(
        self, campaign: CampaignKey, fact: int, standing: Standing, *, confirmed: bool
    ) -> Fact:
        one = self._known(campaign, fact)
        told = attrs.evolve(one.provenance, confirmed=confirmed)
        one = attrs.evolve(one, standing=standing, provenance=told)
        self._set(campaign, one)
        return one

    def _known(self, campaign: CampaignKey, fact: int) -> Fact:
        owner, one = self.rows.facts.get(fact, (None, None))
        if one is None or owner != campaign:
            raise unknown_fact(fact)
        return one

    async def reveal(
        self, campaign: CampaignKey, *, entity: str = "", fact: int = 0
    ) -> None:
        if fact:
            one = self._known(campaign, fact)
            known = Reach(topics=one.reach.topics)
            self._set(campaign, attrs.evolve(one, reach=known))
            return
        what = self.rows.entities.get((campaign, entity))
        if what is None:
            raise unknown_entity(entity)
        known = Reach(topics=what.reach.topics)
        self.rows.entities[campaign, entity] = attrs.evolve(what, reach=known)

    async def names(self, campaign: CampaignKey) -> tuple[Named, ...]:
        return tuple(
            Named(name=name, entity=one.id, kind=one.kind, reach=one.reach)
            for (owner, _), one in self.rows.entities.items()
            if owner == campaign
            for name in (one.name, *one.aliases)
        )


def _in_chunk(fact: Fact) -> tuple[object, ...]:
    return fact.text, fact.reach, fact.standing, fact.provenance.at


def _copied(one: Kept) -> Kept:
    """Return it with attributes that the caller no longer shares."""
    return attrs.evolve(one, attributes=json.loads(as_json(one.attributes)))


def _rank(wanted: list[str], name: str) -> int:
    """Return 0 for a whole name, 1 for its beginning, 2 for a part, 3 for another."""
    words = words_of(name)
    if not wanted or words == wanted:
        return 0
    if words[: len(wanted)] == wanted:
        return 1
    return 2 if set(words).issuperset(wanted) else 3
