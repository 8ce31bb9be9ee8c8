"""A memory file with the parts under test, and a journal that only appends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import attrs

from glyphoxa_trio.memory.contract import Forgotten
from glyphoxa_trio.memory.entries import Claim, Entry
from glyphoxa_trio.memory.sqlite.audiences import audience_row, campaign_row, plain
from glyphoxa_trio.memory.sqlite.forgetting import forget, forget_before
from glyphoxa_trio.memory.sqlite.line_words import add_words
from glyphoxa_trio.memory.sqlite.schema import SCHEMA
from glyphoxa_trio.memory.sqlite.transcripts import SqliteTranscripts
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.storage.pool import SqlitePool, open_pool


@attrs.frozen
class LittleJournal:
    pool: SqlitePool

    async def claim(self, tenant: str, session: str, campaign: CampaignKey) -> Claim:
        await self.pool.write(_claim, tenant, session, campaign)
        return Claim(
            tenant=tenant, session=session, campaign=campaign, epoch=1, known=False
        )

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        return await self.pool.write(_append, claim, entries)


def _claim(
    connection: apsw.Connection, tenant: str, session: str, campaign: CampaignKey
) -> None:
    connection.execute(
        "insert or ignore into session (tenant, name, campaign) values (?, ?, ?)",
        (plain(tenant), plain(session), campaign_row(connection, campaign)),
    )


def _append(
    connection: apsw.Connection, claim: Claim, entries: Sequence[Entry]
) -> int:
    n = 0
    for entry in entries:
        session, campaign, n = connection.execute(
            "update session set last = last + 1 where tenant = ? and name = ?"
            " returning id, campaign, last",
            (plain(claim.tenant), plain(claim.session)),
        ).get
        connection.execute(
            "insert into entry (session, n, epoch, kind, at, data)"
            " values (?, ?, 1, ?, ?, ?)",
            (session, n, entry.kind, entry.at, str(dict(entry.data))),
        )
        if (line := entry.line) is None:
            continue
        id_ = connection.last_insert_rowid()
        audience = audience_row(connection, campaign, line.reach.npcs)
        connection.execute(
            """insert into line (id, session, campaign, evening, audience, at, speaker,
            player, addressee, text, corrected, seconds) values (?, ?, ?,
            (select id from evening where campaign = ? and name = ?),
            ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                id_,
                session,
                campaign,
                campaign,
                plain(line.evening),
                audience,
                entry.at,
                plain(line.speaker),
                plain(line.player),
                plain(line.to),
                plain(line.text),
                plain(line.corrected),
                line.seconds,
            ),
        )
        add_words(
            connection,
            line=id_,
            campaign=campaign,
            audience=audience,
            text=line.text,
            corrected=line.corrected,
        )
    return n


@attrs.frozen
class LittleMemory:
    pool: SqlitePool
    journal: LittleJournal
    transcripts: SqliteTranscripts

    async def forget(self, tenant: str, player: str) -> Forgotten:
        return await forget(self.pool, tenant, player)

    async def forget_before(self, at: float) -> Forgotten:
        return await forget_before(self.pool, at)


@asynccontextmanager
async def open_little(path: Path) -> AsyncGenerator[LittleMemory]:
    async with open_pool(path, SCHEMA) as pool:
        yield LittleMemory(pool, LittleJournal(pool), SqliteTranscripts(pool))
