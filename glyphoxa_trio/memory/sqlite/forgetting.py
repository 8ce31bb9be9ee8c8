"""Forgetting: lines are removed from a memory file for good, with all made of them.

First everything goes in one transaction. Then nothing of it may be left in the bytes of
the file: the full-text indexes are merged, the file is written anew without its free
pages, and the write-ahead log is emptied. Other writes wait meanwhile: a file of
1,000,000 lines takes some seconds.
"""

from __future__ import annotations

import time
from typing import Any, Final

import apsw

import trio

from glyphoxa_trio.memory.contract import Forgotten
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.forgotten import KEPT, ForgottenPlayer, digest_of
from glyphoxa_trio.storage.pool import SqlitePool

from .audiences import EVERY_NPC, plain
from .line_words import BITS, MOST_AUDIENCES

# Seconds to wait for readers of an older state, which keep the log from being emptied.
_PATIENCE: Final = 10.0
_PAUSE: Final = 0.05

# The ids of what is removed. Nothing but numbers is in these temporary tables.
_GONE: Final = tuple(
    f"gone_{name}" for name in ("line", "session", "evening", "fact", "chunk", "entity")
)
_WITHIN: Final = "tenant = :tenant and (:campaign is null or campaign.name = :campaign)"
_LINES_OF_PLAYER: Final = f"""
    insert into gone_line
    select line.id from line join campaign on campaign.id = line.campaign
    where {_WITHIN} and (player = :player or answers <> '' and exists (
        select 1 from json_each(answers) where value = :player))
"""
_FACTS_OF_PLAYER: Final = f"""
    insert into gone_fact
    select fact.id from fact join campaign on campaign.id = campaign
    where player = :player and {_WITHIN}
"""
_ENTITY_OF_PLAYER: Final = f"""
    insert into gone_entity
    select entity.id from entity join campaign on campaign.id = campaign
    where slug = :player and {_WITHIN} and kind = 'player'
"""
# For each campaign and audience, the old lines are neighbours in an index.
_LINES_BEFORE: Final = f"""
    insert into gone_line
    select line.id from (
        select campaign, id as audience from audience where campaign is not null
        union all select id, {EVERY_NPC} from campaign
    ) as heard join line
    on line.campaign = heard.campaign and line.audience = heard.audience and at < :at
"""
_IN_LINES: Final = "in (select id from gone_line)"
_MADE_OF_THEM: Final = (
    f"insert or ignore into gone_session select session from line where id {_IN_LINES}",
    f"""insert or ignore into gone_evening
        select evening from line where id {_IN_LINES} and evening is not null""",
    f"""insert or ignore into gone_fact
        select fact from source where line {_IN_LINES} and fact is not null""",
    f"""insert or ignore into gone_chunk
        select chunk from source where line {_IN_LINES} and chunk is not null
        union select id from chunk where fact in (select id from gone_fact)""",
    # An inferred entity that is nothing but a name, and that nothing else is about.
    """insert or ignore into gone_entity
        select e.id from entity as e where e.id in (
            select entity from fact_about where fact in (select id from gone_fact)
        ) and basis = 'inferred' and kind <> 'player' and summary = ''
        and attributes = '{}'
        and not exists (select 1 from name where entity = e.id and place > 0)
        and not exists (select 1 from fact_about where entity = e.id
            and fact not in (select id from gone_fact))
        and not exists (select 1 from relationship where e.id in (source, target))""",
)
_WORDS: Final = (
    f"""delete from line_words where rowid in (
        select id << {BITS} | min(audience, {MOST_AUDIENCES})
        from line where id {_IN_LINES})""",
    "delete from fact_words where rowid in (select id from gone_fact)",
)


