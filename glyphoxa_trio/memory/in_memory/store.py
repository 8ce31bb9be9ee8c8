"""A memory store in this process: every method does the simplest thing that is right.

It loses everything with the process. Searches look at everything.

Above 300 lines, because the parts work on the same lists.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import attrs

from glyphoxa_trio.memory.checks import as_json
from glyphoxa_trio.memory.contract import (
    MOST_FACTS,
    MOST_NEIGHBOURS,
    Chunk,
    Forgotten,
    FoundChunk,
    FoundFact,
    FoundLine,
    FoundLines,
    Named,
)
from glyphoxa_trio.memory.entries import (
    Claim,
    Entry,
    EntryKind,
    Evening,
    Holder,
    KeptEntry,
    Line,
    SessionRow,
    check_heard,
)
from glyphoxa_trio.memory.errors import (
    Fenced,
    HeldElsewhere,
    MemoryUnavailable,
    QueryRefused,
    UnknownItem,
    unknown_entity,
    unknown_fact,
    unknown_line,
)
from glyphoxa_trio.memory.knowledge import (
    Entity,
    EntityKind,
    Fact,
    Identity,
    Neighbour,
    Relationship,
    Standing,
    is_that_fact,
)
from glyphoxa_trio.memory.passages import in_passage, passages
from glyphoxa_trio.memory.relevance import MOST_COUNTED, relevance
from glyphoxa_trio.memory.similarity import unit
from glyphoxa_trio.memory.snippet import snippet, snippet_of_line
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer, common
from glyphoxa_trio.memory.words import (
    MOST_QUERY,
    evening_name,
    folded,
    words_in_line,
    words_in_query,
    words_of,
)

T = TypeVar("T")
Kept = TypeVar("Kept", Entity, Relationship)


@attrs.define(eq=False)
class _SessionData:
    tenant: str
    name: str
    campaign: CampaignKey
    epoch: int = 0
    holder: Holder | None = None
    last: int = 0
    last_at: float = 0.0
    ended: bool = False
    entries: list[KeptEntry] = attrs.field(factory=list)


@attrs.define(eq=False)
class _Evening:
    campaign: CampaignKey
    session: str
    name: str
    began: float
    ended: float | None = None
    summaries: dict[Reach, str] = attrs.field(factory=dict)


@attrs.define(eq=False)
class _Rows:
    """Everything that several stores on the same data share."""

    sessions: dict[tuple[str, str], _SessionData] = attrs.field(factory=dict)
    evenings: list[_Evening] = attrs.field(factory=list)
    entities: dict[tuple[CampaignKey, str], Entity] = attrs.field(factory=dict)
    relationships: dict[tuple[CampaignKey, str, str, str], Relationship] = attrs.field(
        factory=dict
    )
    facts: dict[int, tuple[CampaignKey, Fact]] = attrs.field(factory=dict)
    chunks: dict[int, tuple[CampaignKey, Chunk]] = attrs.field(factory=dict)
    vectors: dict[tuple[str, int], tuple[float, ...]] = attrs.field(factory=dict)
    ids: Callable[[], int] = attrs.field(factory=lambda: itertools.count(1).__next__)
    dead: set[str] = attrs.field(factory=set)  # holders

    def lines(self, campaign: CampaignKey) -> Iterable[tuple[_SessionData, KeptEntry]]:
        for session in self.sessions.values():
            if session.campaign == campaign:
                for kept in session.entries:
                    if kept.entry.line is not None:
                        yield session, kept

    def evening(self, campaign: CampaignKey, name: str) -> _Evening:
        for one in self.evenings:
            if (one.campaign, one.name) == (campaign, name):
                return one
        raise UnknownItem(f"there is no session {name!r}")


@attrs.frozen(eq=False)
class _Journal:
    rows: _Rows
    holder: Holder

    async def claim(
        self, tenant: str, session: str, campaign: CampaignKey, *, steal: bool = False
    ) -> Claim:
        row = self.rows.sessions.setdefault(
            (tenant, session), _SessionData(tenant, session, campaign)
        )
        held = row.holder
        alive = held is not None and held.id not in (self.holder.id, *self.rows.dead)
        if held is not None and alive and not steal:
            raise HeldElsewhere(f"the session {session} is open in {held.where}")
        if not any(x.entry.kind is EntryKind.LINE for x in row.entries):
            row.campaign = campaign  # nothing was said in it
        known = not row.ended and bool(row.entries)
        row.epoch, row.holder, row.ended = row.epoch + 1, self.holder, False
        return Claim(
            tenant=tenant,
            session=session,
            campaign=row.campaign,
            epoch=row.epoch,
            known=known,
        )

    def _row(self, claim: Claim) -> _SessionData:
        row = self.rows.sessions[claim.tenant, claim.session]
        if row.epoch != claim.epoch or row.holder is None:
            raise Fenced(f"the session {claim.session} was taken over")
        return row

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        row = self._row(claim)
        plain = [json.loads(json.dumps(dict(entry.data))) for entry in entries]
        for entry, data in zip(entries, plain, strict=True):
            row.last += 1
            kept = KeptEntry(
                n=row.last, epoch=row.epoch, entry=attrs.evolve(entry, data=data)
            )
            if entry.kind is EntryKind.SNAPSHOT:
                row.entries = _lines_of(row)
            row.entries.append(kept)
            row.last_at = max(row.last_at, entry.at)
        return row.last

    async def load(self, claim: Claim) -> tuple[KeptEntry, ...]:
        entries = self._row(claim).entries
        return tuple(x for x in entries if x.entry.kind is not EntryKind.LINE)

    async def release(self, claim: Claim, *, ended: bool = False) -> None:
        try:
            row = self._row(claim)
        except Fenced:
            return
        row.holder = None
        if ended:
            row.ended, row.entries = True, _lines_of(row)

    async def sessions(self, tenant: str | None = None) -> tuple[SessionRow, ...]:
        rows = [
            SessionRow(
                tenant=row.tenant,
                session=row.name,
                campaign=row.campaign.campaign,
                holder=row.holder.where
                if row.holder and row.holder.id not in self.rows.dead
                else "",
                lines=len(_lines_of(row)),
                last_at=row.last_at,
                ended=row.ended,
            )
            for row in self.rows.sessions.values()
            if tenant in (None, row.tenant)
        ]
        return tuple(sorted(rows, key=lambda x: (-x.last_at, x.tenant, x.session)))


def _lines_of(row: _SessionData) -> list[KeptEntry]:
    return [x for x in row.entries if x.entry.kind is EntryKind.LINE]


@attrs.frozen(eq=False)
class _Transcripts:
    rows: _Rows

    async def begin_evening(self, claim: Claim, at: float) -> Evening:
        for one in self.rows.evenings:
            same = one.campaign == claim.campaign and one.session == claim.session
            if same and one.ended is None:
                one.ended = at
        taken = {x.name for x in self.rows.evenings if x.campaign == claim.campaign}
        name = evening_name(claim.session, at, taken)
        self.rows.evenings.append(_Evening(claim.campaign, claim.session, name, at))
        return Evening(id=name, session=claim.session, began=at)

    async def end_evening(self, campaign: CampaignKey, evening: str, at: float) -> None:
        one = self.rows.evening(campaign, evening)
        if one.ended is None:
            one.ended = at

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        query: str,
        *,
        evening: str = "",
        limit: int = 10,
    ) -> FoundLines:
        every, telling = words_in_query(query)
        seen = [
            (line, words_in_line(line.line.text, line.line.corrected))
            for line in self._seen(campaign, viewer, evening=evening)
        ]
        lines_with = {
            word: min(MOST_COUNTED, sum(word in words for _, words in seen))
            for word in telling
        }
        found = []
        for line, words in seen:
            if score := relevance(words, lines_with):
                score += set(words).issuperset(every)
                said = line.line
                shown = snippet_of_line(said.text, said.corrected, telling)
                found.append(attrs.evolve(line, score=score, snippet=shown))
        found.sort(key=lambda x: (-x.score, -x.at, x.session, -x.n))
        return FoundLines(lines=tuple(found[: max(0, limit)]))

    async def recent(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        evening: str = "",
        session: str = "",
        before: float | None = None,
        limit: int = 20,
    ) -> tuple[FoundLine, ...]:
        until = math.inf if before is None else before
        found = [
            x
            for x in self._seen(campaign, viewer, evening=evening, session=session)
            if x.at < until
        ]
        found.sort(key=lambda x: (x.at, x.session, x.n))
        return tuple(found[-limit:]) if limit > 0 else ()

    def _seen(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        evening: str = "",
        session: str = "",
    ) -> Iterable[FoundLine]:
        for row, kept in self.rows.lines(campaign):
            line = kept.entry.line
            assert line is not None
            if session not in ("", row.name) or evening not in ("", line.evening):
                continue
            if line.reach.reaches(viewer):
                yield FoundLine(
                    session=row.name,
                    n=kept.n,
                    at=kept.entry.at,
                    line=line,
                    snippet=snippet(line.text, ()),
                )

    async def evenings(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 20
    ) -> tuple[Evening, ...]:
        heard = {x.line.evening for x in self._seen(campaign, viewer)}
        found = [
            self._as(one, viewer)
            for one in self.rows.evenings
            if one.campaign == campaign and (viewer.npc is None or one.name in heard)
        ]
        found.sort(key=lambda x: (-x.began, x.id))
        return tuple(found[: max(0, limit)])

    async def evening(
        self, campaign: CampaignKey, viewer: Viewer, evening: str
    ) -> Evening:
        one = self.rows.evening(campaign, evening)
        heard = any(self._seen(campaign, viewer, evening=evening))
        if viewer.npc is not None and not heard:
            raise UnknownItem(f"there is no session {evening!r}")
        return self._as(one, viewer)

    def _as(self, one: _Evening, viewer: Viewer) -> Evening:
        seen = {r: text for r, text in one.summaries.items() if r.reaches(viewer)}
        # The one that the fewest may know tells the most.
        best = min(seen, key=_known_to, default=None)
        return Evening(
            id=one.name,
            session=one.session,
            began=one.began,
            ended=one.ended,
            summary="" if best is None else seen[best],
            reach=best,
        )

    async def unsummarised(
        self, *, before: float
    ) -> tuple[tuple[CampaignKey, str], ...]:
        return tuple(
            (x.campaign, x.name)
            for x in self.rows.evenings
            if x.ended is not None and x.ended < before and not x.summaries
        )

    async def set_summary(
        self, campaign: CampaignKey, evening: str, text: str, reach: Reach
    ) -> None:
        check_heard(reach)
        self.rows.evening(campaign, evening).summaries[reach] = text


def _known_to(reach: Reach) -> tuple[float, list[str]]:
    """Sort reaches: few NPCs before many, and every NPC last."""
    return (
        math.inf if reach.npcs is None else len(reach.npcs),
        sorted(reach.npcs or ()),
    )


@attrs.frozen(eq=False)
class _Index:
    rows: _Rows

    async def pending(
        self, model: str, *, limit: int = 64
    ) -> tuple[tuple[CampaignKey, Chunk], ...]:
        self._cut()
        open_ = [
            x
            for id_, x in self.rows.chunks.items()
            if (model, id_) not in self.rows.vectors
        ]
        return tuple(open_[: max(0, limit)])

    def _cut(self) -> None:
        done = {
            (owner, *line)
            for owner, chunk in self.rows.chunks.values()
            for line in chunk.lines
        }

        def reach(line: _Said) -> Reach | None:
            session, kept, said = line
            known = (session.campaign, session.name, kept.n) in done
            return None if known else said.reach

        for one in self.rows.evenings:
            if one.ended is not None:
                lines = [
                    (row, kept, kept.entry.line)
                    for row, kept in self.rows.lines(one.campaign)
                    if kept.entry.line and kept.entry.line.evening == one.name
                ]
                for passage in passages(lines, reach, _text):
                    self._add(one, passage)
        facts = {x.fact for _, x in self.rows.chunks.values()}
        for campaign, fact in self.rows.facts.values():
            if fact.standing is Standing.ACCEPTED and fact.id not in facts:
                id_ = self.rows.ids()
                chunk = Chunk(
                    text=fact.text,
                    reach=fact.reach,
                    at=fact.provenance.at,
                    fact=fact.id,
                    id=id_,
                )
                self.rows.chunks[id_] = campaign, chunk

    def _add(self, one: _Evening, lines: list[_Said]) -> None:
        id_ = self.rows.ids()
        chunk = Chunk(
            text="\n".join(map(_text, lines)),
            reach=common(said.reach for _, _, said in lines),
            evening=one.name,
            at=lines[0][1].entry.at,
            lines=tuple((row.name, kept.n) for row, kept, _ in lines),
            id=id_,
        )
        self.rows.chunks[id_] = one.campaign, chunk

    async def add(
        self, model: str, vectors: Sequence[tuple[int, Sequence[float]]]
    ) -> None:
        self._check_size(model, *(len(x) for _, x in vectors))
        units = [(id_, unit(vector)) for id_, vector in vectors]
        for id_, vector in units:
            if id_ in self.rows.chunks:
                self.rows.vectors[model, id_] = tuple(vector)

    def _check_size(self, model: str, *given: int) -> None:
        sizes = {len(x) for (name, _), x in self.rows.vectors.items() if name == model}
        if len(sizes | set(given)) > 1:
            raise QueryRefused(f"the vectors of {model} differ in length")

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        model: str,
        vector: Sequence[float],
        *,
        limit: int = 10,
    ) -> tuple[FoundChunk, ...]:
        self._check_size(model, len(vector))
        asked = unit(vector)
        found = []
        for (name, id_), other in self.rows.vectors.items():
            owner, chunk = self.rows.chunks[id_]
            if name == model and owner == campaign and chunk.reach.reaches(viewer):
                score = sum(x * y for x, y in zip(asked, other, strict=True))
                found.append(FoundChunk(chunk=chunk, score=score))
        found.sort(key=lambda x: (-x.score, x.chunk.id))
        return tuple(found[: max(0, limit)])

    async def progress(self, model: str) -> tuple[int, int]:
        self._cut()
        done = sum(name == model for name, _ in self.rows.vectors)
        return done, len(self.rows.chunks)

    async def drop_other_models(self, model: str) -> None:
        for key in [x for x in self.rows.vectors if x[0] != model]:
            del self.rows.vectors[key]


_Said = tuple[_SessionData, KeptEntry, Line]


def _text(line: _Said) -> str:
    _, _, said = line
    return in_passage(said.speaker, said.text, said.corrected)


@attrs.frozen(eq=False)
class _Graph:
    rows: _Rows

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
            _drop_chunks(self.rows, lambda x: x.fact == fact.id)

    async def remove(
        self, campaign: CampaignKey, *, entity: str = "", fact: int = 0
    ) -> bool:
        if fact:
            if self.rows.facts.get(fact, (None,))[0] != campaign:
                return False
            del self.rows.facts[fact]
            _drop_chunks(self.rows, lambda x: x.fact == fact)
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
            having = [x for x in seen if word in words_of(x.text)]
            for fact in having:
                scores[fact.id] += 1 / (1 + math.log(len(having)))
        found = [
            FoundFact(fact=x, score=round(scores[x.id], 6))
            for x in seen
            if scores[x.id] or not telling
        ]
        found.sort(key=lambda x: (-x.score, -x.fact.provenance.at, -x.fact.id))
        return tuple(found[: max(0, limit)])

    def _as_seen(self, campaign: CampaignKey, viewer: Viewer, fact: Fact) -> Fact:
        about = tuple(
            x
            for x in fact.about
            if self.rows.entities[campaign, x].reach.reaches(viewer)
        )
        heard = {
            (row.name, kept.n)
            for row, kept in self.rows.lines(campaign)
            if kept.entry.line and kept.entry.line.reach.reaches(viewer)
        }
        lines = tuple(x for x in fact.lines if x in heard)
        return attrs.evolve(fact, about=about, lines=lines)

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


def _drop_chunks(rows: _Rows, gone: Callable[[Chunk], Any]) -> int:
    ids = [id_ for id_, (_, chunk) in rows.chunks.items() if gone(chunk)]
    for id_ in ids:
        del rows.chunks[id_]
        for key in [x for x in rows.vectors if x[1] == id_]:
            del rows.vectors[key]
    return len(ids)


@attrs.define(eq=False)
class InMemory:
    """A `Memory` without a file."""

    rows: _Rows = attrs.field(factory=_Rows)
    holder: Holder = attrs.field(
        factory=lambda: Holder(id=token_hex(8), where=f"process {os.getpid()}")
    )
    place: str = "this process"
    journal: _Journal = attrs.field(init=False)
    transcripts: _Transcripts = attrs.field(init=False)
    index: _Index = attrs.field(init=False)
    graph: _Graph = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.journal = _Journal(self.rows, self.holder)
        self.transcripts = _Transcripts(self.rows)
        self.index = _Index(self.rows)
        self.graph = _Graph(self.rows)

    def beside(self) -> InMemory:
        """Return a store on the same data, as another process would have it."""
        return InMemory(self.rows)

    def die(self) -> None:
        """Have the other stores on the same data consider this process as dead."""
        self.rows.dead.add(self.holder.id)

    async def campaigns(self, tenant: str | None = None) -> tuple[CampaignKey, ...]:
        found = {x.campaign for x in self.rows.sessions.values()}
        found |= {owner for owner, _ in self.rows.entities}
        found |= {owner for owner, _ in self.rows.facts.values()}
        here = (x for x in found if tenant in (None, x.tenant))
        return tuple(sorted(here, key=lambda x: (x.tenant, x.campaign)))

    async def forget(self, tenant: str, player: str) -> Forgotten:
        if not player:
            return Forgotten()  # lines of NPCs have no player
        return await self._forget(
            tenant,
            lambda kept: (
                kept.entry.line is not None and kept.entry.line.player == player
            ),
            player,
        )

    async def forget_before(self, at: float) -> Forgotten:
        return await self._forget(None, lambda kept: kept.entry.at < at, "")

    async def _forget(
        self, tenant: str | None, gone: Callable[[KeptEntry], bool], player: str
    ) -> Forgotten:
        lines, snapshots, summaries = 0, 0, 0
        dropped: set[tuple[CampaignKey, str, int]] = set()
        evenings: set[tuple[CampaignKey, str]] = set()
        for row in self.rows.sessions.values():
            if tenant not in (None, row.tenant):
                continue
            mine = [x for x in row.entries if x.entry.line is not None and gone(x)]
            if not mine:
                continue
            lines += len(mine)
            dropped |= {(row.campaign, row.name, x.n) for x in mine}
            evenings |= {
                (row.campaign, x.entry.line.evening) for x in mine if x.entry.line
            }
            kept = [x for x in _lines_of(row) if x not in mine]
            # What an NPC remembers of the conversation has their words in it, too.
            snapshots += len(row.entries) - len(_lines_of(row))
            row.entries = kept
        for one in self.rows.evenings:
            if (one.campaign, one.name) in evenings:
                summaries += len(one.summaries)
                one.summaries.clear()
        owned = self.rows.facts.items()
        facts = [
            id_
            for id_, (owner, fact) in owned
            if tenant in (None, owner.tenant)
            and (
                (player and fact.provenance.player == player)
                or any((owner, *line) in dropped for line in fact.lines)
            )
        ]
        for id_ in facts:
            del self.rows.facts[id_]
        chunks = _drop_chunks(
            self.rows,
            lambda x: (
                x.fact in facts
                or any(
                    (self.rows.chunks[x.id][0], *line) in dropped for line in x.lines
                )
            ),
        )
        entities = [
            key
            for key, one in self.rows.entities.items()
            if player
            and key[0].tenant == tenant
            and one.kind is EntityKind.PLAYER
            and one.id == player
        ]
        for owner, entity in entities:
            await self.graph.remove(owner, entity=entity)
        return Forgotten(
            lines=lines,
            facts=len(facts),
            chunks=chunks,
            entities=len(entities),
            snapshots=snapshots,
            summaries=summaries,
        )

    async def backup(self, to: Path) -> None:
        raise MemoryUnavailable("a memory without a file has no backup")
