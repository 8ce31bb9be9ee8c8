"""Forgetting: lines are removed from PostgreSQL, with all that was made of them.

First everything goes in one transaction. Then the tables are written anew, since
PostgreSQL leaves the bytes of what was deleted in their files. Backups, standbys and
the write-ahead log are in the hands of whoever runs the database: the log is written
over after its next checkpoints.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from glyphoxa_trio.memory.contract import Forgotten

from .pool import PostgresPool
from .rows import Connection, fit

_TABLES: Final = (
    "line",
    "entry",
    "summary",
    "entity",
    "name",
    "relationship",
    "fact",
    "fact_about",
    "chunk",
    "source",
    "embedding",
)
_OF_PLAYER: Final = (
    "line.player = %(player)s and session.tenant = %(tenant)s",
    "fact.player = %(player)s and campaign.tenant = %(tenant)s",
    "slug = %(player)s and kind = 'player' and campaign.tenant = %(tenant)s",
)
_BEFORE: Final = "line.at < %(at)s", "false", "false"


async def forget(pool: PostgresPool, tenant: str, player: str) -> Forgotten:
    """Remove everything that a player has said, and all that was made of it.

    Raises:
      MemoryUnavailable: nothing was removed, or bytes are left in the files of the
        database, since the tables were in use all the time: call it again.
    """
    removed = Forgotten()
    if player:  # lines of NPCs have none
        values = {"tenant": fit(tenant), "player": fit(player)}
        removed = await pool.write(_remove, _OF_PLAYER, values)
    await pool.maintain(_rewrite)
    return removed


async def forget_before(pool: PostgresPool, at: float) -> Forgotten:
    """Remove lines said before that time, and what was made of them.

    The room is used again, but its bytes may stay in the files for a while.
    """
    removed = await pool.write(_remove, _BEFORE, {"at": at})
    if removed != Forgotten():
        await pool.maintain(_vacuum)
    return removed


def _remove(
    connection: Connection, which: tuple[str, str, str], values: dict[str, Any]
) -> Forgotten:
    """Remove lines, facts and entities by a condition each, and what needs them."""
    lines, facts, entities = which

    def gone(name: str, sql: str) -> None:
        connection.execute(
            f"create temporary table gone_{name} on commit drop as {sql}".encode(),
            values,
            prepare=False,
        )

    def delete(table: str, where: str) -> int:
        return connection.execute(f"delete from {table} where {where}").rowcount

    # No line is added meanwhile, which a fact might be made of.
    connection.execute(
        "lock table line, entry, fact, chunk in share row exclusive mode"
    )
    gone(
        "line",
        "select line.session, session.name, line.n, line.campaign, line.evening"
        f" from line join session on session.id = line.session where {lines}",
    )
    of_line = (
        "select {} from source join gone_line on gone_line.campaign = source.campaign"
        " and gone_line.name = source.session and gone_line.n = source.n"
    )
    gone(
        "fact",
        f"{of_line.format('fact as id')} where fact is not null"
        " union select fact.id from fact join campaign on campaign.id = fact.campaign"
        f" where {facts}",
    )
    gone(
        "chunk",
        f"{of_line.format('chunk as id')} where chunk is not null"
        " union select id from chunk where fact in (select id from gone_fact)",
    )
    gone(
        "entity",
        "select entity.id from entity join campaign on campaign.id = entity.campaign"
        f" where {entities}",
    )
    for name in ("line", "fact", "chunk", "entity"):
        connection.execute(f"analyze gone_{name}")
    # The lines that remain of a chunk are in none then.
    connection.execute(
        "update evening set whole = false from chunk"
        " where chunk.id in (select id from gone_chunk)"
        " and evening.campaign = chunk.campaign and evening.name = chunk.evening"
    )
    return Forgotten(
        # What an NPC remembers of the conversation has their words in it, too.
        snapshots=delete("entry", "session in (select session from gone_line)"),
        summaries=delete(
            "summary",
            "evening in (select evening.id from evening join gone_line"
            " on gone_line.campaign = evening.campaign"
            " and gone_line.evening = evening.name)",
        ),
        chunks=delete("chunk", "id in (select id from gone_chunk)"),
        facts=delete("fact", "id in (select id from gone_fact)"),
        lines=delete("line", "(session, n) in (select session, n from gone_line)"),
        entities=delete("entity", "id in (select id from gone_entity)"),
    )


def _rewrite(connection: Connection) -> None:
    for table in _TABLES:
        connection.execute(f"vacuum (full, analyze) {table}")
    _checkpoint(connection)


def _vacuum(connection: Connection) -> None:
    for table in _TABLES:
        connection.execute(f"vacuum (analyze) {table}")


def _checkpoint(connection: Connection) -> None:
    """Have the log written over sooner, where this user of the database may."""
    try:
        connection.execute("checkpoint")
    except psycopg.errors.InsufficientPrivilege:
        return
