"""Tell whether a text refers to the past, or asks for something. Pure.

The phrases are those by which the tier selector chooses a slower tier.
"""

from __future__ import annotations

from functools import cache

import attrs

from glyphoxa_trio.npc.keywords import KeywordIndex, Keywords, Patterns
from glyphoxa_trio.npc.phrases_standard import (
    PAST_KEYWORDS,
    PAST_PATTERNS,
    STANDARD_UNLESS,
)
from glyphoxa_trio.npc.selection import standard_keywords


@attrs.frozen
class Reference:
    """The kind of a text.

    ``past``: it refers to the past, as "last time" does and "what did she say about
    the key". ``asks``: it asks for something that has to be looked up.
    """

    past: bool = False
    asks: bool = False


def reference_in(text: str) -> Reference:
    """Return what a text refers to. Costs some microseconds."""
    past, standard, index = _compiled()
    heard = index.hear(text)
    if past.find(heard) is not None:
        return Reference(past=True, asks=True)
    return Reference(asks=standard.find(heard) is not None)


@cache
def _compiled() -> tuple[Keywords, Keywords, KeywordIndex]:
    past = Keywords(PAST_KEYWORDS, (Patterns.of(PAST_PATTERNS, STANDARD_UNLESS),))
    standard = standard_keywords()
    return past, standard, KeywordIndex((*past.parts, *standard.parts))
