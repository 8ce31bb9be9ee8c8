"""Whether two transcripts say the same: pure, and careful where it matters.

A recogniser's last partial and its final text differ in case, punctuation and
blanks. What a sign says inside a word stays: "2d6+3" is not "2d6-3".
"""

from __future__ import annotations

import unicodedata
from typing import Final

_QUOTES: Final = str.maketrans({"\u2019": "'", "\u2018": "'"})
# What is at the edge of a word only because of the sentence it is in.
_EDGES: Final = (
    ".,;:!?\u00a1\u00bf()[]{}\"'\u201c\u201d\u201e\u201a\u00ab\u00bb\u2013\u2014"
)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a transcript, as they are compared."""
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    words = (word.strip(_EDGES) for word in plain.split())
    return tuple(word for word in words if word)
