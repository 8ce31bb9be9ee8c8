"""The journal in PostgreSQL.

Claims are rows of the table of sessions, each with an epoch and the key of a lock that
its process keeps while it lives; `appending` writes the entries.

A server that is promoted begins a new timeline, and may lack the last commits of the
server before it, claims among them. The number of the timeline is in the high bits of
an epoch, so that none is given a second time: each timeline, from 1, has 2**32 epochs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import attrs
import psycopg

from glyphoxa_trio.memory.entries import (
    Claim,
    Entry,
    EntryKind,
    Holder,
    KeptEntry,
    SessionRow,
)
from glyphoxa_trio.memory.errors import Fenced, HeldElsewhere
from glyphoxa_trio.memory.visibility import CampaignKey

from .appending import Appender, Claimed, taken
from .holder import LivingHolder, alive, held_by_another, id_of, key_of
from .pool import PostgresPool
from .rows import Connection, fit, made_campaign
from .together import Together

# The number that the epochs of the server's timeline are above. Timelines are read from
# the name of a file, since any user may do that.
_EPOCHS: Final = (
    "(('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint - 1)"
    " << 32"
)


def knows_timelines(connection: Connection) -> bool:
    """Return True if the server tells its timeline: some services do not."""
    with suppress(psycopg.DatabaseError), connection.transaction():
        connection.execute(f"select {_EPOCHS}")
        return True
    return False


@attrs.define(eq=False)
class PostgresJournal:
    """The `Journal` of a database.

    Args:
      timelines: the server tells its timeline (`knows_timelines`).
    """

    pool: PostgresPool
    living: LivingHolder
    together: Together
    timelines: bool = True
    _appender: Appender = attrs.field(init=False)

    @property
    def holder(self) -> Holder:
        """The process that claims."""
        return self.living.holder

    def __attrs_post_init__(self) -> None:
        self._appender = Appender(self.pool, key_of(self.holder), self.together)

    async def claim(
        self,
        tenant: str,
        session: str,
        campaign: CampaignKey,
        *,
        steal_from: int | None = None,
    ) -> Claim:
        return await self.pool.write(
            _claim,
            self.holder,
            tenant,
            session,
            campaign,
            steal_from,
            _EPOCHS if self.timelines else "0",
            self.living.settled,
        )

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        if not isinstance(claim.row, Claimed):  # another process has claimed it
            raise Fenced(taken(claim))
        return await self._appender.append(claim, claim.row, tuple(entries))

    async def load(self, claim: Claim) -> tuple[KeptEntry, ...]:
        return await self.pool.read_one(_load, claim)

    async def release(
        self, claim: Claim, *, ended: bool = False, evening: str = "", at: float = 0.0
    ) -> None:
        if (
            ended
            or not isinstance(claim.row, Claimed)
            or not await self._appender.release(claim, claim.row, evening, at)
        ):
            await self.pool.write(_release, self.holder, claim, ended, evening, at)

    async def sessions(self, tenant: str | None = None) -> tuple[SessionRow, ...]:
        return await self.pool.read_one(_sessions, tenant)


def _claim(
    connection: Connection,
    holder: Holder,
    tenant: str,
    name: str,
    campaign: CampaignKey,
    steal_from: int | None,
    epochs: str,
    settled: bool,
) -> Claim:
    given = made_campaign(connection, campaign)
    key = fit(tenant), fit(name)
    connection.execute(
        "insert into session (tenant, name, campaign) values (%s, %s, %s)"
        " on conflict do nothing",
        (*key, given),
    )
    # Locks the session until the end of this transaction.
    connection.execute(
        "select from session where tenant = %s and name = %s for update", key
    )
    row = connection.execute(
        f"""
        select s.id, s.campaign, s.epoch, s.last, s.ended, s.place, s.holder,
            {held_by_another("s.holder")},
            exists (select from line where line.session = s.id),
            exists (select from entry where entry.session = s.id),
            {epochs}, campaign.name, campaign.tenant
        from session s join campaign on campaign.id = s.campaign
        where s.tenant = %(tenant)s and s.name = %(name)s
        """,
        {
            "me": key_of(holder),
            "settled": settled,
            "tenant": key[0],
            "name": key[1],
        },
    ).fetchone()
    assert row is not None
    id_, owner, epoch, last, ended, place, other, held, lines, others, *rest = row
    if held and steal_from != epoch:
        raise HeldElsewhere(name, id_of(other), place, epoch)
    above, *called = rest
    new = max(epoch, above) + 1
    if lines:
        campaign = CampaignKey(*called) if owner != given else campaign
    else:
        owner = given  # nothing was said in it
    connection.execute(
        "update session set epoch = %s, holder = %s, place = %s, ended = false,"
        " campaign = %s where id = %s",
        (new, key_of(holder), fit(holder.where), owner, id_),
    )
    return Claim(
        tenant=tenant,
        session=name,
        campaign=campaign,
        epoch=new,
        known=not ended and (lines or others),
        row=Claimed(id_, owner, last),
    )


def _load(connection: Connection, claim: Claim) -> tuple[KeptEntry, ...]:
    rows = connection.execute(
        "select n, entry.epoch, kind, at, npc, turn, data"
        " from session left join entry on session.id = entry.session"
        " where session.tenant = %s and session.name = %s and session.epoch = %s"
        " and session.holder is not null order by n",
        (fit(claim.tenant), fit(claim.session), claim.epoch),
    ).fetchall()
    if not rows:
        raise Fenced(taken(claim))
    return tuple(
        KeptEntry(
            n=n,
            epoch=epoch,
            entry=Entry(
                kind=EntryKind(kind), at=at, npc=npc, turn=turn, data=json.loads(data)
            ),
        )
        for n, epoch, kind, at, npc, turn, data in rows
        if n is not None
    )


def _release(
    connection: Connection,
    holder: Holder,
    claim: Claim,
    ended: bool,
    evening: str,
    at: float,
) -> None:
    done = connection.execute(
        "update session set holder = null, place = '', ended = %s"
        " where tenant = %s and name = %s and epoch = %s and holder = %s"
        " returning id, campaign",
        (ended, fit(claim.tenant), fit(claim.session), claim.epoch, key_of(holder)),
    ).fetchone()
    if done and evening:
        connection.execute(
            "update evening set ended = %s"
            " where campaign = %s and name = %s and ended is null",
            (at, done[1], fit(evening)),
        )
    if done and ended:
        connection.execute("delete from entry where session = %s", done[:1])


def _sessions(connection: Connection, tenant: str | None) -> tuple[SessionRow, ...]:
    rows = connection.execute(
        f"""
        select x.tenant, x.name, campaign.name,
            case when {alive("x.holder")} then x.place else '' end,
            (select count(*) from line where line.session = x.id), x.last_at, x.ended
        from session x join campaign on campaign.id = x.campaign
        where %(tenant)s::text is null or x.tenant = %(tenant)s
        order by x.last_at desc, x.tenant collate "C", x.name collate "C"
        """,
        {"tenant": None if tenant is None else fit(tenant)},
    )
    return tuple(
        SessionRow(
            tenant=of,
            session=name,
            campaign=campaign,
            holder=holder,
            lines=lines,
            last_at=last_at,
            ended=ended,
        )
        for of, name, campaign, holder, lines, last_at, ended in rows
    )