async def forget(
    pool: SqlitePool, tenant: str, player: str, campaign: str | None, by: str
) -> Forgotten:
    """Remove everything that a player has said, and all that was made of it, in one
    campaign or in all.

    ``by`` is the id of the holder of whom the others are to learn it; "" tells nobody.

    Cancelled, it has removed everything or nothing, but the bytes may be left in free
    parts of the file: call it again.

    Raises:
      MemoryUnavailable: nothing was removed; or bytes are left in the file, since the
        disk is full or another program reads the file all the time.
    """
    removed = Forgotten()
    if player:  # lines of NPCs have none
        values = {
            "tenant": plain(tenant),
            "player": plain(player),
            "campaign": None if campaign is None else plain(campaign),
        }
        which = _LINES_OF_PLAYER, _FACTS_OF_PLAYER, _ENTITY_OF_PLAYER
        digest = digest_of(tenant, player, campaign)
        marked = plain(tenant), digest, by, time.time()
        removed = await pool.write(_remove, which, values, marked if by else None)
    # Even if nothing was found: an earlier call may have been interrupted.
    await _scrub(pool)
    return removed


async def forget_before(pool: SqlitePool, at: float) -> Forgotten:
    """Remove lines said before that time, and what was made of them.

    Raises:
      MemoryUnavailable: as `forget` raises it.
    """
    removed = await pool.write(_remove, (_LINES_BEFORE,), {"at": at})
    if removed.lines:
        await _scrub(pool)
    return removed


def forgotten(
    connection: apsw.Connection, holder: str, after: int
) -> tuple[ForgottenPlayer, ...]:
    """Return whom other holders have forgotten, behind that mark."""
    rows = connection.execute(
        "select id, tenant, digest from forgotten where id > ? and holder <> ?"
        " order by id",
        (after, holder),
    )
    return tuple(ForgottenPlayer(n=n, tenant=x, digest=y) for n, x, y in rows)


def _remove(
    connection: apsw.Connection,
    which: tuple[str, ...],
    values: dict[str, Any],
    marked: tuple[str, str, str, float] | None = None,
) -> Forgotten:
    """Remove what these statements write into the tables `_GONE`, and the rest.

    ``marked`` is a row of the table ``forgotten``.
    """
    if marked is not None:
        connection.execute("delete from forgotten where at < ?", (marked[-1] - KEPT,))
        connection.execute(
            "insert into forgotten (tenant, digest, holder, at) values (?, ?, ?, ?)",
            marked,
        )

    def change(statement: str) -> int:
        connection.execute(statement)
        return connection.changes()

    def drop(table: str, condition: str = "") -> int:
        gone = f"id in (select id from gone_{table})"
        return change(f"delete from {table} where {condition or gone}")

    for table in _GONE:
        change(f"create temp table if not exists {table} (id integer primary key)")
        change(f"delete from {table}")
    for statement in which:
        connection.execute(statement, values)
    for statement in (*_MADE_OF_THEM, *_WORDS):
        change(statement)
    counted = Forgotten(
        lines=drop("line"),
        chunks=drop("chunk"),
        facts=drop("fact"),
        entities=drop("entity"),
        # What an NPC remembers of the conversation has their words in it, too.
        snapshots=drop(
            "entry", "kind <> 'line' and session in (select id from gone_session)"
        ),
        summaries=drop("summary", "evening in (select id from gone_evening)"),
    )
    drop("entry", f"id {_IN_LINES}")
    return counted


async def _scrub(pool: SqlitePool) -> None:
    """Overwrite the bytes of everything that was removed from the file."""
    await pool.write(_merge_indexes)
    await pool.alone(_write_anew)
    with trio.move_on_after(_PATIENCE):
        while True:
            if await pool.alone(_empty_log):
                return
            await trio.sleep(_PAUSE)
    raise MemoryUnavailable(
        f"{pool.path}: the lines were removed, but another program is reading an older"
        " state, so that they are still in the log beside the file: try again later"
    )


def _merge_indexes(connection: apsw.Connection) -> None:
    """Merge the parts of the full-text indexes: words of removed rows are left out."""
    tables = connection.execute(
        "select name from sqlite_schema where sql like 'create virtual table%fts5%'"
    )
    for (table,) in tables.fetchall():
        connection.execute(f"insert into {table} ({table}) values ('optimize')")


def _write_anew(connection: apsw.Connection) -> None:
    connection.execute("vacuum")


def _empty_log(connection: apsw.Connection) -> bool:
    """Return False if somebody still reads from the log."""
    busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").get
    return not busy
