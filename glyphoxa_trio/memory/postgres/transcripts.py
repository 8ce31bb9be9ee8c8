"""The lines that were said, in PostgreSQL, and the evenings they were said in."""

from __future__ import annotations

import math
from typing import Any, Final

import attrs

from glyphoxa_trio.memory.contract import FoundLine, FoundLines
from glyphoxa_trio.memory.entries import Claim, Evening, check_heard
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.visibility import (
    GAME_MASTER,
    CampaignKey,
    Reach,
    Viewer,
)
from glyphoxa_trio.memory.words import evening_name, words_in_query

from .found_lines import MOST_RANKED, beside, recent, search
from .holder import LivingHolder, held_by_another, key_of
from .pool import PostgresPool
from .rows import (
    Connection,
    campaign_id,
    fit,
    known,
    made_campaign,
    reach_of,
    seen_by,
    viewing,
)


@attrs.frozen(eq=False)
class PostgresTranscripts:
    """The `TranscriptStore` of a database. Its methods are described there."""

    pool: PostgresPool
    living: LivingHolder

    async def begin_evening(
        self, claim: Claim, at: float, *, within: float | None = None
    ) -> Evening:
        return await self.pool.write(_begin, claim, at, within)

    async def end_evening(self, campaign: CampaignKey, evening: str, at: float) -> None:
        await self.pool.write(_end, campaign, evening, at)

    async def end_idle(self, *, before: float) -> None:
        await self.pool.write(_end_idle, before)

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        query: str,
        *,
        evening: str = "",
        rare: bool = False,
        limit: int = 10,
    ) -> FoundLines:
        words = words_in_query(query)
        if limit <= 0:
            return FoundLines()
        return await self.pool.read(
            search, campaign, viewer, words, evening, rare, limit
        )

    async def recent(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        evening: str = "",
        session: str = "",
        before: float | None = None,
        limit: int = 20,
    ) -> tuple[FoundLine, ...]:
        if limit <= 0:
            return ()
        until = math.inf if before is None else before
        return await self.pool.read(
            recent, campaign, viewer, evening, session, until, limit
        )

    async def beside(
        self, campaign: CampaignKey, viewer: Viewer, session: str, n: int
    ) -> tuple[FoundLine, ...]:
        return await self.pool.read(beside, campaign, viewer, session, n)

    async def evenings(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 20
    ) -> tuple[Evening, ...]:
        if limit <= 0:
            return ()
        most = min(limit, MOST_RANKED)
        return await self.pool.read(_evenings, campaign, viewer, "", most)

    async def evening(
        self, campaign: CampaignKey, viewer: Viewer, evening: str
    ) -> Evening:
        found = await self.pool.read(_evenings, campaign, viewer, evening, 1)
        if not evening or not found:
            raise _unknown(evening)
        return found[0]

    async def unsummarised(
        self, *, before: float
    ) -> tuple[tuple[CampaignKey, str], ...]:
        return await self.pool.read_one(_unsummarised, before)

    async def lease_summary(
        self, campaign: CampaignKey, evening: str, *, before: float | None = None
    ) -> int | None:
        me, settled = key_of(self.living.holder), self.living.settled
        return await self.pool.write(_lease, me, settled, campaign, evening, before)

    async def end_lease(
        self, campaign: CampaignKey, evening: str, *, until: float | None = None
    ) -> None:
        me = key_of(self.living.holder)
        await self.pool.write(_end_lease, me, campaign, evening, until)

    async def set_summary(
        self, campaign: CampaignKey, evening: str, text: str, reach: Reach
    ) -> None:
        check_heard(reach)
        await self.pool.write(_set_summary, campaign, evening, text, reach)


def _unknown(evening: str) -> UnknownItem:
    return UnknownItem(f"there is no session {evening!r}")


# When something was said last.
_LAST: Final = """coalesce((
    select max(at) from line
    where line.campaign = evening.campaign and line.evening = evening.name
), began)"""


def _begin(
    connection: Connection, claim: Claim, at: float, within: float | None
) -> Evening:
    campaign = made_campaign(connection, claim.campaign)
    session = fit(claim.session)
    # Two of the same name in one campaign are begun one after the other.
    connection.execute("select from campaign where id = %s for update", (campaign,))
    goes_on = connection.execute(
        f"select id, name, {_LAST} from evening"
        " where campaign = %s and session = %s and ended is null",
        (campaign, session),
    ).fetchall()
    for id_, name, last in goes_on:
        if within is not None and at - last <= within:
            return _evenings(connection, claim.campaign, GAME_MASTER, name, 1)[0]
        connection.execute(
            "update evening set ended = %s where id = %s",
            (at if within is None else last, id_),
        )
    taken = connection.execute(
        "select name from evening where campaign = %s and starts_with(name, %s)",
        (campaign, f"{session}-"),
    )
    name = evening_name(session, at, {name for (name,) in taken})
    connection.execute(
        "insert into evening (campaign, name, session, began) values (%s, %s, %s, %s)",
        (campaign, name, session, at),
    )
    return Evening(id=name, session=claim.session, began=at)


