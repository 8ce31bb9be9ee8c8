"""The names of a configuration and its tools that players may ask about. Pure.

A name alone is no reason for a slower tier ("Greymantle sends his regards"), but in a
question it is one ("where is Greymantle's tower?"). The spelling shows which words are
names: proper names, and several content words in a row ("the northern kingdoms"). One
common word alone, such as the "ale" of a barkeep, is no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import attrs

from glyphoxa_trio.tools.tier import Tier

from .keywords import KeywordIndex, KeywordMatch, Phrases
from .phrases import ASKING
from .stems import plain_words
from .words import STOP_WORDS, TITLES

_COMMON: Final = (
    STOP_WORDS | TITLES | {"about", "let", "lets", "knows", "know", "known"}
)
_PART: Final = re.compile(r"[.!?;:,()\"\u201c\u201d\u2013\u2014\n]+|\s-+\s")
_EPITHET: Final = re.compile(
    r",|\s(?:the|of|von|von der|der|die|le|la)\s", re.IGNORECASE
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME_PARTS: Final = re.compile(r"[^\W_]+")
_MOST_TOOLS: Final = 256


def _is_common(word: str) -> bool:
    return word in _COMMON or len(word) < 2 or word.isdigit()


def names_of(character: str) -> Iterator[str]:
    """Yield the names of a character: the whole name, and each part except epithets.

    "Greymantle the Sage" is Greymantle; "Captain Mira Voss" is Mira and Voss.
    """
    yield character
    for word in plain_words(_EPITHET.split(character)[0].strip()):
        if not _is_common(word):
            yield word


def topics_of(text: str) -> Iterator[str]:
    """Yield the names, as phrases, in a text of a configuration."""
    for sentence in _SENTENCE.split(text):
        first = True
        for part in _PART.split(sentence):
            words = part.split()
            run: list[str] = []
            for word in [*words, ""]:
                bare = " ".join(plain_words(word.removesuffix("'s")))
                if bare and not _is_common(bare) and "{" not in word:  # a variable
                    run.append(word)
                    continue
                yield from _in_run(run, first=first)
                run, first = [], first and not bare
            first = False


def _in_run(run: Sequence[str], *, first: bool) -> Iterator[str]:
    """Yield the names in a row of content words.

    These are each pair of neighbours, and each word that is a name by itself.
    """
    if len(run) > 1:
        for at in range(len(run) - 1):
            yield f"{run[at]} {run[at + 1]}"
    names = [word[:1].isupper() for word in run]
    for at, word in enumerate(run):
        # The first word of a sentence has a capital, name or not. A word of "Hollow
        # Hill" is only half a name.
        alone = not any(names[max(0, at - 1) : at] + names[at + 1 : at + 2])
        if names[at] and alone and not (first and at == 0) and len(word) > 2:
            yield word


def asks(heard: KeywordMatch, place: int) -> bool:
    """Return True if the words ask for something, or ask about those at ``place``.

    An example of the second kind is "is Ysolde blind".
    """
    for _ in ASKS.matches(heard):
        return True
    before = (place & -place) >> 1
    return any(heard.said.places.get(key, 0) & before for key in _INVERTS)


ASKS: Final = Phrases.patterns(ASKING)
_INVERTS: Final = ("be", "do", "can", "could", "will", "would", "should")


@attrs.frozen
class Topics:
    """Phrases that count in a question, each with the NPCs whose own name it is.

    Args:
      names: each phrase with the NPC that has this name; "" if no NPC has.
    """

    names: tuple[tuple[str, str], ...] = ()
    phrases: Phrases = attrs.field(init=False, repr=False, eq=False)
    _owners: dict[str, frozenset[str]] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        owners: dict[str, set[str]] = {}
        for phrase, owner in self.names:
            if plain_words(phrase):
                owners.setdefault(phrase, set()).add(owner)
        object.__setattr__(self, "phrases", Phrases.written(owners))
        object.__setattr__(
            self, "_owners", {x: frozenset(npcs) for x, npcs in owners.items()}
        )

    def find(
        self,
        heard: KeywordMatch,
        listener: str = "",
        *,
        asking: KeywordMatch | None = None,
    ) -> str | None:
        """Return the first phrase asked about that is not ``listener``'s own name.

        ``asking`` is the same text by the index that has the words of questions, if
        ``heard`` is by another.
        """
        for phrase, place in self.phrases.matches(heard):
            if listener and listener in self._owners[phrase]:
                continue
            if asks(asking or heard, place):
                return phrase
        return None


@attrs.frozen
class PublicNames:
    """The names of a campaign that all of its NPCs may know.

    They have an index of their own. A thousand take a few hundredths of a second to
    compile, so this is made once, outside of any turn.

    Args:
      names: as in `Topics`.
    """

    names: tuple[tuple[str, str], ...] = ()
    _topics: Topics = attrs.field(init=False, repr=False, eq=False)
    _index: KeywordIndex = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        topics = Topics(self.names)
        object.__setattr__(self, "_topics", topics)
        object.__setattr__(self, "_index", KeywordIndex((topics.phrases,)))

    def find(self, text: str, asking: KeywordMatch, listener: str = "") -> str | None:
        """Return the first name that ``text`` asks about, but not ``listener``'s own.

        ``asking`` is the text by an index that has the words of questions.
        """
        if not self.names:
            return None
        return self._topics.find(self._index.hear(text), listener, asking=asking)


@attrs.frozen(cache_hash=True)
class NamedTools:
    """Tools that a player may ask for by name: key, exposed name, tier."""

    tools: tuple[tuple[str, str, Tier], ...] = ()

    def find(self, text: str) -> tuple[str, Tier] | None:
        """Return the key and the tier of the slowest tool that is asked for."""
        found: tuple[str, Tier] | None = None
        index, phrases, tools = _compiled(self)
        heard = index.hear(text)
        for phrase, place in phrases.matches(heard):
            for key, tier, alone in tools[phrase]:
                if (found is None or tier > found[1]) and (
                    not alone or asks(heard, place)
                ):
                    found = key, tier
        return found


NO_TOPICS: Final = Topics()
NO_NAMES: Final = PublicNames()
NO_TOOLS: Final = NamedTools()


# If a tool's name is a single word, its group belongs to the phrase that asks for it.
@lru_cache(maxsize=64)
def _compiled(
    named: NamedTools,
) -> tuple[KeywordIndex, Phrases, dict[str, list[tuple[str, Tier, bool]]]]:
    called: dict[str, list[tuple[str, Tier, bool]]] = {}
    for key, name, tier in named.tools[:_MOST_TOOLS]:
        group, _, own = key.rpartition(".")
        for phrase, alone in _called(group, own or name):
            called.setdefault(phrase, []).append((key, tier, alone))
    phrases = Phrases.patterns(phrase.replace("...", "..") for phrase in called)
    return KeywordIndex((phrases, ASKS)), phrases, called


def _called(group: str, own: str) -> Iterator[tuple[str, bool]]:
    """Yield phrases that name a tool, each with whether it counts in questions only."""
    words, of_group = _parts(own), _parts(group)
    if len(words) > 1:
        yield " ... ".join(words), False
    elif words and of_group:
        yield " ... ".join([*words, *of_group]), False
        yield " ... ".join([*of_group, *words]), False
    if len(of_group) > 1 or (of_group and not _is_common(of_group[0])):
        yield " ... ".join(of_group), True


def _parts(name: str) -> list[str]:
    return plain_words(" ".join(_NAME_PARTS.findall(_CAMEL.sub(" ", name))))


def topics(named: Iterable[str], texts: Iterable[str]) -> Topics:
    """Return the topics of a configuration: its characters, and names in its texts."""
    names = {(name, npc): None for npc in named for name in names_of(npc)}
    names |= {(x, ""): None for text in texts for x in topics_of(text)}
    return Topics(tuple(names))
