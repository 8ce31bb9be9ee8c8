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
from glyphoxa_trio.memory.forgotten import KEPT, ForgottenPlayer, digest_of

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
_WITHIN: Final = (
    "campaign.tenant = %(tenant)s"
    " and (%(campaign)s::text is null or campaign.name = %(campaign)s)"
)
_OF_PLAYER: Final = (
    f"""%(player)s = any(line.player || line.answers)
        and line.campaign in (select id from campaign where {_WITHIN})""",
    f"fact.player = %(player)s and {_WITHIN}",
    f"slug = %(player)s and kind = 'player' and {_WITHIN}",
)
# Inferred entities that are nothing but a name, and that nothing else is about.
_ONLY_HEARD: Final = """
        select e.id from entity as e where e.id in (
            select entity from fact_about where fact in (select id from gone_fact)
        ) and basis = 'inferred' and kind <> 'player' and summary = ''
        and attributes = '{}'
        and not exists (select 1 from name where entity = e.id and place > 0)
        and not exists (select 1 from fact_about where entity = e.id
            and fact not in (select id from gone_fact))
        and not exists (select 1 from relationship where e.id in (source, target))
"""
_BEFORE: Final = "line.at < %(at)s", "false", "false"


async def forget(
    pool: PostgresPool, tenant: str, player: str, campaign: str | None, by: int | None
) -> Forgotten:
    """Remove everything that a player has said, and all that was made of it, in one
    campaign or in all.

    ``by`` is the key of the holder of whom the others are to learn it; None tells
    nobody.

    Raises:
      MemoryUnavailable: nothing was removed, or bytes are left in the files of the
        database, since the tables were in use all the time: call it again.
    """
    removed = Forgotten()
    if player:  # lines of NPCs have none
        values = {
            "tenant": fit(tenant),
            "player": fit(player),
            "campaign": None if campaign is None else fit(campaign),
        }
        marked = fit(tenant), digest_of(tenant, player, campaign), by
        removed = await pool.write(_remove, _OF_PLAYER, values, marked)
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


def forgotten(
    connection: Connection, holder: int, after: int
) -> tuple[ForgottenPlayer, ...]:
    """Return whom other holders have forgotten, behind that mark."""
    rows = connection.execute(
        "select id, tenant, digest from forgotten where id > %s and holder <> %s"
        " order by id",
        (after, holder),
    )
    return tuple(ForgottenPlayer(n=n, tenant=x, digest=y) for n, x, y in rows)


def _mark(connection: Connection, marked: tuple[str, str, int | None]) -> None:
    if marked[-1] is not None:
        connection.execute(
            "delete from forgotten where at < now() - make_interval(secs => %s)",
            (KEPT,),
        )
        connection.execute(
            "insert into forgotten (tenant, digest, holder) values (%s, %s, %s)", marked
        )


def _remove(
    connection: Connection,
    which: tuple[str, str, str],
    values: dict[str, Any],
    marked: tuple[str, str, int | None] = ("", "", None),
) -> Forgotten:
    """Remove lines, facts and entities by a condition each, and what needs them.

    ``marked`` is a row of the table ``forgotten``, if it names a holder.
    """
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
    _mark(connection, marked)  # under the lock, so that numbers come in order
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
        f" where {entities} union {_ONLY_HEARD}",
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
