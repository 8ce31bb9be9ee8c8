"""The lines that were said, in a memory file: searched, listed, and their evenings.

A search asks the full-text index (`line_words`) twice: for lines with all words of the
query, and, if these are too few, for lines with any telling one. Each time the rows
come back ranked, and only the best are read from the table ``line``.

`recent` and `evenings` take the newest rows of each audience that the viewer is in, one
after the other, from an index: they never read what the viewer may not see.
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

import apsw
import attrs

from glyphoxa_trio.memory.contract import FoundLine, FoundLines
from glyphoxa_trio.memory.entries import Claim, Evening, Line
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.snippet import has_any, snippet
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer
from glyphoxa_trio.memory.words import evening_name, words_in_query
from glyphoxa_trio.storage.pool import P, T, Work

from .audiences import (
    EVERY_NPC,
    Sight,
    audience_row,
    campaign_row,
    plain,
    reach_of,
    sight_of,
)
from .line_words import BITS, MOST_AUDIENCES, query_of

# Beyond so many matches, the newest ones are ranked.
MOST_RANKED: Final = 100_000

_LINE: Final = """
    line.id, session.name, entry.n, line.at, line.text, line.speaker, line.player,
    line.addressee, audience.members, line.corrected, line.seconds, evening.name
    from line
    join entry on entry.id = line.id
    join session on session.id = line.session
    join audience on audience.id = line.audience
    left join evening on evening.id = line.evening
