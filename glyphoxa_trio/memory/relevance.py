"""The relevance of a line for a search, from the words in it. Pure.

Like BM25: a word counts for more if few lines have it, if the line has it several
times, and if the line is short. Only lines that the viewer may see are counted, since a
score that depended on others would betray them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

# Beyond so many lines with a word, they are not counted further.
MOST_COUNTED: Final = 10_000
# Without a question, a line counts that has one word of at most ten lines, or several
# of more. Words of more lines than `MOST_RARE` do not count at all.
MOST_RARE: Final = 32
_RARE: Final = 0.3
_USUAL_LENGTH: Final = 12.0  # words of a line
_REPEATED: Final = 1.2  # the more, the more a repeated word counts
_LENGTH: Final = 0.75  # 0: the length of a line does not matter; 1: it does


def relevance(words: Sequence[str], lines_with: Mapping[str, int]) -> float:
    """Return how relevant a line is: 0 if it has none of the words, and below 1.

    Args:
      words: the words of the line.
      lines_with: for each word that is searched for, how many lines have it.
    """
    length = 1 - _LENGTH + _LENGTH * len(words) / _USUAL_LENGTH
    total = 0.0
    for word, lines in lines_with.items():
        times = words.count(word)
        often = times * (_REPEATED + 1) / (times + _REPEATED * length)
        total += often / (1 + math.log(max(1, lines)))
    return total / (total + 1)


def rare(lines_with: Mapping[str, int]) -> dict[str, int]:
    """Return the words that some lines have, but few."""
    return {word: n for word, n in lines_with.items() if 0 < n <= MOST_RARE}


def is_rare(words: Sequence[str], lines_with: Mapping[str, int]) -> bool:
    """Return True if the words of a line are rare enough, of those searched for."""
    told = set(words).intersection(lines_with)
    return sum(1 / (1 + math.log(lines_with[word])) for word in told) >= _RARE
