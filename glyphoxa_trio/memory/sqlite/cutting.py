"""The cutting of ended evenings into chunks, in a memory file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import apsw
import attrs

from glyphoxa_trio.memory.passages import in_passage, passages

# Lines that are cut into passages in one transaction, so that others need not wait for
# it: some 10 ms.
_CUT: Final = 500
_UNCUT: Final = "from evening where ended is not null and not whole"


def is_uncut(connection: apsw.Connection) -> bool:
    """Return True if lines of an ended evening are in no chunk."""
    return bool(connection.execute(f"select exists(select 1 {_UNCUT})").get)


def cut(connection: apsw.Connection) -> None:
    """Cut lines of ended evenings into passages: some, if there are many."""
    left = _CUT
    while left > 0:
        evening = connection.execute(f"select id {_UNCUT} order by id limit 1").get
        if evening is None:
            return
        for passage in passages(_lines(connection, evening), _heard, _said):
            _add_passage(connection, evening, passage)
            left -= len(passage)
            if left <= 0:
                break  # the evening is not whole
        else:
            connection.execute("update evening set whole = 1 where id = ?", (evening,))
            left -= 1


@attrs.frozen
class _SpokenLine:
    """A line; ``audience`` is None if it is in a chunk."""

    id: int
    audience: int | None
    at: float
    text: str


def _heard(line: _SpokenLine) -> int | None:
    return line.audience


def _said(line: _SpokenLine) -> str:
    return line.text


def _lines(connection: apsw.Connection, evening: int) -> Iterator[_SpokenLine]:
    rows = connection.execute(
        """
        select id, at, speaker, text, corrected,
            iif(exists(select 1 from source where line = line.id
                and chunk is not null), null, audience)
        from line where evening = ?1
            and campaign = (select campaign from evening where id = ?1)
            and audience in (select 0 union all select id from audience
                where campaign = (select campaign from evening where id = ?1))
        order by id
        """,
        (evening,),
    )
    for id_, at, speaker, text, corrected, audience in rows:
        yield _SpokenLine(id_, audience, at, in_passage(speaker, text, corrected))


def _add_passage(
    connection: apsw.Connection, evening: int, passage: list[_SpokenLine]
) -> None:
    first = passage[0]
    connection.execute(
        """
        insert into chunk (campaign, evening, audience, at, text)
        select campaign, id, ?, ?, ? from evening where id = ?
        """,
        (first.audience, first.at, "\n".join(map(_said, passage)), evening),
    )
    chunk = connection.last_insert_rowid()
    connection.executemany(
        "insert into source (line, chunk) values (?, ?)",
        ((line.id, chunk) for line in passage),
    )
