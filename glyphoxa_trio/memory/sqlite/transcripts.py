"""The lines that were said, in a memory file, and the evenings they were said in."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import apsw
import attrs

from glyphoxa_trio.memory.contract import FoundLine, FoundLines
from glyphoxa_trio.memory.entries import Claim, Evening, Holder, check_heard
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.visibility import (
    GAME_MASTER,
    CampaignKey,
    Reach,
    Viewer,
)
from glyphoxa_trio.memory.words import evening_name, words_in_query
from glyphoxa_trio.storage.pool import SqlitePool

from .audiences import (
    EVERY_NPC,
    Sight,
    audience_row,
    campaign_row,
    plain,
    reach_of,
    sight_of,
)
from .found_lines import beside, recent, search
from .holders import is_alive

_MOST_EVENINGS: Final = 10_000


@attrs.frozen(eq=False)
class SqliteTranscripts:
    """The lines that were said, in a memory file."""

    _pool: SqlitePool
    _holder: Holder

    async def begin_evening(
        self, claim: Claim, at: float, *, within: float | None = None
    ) -> Evening:
        """Begin an evening of a session; one that still goes on ends first."""
        return await self._pool.write(_begin, claim, at, within)

    async def end_evening(self, campaign: CampaignKey, evening: str, at: float) -> None:
        """End an evening. Ending it twice changes nothing."""
        await self._pool.write(_end, campaign, evening, at)

    async def end_idle(self, *, before: float) -> None:
        """End the evenings in which nothing was said since that time."""
        await self._pool.write(_end_idle, before)

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
        """Return the lines that match the words of ``query``, most relevant first.

        The score is between 1 and 2 for lines with all words, and below 1 for others.

        Raises:
          QueryRefused: it has no word in it, or is too long.
        """
        words = words_in_query(query)
        if limit <= 0:
            return FoundLines()
        return await self._pool.read(
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
        """Return the last lines before a time, oldest first."""
        if limit <= 0:
            return ()
        until = math.inf if before is None else before
        return await self._pool.read(
            recent, campaign, viewer, evening, session, until, limit
        )

    async def beside(
        self, campaign: CampaignKey, viewer: Viewer, session: str, n: int
    ) -> tuple[FoundLine, ...]:
        """Return a line with the one before and the one after it."""
        return await self._pool.read(beside, campaign, viewer, session, n)

    async def evenings(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 20
    ) -> tuple[Evening, ...]:
        """Return the evenings that the viewer heard a line of, newest first."""
        if limit <= 0:
            return ()
        most = min(limit, _MOST_EVENINGS)
        return await self._pool.read(_evenings, campaign, viewer, most)

    async def evening(
        self, campaign: CampaignKey, viewer: Viewer, evening: str
    ) -> Evening:
        """Return one evening.

        Raises:
          UnknownItem: there is none of that id, or the viewer heard no line of it.
        """
        return await self._pool.read(_evening, campaign, viewer, evening)

    async def unsummarised(
        self, *, before: float
    ) -> tuple[tuple[CampaignKey, str], ...]:
        """Return the evenings that are to be summarised by that time."""
        return await self._pool.read(_unsummarised, before)

    async def lease_summary(
        self, campaign: CampaignKey, evening: str, *, before: float | None = None
    ) -> int | None:
        """Lease an evening to summarise it, and return how often that was put off."""
        return await self._pool.write(self._lease, campaign, evening, before)

    def _lease(
        self,
        connection: apsw.Connection,
        key: CampaignKey,
        evening: str,
        before: float | None,
    ) -> int | None:
        put_off: int
        id_ = _row_of(connection, key, evening)
        leased, put_off, due = connection.execute(
            f"select leased, put_off, {_DUE} from evening where id = ?", (before, id_)
        ).get
        if leased and is_alive(self._pool.path, leased):
            return None
        if before is not None and not due:
            return None
        connection.execute(
            "update evening set leased = ? where id = ?", (self._holder.id, id_)
        )
        return put_off

    async def end_lease(
        self, campaign: CampaignKey, evening: str, *, until: float | None = None
    ) -> None:
        """Give this holder's lease of an evening back, if it still has it."""
        await self._pool.write(_end_lease, campaign, evening, self._holder.id, until)

    async def set_summary(
        self, campaign: CampaignKey, evening: str, text: str, reach: Reach
    ) -> None:
        """Set the summary of an evening; one of the same reach is replaced."""
        check_heard(reach)
        await self._pool.write(_set_summary, campaign, evening, text, reach)


# When something was said last, found for each audience in the index.
_LAST: Final = """coalesce((
    select max((
        select max(at) from line where line.campaign = evening.campaign
        and line.audience = audience.id and line.evening = evening.id
    )) from audience where audience.campaign = evening.campaign or audience.id = 0
), began)"""


def _begin(
    connection: apsw.Connection, claim: Claim, at: float, within: float | None
) -> Evening:
    campaign = campaign_row(connection, claim.campaign)
    session = connection.execute(
        "select id from session where tenant = ? and name = ?",
        (plain(claim.tenant), plain(claim.session)),
    ).get
    goes_on: list[tuple[Any, ...]] = connection.execute(
        f"select id, name, began, {_LAST} from evening"
        " where session = ? and ended is null",
        (session,),
    ).fetchall()
    for id_, name, began, last in goes_on:
        if within is not None and at - last <= within:
            sight = sight_of(connection, claim.campaign, GAME_MASTER)
            assert sight is not None
            return _as(connection, sight, (id_, name, claim.session, began, None))
        connection.execute(
            "update evening set ended = ? where id = ?",
            (at if within is None else last, id_),
        )
    first = plain(claim.session)
    taken = connection.execute(
        "select name from evening where campaign = ? and name between ? and ?",
        (campaign, f"{first}-", f"{first}."),  # "." is the next character after "-"
    )
    name = evening_name(claim.session, at, {name for (name,) in taken})
    connection.execute(
        "insert into evening (campaign, name, session, began) values (?, ?, ?, ?)",
        (campaign, plain(name), session, at),
    )
    return Evening(id=name, session=claim.session, began=at)


