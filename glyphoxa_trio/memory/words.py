"""The words of a text and of a query, as the stores compare them. Pure."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Collection
from typing import Final

from .errors import QueryRefused

MOST_QUERY: Final = 1000  # characters
MOST_WORDS: Final = 32  # words of a query that count
_WORD: Final = re.compile(r"[^\W_]+")
# Words that are in nearly every line. A line that has only these in common with a query
# does not match.
_COMMON: Final = """
    a about an and are as at be been but by can did do does for from had has have he
    her him his how i if in is it its me my no not of on or our she so that the their
    them then there they this to us was we were what when where which who why will with
    you your"""
COMMON: Final = frozenset(_COMMON.split())


def words_of(text: str) -> list[str]:
    """Return the words of a text: casefolded, without accents, in order."""
    if text.isascii():
        return _WORD.findall(text.lower())
    # Mathematical letters have a small form only after they are decomposed, and small
    # forms may have to be decomposed again.
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = unicodedata.normalize("NFKD", plain)
    return _WORD.findall("".join(x for x in plain if not unicodedata.combining(x)))


def words_in_line(text: str, corrected: str) -> list[str]:
    """Return the words of a line, and those of its correction that are new."""
    words = words_of(text)
    if corrected:
        said = set(words)
        words += [word for word in words_of(corrected) if word not in said]
    return words


def folded(name: str) -> str:
    """Return the words of a name as one text, by which names are compared."""
    return " ".join(words_of(name))


def words_in_query(query: str) -> tuple[list[str], list[str]]:
    """Return all different words of a query, and those that are not common.

    Raises:
      QueryRefused: there is no word in it, or it is longer than 1,000 characters.
    """
    if len(query) > MOST_QUERY:
        raise QueryRefused(f"the query has more than {MOST_QUERY} characters")
    words = list(dict.fromkeys(words_of(query)))[:MOST_WORDS]
    if not words:
        raise QueryRefused("the query has no word in it; give one or more words")
    return words, [word for word in words if word not in COMMON] or words


def evening_name(session: str, at: float, taken: Collection[str]) -> str:
    """Return an id for an evening of a session that is not among those ``taken``."""
    day = time.strftime("%Y-%m-%d", time.localtime(at))
    name, number = f"{session}-{day}", 1
    while name in taken:
        number += 1
        name = f"{session}-{day}-{number}"
    return name
