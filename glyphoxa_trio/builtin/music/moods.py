"""Finding the mood that was meant: by words, related words, and spelling. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 60  # characters of a mood

_BETWEEN: Final = re.compile(r"[\s_\-]+")
_CLOSE: Final = 0.8  # as difflib measures it: one letter in five may differ
_STEM: Final = 4  # letters that two forms of one word share: spook, spooky

# Words that players and composers use for the same mood.
_KINDS: Final = tuple(
    frozenset(line.split())
    for line in (
        "battle combat fight war skirmish boss",
        "tavern inn pub bar alehouse",
        "spooky creepy scary horror eerie haunted",
        "calm peaceful relaxed quiet rest gentle",
        "sad sorrow mournful melancholy grief",
        "happy cheerful joyful merry festive",
        "tense suspense danger ominous dread",
        "epic heroic triumphant victory",
        "mystery mysterious magic arcane mystical",
        "forest woods woodland nature",
        "cave dungeon underground crypt tomb",
        "town city village market",
        "sea ocean ship sailing pirate",
        "travel journey road adventure exploration",
    )
)


def folded(text: str) -> str:
    """Return a mood as it is compared: lower case, single spaces, shortened."""
    return _BETWEEN.sub(" ", text[: 4 * LONGEST]).strip().casefold()[:LONGEST].strip()


def nearest_mood(wanted: str, moods: Iterable[str]) -> str | None:
    """Return the mood that ``wanted`` means; None if none is near.

    Args:
      moods: as `folded` returns them.
    """
    wanted = folded(wanted)
    words = wanted.split()
    best: tuple[int, int, str] | None = None
    for mood in sorted(moods):
        if mood == wanted:
            return mood
        theirs = mood.split()
        score = sum(max((_likeness(x, y) for y in theirs), default=0) for x in words)
        # Of two that match equally well, take the shorter one.
        if score and (best is None or (score, -len(mood)) > best[:2]):
            best = (score, -len(mood), mood)
    return None if best is None else best[2]


def _likeness(word: str, other: str) -> int:
    """Return how well two words match; 0 means not at all."""
    if other == word:
        return 4
    if any(word in kind and other in kind for kind in _KINDS):
        return 3
    shorter, longer = sorted((word, other), key=len)
    if len(shorter) < _STEM:
        return 0
    if longer.startswith(shorter):
        return 2
    ratio = difflib.SequenceMatcher(None, word, other).ratio()
    return 1 if ratio >= _CLOSE else 0
