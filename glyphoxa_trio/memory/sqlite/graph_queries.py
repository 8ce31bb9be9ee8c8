"""Queries of the knowledge graph in a memory file, for the threads of a pool.

Each is restricted to what the viewer may see, at both ends of a relationship. A graph
is walked from the entity outwards, and no further than the neighbours that are
returned: what a step costs depends on the relationships of the entities that it starts
from, not on the size of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

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
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.memory.words import folded

from .audiences import Sight, sight_of
from .knowledge_columns import listed
from .knowledge_reading import KnowledgeReading


def entities_seen(
    connection: apsw.Connection,
    key: CampaignKey,
    viewer: Viewer,
    words: list[str],
    kind: EntityKind | None,
    limit: int,
) -> tuple[Entity, ...]:
    sight = sight_of(connection, key, viewer)
    if sight is None:
        return ()
    seen, values = sight.where("entity.")
    if kind is not None:
        seen, values = f"{seen} and kind = ?", (*values, EntityKind(kind).value)
    if words:
        whole = " ".join(words)
        rows = connection.execute(
            # 0 for a whole name, 1 for its beginning, 2 for a part.
            "select entity.id, min(case when name.folded = ?1 then 0"
            " when substr(name.folded, 1, length(?1) + 1) = ?1 || ' ' then 1"
            " else 2 end) as rank"
            " from name join entity on entity.id = name.entity"
            " join name as first on first.entity = entity.id and first.place = 0"
            " where name.campaign = ?2 and instr(' ' || name.folded || ' ', ?3)"
            " and not exists (select 1 from json_each(?4) as word"
            "  where not instr(' ' || name.folded || ' ', word.value))"
            f" and {seen}"
            " group by entity.id order by rank, first.folded, slug limit ?",
            (
                whole,
                sight.campaign,
                f" {max(words, key=len)} ",
                listed(f" {word} " for word in words),
                *values,
                limit,
            ),
        )
    else:
        rows = connection.execute(
            "select entity.id, 0 from name cross join entity on entity.id = name.entity"
            f" where name.campaign = ? and place = 0 and {seen}"
            " order by name.folded, slug limit ?",
            (sight.campaign, *values, limit),
        )
    ids = [id_ for id_, _ in rows]
    return tuple(KnowledgeReading(connection, sight).entities(ids).values())


def identity_seen(
    connection: apsw.Connection,
    key: CampaignKey,
    viewer: Viewer,
    entity: str,
    depth: int,
) -> Identity:
    sight = sight_of(connection, key, viewer)
    start = None if sight is None else _find(connection, sight, entity)
    if sight is None or start is None:
        raise unknown_entity(entity)
    reading = KnowledgeReading(connection, sight)
    edges, more = _around(reading, start, depth)
    ends = [start, *dict.fromkeys(end for end, _, _ in edges)]
    entities = reading.entities(list(dict.fromkeys(ends)))
    everything = tuple(Standing)[:2]
    facts = _newest(connection, sight, [entities[start].id], everything, MOST_FACTS)
    return Identity(
        entity=entities[start],
        neighbours=tuple(
            Neighbour(
                relationship=reading.relationship(row, entities),
                entity=entities[end],
                depth=step,
            )
            for end, row, step in edges
        ),
        facts=reading.facts(facts),
        more=more,
    )


def _find(connection: apsw.Connection, sight: Sight, entity: str) -> int | None:
    """Return the row of the entity of this id, or else of this name."""
    seen, values = sight.where("entity.")
    found: int | None = None
    if storable(entity):
        found = connection.execute(
            f"select id from entity where campaign = ? and slug = ? and {seen}",
            (sight.campaign, entity, *values),
        ).get
    if found is None and (name := folded(entity)):
        found = connection.execute(
            "select entity.id from name join entity on entity.id = name.entity"
            " join name as first on first.entity = entity.id and first.place = 0"
            f" where name.campaign = ? and name.folded = ? and {seen}"
            " order by first.folded, slug limit 1",
            (sight.campaign, name, *values),
        ).get
    return found


def _around(
    reading: KnowledgeReading, start: int, depth: int
) -> tuple[list[tuple[int, tuple[Any, ...], int]], bool]:
    """Return the entity, the row of the relationship and the depth of each neighbour,
    and True if there are more."""
    at, seen = [start], {start}
    walked: set[tuple[Any, ...]] = set()
    found: list[tuple[int, tuple[Any, ...], int]] = []
    step = 0
    while at and step < depth:
        step += 1
        here, following = set(at), []
        for row in reading.edges(at):
            edge = row[1:4]
            if edge in walked:
                continue
            if len(found) == MOST_NEIGHBOURS:
                return found, True
            walked.add(edge)
            _, source, target = edge
            end = target if source in here else source
            found.append((end, row, step))
            if end not in seen:
                seen.add(end)
                following.append(end)
        at = following
    return found, False


def facts_seen(
    connection: apsw.Connection,
    key: CampaignKey,
    viewer: Viewer,
    words: list[str],
    about: Sequence[str],
    standings: tuple[Standing, ...],
    limit: int,
) -> tuple[FoundFact, ...]:
    sight = sight_of(connection, key, viewer)
    if sight is None or not standings:
        return ()
    if words:
        scores = _ranked(connection, sight, words, about, standings, limit)
    else:
        scores = dict.fromkeys(_newest(connection, sight, about, standings, limit), 0.0)
    facts = KnowledgeReading(connection, sight).facts(list(scores))
    return tuple(FoundFact(fact=x, score=scores[x.id]) for x in facts)


def pinned_seen(
    connection: apsw.Connection, key: CampaignKey, viewer: Viewer, limit: int
) -> tuple[Fact, ...]:
    """Return the accepted facts that are pinned, the newest first."""
    if (sight := sight_of(connection, key, viewer)) is None:
        return ()
    seen, values = sight.where("fact.")
    ids = connection.execute(
        f"select id from fact where campaign = ? and pinned and {seen}"
        " and standing = ? order by at desc, id desc limit ?",
        (sight.campaign, *values, Standing.ACCEPTED.value, limit),
    )
    return KnowledgeReading(connection, sight).facts([id_ for (id_,) in ids])


def _about(sight: Sight, about: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
    """Return a condition for facts about entities that the viewer may see."""
    if not about:
        return "true", ()
    seen, values = sight.where("entity.")
    condition = (
        "fact.id in (select fact_about.fact from json_each(?) as wanted"
        " cross join entity on campaign = ? and slug = wanted.value"
        f" cross join fact_about on entity = entity.id where {seen})"
    )
    return condition, (listed(about), sight.campaign, *values)


def _newest(
    connection: apsw.Connection,
    sight: Sight,
    about: Sequence[str],
    standings: Sequence[Standing],
    limit: int,
) -> list[int]:
    seen, values = sight.where("fact.")
    about_, more = _about(sight, about)
    if about:
        # A few facts: found by the entities, and sorted.
        names = ", ".join("?" * len(standings))
        sql = (
            f"select id from fact where {about_} and {seen} and standing in ({names})"
            " order by at desc, id desc limit ?"
        )
        row = (*more, *values, *(x.value for x in standings), limit)
    else:
        # Each standing by itself is in the order of an index, and read no further
        # than needed.
        one = (
            "select * from (select id, at from fact where campaign = ? and standing = ?"
            f" and {seen} order by at desc, id desc limit ?)"
        )
        sql = (
            f"select id from ({' union all '.join(one for _ in standings)})"
            " order by at desc, id desc limit ?"
        )
        each = ((sight.campaign, x.value, *values, limit) for x in standings)
        row = (*(value for part in each for value in part), limit)
    return [id_ for (id_,) in connection.execute(sql, row)]


def _ranked(
    connection: apsw.Connection,
    sight: Sight,
    words: list[str],
    about: Sequence[str],
    standings: Sequence[Standing],
    limit: int,
) -> dict[int, float]:
    """Return facts that have any of the words, by score.

    A rare word counts for more: rare among the facts that the viewer may see, since a
    score that depended on others would betray them.
    """
    seen, values = sight.where("fact.")
    about_, more = _about(sight, about)
    hits = " union all ".join(
        f"select {at}, rowid from fact_words where fact_words match ?"
        for at in range(len(words))
    )
    rows = connection.execute(
        f"with hit (word, id) as ({hits}),"
        " seen (word, id, at) as materialized ("
        "  select hit.word, fact.id, fact.at from hit"
        "  cross join fact on fact.id = hit.id"
        f" where fact.campaign = ? and {seen} and {about_}"
        f" and standing in ({', '.join('?' * len(standings))})),"
        " weight (word, value) as materialized ("
        "  select word, 1 / (1 + ln(count(*))) from seen group by word)"
        " select id, round(sum(value), 6) as score"
        " from seen join weight on weight.word = seen.word"
        " group by id order by score desc, at desc, id desc limit ?",
        (
            *(f'scope : c{sight.campaign} AND text : "{word}"' for word in words),
            sight.campaign,
            *values,
            *more,
            *(x.value for x in standings),
            limit,
        ),
    )
    return dict(rows)


def names_of(connection: apsw.Connection, key: CampaignKey) -> tuple[Named, ...]:
    sight = sight_of(connection, key, GAME_MASTER)
    if sight is None:
        return ()
    reading = KnowledgeReading(connection, sight)
    return tuple(
        Named(
            name=name,
            entity=slug,
            kind=EntityKind(kind),
            reach=reading.reach(tuple(known)),
        )
        for name, slug, kind, *known in connection.execute(
            "select name.name, slug, kind, audience, topics, secret"
            " from entity cross join name on name.entity = entity.id"
            " where entity.campaign = ? order by entity.id, place",
            (sight.campaign,),
        )
    )
