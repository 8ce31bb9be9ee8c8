"""The knowledge graph in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from glyphoxa_trio.memory.checks import storable
from glyphoxa_trio.memory.contract import (
    FoundFact,
    Named,
)
from glyphoxa_trio.memory.errors import unknown_entity, unknown_fact
from glyphoxa_trio.memory.knowledge import (
    Entity,
    EntityKind,
    Fact,
    Identity,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.memory.words import MOST_QUERY, words_in_query, words_of

from .graph_queries import (
    entities_seen,
    facts_seen,
    identity_seen,
    names_of,
    pinned_seen,
    reading_of,
)
from .knowledge_writing import PostgresWriting, check_fact, drop_changed_chunk
from .pool import PostgresPool
from .rows import (
    Connection,
    campaign_id,
)

_MANY: Final = 200  # rows that are put at once
_TABLES: Final = (
    *("entity", "name", "relationship", "fact", "fact_about"),
    *("audience", "listener", "session", "evening", "entry", "line"),
)


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
        return await self.pool.read(entities_seen, campaign, viewer, words, kind, limit)

    async def relationships(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        after: tuple[str, str, str] | None = None,
        limit: int = 200,
    ) -> tuple[Relationship, ...]:
        return await self.pool.read(
            _relationships, campaign, viewer, after, max(0, limit)
        )

    async def identity(
        self, campaign: CampaignKey, viewer: Viewer, entity: str, *, depth: int = 1
    ) -> Identity:
        if len(entity) > MOST_QUERY:
            raise unknown_entity(entity)
        return await self.pool.read(identity_seen, campaign, viewer, entity, depth)

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
            facts_seen, campaign, viewer, words, about, standings, limit
        )

    async def pinned(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 12
    ) -> tuple[Fact, ...]:
        if limit <= 0:
            return ()
        return await self.pool.read(pinned_seen, campaign, viewer, limit)

    async def judge(
        self, campaign: CampaignKey, fact: int, standing: Standing, *, confirmed: bool
    ) -> Fact:
        return await self.pool.write(_judge, campaign, fact, standing, confirmed)

    async def reveal(
        self, campaign: CampaignKey, *, entity: str = "", fact: int = 0
    ) -> None:
        await self.pool.write(_reveal, campaign, entity, fact)

    async def names(self, campaign: CampaignKey) -> tuple[Named, ...]:
        return await self.pool.read(names_of, campaign)


def _put(
    connection: Connection,
    key: CampaignKey,
    entities: Sequence[Entity],
    relationships: Sequence[Relationship],
    facts: Sequence[Fact],
) -> tuple[int, ...]:
    writing = PostgresWriting.of(connection, key)
    for entity in entities:
        writing.entity(entity)
    ends = {end for x in relationships for end in (x.source, x.target)}
    ids = writing.ids(ends | {end for x in facts for end in x.about})
    for one in relationships:
        writing.relationship(one, ids)
    written = tuple(writing.fact(fact, ids) for fact in facts)
    if len(entities) + len(relationships) + len(facts) >= _MANY:
        # Until the server has looked at them, which may be a minute later, it would
        # read whole tables for each turn.
        connection.execute(f"analyze {', '.join(_TABLES)}")
    return written


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


def _relationships(
    connection: Connection,
    key: CampaignKey,
    viewer: Viewer,
    after: tuple[str, str, str] | None,
    limit: int,
) -> tuple[Relationship, ...]:
    return reading_of(connection, key, viewer).page_of_relationships(after, limit)


def _judge(
    connection: Connection,
    key: CampaignKey,
    fact: int,
    standing: Standing,
    confirmed: bool,
) -> Fact:
    reading = reading_of(connection, key, GAME_MASTER)
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
