"""Names as they are compared: their words, letters, and parts that count. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from glyphoxa_trio.memory.contract import Named
from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import EVERYONE
from glyphoxa_trio.memory.words import (
    COMMON,
    has_no_spaces,
    parts_of,
    plain_letters,
)
from glyphoxa_trio.npc.topics import names_of

from .common_words import is_common

LEAST_LETTERS: Final = 4  # of a name that is found although misheard
MOST_LETTERS: Final = 40
_PEOPLE: Final = (EntityKind.NPC, EntityKind.PLAYER)
_ARTICLES: Final = ("the", "a", "an")
# In a text whose letters are "a", marks and joiners "m", and others " ".
_TOKEN: Final = re.compile(r"a[am]*")
_SENTENCE: Final = re.compile(r"[.!?:\n]")


class _Shape(dict[int, str]):
    def __missing__(self, code: int) -> str:
        letter = chr(code)
        mark = unicodedata.category(letter) in ("Mn", "Mc", "Cf")
        self[code] = shape = "a" if letter.isalnum() else "m" if mark else " "
        return shape


_SHAPE: Final = _Shape()


class NameWord(NamedTuple):
    """A word of a text, or a part of one, in plain letters.

    ``named``: it is written like a name. ``joined``: it goes on with the one before it,
    as the characters of Chinese and the syllables of Korean and Thai do.
    """

    word: str
    start: int
    end: int
    named: bool
    joined: bool = False


class NameKey(NamedTuple):
    """A name, or the beginning of one, as it is compared.

    ``letters`` is "" if it is never found by similarity. ``proper``: it is a common
    word, which is a name only with a capital letter.
    """

    of: Named
    words: tuple[str, ...]
    spelled: str
    whole: bool
    proper: bool
    letters: str = ""
    code: str = ""


def tokens_of(text: str) -> list[NameWord]:
    """Return the words of a text, with their places."""
    tokens: list[NameWord] = []
    loud = text.isupper()
    end = 0
    for found in _TOKEN.finditer(text.translate(_SHAPE)):
        start, said = found.start(), text[found.start() : found.end()]
        # The "s" of "Greymantle's" belongs to no name.
        if said in "sS" and tokens and text[end:start] in ("'", "\u2019"):
            end = found.end()
            continue
        begins = not tokens or _SENTENCE.search(text, end, start) is not None
        end = found.end()
        if said.isascii():
            named = said[0].isupper() and not begins and not loud
            tokens.append(NameWord(said.casefold(), start, end, named))
            continue
        before = ""
        for sort, first, last in parts_of(said):
            part = said[first:last]
            named = part[0].isupper() and not begins and not loud
            if word := "".join(plain_letters(part).split()):
                joined = sort == before and sort not in ("spaced", "katakana")
                tokens.append(
                    NameWord(word, start + first, start + last, named, joined)
                )
            before = sort
    return tokens


def everyone_knows(
    names: Iterable[Named], each: Callable[[Sequence[Named]], Iterable[Named]] = iter
) -> tuple[tuple[str, str], ...]:
    """Return the names that every NPC may know, for the choice of a tier.

    Each comes with the NPC whose own name it is, or "". A name that only a few may
    know, or that is secret, is left out: a slower tier would betray it. ``each`` goes
    through them.
    """
    public = [named for named in names if named.reach == EVERYONE]
    own: dict[str, list[str]] = {}
    for named in public:
        if named.kind is EntityKind.NPC:
            own.setdefault(named.entity, []).append(named.name)
    pairs: dict[tuple[str, str], None] = {}
    for named in each(public):
        for key in keys_of(named):
            if key.proper:
                continue
            for owner in own.get(named.entity, ("",)):
                pairs[key.spelled, owner] = None
    return tuple(pairs)


def keys_of(named: Named) -> list[NameKey]:
    """Return a name, and the parts of it that stand for the whole."""
    tokens = tokens_of(named.name)
    if len(tokens) > 2 and tokens[0].word in _ARTICLES:
        tokens = tokens[1:]
    if not tokens:
        return []
    words = tuple(token.word for token in tokens)
    common = [is_common(word) and not has_no_spaces(word) for word in words]
    proper = len(words) == 1 and common[0]
    letters = "" if proper or words[0] in COMMON else _letters(words)
    meant = named.name[tokens[0].start : tokens[-1].end]
    keys = [NameKey(named, words, meant, True, proper, letters)]
    keys += [
        # "Greymantle" of "Greymantle the Sage", but not "Greymantle the", nor "Black".
        _part(named, tokens[:count])
        for count in range(1, len(words))
        if not tokens[count].joined
        and not all(common[:count])
        and words[count - 1] not in COMMON
    ]
    if named.kind in _PEOPLE and len(words) > 1:
        parts = set(names_of(named.name))
        begins = [at for at in range(1, len(words)) if not tokens[at].joined]
        keys += [
            _part(named, tokens[at:end])
            for at, end in pairwise([*begins, len(words)])
            if "".join(words[at:end]) in parts and not common[at]
        ]
    return keys


def _part(named: Named, tokens: Sequence[NameWord]) -> NameKey:
    words = tuple(token.word for token in tokens)
    meant = named.name[tokens[0].start : tokens[-1].end]
    return NameKey(named, words, meant, False, False, _letters(words))


def _letters(words: Sequence[str]) -> str:
    letters = "".join(words)
    fits = LEAST_LETTERS <= len(letters) <= MOST_LETTERS
    return letters if fits and letters.isascii() else ""
