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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

import attrs

from glyphoxa_trio.memory.contract import Named
from glyphoxa_trio.memory.visibility import Viewer
from glyphoxa_trio.memory.words import COMMON, is_korean

from .common_words import is_common
from .likeness import Likeness, codes_near, likeness
from .name_keys import (
    LEAST_LETTERS,
    MOST_LETTERS,
    NameKey,
    NameWord,
    keys_of,
    tokens_of,
)

MOST_TEXT: Final = 2000  # characters that are searched, from the end of a text
_MOST_SAME: Final = 3  # entities that one name may mean
_MOST_FOUND: Final = 32
_MOST_NEAR: Final = 200  # names that are compiled for one text
_MOST_WINDOW: Final = 4  # words that may be one misheard name
_LEAST_SCORE: Final = 0.83
_LEAST_SHORT: Final = 0.8  # of names with up to five letters
_LEAST_COMMON: Final = 0.88  # of a name that was heard as common words
_FOR_A_WORD: Final = 0.05  # so much less may a longer name be alike
_TIE: Final = 0.02


class NameMatch(StrEnum):
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
    match: NameMatch
    score: float = 1.0


class _Hit(NamedTuple):
    key: NameKey
    first: int  # tokens
    last: int
    match: NameMatch
    score: float

    @property
    def order(self) -> tuple[bool, int, bool, float, int]:
        """The lowest is preferred."""
        similar = self.match is NameMatch.SIMILAR
        length = self.last - self.first
        if similar:
            # Not the length: what is around a name is no part of it.
            more = _FOR_A_WORD * (len(self.key.words) - 1)
            return True, 0, False, -self.score - more, self.first
        return False, -length, self.match is NameMatch.PART, 0.0, self.first


@attrs.frozen(eq=False)
class NameIndex:
    """The names of a campaign, compiled. Make it with `of`."""

    names: tuple[Named, ...] = ()
    _exact: Mapping[tuple[str, ...], Sequence[NameKey]] = attrs.field(factory=dict)
    # The numbers of words of all names that begin with a word, the highest first.
    _lengths: Mapping[str, Sequence[int]] = attrs.field(factory=dict)
    _by_code: Mapping[str, Sequence[NameKey]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, names: Iterable[Named]) -> NameIndex:
        """Compile names. A thousand take a few hundredths of a second."""
        names = tuple(names)
        similar = likeness()
        exact: dict[tuple[str, ...], list[NameKey]] = {}
        lengths: dict[str, set[int]] = {}
        by_code: dict[str, list[NameKey]] = {}
        for named in names:
            for key in keys_of(named):
                if similar is not None and key.letters:
                    key = key._replace(code=similar.sound(key.letters))
                    for code in codes_near(key.code):
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
        tokens = tokens_of(text[offset:])
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
        if not self._by_code:
            return ""
        written, at = [], 0
        for found in self.find(text, viewer):
            start, end = found.place
            if found.match is NameMatch.SIMILAR and start >= at:
                written += [text[at:start], found.meant]
                at = end
        return "".join([*written, text[at:]]) if written else ""

    def _best(self, tokens: Sequence[NameWord], viewer: Viewer) -> list[_Hit]:
        """Return the hits that are preferred to all that they overlap, in order."""
        taken = [False] * len(tokens)
        best: list[_Hit] = []
        # What is written out is found first, so that only the rest is compared by
        # similarity.
        for hits in (self._written(tokens), self._similar(tokens, taken)):
            seen = [hit for hit in hits if hit.key.of.reach.reaches(viewer)]
            seen.sort(key=lambda x: x.order)
            groups: dict[tuple[int, int, NameMatch], list[_Hit]] = {}
            for hit in seen:
                groups.setdefault((hit.first, hit.last, hit.match), []).append(hit)
            for (first, last, _), group in groups.items():
                if not any(taken[first:last]):
                    taken[first:last] = [True] * (last - first)
                    best += _one_meaning(group)
        best.sort(key=lambda x: x.first)
        return best

    def _written(self, tokens: Sequence[NameWord]) -> Iterator[_Hit]:
        words = tuple(token.word for token in tokens)
        for at, token in enumerate(tokens):
            if token.joined and is_korean(token.word):
                continue  # endings come behind a name, and nothing before it
            for length in self._lengths.get(token.word, ()):
                if at + length > len(words):
                    continue
                for key in self._exact.get(words[at : at + length], ()):
                    if key.proper and not token.named:
                        continue
                    match = NameMatch.NAME if key.whole else NameMatch.PART
                    yield _Hit(key, at, at + length, match, 1.0)

    def _similar(
        self, tokens: Sequence[NameWord], taken: Sequence[bool]
    ) -> Iterator[_Hit]:
        similar = likeness()
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
                if not LEAST_LETTERS <= len(letters) <= MOST_LETTERS:
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
                    yield _Hit(key, at, last + 1, NameMatch.SIMILAR, score)

    def _like(
        self, letters: str, similar: Likeness, least: float
    ) -> Iterator[tuple[NameKey, float]]:
        code = similar.sound(letters)
        seen: set[int] = set()
        for near in codes_near(code):
            for key in self._by_code.get(near, ()):
                if id(key) in seen:
                    continue
                seen.add(id(key))
                if abs(len(key.letters) - len(letters)) > 3:
                    continue
                by_letters = similar.of(letters, key.letters)
                if by_letters < 0.5:
                    continue
                by_sound = 1.0 if code == key.code else similar.of(code, key.code)
                score = (by_letters + by_sound) / 2
                if score >= least:
                    yield key, score


@attrs.frozen(eq=False)
class UncompiledNames(NameIndex):
    """Names that are found only as they are written: the compiled ones are being made.

    Only names that a text has a word of are looked at closely. Make it with `near`.
    """

    _by_word: Mapping[str, Sequence[Named]] = attrs.field(factory=dict, kw_only=True)

    @classmethod
    def near(cls, names: tuple[Named, ...]) -> UncompiledNames:
        """Return names. Five thousand take a hundredth of a second."""
        by_word: dict[str, list[Named]] = {}
        for named in names:
            for word in named.name.casefold().split():
                by_word.setdefault(word, []).append(named)
        return cls(names, by_word=by_word)

    def find(self, text: str, viewer: Viewer) -> tuple[Found, ...]:
        words = dict.fromkeys(token.word for token in tokens_of(text[-MOST_TEXT:]))
        few = (
            named
            for word in words
            if word not in COMMON
            for named in self._by_word.get(word, ())
        )
        return NameIndex.of(islice(few, _MOST_NEAR)).find(text, viewer)

    def corrected(self, text: str, viewer: Viewer) -> str:
        return ""


def _one_meaning(hits: Sequence[_Hit]) -> list[_Hit]:
    """Return a hit for each entity that is meant; none if that is not clear.

    ``hits`` are of the same words, the best first.
    """
    similar = hits[0].match is NameMatch.SIMILAR
    hits = [hit for hit in hits if hit.score >= hits[0].score - _TIE]
    if similar and len({hit.key.spelled.casefold() for hit in hits}) > 1:
        return []
    by_entity = {hit.key.of.entity: hit for hit in reversed(hits)}
    return [*reversed(by_entity.values())] if len(by_entity) <= _MOST_SAME else []
