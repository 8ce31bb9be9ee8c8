"""A short passage of a text around the first word that was searched for. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection
from typing import Final

from .words import has_no_spaces, words_of

MOST: Final = 200  # characters of a snippet
BEFORE: Final = 60  # characters of them before the word, if the text is longer
_MOST_READ: Final = 100_000  # characters of the text in which the word is looked for
_PIECE: Final = re.compile(r"\S+")


def snippet(text: str, words: Collection[str]) -> str:
    """Return at most `MOST` characters of a text, around the first of some words.

    The text is given as it is, but for a "…" where something is left out. Without any
    of the words in it, that is its beginning.

    Args:
      words: as `words_of` returns them.
    """
    text = text.strip()
    if len(text) <= MOST:
        return text
    begin = _hit(text, words) or 0
    start = _word_before(text, begin - BEFORE) if begin > BEFORE else 0
    head = "…" if start else ""
    end = start + MOST - len(head)
    if end >= len(text):
        return head + text[start:].rstrip()
    end -= 1
    # Ends between two words, if one is not longer than half of the passage.
    space = text.rfind(" ", (start + end) // 2, end + 1)
    return head + text[start : end if space < 0 else space].rstrip() + "…"


def snippet_of_line(text: str, corrected: str, words: Collection[str]) -> str:
    """Return a snippet of a line, or of its correction if only that has the words."""
    if corrected and set(words_of(text)).isdisjoint(words):
        return snippet(corrected, words)
    return snippet(text, words)


def _hit(text: str, words: Collection[str]) -> int | None:
    wanted = frozenset(words)

    def missing(text: str) -> bool:
        return wanted.isdisjoint(words_of(text))

    for piece in _PIECE.finditer(text, 0, _MOST_READ):
        if not missing(piece[0]):
            if len(piece[0]) <= BEFORE or not has_no_spaces(piece[0]):
                return piece.start()
            # Its first part that is enough, less the word.
            ends = range(1, len(piece[0]) + 1)
            end = bisect_left(ends, 0, key=lambda n: -missing(piece[0][:n]))
            return piece.start() + max(0, end - 1)
    return None


def _word_before(text: str, at: int) -> int:
    """Return the beginning of the first word at or after ``at``."""
    space = text.find(" ", at, at + BEFORE)
    return at if space < 0 else space + 1
