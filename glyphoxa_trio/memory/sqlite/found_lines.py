"""Lines found in a memory file: by their words, or the last ones.

A search asks the full-text index (`line_words`) for lines with all words of the query
and, if these are too few, for lines with any telling one. The index returns the best by
its own measure, which counts what the viewer may not see as well; their order is that
of `relevance`, which does not.

The last lines are taken from an index for each audience that the viewer is in, so that
what others heard is never read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import apsw
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

from .audiences import Sight, plain, reach_of, sight_of
from .line_words import BITS, MOST_AUDIENCES, query_of

# Beyond so many matches, the newest ones are ranked.
MOST_RANKED: Final = 100_000
_CANDIDATES: Final = 200  # lines that the index returns for a search, at least

_LINE: Final = """
    line.id, session.name, entry.n, line.at, line.text, line.speaker, line.player,
    line.addressee, audience.members, line.corrected, line.seconds, evening.name,
    line.answers
    from line
    join entry on entry.id = line.id
    join session on session.id = line.session
    join audience on audience.id = line.audience
    left join evening on evening.id = line.evening
"""


def search(
    connection: apsw.Connection,
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
    limit = min(limit, MOST_RANKED)
    sight = sight_of(connection, key, viewer)
    heard = None if sight is None else _heard(connection, sight, evening)
    if sight is None or heard is None:
        return FoundLines()
    every, telling = words
    most = max(_CANDIDATES, 2 * limit)
    counted = MOST_RARE + 1 if rare else MOST_COUNTED
    lines_with = {
        word: _counted(connection, query_of(sight.campaign, (word,)), heard, counted)
        for word in telling
    }
    whole, partial, others = list[int](), False, list[int]()
    if rare:
        lines_with = rare_of(lines_with)
        most = MOST_RARE * len(lines_with)  # all of them
    else:
        query = query_of(sight.campaign, every, every=True)
        whole, partial = _candidates(connection, query, heard, most)
    if len(whole) < limit and lines_with:
        # Those with all words are among them.
        rarest = _rarest(lines_with)
        query = query_of(sight.campaign, rarest)
        others, partial = _candidates(connection, query, heard, most)
        partial = partial or len(rarest) < len(telling)
    found = []
    for line in _lines(connection, {*whole, *others}):
        said = words_in_line(line.text, line.corrected)
        if rare and not is_rare(said, lines_with):
            continue
        score = relevance(said, lines_with)
        found.append((score + set(said).issuperset(every), line))
    found.sort(key=lambda x: (-x[0], -x[1].at, -x[1].id))
    return FoundLines(
        lines=tuple(x.found(score, telling) for score, x in found[:limit]),
        partial=partial,
    )


def recent(
    connection: apsw.Connection,
    key: CampaignKey,
    viewer: Viewer,
    evening: str,
    session: str,
    until: float,
    limit: int,
) -> tuple[FoundLine, ...]:
    """Return the last lines before a time, oldest first."""
    limit = min(limit, MOST_RANKED)
    sight = sight_of(connection, key, viewer)
    if sight is None:
        return ()
    only = "campaign = ?"
    values: list[Any] = [sight.campaign]
    for table, name in (("session", session), ("evening", evening)):
        if name:
            only += f" and {table} = (select id from {table}"
            only += " where campaign = ? and name = ?)"
            values += sight.campaign, plain(name)
    newest = connection.execute(
        f"""select newest.id from json_each(?) as heard join line as newest
        on newest.id in (
            select id from line where audience = heard.value and {only}
            and at < ? order by at desc, id desc limit ?
        ) order by newest.at desc, newest.id desc limit ?""",
        (json.dumps(sight.audiences), *values, until, limit, limit),
    )
    lines = _lines(connection, [id_ for (id_,) in newest])
    lines.sort(key=lambda x: (x.at, x.id))
    return tuple(line.found() for line in lines)


def beside(
    connection: apsw.Connection, key: CampaignKey, viewer: Viewer, session: str, n: int
) -> tuple[FoundLine, ...]:
    """Return a line with the one before and the one after it."""
    sight = sight_of(connection, key, viewer)
    if sight is None:
        return ()
    near: list[Any] = connection.execute(
        """select n, line.id, line.evening from session
        join entry on entry.session = session.id and n between ? and ?
        join line on line.id = entry.id
        where tenant = ? and session.name = ? and line.campaign = ?
        and audience in (select value from json_each(?)) order by n""",
        (
            *(n - MOST_APART, n + MOST_APART, plain(key.tenant), plain(session)),
            *(sight.campaign, json.dumps(sight.audiences)),
        ),
    ).fetchall()
    evening = next((x for number, _, x in near if number == n), False)
    same = [(number, id_) for number, id_, x in near if x == evening]
    before = [id_ for number, id_ in same if number < n][-1:]
    after = [id_ for number, id_ in same if number >= n][:2]
    lines = _lines(connection, before + after)
    lines.sort(key=lambda x: x.n)
    return tuple(line.found() for line in lines)


@attrs.frozen
class _OnlyHeard:
    """A condition on the rowid of the index: what was heard, and its values."""

    condition: str
    values: tuple[Any, ...]


def _heard(
    connection: apsw.Connection, sight: Sight, evening: str
) -> _OnlyHeard | None:
    """Return the condition for a viewer; None if nothing can fulfil it."""
    condition, values = "true", tuple[Any, ...]()
    if sight.viewer.npc is not None:
        numbers = [x for x in sight.audiences if x < MOST_AUDIENCES]
        condition = f"(rowid & {MOST_AUDIENCES}) in (select value from json_each(?))"
        values = (json.dumps(numbers),)
    if not evening:
        return _OnlyHeard(condition, values)
    id_: int | None = connection.execute(
        "select id from evening where campaign = ? and name = ?",
        (sight.campaign, plain(evening)),
    ).get
    those = """from line where campaign = ? and evening = ?
        and audience in (select value from json_each(?))"""
    which = sight.campaign, id_, json.dumps(sight.audiences)
    first, last = connection.execute(f"select min(id), max(id) {those}", which).get
    if first is None:
        return None
    # Lines of other evenings may have been written between the first and the last.
    condition += f" and rowid between ? and ? and (rowid >> {BITS}) in"
    condition += f" (select id {those})"
    span = first << BITS, last << BITS | MOST_AUDIENCES
    return _OnlyHeard(condition, (*values, *span, *which))


def _candidates(
    connection: apsw.Connection, query: str, heard: _OnlyHeard, limit: int
) -> tuple[list[int], bool]:
    """Return the best lines by the index's measure, and True if too many match."""
    beyond: int | None = connection.execute(
        f"""select rowid from line_words(?) where {heard.condition}
        order by rowid desc limit 1 offset {MOST_RANKED}""",
        (query, *heard.values),
    ).get
    # bm25() is the less, the better. Ordered by the hidden column `rank`, all rows
    # would be sorted, and not only the best be kept.
    rows = connection.execute(
        f"""select rowid, bm25(line_words) as cost from line_words(?)
        where {heard.condition} and rowid > ? order by cost, rowid desc limit ?""",
        (query, *heard.values, beyond or 0, limit),
    )
    return [row >> BITS for row, _ in rows], beyond is not None


