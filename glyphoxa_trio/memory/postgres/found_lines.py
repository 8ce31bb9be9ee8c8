"""Lines found in PostgreSQL: by their words, or the last ones.

A search asks for lines with all words of the query and, if these are too few, for lines
with any telling one. The database sorts them by an estimate of `relevance`, which knows
how many different words a line has, and the best of them get their exact relevance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.memory.contract import MOST_APART, FoundLine, FoundLines
from glyphoxa_trio.memory.entries import Line
from glyphoxa_trio.memory.relevance import (
    MOST_COUNTED,
    MOST_RARE,
    is_rare,
    relevance,
)
from glyphoxa_trio.memory.relevance import rare as rare_of
from glyphoxa_trio.memory.snippet import snippet, snippet_of_line
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.memory.words import words_in_line

from .rows import (
    AUDIENCE,
    REACH,
    Connection,
    campaign_id,
    fit,
    query_of,
    reach_of,
    seen_by,
    viewing,
)

# Beyond so many matches, the newest ones are ranked.
MOST_RANKED: Final = 100_000
_CANDIDATES: Final = 200  # lines with an exact relevance, at least

_LINE: Final = f"""
    x.session, session.name, x.n, x.at, x.text, x.speaker, x.player, x.addressee,
    x.corrected, x.seconds, x.evening, x.answers, {REACH}
    from line x join session on session.id = x.session {AUDIENCE}
"""
_HITS: Final = """
    with hit as materialized (
        select x.session, x.n, x.at, x.words from line x
        where x.words @@ %(query)s::tsquery and x.campaign = %(campaign)s
        and (%(evening)s = '' or x.evening = %(evening)s) and {seen}
        order by x.at desc, x.session desc, x.n desc limit {most} + 1
    )
    select session, n, (select count(*) from hit) from hit
    order by {estimate} desc, at desc, session desc, n desc limit %(limit)s
"""
_COUNTS: Final = """
    select counted.number from unnest(%(query)s::text[]) with ordinality
        as asked (word, place)
    cross join lateral (
        select count(*) as number from (
            select from line x
            where x.words @@ asked.word::tsquery and x.campaign = %(campaign)s
            and (%(evening)s = '' or x.evening = %(evening)s) and {seen}
            limit {most}
        ) as found
    ) as counted order by asked.place
