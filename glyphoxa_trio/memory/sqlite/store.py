"""A memory store in an SQLite file."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import attrs

import trio

from glyphoxa_trio.memory.contract import Forgotten
from glyphoxa_trio.memory.entries import Holder
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.forgotten import ForgottenPlayer
from glyphoxa_trio.memory.rebuilding import rebuilding
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.storage.database import Database, backup
from glyphoxa_trio.storage.pool import SqlitePool, open_pool

from .audiences import plain
from .errors import translated_for_memory
from .forgetting import forget, forget_before, forgotten
from .graph import SqliteGraph
from .holders import hold
from .index import SqliteIndex
from .journal import SqliteJournal
from .line_words import is_stale, rebuild
from .schema import SCHEMA
from .transcripts import SqliteTranscripts
from .vectors import load

_CLOSING: Final = 1.0  # seconds for the last write
_CAMPAIGNS: Final = """
    select name, tenant from campaign
    where (?1 is null or tenant = ?1) and id in (
        select campaign from session
        union select campaign from entity
        union select campaign from fact
    )
    order by tenant, name
"""


@attrs.frozen(eq=False)
class SqliteMemory:
    """A `Memory` in a file."""

    _pool: SqlitePool
    holder: Holder
    journal: SqliteJournal
    transcripts: SqliteTranscripts
    index: SqliteIndex
    graph: SqliteGraph

    @property
    def place(self) -> str:
        return str(self._pool.path)

    async def campaigns(self, tenant: str | None = None) -> tuple[CampaignKey, ...]:
        return await self._pool.read(_campaigns, tenant)

    async def forget(
        self,
        tenant: str,
        player: str,
        *,
        campaign: str | None = None,
        again: bool = False,
    ) -> Forgotten:
        by = "" if again else self.holder.id
        return await forget(self._pool, tenant, player, campaign, by)

    async def forgotten(self, *, after: int) -> tuple[ForgottenPlayer, ...]:
        return await self._pool.read(forgotten, self.holder.id, after)

    async def forget_before(self, at: float) -> Forgotten:
        return await forget_before(self._pool, at)

    async def backup(self, to: Path) -> None:
        await self._pool.apart(_backup, self._pool.path, to)


@asynccontextmanager
async def open_sqlite(
    path: Path, *, durable: bool = False
) -> AsyncGenerator[SqliteMemory]:
    """Open a memory file until the block is left; it is made if there is none.

    Args:
      durable: what is written survives a loss of power as well, and each write takes
        longer.

    Raises:
      MemoryUnusable: it is damaged, of another program or of a newer version.
      MemoryUnavailable: it cannot be opened now.
    """
    pool = open_pool(
        path,
        SCHEMA,
        durable=durable,
        prepare=load,
        translated=translated_for_memory,
    )
    async with pool as opened, AsyncExitStack() as working:
        with translated_for_memory(path):
            lock = await trio.to_thread.run_sync(hold, path)
        try:
            if await opened.read(is_stale):
                step = partial(opened.write, rebuild)
                await working.enter_async_context(rebuilding(step))
            yield SqliteMemory(
                opened,
                holder=lock.holder,
                journal=SqliteJournal(opened, lock.holder),
                transcripts=SqliteTranscripts(opened, lock.holder),
                index=SqliteIndex(opened),
                graph=SqliteGraph(opened),
            )
        finally:
            with trio.move_on_after(_CLOSING, shield=True), suppress(MemoryUnavailable):
                # Not needed, since the holder is dead without its lock.
                await opened.write(_give_up, lock.holder)
            lock.release()


def _give_up(connection: apsw.Connection, holder: Holder) -> None:
    connection.execute(
        "update session set holder = '', place = '' where holder = ?", (holder.id,)
    )


def _campaigns(
    connection: apsw.Connection, tenant: str | None
) -> tuple[CampaignKey, ...]:
    asked = None if tenant is None else plain(tenant)
    rows = connection.execute(_CAMPAIGNS, (asked,))
    return tuple(CampaignKey(*row) for row in rows)


def _backup(connection: apsw.Connection, path: Path, to: Path) -> None:
    backup(Database(path, connection), to)
