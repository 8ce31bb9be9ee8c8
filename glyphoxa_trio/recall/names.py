"""Find the names of a campaign in what was said, even if they were misheard. Pure.

    index = NameIndex.of(await memory.graph.names(campaign))
    index.find("does gray mantel know Ysold?", viewer)      # Greymantle and Ysolde
    index.corrected("does gray mantel know Ysold?", viewer)
                                        # "does Greymantle know Ysolde?"

A name is found as it is written, without regard to case and accents; by the beginning
of a longer name; and, if `rapidfuzz` and `jellyfish` are installed (the extra
``memory``), by similar letters and sound. Names that a viewer may not know are treated
as if they did not exist.

Candidates are looked up by a code of their sound, so the cost of a search grows with
the text and hardly with the number of names.

Above 300 lines, because how names are indexed and how they are found depend on each
other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

import attrs

from glyphoxa_trio.memory.contract import Named
from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import EVERYONE, Viewer
from glyphoxa_trio.memory.words import COMMON
from glyphoxa_trio.npc.topics import names_of

from .common_words import is_common

MOST_TEXT: Final = 2000  # characters that are searched, from the end of a text
_MOST_SAME: Final = 3  # entities that one name may mean
_MOST_FOUND: Final = 32
_LEAST_LETTERS: Final = 4  # of a name that is found although misheard
_MOST_LETTERS: Final = 40
_MOST_WINDOW: Final = 4  # words that may be one misheard name
_LEAST_SCORE: Final = 0.83
_LEAST_SHORT: Final = 0.8  # of names with up to five letters
_LEAST_COMMON: Final = 0.88  # of a name that was heard as common words
_FOR_A_WORD: Final = 0.05  # so much less may a longer name be alike
_TIE: Final = 0.02
_PEOPLE: Final = (EntityKind.NPC, EntityKind.PLAYER)
_ARTICLES: Final = ("the", "a", "an")
# A letter or digit, and the rest of a word with its combining accents.
_TOKEN: Final = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_SENTENCE: Final = re.compile(r"[.!?:\n]")
# Letters that have no accent to remove.
_PLAIN: Final = str.maketrans(
    {
        "ø": "o",
        "æ": "ae",
        "œ": "oe",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "\u0131": "i",
    }
)
# Sounds that recognizers confuse, and all vowels at the beginning.
_COARSE: Final = str.maketrans("0BJGZEIOU", "TPXKSAAAA")
_Y: Final = re.compile(r"y(?![aeiou])")
Distance = Callable[[str, str], float]


class Match(StrEnum):
    """The way in which a name was found.

    ``NAME``: as it is. ``PART``: by its beginning, or by a part of a person's name.
    ``SIMILAR``: by its letters and sound.
    """

    NAME = "name"
    PART = "part"
    SIMILAR = "similar"


@attrs.frozen(kw_only=True)
class Found:
    """An entity that a text names.

    Args:
      entity: its id.
      name: its name or alias, whole.
      said: the words of the text.
      meant: the name, or the part of it, that these words are.
      place: where they begin and end in the text, in characters.
      match: how it was found.
      score: 1 if it is written so, less if it is only similar.
    """

    entity: str
    name: str
    said: str
    meant: str
    place: tuple[int, int]
    match: Match
    score: float = 1.0


class _Token(NamedTuple):
    """A word of a text, in plain letters. ``named``: it is written like a name."""

    word: str
    start: int
    end: int
    named: bool


class _Key(NamedTuple):
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


class _Hit(NamedTuple):
    key: _Key
    first: int  # tokens
    last: int
    match: Match
    score: float

    @property
    def order(self) -> tuple[bool, int, bool, float, int]:
        """The lowest is preferred."""
        similar = self.match is Match.SIMILAR
        length = self.last - self.first
        if (
            similar
        ):  # the best score counts most: what is around a name is no part of it
            more = _FOR_A_WORD * (len(self.key.words) - 1)
            return True, 0, False, -self.score - more, self.first
        return False, -length, self.match is Match.PART, 0.0, self.first


@attrs.frozen(eq=False)
class NameIndex:
    """The names of a campaign, compiled. Make it with `of`."""

    names: tuple[Named, ...] = ()
    _exact: Mapping[tuple[str, ...], Sequence[_Key]] = attrs.field(factory=dict)
    # The numbers of words of all names that begin with a word, the highest first.
    _lengths: Mapping[str, Sequence[int]] = attrs.field(factory=dict)
    _by_code: Mapping[str, Sequence[_Key]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, names: Iterable[Named]) -> NameIndex:
        """Compile names. A thousand take a few hundredths of a second."""
        names = tuple(names)
        similar = _similarity()
        exact: dict[tuple[str, ...], list[_Key]] = {}
        lengths: dict[str, set[int]] = {}
        by_code: dict[str, list[_Key]] = {}
        for named in names:
            for key in _keys_of(named):
                if similar is not None and key.letters:
                    key = key._replace(code=_coarse(similar.sound, key.letters))
                    for code in _near(key.code):
                        by_code.setdefault(code, []).append(key)
                exact.setdefault(key.words, []).append(key)
                lengths.setdefault(key.words[0], set()).add(len(key.words))
        descending = {word: sorted(x, reverse=True) for word, x in lengths.items()}
        return cls(names, exact, descending, by_code)

    def find(self, text: str, viewer: Viewer) -> tuple[Found, ...]:
        """Return the entities that a text names, in its order, at most 32.

        Of a very long text only the last 2,000 characters count. A name that several
        entities have gives each of them, up to three; one that more have gives none.
        """
        offset = max(0, len(text) - MOST_TEXT)
        tokens = _tokens(text[offset:])
        found: list[Found] = []
        for hit in self._best(tokens, viewer):
            start, end = tokens[hit.first].start, tokens[hit.last - 1].end
            start, end = start + offset, end + offset
            found.append(
                Found(
                    entity=hit.key.of.entity,
                    name=hit.key.of.name,
                    said=text[start:end],
                    meant=hit.key.spelled,
                    place=(start, end),
                    match=hit.match,
                    score=round(hit.score, 3),
                )
            )
        return tuple(found[:_MOST_FOUND])

    def corrected(self, text: str, viewer: Viewer) -> str:
        """Return the text with misheard names replaced; "" if there are none."""
        written, at = [], 0
        for found in self.find(text, viewer):
            start, end = found.place
            if found.match is Match.SIMILAR and start >= at:
                written += [text[at:start], found.meant]
                at = end
        return "".join([*written, text[at:]]) if written else ""

    def _best(self, tokens: Sequence[_Token], viewer: Viewer) -> list[_Hit]:
        """Return the hits that are preferred to all that they overlap, in order."""
        taken = [False] * len(tokens)
        best: list[_Hit] = []
        # What is written out is found first, so that only the rest is compared by
        # similarity.
        for hits in (self._written(tokens, viewer), self._similar(tokens, taken)):
            seen = [hit for hit in hits if hit.key.of.reach.reaches(viewer)]
            seen.sort(key=lambda x: x.order)
            groups: dict[tuple[int, int, Match], list[_Hit]] = {}
            for hit in seen:
                groups.setdefault((hit.first, hit.last, hit.match), []).append(hit)
            for (first, last, _), group in groups.items():
                if not any(taken[first:last]):
                    taken[first:last] = [True] * (last - first)
                    best += _one_meaning(group)
        best.sort(key=lambda x: x.first)
        return best

    def _written(self, tokens: Sequence[_Token], viewer: Viewer) -> Iterator[_Hit]:
        words = tuple(token.word for token in tokens)
        for at, token in enumerate(tokens):
            for length in self._lengths.get(token.word, ()):
                if at + length > len(words):
                    continue
                for key in self._exact.get(words[at : at + length], ()):
                    if key.proper and not token.named:
                        continue
                    match = Match.NAME if key.whole else Match.PART
                    yield _Hit(key, at, at + length, match, 1.0)

    def _similar(
        self, tokens: Sequence[_Token], taken: Sequence[bool]
    ) -> Iterator[_Hit]:
        similar = _similarity()
        if similar is None or not self._by_code:
            return
        common = [is_common(token.word) for token in tokens]
        for at, token in enumerate(tokens):
            letters = ""
            if token.word in COMMON:
                continue
            for last in range(at, min(at + _MOST_WINDOW, len(tokens))):
                if taken[last]:
                    break
                letters += tokens[last].word
                if last == at and common[at]:
                    continue
                if tokens[last].word in COMMON:
                    continue
                if not _LEAST_LETTERS <= len(letters) <= _MOST_LETTERS:
                    continue
                if not letters.isascii():
                    break
                if all(common[at : last + 1]):
                    least = _LEAST_COMMON
                elif len(letters) <= 5:
                    least = _LEAST_SHORT
                else:
                    least = _LEAST_SCORE
                for key, score in self._like(letters, similar, least):
                    yield _Hit(key, at, last + 1, Match.SIMILAR, score)

    def _like(
        self, letters: str, similar: _Similarity, least: float
    ) -> Iterator[tuple[_Key, float]]:
        code = _coarse(similar.sound, letters)
        seen: set[int] = set()
        for near in _near(code):
            for key in self._by_code.get(near, ()):
                if id(key) in seen:
                    continue
                seen.add(id(key))
                if abs(len(key.letters) - len(letters)) > 3:
                    continue
                by_letters = similar.distance(letters, key.letters)
                if by_letters < 0.5:
                    continue
                by_sound = 1.0 if code == key.code else similar.distance(code, key.code)
                score = (by_letters + by_sound) / 2
                if score >= least:
                    yield key, score


def everyone_knows(names: Iterable[Named]) -> tuple[tuple[str, str], ...]:
    """Return the names that every NPC may know, for the choice of a tier.

    Each comes with the NPC whose own name it is, or "". A name that only a few may
    know, or that is secret, is left out: a slower tier would betray it.
    """
    public = [named for named in names if named.reach == EVERYONE]
    own: dict[str, list[str]] = {}
    for named in public:
        if named.kind is EntityKind.NPC:
            own.setdefault(named.entity, []).append(named.name)
    pairs: dict[tuple[str, str], None] = {}
    for named in public:
        for key in _keys_of(named):
            if key.proper:
                continue
            for owner in own.get(named.entity, ("",)):
                pairs[key.spelled, owner] = None
    return tuple(pairs)


def _keys_of(named: Named) -> list[_Key]:
    tokens = _tokens(named.name)
    if len(tokens) > 2 and tokens[0].word in _ARTICLES:
        tokens = tokens[1:]
    if not tokens:
        return []
    words = tuple(token.word for token in tokens)
    common = [is_common(word) for word in words]
    proper = len(words) == 1 and common[0]
    letters = "" if proper or words[0] in COMMON else _letters(words)
    meant = named.name[tokens[0].start : tokens[-1].end]
    keys = [_Key(named, words, meant, True, proper, letters)]
    keys += [
        # "Greymantle" of "Greymantle the Sage", but not "Greymantle the", nor "Black".
        _part(named, tokens[:count])
        for count in range(1, len(words))
        if not all(common[:count]) and words[count - 1] not in COMMON
    ]
    if named.kind in _PEOPLE and len(words) > 1:
        parts = set(names_of(named.name))
        keys += [
            _part(named, tokens[at : at + 1])
            for at in range(1, len(words))
            if words[at] in parts and not common[at]
        ]
    return keys


def _part(named: Named, tokens: Sequence[_Token]) -> _Key:
    words = tuple(token.word for token in tokens)
    meant = named.name[tokens[0].start : tokens[-1].end]
    return _Key(named, words, meant, False, False, _letters(words))


def _letters(words: Sequence[str]) -> str:
    letters = "".join(words)
    fits = _LEAST_LETTERS <= len(letters) <= _MOST_LETTERS
    return letters if fits and letters.isascii() else ""


def _one_meaning(hits: Sequence[_Hit]) -> list[_Hit]:
    """Return a hit for each entity that is meant; none if that is not clear.

    ``hits`` are of the same words, the best first.
    """
    similar = hits[0].match is Match.SIMILAR
    hits = [hit for hit in hits if hit.score >= hits[0].score - _TIE]
    if similar and len({hit.key.spelled.casefold() for hit in hits}) > 1:
        return []
    by_entity = {hit.key.of.entity: hit for hit in reversed(hits)}
    return [*reversed(by_entity.values())] if len(by_entity) <= _MOST_SAME else []


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    loud = text.isupper()
    end = 0
    for found in _TOKEN.finditer(text):
        start, said = found.start(), found.group()
        # The "s" of "Greymantle's" belongs to no name.
        if (
            tokens
            and said in "sS"
            and text[start - 1] in "'\u2019"
            and start - 1 == end
        ):
            end = found.end()
            continue
        begins = not tokens or _SENTENCE.search(text, end, start) is not None
        end = found.end()
        named = said[0].isupper() and not begins and not loud
        tokens.append(_Token(_plain(said), start, end, named))
    return tokens


def _plain(word: str) -> str:
    word = word.casefold()
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFKD", word.translate(_PLAIN))
    return "".join(x for x in apart if not unicodedata.combining(x))


# Similarity.


class _Similarity(NamedTuple):
    """The functions of the extra: a similarity from 0 to 1, and a code of a sound."""

    distance: Distance
    sound: Callable[[str], str]


@cache
def _similarity() -> _Similarity | None:
    """Return None if the extra ``memory`` is not installed."""
    try:
        from jellyfish import metaphone
        from rapidfuzz.distance.OSA import normalized_similarity
    except ImportError:
        return None
    return _Similarity(normalized_similarity, metaphone)


def _coarse(sound: Callable[[str], str], letters: str) -> str:
    return sound(_Y.sub("i", letters)).translate(_COARSE)


def _near(code: str) -> Iterator[str]:
    """Yield a code, and those without one of its sounds."""
    yield code
    if len(code) > 3:
        for at in range(len(code)):
            yield code[:at] + code[at + 1 :]