"""


def search(
    connection: Connection,
    key: CampaignKey,
    viewer: Viewer,
    words: tuple[list[str], list[str]],
    evening: str,
    rare: bool,
    limit: int,
) -> FoundLines:
    """Return the most relevant lines with all words, or else with any telling one; with
    ``rare``, those with rare ones.

    Args:
      words: as `words_in_query` returns them.
    """
    campaign = campaign_id(connection, key)
    if not campaign:
        return FoundLines()
    limit = min(limit, MOST_RANKED)
    every, telling = words
    search_ = _Search(
        connection,
        viewer,
        viewing(campaign, viewer) | {"evening": fit(evening)},
        MOST_RARE * len(telling) if rare else max(_CANDIDATES, 2 * limit),
    )
    counts = search_.counts(telling, MOST_RARE + 1 if rare else MOST_COUNTED)
    counts = rare_of(counts) if rare else counts
    if not any(counts.values()):
        return FoundLines()
    whole, many = set[tuple[int, int]](), False
    if not rare:
        whole, many = search_.hits(query_of(every, "&"), counts)
    others = set[tuple[int, int]]()
    if rare or (len(whole) < limit and len(every) > 1):
        # Those with all words are among them.
        others, many = search_.hits(query_of([*counts], "|"), counts)
    found = []
    for line in _lines(connection, whole | others):
        said = words_in_line(line.line.text, line.line.corrected)
        if rare and not is_rare(said, counts):
            continue
        score = relevance(said, counts)
        found.append((score + set(said).issuperset(every), line))
    found.sort(key=lambda x: x[1].order)
    found.sort(key=lambda x: -x[0])
    return FoundLines(
        lines=tuple(x.found(score, telling) for score, x in found[:limit]),
        partial=many,
    )


@attrs.frozen
class _Search:
    connection: Connection
    viewer: Viewer
    values: dict[str, Any]
    limit: int

    def counts(self, words: Sequence[str], most: int) -> dict[str, int]:
        """Return how many lines with each word the viewer may see, up to a number."""
        queries = [self._scoped(query_of((word,), "&")) for word in words]
        rows = self._execute(_COUNTS, queries, most=most)
        return {word: int(n) for word, (n,) in zip(words, rows, strict=True)}

    def hits(
        self, query: str, counts: dict[str, int]
    ) -> tuple[set[tuple[int, int]], bool]:
        """Return the best lines by the estimate; True if too many match."""
        # As `relevance` does it, but for words that are repeated.
        length = "(1.0 + 1.2 * (0.25 + 0.75 * length(words) / 12.0))"
        estimate = " + ".join(
            f"((words @@ '{query_of((word,), '&').replace(chr(39), chr(39) * 2)}'"
            f"::tsquery)::int / (1 + ln({max(1, n)}.0)))"
            for word, n in counts.items()
        )
        rows = self._execute(
            _HITS,
            self._scoped(query),
            most=MOST_RANKED,
            estimate=f"({estimate}) / {length}",
        )
        return {(x[0], x[1]) for x in rows}, bool(rows) and rows[0][2] > MOST_RANKED

    def _scoped(self, query: str) -> str:
        return f"'@{self.values['campaign']}' & ({query})"

    def _execute(
        self, sql: str, query: str | list[str], **parts: Any
    ) -> list[tuple[Any, ...]]:
        return self.connection.execute(
            sql.format(seen=seen_by(self.viewer), **parts).encode(),
            {**self.values, "query": query, "limit": self.limit},
            prepare=False,
        ).fetchall()


def recent(
    connection: Connection,
    key: CampaignKey,
    viewer: Viewer,
    evening: str,
    session: str,
    until: float,
    limit: int,
) -> tuple[FoundLine, ...]:
    """Return the last lines before a time, oldest first."""
    only = "x.campaign = %(campaign)s and x.at < %(until)s"
    if evening:
        only += " and x.evening = %(evening)s"
    if session:
        only += " and session.name = %(session)s"
    rows = connection.execute(
        f"select {_LINE} where {only} and {seen_by(viewer)}"
        ' order by x.at desc, session.name collate "C" desc, x.n desc limit %(limit)s',
        {
            **viewing(campaign_id(connection, key), viewer),
            "until": until,
            "evening": fit(evening),
            "session": fit(session),
            "limit": min(limit, MOST_RANKED),
        },
        prepare=False,
    ).fetchall()
    return tuple(_LineRow.of(row).found() for row in reversed(rows))


def beside(
    connection: Connection, key: CampaignKey, viewer: Viewer, session: str, n: int
) -> tuple[FoundLine, ...]:
    """Return a line with the one before and the one after it."""
    rows = connection.execute(
        f"select {_LINE} where session.tenant = %(tenant)s"
        " and session.name = %(session)s and x.campaign = %(campaign)s"
        f" and x.n between %(n)s - {MOST_APART} and %(n)s + {MOST_APART}"
        f" and {seen_by(viewer)} order by x.n",
        {
            **viewing(campaign_id(connection, key), viewer),
            "tenant": fit(key.tenant),
            "session": fit(session),
            "n": n,
        },
        prepare=False,
    ).fetchall()
    near = [_LineRow.of(row) for row in rows]
    evening = next((x.line.evening for x in near if x.row[1] == n), None)
    same = [x for x in near if x.line.evening == evening]
    before = [x for x in same if x.row[1] < n][-1:]
    after = [x for x in same if x.row[1] >= n][:2]
    return tuple(x.found() for x in before + after)


@attrs.frozen
class _LineRow:
    """A line that was read; ``row`` is its key."""

    row: tuple[int, int]
    session: str
    at: float
    line: Line

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> _LineRow:
        key, session, n, at, text, speaker, player, to, corrected, seconds, *rest = row
        evening, answers, *reach = rest
        line = Line(
            text=text,
            speaker=speaker,
            player=player,
            to=to,
            reach=reach_of(*reach),
            corrected=corrected,
            seconds=seconds,
            evening=evening,
            answers=answers,
        )
        return cls((key, n), session, at, line)

    @property
    def order(self) -> tuple[float, str, int]:
        """Newest first."""
        return -self.at, self.session, -self.row[1]

    def found(self, score: float = 0.0, words: Sequence[str] = ()) -> FoundLine:
        text, corrected = self.line.text, self.line.corrected
        return FoundLine(
            session=self.session,
            n=self.row[1],
            at=self.at,
            line=self.line,
            snippet=snippet_of_line(text, corrected, words)
            if words
            else snippet(text, ()),
            score=score,
        )


def _lines(connection: Connection, rows: set[tuple[int, int]]) -> list[_LineRow]:
    wanted = sorted(rows)
    found = connection.execute(
        f"select {_LINE} join unnest(%s::bigint[], %s::bigint[]) as wanted (s, n)"
        " on wanted.s = x.session and wanted.n = x.n",
        ([s for s, _ in wanted], [n for _, n in wanted]),
    )
    return [_LineRow.of(row) for row in found]
