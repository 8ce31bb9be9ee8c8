"""Compare transcripts word by word, and know the words that are no names. Pure.

A recognizer's last partial and its final text differ in case, punctuation and spaces.
Signs with a meaning are kept: "2d6+3" is not "2d6-3", ".5" is not "5", and 6' are not
6".
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_QUOTES: Final = str.maketrans({"\u2019": "'", "\u2018": "'"})
# Characters at the edge of a word that belong to the sentence.
_EDGES: Final = (
    ".,;:!?\u00a1\u00bf()[]{}\"'\u201c\u201d\u201e\u201a\u00ab\u00bb\u2013\u2014"
)


_BEFORE_NUMBERS: Final = ".,\u2013\u2014"  # a fraction's sign, and a minus
_AFTER_NUMBERS: Final = "\"'\u201d"  # feet, inches, minutes

# Words that are part of names and of sentences: alone they name no NPC.
STOP_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
a an the and or nor but so if as at by for from in into of off on onto out over to under
up upon with without i me my mine we us our ours you your yours he him his she her hers
it its they them their theirs this that these those who whom whose what which when where
why how am is are was were be been being do does did done have has had having can could
may might must shall should will would not no yes all any both each few more most other
some such only own same than too very just also again here there now then once ever
never always
al auf bin das de del den der des di die du el et ibn la las le les los und van von y zu
zum zur
""",
    )
)
# Titles that many have: "Captain, ..." addresses an NPC, but not "the captain".
TITLES: Final = frozenset(
    re.findall(
        r"\w+",
        """
lord lady sir dame mister mr mrs ms miss dr doctor master mistress king queen prince
princess captain sergeant guard brother sister father mother uncle aunt saint st
old young big little great small tall good bad poor dear
""",
    )
)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a transcript in the form in which they are compared."""
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    words = (_bare(word) for word in plain.split())
    return tuple(word for word in words if word)


def _bare(word: str) -> str:
    """Return the word without punctuation at its edges."""
    start = len(word) - len(word.lstrip(_EDGES))
    end = len(word.rstrip(_EDGES))
    if start >= end:
        return ""
    if start and word[start].isdigit() and word[start - 1] in _BEFORE_NUMBERS:
        start -= 1
    if word[end - 1].isdigit() and word[end : end + 1] in (*_AFTER_NUMBERS,):
        end += 1
    return word[start:end]
