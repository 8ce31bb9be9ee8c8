"""The knowledge graph in a memory file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import attrs

from glyphoxa_trio.memory.checks import storable
from glyphoxa_trio.memory.contract import FoundFact, Named
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
from glyphoxa_trio.storage.pool import SqlitePool

from .audiences import EVERY_NPC, known_campaign, sight_of
from .graph_queries import (
    entities_seen,
    facts_seen,
    identity_seen,
    names_of,
    pinned_seen,
)
from .knowledge_reading import KnowledgeReading
from .knowledge_writing import write_knowledge

_MOST = 2**31  # rows


@attrs.frozen(eq=False)
class SqliteGraph:
    """A `KnowledgeGraph`. Its methods are described there."""

    pool: SqlitePool

    async def put(
        self,
        campaign: CampaignKey,
        *,
        entities: Sequence[Entity] = (),
        relationships: Sequence[Relationship] = (),
        facts: Sequence[Fact] = (),
    ) -> tuple[int, ...]:
        return await self.pool.write(
            write_knowledge, campaign, entities, relationships, facts
        )

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
        if (name.strip() and not words) or len(name) > MOST_QUERY:
            return ()
        return await self.pool.read(
            entities_seen, campaign, viewer, words, kind, _limit(limit)
        )

    async def relationships(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        after: tuple[str, str, str] | None = None,
        limit: int = 200,
    ) -> tuple[Relationship, ...]:
        return await self.pool.read(
            _relationships, campaign, viewer, after, _limit(limit)
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
        return await self.pool.read(
            facts_seen,
            campaign,
            viewer,
            words,
            about,
            tuple(dict.fromkeys(standings)),
            _limit(limit),
        )

    async def pinned(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 12
    ) -> tuple[Fact, ...]:
        return await self.pool.read(pinned_seen, campaign, viewer, _limit(limit))

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


def _relationships(
    connection: apsw.Connection,
    key: CampaignKey,
    viewer: Viewer,
    after: tuple[str, str, str] | None,
    limit: int,
) -> tuple[Relationship, ...]:
    sight = sight_of(connection, key, viewer)
    if sight is None:
        return ()
    return tuple(KnowledgeReading(connection, sight).relationships(after, limit))


def _limit(limit: int) -> int:
    return max(0, min(limit, _MOST))


def _here(
    connection: apsw.Connection, key: CampaignKey, entity: str, fact: int
) -> tuple[str, tuple[Any, ...]] | None:
    """Return which table and row of a campaign a fact, or else an entity, is in."""
    campaign = known_campaign(connection, key)
    if campaign is None:
        return None
    if fact:
        values: tuple[Any, ...] = fact, campaign
        table = "fact where id = ? and campaign = ?"
        known = 0 < fact < 2**63
    else:
        values = campaign, entity
        table = "entity where campaign = ? and slug = ?"
        known = storable(entity)
    found = known and connection.execute(f"select id from {table}", values).get
    return (table.split()[0], (found,)) if found else None


def _remove(
    connection: apsw.Connection, key: CampaignKey, entity: str, fact: int
) -> bool:
    found = _here(connection, key, entity, fact)
    if found is None:
        return False
    table, row = found
    connection.execute(f"delete from {table} where id = ?", row)
    return True


def _judge(
    connection: apsw.Connection,
    key: CampaignKey,
    fact: int,
    standing: Standing,
    confirmed: bool,
) -> Fact:
    found = _here(connection, key, "", fact) if fact else None
    sight = sight_of(connection, key, GAME_MASTER)
    if found is None or sight is None:
        raise unknown_fact(fact)
    connection.execute(
        "update fact set standing = ?, confirmed = ? where id = ?",
        (Standing(standing).value, int(confirmed), fact),
    )
    return KnowledgeReading(connection, sight).facts([fact])[0]


def _reveal(
    connection: apsw.Connection, key: CampaignKey, entity: str, fact: int
) -> None:
    found = _here(connection, key, entity, fact)
    if found is None:
        raise unknown_fact(fact) if fact else unknown_entity(entity)
    table, row = found
    connection.execute(
        f"update {table} set audience = {EVERY_NPC}, secret = 0 where id = ?", row
    )