def _counted(
    connection: apsw.Connection, query: str, heard: _OnlyHeard, most: int
) -> int:
    counted: int = connection.execute(
        f"""select count(*) from (
            select 1 from line_words(?) where {heard.condition} limit {most}
        )""",
        (query, *heard.values),
    ).get
    return counted


def _rarest(lines_with: Mapping[str, int]) -> list[str]:
    """Return the words that are searched for: not more than reach `MOST_RANKED`.

    Each costs time for each match, and the frequent words tell the least.
    """
    kept, matches = list[str](), 0
    for word in sorted(lines_with, key=lambda x: lines_with[x]):
        if matches >= MOST_RANKED:
            break
        kept.append(word)
        matches += lines_with[word]
    return kept


@attrs.frozen
class _LineRow:
    """A line as it is read, in the order of `_LINE`."""

    id: int
    session: str
    n: int
    at: float
    text: str
    speaker: str
    player: str
    to: str
    members: str | None
    corrected: str
    seconds: float
    evening: str | None
    answers: str

    def found(self, score: float = 0.0, words: Sequence[str] = ()) -> FoundLine:
        return FoundLine(
            session=self.session,
            n=self.n,
            at=self.at,
            line=Line(
                text=self.text,
                speaker=self.speaker,
                player=self.player,
                to=self.to,
                reach=reach_of(self.members),
                corrected=self.corrected,
                seconds=self.seconds,
                evening=self.evening or "",
                answers=json.loads(self.answers) if self.answers else (),
            ),
            snippet=snippet_of_line(self.text, self.corrected, words)
            if words
            else snippet(self.text, ()),
            score=score,
        )


def _lines(connection: apsw.Connection, ids: Iterable[int]) -> list[_LineRow]:
    rows = connection.execute(
        f"select {_LINE} where line.id in (select value from json_each(?))",
        (json.dumps(list(ids)),),
    )
    return [_LineRow(*row) for row in rows]
