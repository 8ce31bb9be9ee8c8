"""Search an utterance for many phrases and patterns at once. Pure.

`pattern` says how phrases and patterns are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple, TypeAlias

import attrs

from .pattern import (
    MUCH,
    PhrasePattern,
    beyond,
    how_common,
    line_of_pattern,
    line_of_phrase,
)
from .stems import FILLER, StemmedText, Word, keys_of, words_of


@attrs.frozen(eq=False)
class Phrases:
    """Lines that an utterance is searched for, independently of each other."""

    lines: tuple[PhrasePattern, ...]

    @classmethod
    def written(cls, phrases: Iterable[str]) -> Phrases:
        """Make them from phrases as an operator writes them.

        Raises:
          ValueError: a phrase contains no word.
        """
        return _written(tuple(phrases))

    @classmethod
    def patterns(cls, patterns: Iterable[str]) -> Phrases:
        """Make them from patterns, as the rules of the package are written."""
        return cls(tuple(map(line_of_pattern, patterns)))

    def matches(self, heard: KeywordMatch) -> Iterator[tuple[str, int]]:
        """Yield the names of the lines that occur, each with its first place."""
        for line in heard.among(self):
            if place := line.place(heard.said):
                yield line.name, place


# The same words give the same object, so that their index is made only once: most
# reloads change no words, and making an index takes a fiftieth of a second.
@lru_cache(maxsize=64)
def _written(phrases: tuple[str, ...]) -> Phrases:
    return Phrases(tuple(map(line_of_phrase, phrases)))


@attrs.frozen(eq=False)
class Patterns:
    """Patterns, and exceptions: texts that fit a pattern but do not count.

    "who are you" looks like a question about a third person, but is none. ``called`` is
    a name for all of the patterns; if it is empty, the pattern that was found is
    quoted.
    """

    likely: Phrases
    unless: Phrases
    called: str = ""

    @classmethod
    def of(
        cls, patterns: Iterable[str], unless: Iterable[str] = (), *, called: str = ""
    ) -> Patterns:
        """Compile patterns and exceptions."""
        return cls(Phrases.patterns(patterns), Phrases.patterns(unless), called)

    def find(self, heard: KeywordMatch) -> str | None:
        """Return a description of the first pattern that occurs, or None."""
        said = heard.said
        likely = [
            (line, place)
            for line in heard.among(self.likely)
            if (place := line.place(said))
        ]
        if not likely:  # the usual case: exceptions need not be searched
            return None
        without = 0
        for exception in heard.among(self.unless):
            covered = 0
            while place := exception.place(said, covered):
                covered |= place
            if covered:
                without |= covered
                likely = [
                    (line, left)
                    for line, place in likely
                    if (left := line.place(said, without) if place & covered else place)
                ]
                if not likely:
                    return None
        return self.called or f"{likely[0][0].name!r}"


@attrs.frozen
class Keywords:
    """The phrases and patterns that ask for a tier.

    Args:
      phrases: as an operator writes them; they count wherever they occur.
      patterns: the rules of the package, one kind after the other.

    Raises:
      ValueError: a phrase contains no word.
    """

    phrases: tuple[str, ...]
    patterns: tuple[Patterns, ...] = ()
    _written: Phrases = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_written", Phrases.written(self.phrases))

    @classmethod
    def of(cls, phrases: Iterable[str]) -> Keywords:
        """Compile phrases as an operator writes them."""
        return cls(tuple(phrases))

    @property
    def parts(self) -> tuple[Phrases, ...]:
        """All lines that `KeywordIndex` has to look for."""
        kinds = ((x.likely, x.unless) for x in self.patterns)
        return self._written, *chain.from_iterable(kinds)

    def find(self, heard: KeywordMatch) -> str | None:
        """Return a description of the first line that occurs, phrases first."""
        for phrase, _ in self._written.matches(heard):
            return f"{phrase!r}"
        for patterns in self.patterns:
            if (found := patterns.find(heard)) is not None:
                return found
        return None


@attrs.frozen(eq=False)
class KeywordIndex:
    """An index of all lines by a word that a text must contain for the line to occur.

    This is the line's rarest word, or its first two words in a row if all are common.
    So only few of many lines have to be searched in a text.
    """

    parts: tuple[Phrases, ...]
    _by_word: dict[str, list[_Group]] = attrs.field(init=False, repr=False)
    _by_pair: dict[str, dict[str, list[_Group]]] = attrs.field(init=False, repr=False)
    _known: Callable[[str], Word] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        vocabulary = {FILLER}
        by_word: dict[str, list[_Group]] = {}
        by_pair: dict[str, dict[str, list[_Group]]] = {}
        for part in self.parts:
            of_word: dict[str, list[PhrasePattern]] = {}
            of_pair: dict[tuple[str, str], list[PhrasePattern]] = {}
            for line in part.lines:
                first, *rest = line.steps
                vocabulary.update(first.keys, *(step.keys for step in rest))
                rarest = min((step.keys for step in line.steps), key=how_common)
                if how_common(rarest) >= MUCH and rest and not rest[0].gap:
                    for pair in product(first.keys, rest[0].keys):
                        of_pair.setdefault(pair, []).append(line)
                else:
                    for key in rarest:
                        of_word.setdefault(key, []).append(line)
            for key, lines in of_word.items():
                by_word.setdefault(key, []).append((part, lines))
            for (key, following), lines in of_pair.items():
                pairs = by_pair.setdefault(key, {})
                pairs.setdefault(following, []).append((part, lines))

        # Talk has few different words, and most of them are in no line.
        @lru_cache(maxsize=2048)
        def known(word: str) -> Word:
            return tuple(key for key in keys_of(word) if key in vocabulary)

        object.__setattr__(self, "_by_word", by_word)
        object.__setattr__(self, "_by_pair", by_pair)
        object.__setattr__(self, "_known", known)

    def hear(self, text: str) -> KeywordMatch:
        """Read a text, and find the lines that may occur in it."""
        by_word, by_pair, known = self._by_word, self._by_pair, self._known
        places: dict[str, int] = {}
        begins: list[str] = []  # words that a pair may begin with
        found: dict[Phrases, list[PhrasePattern]] = {}
        words = words_of(text)
        bit = 1
        for word in words:
            for key in known(word):
                if key in places:
                    places[key] |= bit
                    continue
                places[key] = bit
                if key in by_word:
                    _add(found, by_word[key])
                if key in by_pair:
                    begins.append(key)
            bit <<= 1
        fillers = places.get(FILLER, 0)
        said = StemmedText(places, frozenset(places), fillers, len(words))
        for key in begins:
            pairs, after = by_pair[key], places[key] << 1
            after |= beyond(after & fillers, fillers)
            for following in pairs.keys() & said.keys:
                if places[following] & after:
                    _add(found, pairs[following])
        return KeywordMatch(said, found)


def _add(found: dict[Phrases, list[PhrasePattern]], groups: Iterable[_Group]) -> None:
    for part, lines in groups:
        if part in found:
            found[part] += lines
        else:
            found[part] = lines.copy()


class KeywordMatch(NamedTuple):
    """A text, and the lines that may occur in it; a line may be listed twice."""

    said: StemmedText
    found: Mapping[Phrases, Sequence[PhrasePattern]]

    def among(self, part: Phrases) -> Iterable[PhrasePattern]:
        """Return the lines of ``part`` that may occur."""
        return self.found.get(part, ())


_Group: TypeAlias = "tuple[Phrases, list[PhrasePattern]]"