"""


class Pool(Protocol):
    """An open file, as `SqlitePool` is one."""

    async def read(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def write(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


@attrs.frozen(eq=False)
class SqliteTranscripts:
    """The lines that were said, in a memory file."""

    _pool: Pool

    async def begin_evening(self, claim: Claim, at: float) -> Evening:
        """Begin an evening of a session; one that still goes on ends first."""
        return await self._pool.write(_begin, claim, at)

    async def end_evening(self, campaign: CampaignKey, evening: str, at: float) -> None:
        """End an evening. Ending it twice changes nothing."""
        await self._pool.write(_end, campaign, evening, at)

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        query: str,
        *,
        evening: str = "",
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
        limit = min(limit, MOST_RANKED)
        return await self._pool.read(_search, campaign, viewer, words, evening, limit)

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
        until = float("inf") if before is None else before
        return await self._pool.read(
            _recent, campaign, viewer, evening, session, until, min(limit, MOST_RANKED)
        )

    async def evenings(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 20
    ) -> tuple[Evening, ...]:
        """Return the evenings that the viewer heard a line of, newest first."""
        if limit <= 0:
            return ()
        limit = min(limit, MOST_RANKED)
        return await self._pool.read(_evenings, campaign, viewer, limit)

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
        """Return the evenings that ended before that time and have no summary."""
        return await self._pool.read(_unsummarised, before)

    async def set_summary(
        self, campaign: CampaignKey, evening: str, text: str, reach: Reach
    ) -> None:
        """Set the summary of an evening; one of the same reach is replaced."""
        await self._pool.write(_set_summary, campaign, evening, text, reach)


def _search(
    connection: apsw.Connection,
    key: CampaignKey,
    viewer: Viewer,
    words: tuple[list[str], list[str]],
    evening: str,
    limit: int,
) -> FoundLines:
    sight = sight_of(connection, key, viewer)
    if sight is None:
        return FoundLines()
    condition, values = _heard_in(connection, sight, evening)
    if condition is None:
        return FoundLines()
    every, telling = words
    query = query_of(sight.campaign, every, every=True)
    found, partial = _ranked(connection, query, condition, values, limit)
    scores = {row >> BITS: 1 + score for row, score in found}
    if len(scores) < limit:
        query = query_of(sight.campaign, telling, every=False)
        # Those with all words are among them, and are left out.
        most = limit + len(scores)
        found, partial = _ranked(connection, query, condition, values, most)
        others = [(row >> BITS, score) for row, score in found]
        others = [(id_, score) for id_, score in others if id_ not in scores]
        scores.update(others[: limit - len(scores)])
    rows = connection.execute(
        f"select {_LINE} where line.id in (select value from json_each(?))",
        (json.dumps(list(scores)),),
    )
    lines = {row[0]: _line(row, scores[row[0]], telling) for row in rows}
    return FoundLines(lines=tuple(lines[id_] for id_ in scores), partial=partial)


def _heard_in(
    connection: apsw.Connection, sight: Sight, evening: str
) -> tuple[str | None, tuple[Any, ...]]:
    """Return a condition on the rowid of the index, and its values.

    The condition is None if nothing can fulfil it.
    """
    condition, values = "true", tuple[Any, ...]()
    if sight.viewer.npc is not None:
        heard = [x for x in sight.audiences if x < MOST_AUDIENCES]
        condition = f"(rowid & {MOST_AUDIENCES}) in (select value from json_each(?))"
        values = (json.dumps(heard),)
    if not evening:
        return condition, values
    row = connection.execute(
        """select evening, min(line.id), max(line.id)
        from json_each(?) join line on line.campaign = ? and line.audience = value
        where evening = (select id from evening where campaign = ? and name = ?)""",
        (json.dumps(sight.audiences), sight.campaign, sight.campaign, plain(evening)),
    ).get
    if row is None or row[0] is None:
        return None, ()
    # Lines of another evening may have been written between its first and its last.
    condition += f""" and rowid between ? and ? and (rowid >> {BITS}) in (
        select id from line where campaign = ? and evening = ?
        and audience in (select value from json_each(?)))"""
    first, last = row[1] << BITS, row[2] << BITS | MOST_AUDIENCES
    heard_by = json.dumps(sight.audiences)
    return condition, (*values, first, last, sight.campaign, row[0], heard_by)


def _ranked(
    connection: apsw.Connection,
    query: str,
    condition: str,
    values: tuple[Any, ...],
    limit: int,
) -> tuple[list[tuple[int, float]], bool]:
    """Return the best rows with their scores, and whether there were too many."""
    beyond: int | None = connection.execute(
        f"""select rowid from line_words(?) where {condition}
        order by rowid desc limit 1 offset {MOST_RANKED}""",
        (query, *values),
    ).get
    # SQLite's bm25() is the less, the better. Called as a function, and not ordered by
    # `rank`, only the best rows are sorted.
    rows = connection.execute(
        f"""select rowid, bm25(line_words) as cost from line_words(?)
        where {condition} and rowid > ? order by cost, rowid desc limit ?""",
        (query, *values, beyond or 0, limit),
    )
    # Between 0 and 1, so that a line with all words can be above.
    return [(row, cost / (cost - 1)) for row, cost in rows], beyond is not None


def _recent(
    connection: apsw.Connection,
    key: CampaignKey,
    viewer: Viewer,
    evening: str,
    session: str,
    until: float,
    limit: int,
) -> tuple[FoundLine, ...]:
    sight = sight_of(connection, key, viewer)
    if sight is None:
        return ()
    only = "campaign = ?"
    values: list[Any] = [sight.campaign]
    if session:
        only += """ and session = (select id from session
            where campaign = ? and name = ?)"""
        values += sight.campaign, plain(session)
    if evening:
        only += """ and evening = (select id from evening
            where campaign = ? and name = ?)"""
        values += sight.campaign, plain(evening)
    rows = connection.execute(
        f"""select {_LINE} where line.id in (
            select newest.id from json_each(?) as heard join line as newest
            on newest.id in (
                select id from line where audience = heard.value and {only}
                and at < ? order by at desc, id desc limit ?
            )
        ) order by line.at desc, line.id desc limit ?""",
        (json.dumps(sight.audiences), *values, until, limit, limit),
    )
    return tuple(_line(row) for row in reversed(rows.fetchall()))


def _line(
    row: tuple[Any, ...], score: float = 0.0, words: list[str] | None = None
) -> FoundLine:
    (_, session, n, at, text, speaker, player, to, members, corrected, *rest) = row
    seconds, evening = rest
    line = Line(
        text=text,
        speaker=speaker,
        player=player,
        to=to,
        reach=reach_of(members),
        corrected=corrected,
        seconds=seconds,
        evening=evening or "",
    )
    shown = text
    if words and corrected and not has_any(text, words):
        shown = corrected
    return FoundLine(
        session=session,
        n=n,
        at=at,
        line=line,
        snippet=snippet(shown, words or ()),
        score=score,
    )


def _begin(connection: apsw.Connection, claim: Claim, at: float) -> Evening:
    campaign = campaign_row(connection, claim.campaign)
    session = connection.execute(
        "select id from session where tenant = ? and name = ?",
        (plain(claim.tenant), plain(claim.session)),
    ).get
    connection.execute(
        "update evening set ended = ? where session = ? and ended is null",
        (at, session),
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


def _unsummarised(
    connection: apsw.Connection, before: float
) -> tuple[tuple[CampaignKey, str], ...]:
    rows = connection.execute(
        """select campaign.name, tenant, evening.name
        from evening join campaign on campaign.id = campaign
        where ended < ?
        and not exists (select 1 from summary where evening = evening.id)
        order by evening.id""",
        (before,),
    )
    return tuple((CampaignKey(name, tenant), evening) for name, tenant, evening in rows)


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