def _row_of(connection: apsw.Connection, key: CampaignKey, evening: str) -> int:
    found: int | None = connection.execute(
        """select evening.id from evening join campaign on campaign.id = campaign
        where tenant = ? and campaign.name = ? and evening.name = ?""",
        (plain(key.tenant), plain(key.campaign), plain(evening)),
    ).get
    if found is None:
        raise _unknown(evening)
    return found


def _unknown(evening: str) -> UnknownItem:
    return UnknownItem(f"there is no session {evening!r}")


def _end(
    connection: apsw.Connection, key: CampaignKey, evening: str, at: float
) -> None:
    connection.execute(
        "update evening set ended = ? where id = ? and ended is null",
        (at, _row_of(connection, key, evening)),
    )


def _end_idle(connection: apsw.Connection, before: float) -> None:
    connection.execute(
        f"update evening set ended = {_LAST} where ended is null and {_LAST} < ?",
        (before,),
    )


_EVENING: Final = """
    evening.id, evening.name, session.name, began, evening.ended
    from evening join session on session.id = evening.session
"""


def _evenings(
    connection: apsw.Connection, key: CampaignKey, viewer: Viewer, limit: int
) -> tuple[Evening, ...]:
    sight = sight_of(connection, key, viewer)
    if sight is None:
        return ()
    if viewer.npc is None:
        rows = connection.execute(
            f"""select {_EVENING} where evening.campaign = ?
            order by began desc, evening.name limit ?""",
            (sight.campaign, limit),
        )
    else:
        # From each audience the newest evenings, found one by one in the index: the
        # rows of evenings are in the order in which they began.
        rows = connection.execute(
            f"""with recursive heard (audience, evening, place) as (
                select value, (
                    select max(evening) from line
                    where campaign = :campaign and audience = value
                ), 1 from json_each(:audiences)
                union all
                select audience, (
                    select max(evening) from line
                    where campaign = :campaign and audience = heard.audience
                    and evening < heard.evening
                ), place + 1 from heard
                where evening is not null and place < :limit
            )
            select {_EVENING} where evening.id in (select evening from heard)
            order by began desc, evening.name limit :limit""",
            {
                "campaign": sight.campaign,
                "audiences": json.dumps(sight.audiences),
                "limit": limit,
            },
        )
    return tuple(_as(connection, sight, row) for row in rows.fetchall())


def _evening(
    connection: apsw.Connection, key: CampaignKey, viewer: Viewer, evening: str
) -> Evening:
    row_of = _row_of(connection, key, evening)
    sight = sight_of(connection, key, viewer)
    assert sight is not None
    heard = (
        viewer.npc is None
        or connection.execute(
            """select exists (select 1 from line where campaign = ? and evening = ?
        and audience in (select value from json_each(?)))""",
            (sight.campaign, row_of, json.dumps(sight.audiences)),
        ).get
    )
    if not heard:
        raise _unknown(evening)
    row = connection.execute(f"select {_EVENING} where evening.id = ?", (row_of,)).get
    return _as(connection, sight, row)


def _as(connection: apsw.Connection, sight: Sight, row: tuple[Any, ...]) -> Evening:
    id_, name, session, began, ended = row
    condition, values = sight.heard()
    # The one that the fewest may know tells the most; `members` is sorted.
    summary = connection.execute(
        f"""select text, members from summary join audience on audience.id = audience
        where evening = ? and {condition}
        order by audience = {EVERY_NPC}, json_array_length(members), members limit 1""",
        (id_, *values),
    ).get
    text, reach = ("", None) if summary is None else (summary[0], reach_of(summary[1]))
    return Evening(
        id=name, session=session, began=began, ended=ended, summary=text, reach=reach
    )


# The condition that an evening is to be summarised by a time.
_DUE: Final = """coalesce(ended < ?1 and case
    when due is not null then due <= ?1
    else not exists (select 1 from summary where summary.evening = evening.id)
end, false)"""


def _unsummarised(
    connection: apsw.Connection, before: float
) -> tuple[tuple[CampaignKey, str], ...]:
    rows = connection.execute(
        f"""select campaign.name, tenant, evening.name
        from evening join campaign on campaign.id = campaign
        where {_DUE} order by evening.id""",
        (before,),
    )
    return tuple((CampaignKey(name, tenant), evening) for name, tenant, evening in rows)


def _end_lease(
    connection: apsw.Connection,
    key: CampaignKey,
    evening: str,
    holder: str,
    until: float | None,
) -> None:
    connection.execute(
        """update evening set leased = '', due = ?1,
        put_off = case when ?1 is null then 0 else put_off + 1 end
        where leased = ?2 and name = ?3 and campaign = (
            select id from campaign where tenant = ?4 and name = ?5
        )""",
        (until, holder, plain(evening), plain(key.tenant), plain(key.campaign)),
    )


def _set_summary(
    connection: apsw.Connection,
    key: CampaignKey,
    evening: str,
    text: str,
    reach: Reach,
) -> None:
    row = _row_of(connection, key, evening)
    campaign = campaign_row(connection, key)
    connection.execute(
        "insert or replace into summary (evening, audience, text) values (?, ?, ?)",
        (row, audience_row(connection, campaign, reach.npcs), plain(text)),
    )
