"""How alike two names are, by letters and by sound, with the extra ``memory``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

# Sounds that recognizers confuse, and all vowels at the beginning.
_COARSE: Final = str.maketrans("0BJGZEIOU", "TPXKSAAAA")
_Y: Final = re.compile(r"y(?![aeiou])")


class Likeness(NamedTuple):
    """The functions of the extra. ``of`` returns a similarity from 0 to 1."""

    of: Callable[[str, str], float]
    metaphone: Callable[[str], str]

    def sound(self, letters: str) -> str:
        """Return a code of how ASCII letters sound, the same for sounds that are often
        confused."""
        return self.metaphone(_Y.sub("i", letters)).translate(_COARSE)


@cache
def likeness() -> Likeness | None:
    """Return the functions, or None if the extra is not installed."""
    try:
        from jellyfish import metaphone
        from rapidfuzz.distance.OSA import normalized_similarity
    except ImportError:
        return None
    return Likeness(normalized_similarity, metaphone)


def codes_near(code: str) -> Iterator[str]:
    """Yield a code, and those without one of its sounds."""
    yield code
    if len(code) > 3:
        for at in range(len(code)):
            yield code[:at] + code[at + 1 :]