def _row(connection: Connection, campaign: int, evening: str) -> int:
    row = connection.execute(
        "select id from evening where campaign = %s and name = %s",
        (campaign, fit(evening)),
    ).fetchone()
    if row is None:
        raise _unknown(evening)
    return int(row[0])


def _end(connection: Connection, key: CampaignKey, evening: str, at: float) -> None:
    done = connection.execute(
        "update evening set ended = coalesce(ended, %s) from campaign"
        " where campaign.tenant = %s and campaign.name = %s"
        " and evening.campaign = campaign.id and evening.name = %s"
        " returning evening.id",
        (at, fit(key.tenant), fit(key.campaign), fit(evening)),
    ).fetchone()
    if done is None:
        raise _unknown(evening)


def _end_idle(connection: Connection, before: float) -> None:
    connection.execute(
        f"update evening set ended = {_LAST} where ended is null and {_LAST} < %s",
        (before,),
    )


# Of several summaries, the one that the fewest NPCs may know tells the most.
_EVENINGS: Final = """
    select x.name, x.session, x.began, x.ended, told.*
    from evening x left join lateral (
        select s.text, audience.members, s.topics, s.secret
        from summary s join audience on audience.id = s.audience
        where s.evening = x.id and {summary}
        order by cardinality(members) nulls last, members collate "C", s.id limit 1
    ) told on true
    where x.campaign = %(campaign)s and (%(evening)s = '' or x.name = %(evening)s)
    and {heard}
    order by x.began desc, x.name collate "C" limit %(limit)s
"""
_HEARD: Final = """exists (
    select from line where line.campaign = x.campaign and line.evening = x.name
    and {seen})"""


def _evenings(
    connection: Connection, key: CampaignKey, viewer: Viewer, evening: str, limit: int
) -> tuple[Evening, ...]:
    """Return the evenings that the viewer heard a line of, or one of these."""
    heard = _HEARD.format(seen=seen_by(viewer, "line"))
    rows = connection.execute(
        _EVENINGS.format(
            summary=seen_by(viewer, "s"),
            heard="true" if viewer.npc is None else heard,
        ),
        {
            **viewing(campaign_id(connection, key), viewer),
            "evening": fit(evening),
            "limit": limit,
        },
        prepare=False,
    )
    return tuple(_as(*row) for row in rows)


def _as(
    name: str,
    session: str,
    began: float,
    ended: float | None,
    summary: str | None,
    *reach: Any,
) -> Evening:
    return Evening(
        id=name,
        session=session,
        began=began,
        ended=ended,
        summary=summary or "",
        reach=None if summary is None else reach_of(*reach),
    )


# The condition that an evening is to be summarised by a time.
_DUE: Final = """coalesce(ended < %(before)s and case
    when due is not null then due <= %(before)s
    else not exists (select from summary where summary.evening = evening.id)
end, false)"""


def _unsummarised(
    connection: Connection, before: float
) -> tuple[tuple[CampaignKey, str], ...]:
    rows = connection.execute(
        "select campaign.name, campaign.tenant, evening.name"
        " from evening join campaign on campaign.id = evening.campaign"
        f" where {_DUE} order by evening.id",
        {"before": before},
    )
    return tuple((CampaignKey(name, tenant), x) for name, tenant, x in rows)


def _lease(
    connection: Connection,
    me: int,
    settled: bool,
    key: CampaignKey,
    evening: str,
    before: float | None,
) -> int | None:
    row = _row(connection, campaign_id(connection, key), evening)
    values = {"row": row, "before": before, "me": me, "settled": settled}
    connection.execute("select from evening where id = %(row)s for update", values)
    found = connection.execute(
        "update evening set leased = %(me)s where id = %(row)s"
        f" and (%(before)s::float is null or {_DUE})"
        f" and (leased is null or not {held_by_another('leased')} and leased <> %(me)s)"
        " returning put_off",
        values,
    ).fetchone()
    return None if found is None else int(found[0])


def _end_lease(
    connection: Connection,
    me: int,
    key: CampaignKey,
    evening: str,
    until: float | None,
) -> None:
    connection.execute(
        "update evening set leased = null, due = %(until)s, put_off = case"
        " when %(until)s::float is null then 0 else put_off + 1 end"
        " where leased = %(me)s and campaign = %(campaign)s and name = %(evening)s",
        {
            "until": until,
            "me": me,
            "campaign": campaign_id(connection, key),
            "evening": fit(evening),
        },
    )


def _set_summary(
    connection: Connection, key: CampaignKey, evening: str, text: str, reach: Reach
) -> None:
    campaign = campaign_id(connection, key)
    row = _row(connection, campaign, evening)
    columns = known(connection, campaign, reach)
    connection.execute(
        "insert into summary (evening, text, audience, topics, secret)"
        " values (%s, %s, %s, %s, %s) on conflict (evening, audience, topics, secret)"
        " do update set text = excluded.text",
        (row, fit(text), columns.audience, columns.topics, columns.secret),
    )
