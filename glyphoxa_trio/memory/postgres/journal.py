"""The journal in PostgreSQL.

Claims are rows of the table of sessions, each with an epoch and the key of a lock that
its process keeps while it lives; `appending` writes the entries.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs

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
from .holder import alive, key_of
from .pool import PostgresPool
from .rows import Connection, fit, made_campaign


@attrs.define(eq=False)
class PostgresJournal:
    """The `Journal` of a database."""

    pool: PostgresPool
    holder: Holder
    _claimed: dict[tuple[str, str, int], Claimed] = attrs.field(
        factory=dict, init=False
    )
    _appender: Appender = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._appender = Appender(self.pool, key_of(self.holder))

    async def claim(
        self, tenant: str, session: str, campaign: CampaignKey, *, steal: bool = False
    ) -> Claim:
        claim, known_ = await self.pool.write(
            _claim, self.holder, tenant, session, campaign, steal
        )
        self._claimed = {
            key: x for key, x in self._claimed.items() if key[:2] != (tenant, session)
        }
        self._claimed[tenant, session, claim.epoch] = known_
        return claim

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        session = self._claimed.get((claim.tenant, claim.session, claim.epoch))
        if session is None:
            raise Fenced(taken(claim))
        return await self._appender.append(claim, session, tuple(entries))

    async def load(self, claim: Claim) -> tuple[KeptEntry, ...]:
        return await self.pool.read(_load, self.holder, claim)

    async def release(self, claim: Claim, *, ended: bool = False) -> None:
        await self.pool.write(_release, self.holder, claim, ended)
        self._claimed.pop((claim.tenant, claim.session, claim.epoch), None)

    async def sessions(self, tenant: str | None = None) -> tuple[SessionRow, ...]:
        return await self.pool.read_one(_sessions, tenant)


def _claim(
    connection: Connection,
    holder: Holder,
    tenant: str,
    name: str,
    campaign: CampaignKey,
    steal: bool,
) -> tuple[Claim, Claimed]:
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
        select s.id, s.campaign, s.epoch, s.last, s.ended, s.place,
            s.holder is not null and s.holder <> %s and {alive("s.holder")},
            exists (select from line where line.session = s.id),
            exists (select from entry where entry.session = s.id),
            campaign.name, campaign.tenant
        from session s join campaign on campaign.id = s.campaign
        where s.tenant = %s and s.name = %s
        """,
        (key_of(holder), *key),
    ).fetchone()
    assert row is not None
    id_, owner, epoch, last, ended, place, held, lines, others, *called = row
    if held and not steal:
        raise HeldElsewhere(f"the session {name} is open in {place}")
    if lines:
        campaign = CampaignKey(*called) if owner != given else campaign
    else:
        owner = given  # nothing was said in it
    connection.execute(
        "update session set epoch = %s, holder = %s, place = %s, ended = false,"
        " campaign = %s where id = %s",
        (epoch + 1, key_of(holder), fit(holder.where), owner, id_),
    )
    claim = Claim(
        tenant=tenant,
        session=name,
        campaign=campaign,
        epoch=epoch + 1,
        known=not ended and (lines or others),
        row=id_,
    )
    return claim, Claimed(id_, owner, last)


def _load(
    connection: Connection, holder: Holder, claim: Claim
) -> tuple[KeptEntry, ...]:
    _check(connection, holder, claim)
    rows = connection.execute(
        "select n, entry.epoch, kind, at, npc, turn, data"
        " from entry join session on session.id = entry.session"
        " where session.tenant = %s and session.name = %s order by n",
        (fit(claim.tenant), fit(claim.session)),
    )
    return tuple(
        KeptEntry(
            n=n,
            epoch=epoch,
            entry=Entry(
                kind=EntryKind(kind), at=at, npc=npc, turn=turn, data=json.loads(data)
            ),
        )
        for n, epoch, kind, at, npc, turn, data in rows
    )


def _check(connection: Connection, holder: Holder, claim: Claim) -> int:
    """Return the number of a claimed session.

    Raises:
      Fenced: it was claimed again.
    """
    row = connection.execute(
        "select id from session"
        " where tenant = %s and name = %s and epoch = %s and holder = %s",
        (fit(claim.tenant), fit(claim.session), claim.epoch, key_of(holder)),
    ).fetchone()
    if row is None:
        raise Fenced(taken(claim))
    return int(row[0])


def _release(connection: Connection, holder: Holder, claim: Claim, ended: bool) -> None:
    done = connection.execute(
        "update session set holder = null, place = '', ended = %s"
        " where tenant = %s and name = %s and epoch = %s and holder = %s returning id",
        (ended, fit(claim.tenant), fit(claim.session), claim.epoch, key_of(holder)),
    ).fetchone()
    if done and ended:
        connection.execute("delete from entry where session = %s", done)


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
