"""Whether two transcripts say the same: pure, and careful where it matters.

A recogniser's last partial and its final text differ in case, punctuation and
blanks. What a sign says stays: "2d6+3" is not "2d6-3", ".5" is not "5", and 6' are
not 6".
"""

from __future__ import annotations

import unicodedata
from typing import Final

_QUOTES: Final = str.maketrans({"\u2019": "'", "\u2018": "'"})
# What is at the edge of a word only because of the sentence it is in.
_EDGES: Final = (
    ".,;:!?\u00a1\u00bf()[]{}\"'\u201c\u201d\u201e\u201a\u00ab\u00bb\u2013\u2014"
)


_BEFORE_NUMBERS: Final = ".,\u2013\u2014"  # a fraction's sign, and a minus
_AFTER_NUMBERS: Final = "\"'\u201d"  # feet, inches, minutes


def words_of(text: str) -> tuple[str, ...]:
    """The words of a transcript, as they are compared."""
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    words = (_bare(word) for word in plain.split())
    return tuple(word for word in words if word)


def _bare(word: str) -> str:
    """Without the edges that say nothing."""
    start = len(word) - len(word.lstrip(_EDGES))
    end = len(word.rstrip(_EDGES))
    if start >= end:
        return ""
    if start and word[start].isdigit() and word[start - 1] in _BEFORE_NUMBERS:
        start -= 1
    if word[end - 1].isdigit() and word[end : end + 1] in (*_AFTER_NUMBERS,):
        end += 1
    return word[start:end]
