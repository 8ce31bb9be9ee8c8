"""The full-text index of lines: what is written into it, and queries for it.

The table ``line_words`` holds words as `words_in_line` makes them, so that a search
finds the same as everywhere else. Each word begins with the number of its campaign: a
query never reads what is said in another one. "The dragon!", said in campaign 5,
becomes "5zthe 5zdragon" (the number is hexadecimal, and "z" ends it).

The rowid of a line in it is not the line's id, but contains it, and the audience::

    row_of(line=7, audience=3)    7 * 2**20 + 3

So a query can leave out what a viewer did not hear without looking at other tables.
Rows are in the order in which the lines were written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import apsw

from glyphoxa_trio.memory.rebuilding import ROWS
from glyphoxa_trio.memory.words import folded, words_in_line

BITS: Final = 20
# Audiences from this number on are searched by the game master alone.
MOST_AUDIENCES: Final = (1 << BITS) - 1


def row_of(line: int, audience: int) -> int:
    """Return the rowid of a line in the index."""
    return line << BITS | min(audience, MOST_AUDIENCES)


def add_words(
    connection: apsw.Connection,
    *,
    line: int,
    campaign: int,
    audience: int,
    text: str,
    corrected: str = "",
) -> None:
    """Index a line, inside the transaction that adds it to the table ``line``."""
    words = words_in_line(text, corrected)
    prefix = f"{campaign:x}z"
    marked = prefix + f" {prefix}".join(words) if words else ""
    connection.execute(
        "insert into line_words (rowid, words) values (?, ?)",
        (row_of(line, audience), marked),
    )


def add_fact_words(
    connection: apsw.Connection, id_: int, campaign: int, text: str
) -> None:
    """Index a fact."""
    connection.execute(
        "insert into fact_words (rowid, scope, text) values (?, ?, ?)",
        (id_, f"c{campaign}", folded(text)),
    )


def query_of(campaign: int, words: Iterable[str], *, every: bool = False) -> str:
    """Return a query for lines with one of these words at least, or with every one.

    Words have no character in them that is syntax.
    """
    quoted = (f'"{campaign:x}z{word}"' for word in words)
    return (" AND " if every else " OR ").join(quoted)


def is_stale(connection: apsw.Connection) -> bool:
    """Return True if an older version wrote words that are to be written anew."""
    return connection.execute("select 1 from stale_words").get is not None


def rebuild(connection: apsw.Connection) -> bool:
    """Write the words of some rows anew, the newest first; return False at the end."""
    stale = connection.execute(
        # Names first: without them, nothing is known of what is said.
        "select what, upto from stale_words"
        " order by what <> 'name', what <> 'fact' limit 1"
    ).get
    if stale is None:
        return False
    what, upto = stale
    table = "entity" if what == "name" else what
    lowest: int | None = connection.execute(
        f"select min(id) from (select id from {table} where id <= ?"
        f" order by id desc limit {ROWS})",
        (upto,),
    ).get
    if lowest is None:
        connection.execute("delete from stale_words where what = ?", (what,))
        return True
    _REBUILD[what](connection, lowest, upto)
    connection.execute(
        "update stale_words set upto = ? where what = ?", (lowest - 1, what)
    )
    return True


def _names(connection: apsw.Connection, first: int, last: int) -> None:
    rows: list[tuple[Any, ...]] = connection.execute(
        "select entity, place, name, folded from name where entity between ? and ?",
        (first, last),
    ).fetchall()
    connection.executemany(
        "update name set folded = ? where entity = ? and place = ?",
        [
            (words, entity, place)
            for entity, place, name, was in rows
            if (words := folded(name)) != was
        ],
    )


def _facts(connection: apsw.Connection, first: int, last: int) -> None:
    rows: list[tuple[Any, ...]] = connection.execute(
        "select id, campaign, text || ' ' || (select coalesce(group_concat(value, ' '),"
        " '') from json_each(keywords)) from fact where id between ? and ?",
        (first, last),
    ).fetchall()
    for id_, campaign, text in rows:
        if not text.isascii():  # those have the same words as ever
            connection.execute("delete from fact_words where rowid = ?", (id_,))
            add_fact_words(connection, id_, campaign, text)


def _lines(connection: apsw.Connection, first: int, last: int) -> None:
    rows: list[tuple[Any, ...]] = connection.execute(
        "select id, campaign, audience, text, corrected from line"
        " where id between ? and ?",
        (first, last),
    ).fetchall()
    for id_, campaign, audience, text, corrected in rows:
        if not (text.isascii() and corrected.isascii()):
            connection.execute(
                "delete from line_words where rowid = ?", (row_of(id_, audience),)
            )
            add_words(
                connection,
                line=id_,
                campaign=campaign,
                audience=audience,
                text=text,
                corrected=corrected,
            )


_REBUILD: Final = {"name": _names, "fact": _facts, "line": _lines}
