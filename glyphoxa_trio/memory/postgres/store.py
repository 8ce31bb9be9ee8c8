"""A memory store in a PostgreSQL database, which several machines may share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import attrs

from glyphoxa_trio.memory.contract import Forgotten
from glyphoxa_trio.memory.entries import Holder
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.forgotten import ForgottenPlayer
from glyphoxa_trio.memory.rebuilding import rebuilding
from glyphoxa_trio.memory.spending import Spending, SpendingTotals
from glyphoxa_trio.memory.visibility import CampaignKey

from .address import PostgresAddress
from .forgetting import forget, forget_before, forgotten
from .graph import PostgresGraph
from .holder import key_of, living
from .index import PostgresIndex
from .journal import PostgresJournal, knows_timelines
from .migrating import has_vectors, is_stale, migrate, rebuild, version_of
from .pool import PostgresPool, open_pool
from .rows import Connection, fit
from .schema import MIGRATIONS, NAME
from .spending import spend
from .together import appending_together
from .transcripts import PostgresTranscripts


@attrs.frozen(eq=False)
class PostgresMemory:
    """The `Memory` of a database, as long as `open_postgres` runs."""

    pool: PostgresPool
    holder: Holder
    journal: PostgresJournal
    transcripts: PostgresTranscripts
    index: PostgresIndex
    graph: PostgresGraph

    @property
    def place(self) -> str:
        return str(self.pool.address)

    async def campaigns(self, tenant: str | None = None) -> tuple[CampaignKey, ...]:
        return await self.pool.read_one(_campaigns, tenant)

    async def forget(
        self,
        tenant: str,
        player: str,
        *,
        campaign: str | None = None,
        again: bool = False,
    ) -> Forgotten:
        by = None if again else key_of(self.holder)
        return await forget(self.pool, tenant, player, campaign, by)

    async def forgotten(self, *, after: int) -> tuple[ForgottenPlayer, ...]:
        return await self.pool.read_one(forgotten, key_of(self.holder), after)

    async def spend(
        self, batch: int, added: Mapping[str, Spending], tenants: Collection[str]
    ) -> SpendingTotals:
        key = key_of(self.holder)
        return await self.pool.write(spend, key, batch, added, tenants)

    async def forget_before(self, at: float) -> Forgotten:
        return await forget_before(self.pool, at)

    async def backup(self, to: Path) -> None:
        raise MemoryUnavailable(
            f"{self.place} is saved with PostgreSQL's own program:"
            f" pg_dump --schema={NAME} --format=custom --file={to}"
        )


def _campaigns(connection: Connection, tenant: str | None) -> tuple[CampaignKey, ...]:
    rows = connection.execute(
        """
        select name, tenant from campaign where id in (
            select campaign from session
            union select campaign from entity
            union select campaign from fact
        ) and (%(tenant)s::text is null or tenant = %(tenant)s)
        order by tenant collate "C", name collate "C"
        """,
        {"tenant": None if tenant is None else fit(tenant)},
    )
    return tuple(CampaignKey(*x) for x in rows)


@asynccontextmanager
async def open_postgres(
    address: str, *, durable: bool = False
) -> AsyncGenerator[PostgresMemory]:
    """Open the memory of a database, which is made if there is none.

    What was written survives a loss of power anyway, as far as the settings of the
    server go; ``durable`` changes nothing.

    Raises:
      MemoryUnusable: the address is wrong, or the memory is of a newer version.
      MemoryUnavailable: the database cannot be reached now.
    """
    place = PostgresAddress.of(address)
    async with open_pool(place) as first:
        schemas, vectors, timelines = await first.write(_migrated)
    async with (
        open_pool(place, schemas=schemas) as pool,
        living(pool) as alive,
        appending_together(pool, key_of(alive.holder)) as together,
        AsyncExitStack() as working,
    ):
        if await pool.read_one(is_stale):
            step = partial(pool.write, rebuild)
            await working.enter_async_context(rebuilding(step))
        yield PostgresMemory(
            pool,
            alive.holder,
            PostgresJournal(pool, alive, together, timelines),
            PostgresTranscripts(pool, alive),
            PostgresIndex(pool, vectors),
            PostgresGraph(pool),
        )


async def prepare_postgres(address: str) -> tuple[int, int]:
    """Make the tables of a database, or bring them to this layout; return the version
    that there was, 0 for none, and that which is there now.

    Raises:
      MemoryUnusable: the address is wrong, or the memory is of a newer version.
      MemoryUnavailable: the database cannot be reached now.
    """
    async with open_pool(PostgresAddress.of(address)) as pool:
        return await pool.write(_prepared)


def _prepared(connection: Connection) -> tuple[int, int]:
    before = version_of(connection)
    migrate(connection)
    return before, len(MIGRATIONS)


def _migrated(connection: Connection) -> tuple[str, bool, bool]:
    schemas = migrate(connection)
    return schemas, has_vectors(connection), knows_timelines(connection)
