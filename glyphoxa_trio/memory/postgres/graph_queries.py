"""Queries of the knowledge graph in PostgreSQL, restricted to what a viewer may see.

Plain functions for the threads of a pool, inside of a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from glyphoxa_trio.memory.checks import storable
from glyphoxa_trio.memory.contract import (
    MOST_FACTS,
    MOST_NEIGHBOURS,
    FoundFact,
    Named,
)
from glyphoxa_trio.memory.errors import unknown_entity
from glyphoxa_trio.memory.knowledge import (
    Entity,
    EntityKind,
    Fact,
    Identity,
    Neighbour,
    Standing,
)
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.memory.words import folded

from .knowledge_reading import PostgresReading
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


def reading_of(
    connection: Connection, key: CampaignKey, viewer: Viewer
) -> PostgresReading:
    values = viewing(campaign_id(connection, key), viewer)
    return PostgresReading(connection, viewer, values)


def entities_seen(
    connection: Connection,
    key: CampaignKey,
    viewer: Viewer,
    words: list[str],
    kind: EntityKind | None,
    limit: int,
) -> tuple[Entity, ...]:
    reading = reading_of(connection, key, viewer)
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


def identity_seen(
    connection: Connection, key: CampaignKey, viewer: Viewer, entity: str, depth: int
) -> Identity:
    reading = reading_of(connection, key, viewer)
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


def _find(reading: PostgresReading, entity: str) -> int | None:
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
    reading: PostgresReading, start: int, depth: int
) -> tuple[list[tuple[int, Edge, int]], bool]:
    """Return the entity, the relationship and the depth of each neighbour, the nearest
    first, and True if there are more."""
    at, seen = [start], {start}
    walked: set[Edge] = set()
    found: list[tuple[int, Edge, int]] = []
    for step in range(1, depth + 1):
        here, following = set(at), []
        for edge in _edges(reading, at):
            source, _, target = edge
            if edge in walked:
                continue
            if len(found) == MOST_NEIGHBOURS:
                return found, True
            walked.add(edge)
            end = target if source in here else source
            found.append((end, edge, step))
            if end not in seen:
                seen.add(end)
                following.append(end)
        at = following
        if not at:
            break
    return found, False


def _edges(reading: PostgresReading, at: list[int]) -> list[tuple[Any, ...]]:
    """Return the relationships of some entities whose ends the viewer may see.

    First those that the entities are the sources of. In the order of the entities, and
    for each by type and by the entity at the other end.
    """
    # So many may have been walked, and so many and one more are of use.
    most = 2 * MOST_NEIGHBOURS + 1
    one = """
        select place, {side} as side, x.source, x.type, x.target, e.id as other
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
        also=" and x.source <> all(%(at)s::bigint[])",
    )
    return reading.rows(
        f"""
        with given as (
            select * from unnest(%(at)s::bigint[]) with ordinality as u (i, place)
        )
        select source, type, target from ({outgoing} union all {incoming}) as both_
        order by side, place, type, other limit {most}
        """,
        at=at,
    )


def _about(reading: PostgresReading, about: Sequence[str]) -> str:
    """Return a condition for facts about entities that the viewer may see."""
    if not about:
        return "true"
    return f"""x.id in (
        select fact_about.fact from fact_about join entity e on e.id = entity
        where e.campaign = %(campaign)s and e.slug = any(%(about)s)
        and {seen_by(reading.viewer, "e")}
    )"""


def _newest(
    reading: PostgresReading,
    about: Sequence[str],
    standings: Sequence[Standing],
    limit: int,
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


def facts_seen(
    connection: Connection,
    key: CampaignKey,
    viewer: Viewer,
    words: list[str],
    about: Sequence[str],
    standings: Sequence[Standing],
    limit: int,
) -> tuple[FoundFact, ...]:
    reading = reading_of(connection, key, viewer)
    if words:
        scores = _ranked(reading, words, about, standings, limit)
    else:
        newest = _newest(reading, about, standings, limit)
        scores = dict.fromkeys(newest, 0.0)
    facts = reading.facts(list(scores))
    return tuple(FoundFact(fact=x, score=scores[x.id]) for x in facts)


def pinned_seen(
    connection: Connection, key: CampaignKey, viewer: Viewer, limit: int
) -> tuple[Fact, ...]:
    """Return the accepted facts that are pinned, the newest first."""
    reading = reading_of(connection, key, viewer)
    rows = reading.rows(
        "select x.id from fact x where x.campaign = %(campaign)s and x.pinned"
        f" and standing = %(accepted)s and {seen_by(reading.viewer)}"
        " order by x.at desc, x.id desc limit %(limit)s",
        accepted=Standing.ACCEPTED.value,
        limit=min(limit, _MOST),
    )
    return reading.facts([id_ for (id_,) in rows])


def _ranked(
    reading: PostgresReading,
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


def names_of(connection: Connection, key: CampaignKey) -> tuple[Named, ...]:
    rows = connection.execute(
        f"select name.name, x.slug, x.kind, {REACH} from entity x {AUDIENCE}"
        " join name on name.entity = x.id where x.campaign = %s order by x.id, place",
        (campaign_id(connection, key),),
    )
    return tuple(
        Named(name=name, entity=slug, kind=EntityKind(kind), reach=reach_of(*reach))
        for name, slug, kind, *reach in rows
    )
