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
from typing import Final

import apsw

from glyphoxa_trio.memory.words import words_in_line

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


def query_of(campaign: int, words: Iterable[str], *, every: bool = False) -> str:
    """Return a query for lines with one of these words at least, or with every one.

    Words have no character in them that is syntax.
    """
    quoted = (f'"{campaign:x}z{word}"' for word in words)
    return (" AND " if every else " OR ").join(quoted)
