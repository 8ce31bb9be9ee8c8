"""The knowledge graph in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.memory.checks import storable
from glyphoxa_trio.memory.contract import (
    MOST_FACTS,
    MOST_NEIGHBOURS,
    FoundFact,
    Named,
)
from glyphoxa_trio.memory.errors import unknown_entity, unknown_fact
from glyphoxa_trio.memory.knowledge import (
    Entity,
    EntityKind,
    Fact,
    Identity,
    Neighbour,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.memory.words import MOST_QUERY, folded, words_in_query, words_of

from .knowledge_rows import Reading, Writing, check_fact, drop_changed_chunk
from .pool import PostgresPool
from .rows import (
    AUDIENCE,
    REACH,
    Connection,
    campaign_id,
    query_of,
    reach_of,
    seen_by,
    viewing,
)

_MOST: Final = 2**31  # rows
Edge = tuple[int, str, int]  # source, type, target


@attrs.frozen(eq=False)
class PostgresGraph:
    """The `KnowledgeGraph` of a database. Its methods are described there."""

    pool: PostgresPool

    async def put(
        self,
        campaign: CampaignKey,
        *,
        entities: Sequence[Entity] = (),
        relationships: Sequence[Relationship] = (),
        facts: Sequence[Fact] = (),
    ) -> tuple[int, ...]:
        return await self.pool.write(_put, campaign, entities, relationships, facts)

    async def remove(
        self, campaign: CampaignKey, *, entity: str = "", fact: int = 0
    ) -> bool:
        return await self.pool.write(_remove, campaign, entity, fact)

    async def entities(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        name: str = "",
        kind: EntityKind | None = None,
        limit: int = 20,
    ) -> tuple[Entity, ...]:
        words = words_of(name) if len(name) <= MOST_QUERY else []
        if (name.strip() and not words) or limit <= 0:
            return ()
        return await self.pool.read(_entities, campaign, viewer, words, kind, limit)

    async def identity(
        self, campaign: CampaignKey, viewer: Viewer, entity: str, *, depth: int = 1
    ) -> Identity:
        if len(entity) > MOST_QUERY:
            raise unknown_entity(entity)
        return await self.pool.read(_identity, campaign, viewer, entity, depth)

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
        words = words_in_query(query)[1] if query.strip() else []
        if limit <= 0 or not standings:
            return ()
        return await self.pool.read(
            _facts, campaign, viewer, words, about, standings, limit
        )

    async def judge(
        self, campaign: CampaignKey, fact: int, standing: Standing, *, confirmed: bool
    ) -> Fact:
        return await self.pool.write(_judge, campaign, fact, standing, confirmed)

    async def reveal(
        self, campaign: CampaignKey, *, entity: str = "", fact: int = 0
    ) -> None:
        await self.pool.write(_reveal, campaign, entity, fact)

    async def names(self, campaign: CampaignKey) -> tuple[Named, ...]:
        return await self.pool.read(_names, campaign)


def _put(
    connection: Connection,
    key: CampaignKey,
    entities: Sequence[Entity],
    relationships: Sequence[Relationship],
    facts: Sequence[Fact],
) -> tuple[int, ...]:
    writing = Writing.of(connection, key)
    for entity in entities:
        writing.entity(entity)
    ends = {end for x in relationships for end in (x.source, x.target)}
    ids = writing.ids(ends | {end for x in facts for end in x.about})
    for one in relationships:
        writing.relationship(one, ids)
    return tuple(writing.fact(fact, ids) for fact in facts)


def _here(
    connection: Connection, key: CampaignKey, entity: str, fact: int
) -> tuple[str, int] | None:
    """Return which table and row of a campaign a fact, or else an entity, is in."""
    campaign = campaign_id(connection, key)
    table, column, value = ("fact", "id", fact) if fact else ("entity", "slug", entity)
    if not (0 <= fact < 2**63 and storable(entity)):
        return None
    row = connection.execute(
        f"select id from {table} where campaign = %s and {column} = %s",
        (campaign, value),
    ).fetchone()
    return None if row is None else (table, row[0])


def _remove(connection: Connection, key: CampaignKey, entity: str, fact: int) -> bool:
    found = _here(connection, key, entity, fact)
    if found is None:
        return False
    connection.execute(f"delete from {found[0]} where id = %s", found[1:])
    return True


def _reading(connection: Connection, key: CampaignKey, viewer: Viewer) -> Reading:
    values = viewing(campaign_id(connection, key), viewer)
    return Reading(connection, viewer, values)


def _entities(
    connection: Connection,
    key: CampaignKey,
    viewer: Viewer,
    words: list[str],
    kind: EntityKind | None,
    limit: int,
) -> tuple[Entity, ...]:
    reading = _reading(connection, key, viewer)
    named = "x.campaign = %(campaign)s"
    if words:
        named = (
            "x.id in (select entity from name"
            " where campaign = %(campaign)s and words @> %(words)s::text[])"
        )
    # 0 for a whole name, 1 for its beginning, 2 for a part.
    rows = reading.rows(
        f"""
        select x.id from entity x cross join lateral (
            select min(case when name.folded = %(whole)s then 0
                when starts_with(name.folded, %(whole)s || ' ') then 1 else 2 end)
            as rank from name where entity = x.id and words @> %(words)s::text[]
        ) as named
        where {named} and {seen_by(viewer)}
        and (%(kind)s::text is null or x.kind = %(kind)s)
        order by {"rank," if words else ""} x.folded, x.slug limit %(limit)s
        """,
        words=words,
        whole=" ".join(words),
        kind=None if kind is None else EntityKind(kind).value,
        limit=min(limit, _MOST),
    )
    return tuple(reading.entities([id_ for (id_,) in rows]).values())


def _identity(
    connection: Connection, key: CampaignKey, viewer: Viewer, entity: str, depth: int
) -> Identity:
    reading = _reading(connection, key, viewer)
    start = _find(reading, entity)
    if start is None:
        raise unknown_entity(entity)
    edges, more = _around(reading, start, depth)
    ends = dict.fromkeys([start, *(end for end, _, _ in edges)])
    entities = reading.entities(list(ends))
    made = reading.relationships([x for _, x, _ in edges], entities) if edges else []
    about = [entities[start].id]
    facts = _newest(reading, about, tuple(Standing)[:2], MOST_FACTS)
    return Identity(
        entity=entities[start],
        neighbours=tuple(
            Neighbour(relationship=one, entity=entities[end], depth=step)
            for (end, _, step), one in zip(edges, made, strict=True)
        ),
        facts=reading.facts(facts),
        more=more,
    )


def _find(reading: Reading, entity: str) -> int | None:
    """Return the row of the entity of this id, or else of this name."""
    rows = reading.rows(
        f"""
        select x.id from entity x where x.campaign = %(campaign)s
        and {seen_by(reading.viewer)} and (slug = %(slug)s or x.id in (
            select entity from name where campaign = %(campaign)s
            and name.folded = %(folded)s and name.folded <> ''))
        order by x.slug <> %(slug)s, x.folded, x.slug limit 1
        """,
        slug=entity if storable(entity) else "",
        folded=folded(entity) if storable(entity) else "",
    )
    return rows[0][0] if rows else None


def _around(
    reading: Reading, start: int, depth: int
) -> tuple[list[tuple[int, Edge, int]], bool]:
    """Return the entity, the relationship and the depth of each neighbour, the nearest
    first, and True if there are more."""
    at, seen = [start], {start}
    walked: set[Edge] = set()
    found: list[tuple[int, Edge, int]] = []
    for step in range(1, depth + 1):
        following = []
        for here, *row in _edges(reading, at):
            source, _, target = edge = (row[0], row[1], row[2])
            if edge in walked:
                continue
            if len(found) == MOST_NEIGHBOURS:
                return found, True
            walked.add(edge)
            end = target if source == here else source
            found.append((end, edge, step))
            if end not in seen:
                seen.add(end)
                following.append(end)
        at = following
        if not at:
            break
    return found, False


def _edges(reading: Reading, at: list[int]) -> list[tuple[Any, ...]]:
    """Return the relationships of some entities whose ends the viewer may see: the
    entity, source, type and target, entity by entity, outgoing first."""
    # No more than those are new, and each may come from both of its ends.
    most = 3 * MOST_NEIGHBOURS + 2
    one = """
        select place, i, {side} as side, x.source, x.type, x.target, e.id as other
        from given join relationship x on x.{here} = i
        join entity e on e.id = x.{there} where {seen}{also}
    """
    seen = f"{seen_by(reading.viewer)} and {seen_by(reading.viewer, 'e')}"
    outgoing = one.format(side=0, here="source", there="target", seen=seen, also="")
    incoming = one.format(
        side=1,
        here="target",
        there="source",
        seen=seen,
        also=" and x.source <> x.target",
    )
    return reading.rows(
        f"""
        with given as (
            select * from unnest(%(at)s::bigint[]) with ordinality as u (i, place)
        )
        select i, source, type, target from ({outgoing} union all {incoming}) as both_
        order by place, side, type, other limit {most}
        """,
        at=at,
    )


def _about(reading: Reading, about: Sequence[str]) -> str:
    """Return a condition for facts about entities that the viewer may see."""
    if not about:
        return "true"
    return f"""x.id in (
        select fact_about.fact from fact_about join entity e on e.id = entity
        where e.campaign = %(campaign)s and e.slug = any(%(about)s)
        and {seen_by(reading.viewer, "e")}
    )"""


def _newest(
    reading: Reading, about: Sequence[str], standings: Sequence[Standing], limit: int
) -> list[int]:
    rows = reading.rows(
        f"""
        select x.id from fact x
        where x.campaign = %(campaign)s and standing = any(%(standings)s)
        and {seen_by(reading.viewer)} and {_about(reading, about)}
        order by x.at desc, x.id desc limit %(limit)s
        """,
        about=[x for x in about if storable(x)],
        standings=[Standing(x).value for x in standings],
        limit=min(limit, _MOST),
    )
    return [id_ for (id_,) in rows]


def _facts(
    connection: Connection,
    key: CampaignKey,
    viewer: Viewer,
    words: list[str],
    about: Sequence[str],
    standings: Sequence[Standing],
    limit: int,
) -> tuple[FoundFact, ...]:
    reading = _reading(connection, key, viewer)
    if words:
        scores = _ranked(reading, words, about, standings, limit)
    else:
        newest = _newest(reading, about, standings, limit)
        scores = dict.fromkeys(newest, 0.0)
    facts = reading.facts(list(scores))
    return tuple(FoundFact(fact=x, score=scores[x.id]) for x in facts)


def _ranked(
    reading: Reading,
    words: list[str],
    about: Sequence[str],
    standings: Sequence[Standing],
    limit: int,
) -> dict[int, float]:
    """Return facts that have any of the words, by score.

    A rare word counts for more: rare among the facts that the viewer may see, since a
    score that depended on others would betray them.
    """
    rows = reading.rows(
        f"""
        with hit as materialized (
            select x.id, x.at, word from fact x
            join unnest(%(words)s::text[]) as word on x.words @@ word::tsquery
            where x.words @@ %(query)s::tsquery and x.campaign = %(campaign)s
            and standing = any(%(standings)s) and {seen_by(reading.viewer)}
            and {_about(reading, about)}
        ), weight as (
            select word, 1 / (1 + ln(count(*)::double precision)) as value
            from hit group by word
        )
        select id, round(sum(value)::numeric, 6)::double precision as score
        from hit join weight using (word)
        group by id, at order by score desc, at desc, id desc limit %(limit)s
        """,
        words=[query_of((x,), "&") for x in words],
        query=query_of(words, "|"),
        about=[x for x in about if storable(x)],
        standings=[Standing(x).value for x in standings],
        limit=min(limit, _MOST),
    )
    return dict(rows)


def _judge(
    connection: Connection,
    key: CampaignKey,
    fact: int,
    standing: Standing,
    confirmed: bool,
) -> Fact:
    reading = _reading(connection, key, GAME_MASTER)
    check_fact(connection, reading.values["campaign"], fact)
    value = Standing(standing).value
    drop_changed_chunk(connection, fact, {"standing": value})
    connection.execute(
        "update fact set standing = %s, confirmed = %s where id = %s",
        (value, confirmed, fact),
    )
    return reading.facts([fact])[0]


def _reveal(connection: Connection, key: CampaignKey, entity: str, fact: int) -> None:
    found = _here(connection, key, entity, fact)
    if found is None:
        raise unknown_fact(fact) if fact else unknown_entity(entity)
    table, row = found
    if fact:
        drop_changed_chunk(connection, fact, {"audience": 0, "secret": False})
    connection.execute(
        f"update {table} set audience = 0, secret = false where id = %s", (row,)
    )


def _names(connection: Connection, key: CampaignKey) -> tuple[Named, ...]:
    rows = connection.execute(
        f"select name.name, x.slug, x.kind, {REACH} from entity x {AUDIENCE}"
        " join name on name.entity = x.id where x.campaign = %s order by x.id, place",
        (campaign_id(connection, key),),
    )
    return tuple(
        Named(name=name, entity=slug, kind=EntityKind(kind), reach=reach_of(*reach))
        for name, slug, kind, *reach in rows
    )
