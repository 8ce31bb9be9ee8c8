"""Ranked full-text search over rules, in memory: an inverted index with BM25.

A word counts more in a name than among the keywords, and more there than in the text
(BM25F: the fields' weights multiply the frequencies). Each word is in the index as it
is written and by its stem, so that "grapple" finds all rules about grappling, and the
one with just that name first.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

import attrs

from .datasets import Rule

MAX_TERMS: Final = 64  # of one query; the rest is ignored
EXCERPT: Final = 240  # characters

_NAME, _ID, _KEYWORD, _TEXT = 5.0, 4.0, 2.5, 1.0
_WHOLE_NAME = 1.5  # a factor, if the query holds every word of the name
_K1, _B = 1.2, 0.75  # BM25's usual saturation and length normalisation

_WORD: Final = re.compile(r"[^\W_]+")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
# fmt: off
_STOP_WORDS: Final = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for",
    "from", "have", "how", "i", "if", "in", "is", "it", "me", "my", "of", "on",
    "or", "s", "so", "that", "the", "them", "they", "this", "to", "what", "when",
    "which", "with", "would", "you", "your",
))
# fmt: on


@attrs.frozen
class Match:
    rule: Rule
    score: float


@attrs.frozen(kw_only=True)
class RuleIndex:
    """Rules, found by id or by words. Immutable: build another one to change it."""

    rules: Mapping[str, Rule]
    systems: frozenset[str]
    _names: Mapping[str, frozenset[str]]
    _postings: Mapping[str, tuple[tuple[str, float], ...]]

    @classmethod
    def build(cls, rules: Iterable[Rule]) -> RuleIndex:
        """Build an index of ``rules``; of two with the same id the later one counts."""
        by_id = {rule.id: rule for rule in rules}
        frequencies = {rule.id: _frequencies(rule) for rule in by_id.values()}
        lengths = {key: sum(found.values()) for key, found in frequencies.items()}
        average = sum(lengths.values()) / (len(lengths) or 1)
        containing: defaultdict[str, list[str]] = defaultdict(list)
        for key, found in frequencies.items():
            for term in found:
                containing[term].append(key)
        postings = {}
        for term, keys in containing.items():
            rarity = math.log(1 + (len(by_id) - len(keys) + 0.5) / (len(keys) + 0.5))
            scored = []
            for key in keys:
                frequency = frequencies[key][term]
                norm = _K1 * (1 - _B + _B * lengths[key] / average)
                score = rarity * frequency * (_K1 + 1) / (frequency + norm)
                scored.append((key, score))
            postings[term] = tuple(scored)
        return cls(
            rules=by_id,
            systems=frozenset(rule.system.lower() for rule in by_id.values()),
            names={key: frozenset(_terms(rule.name)) for key, rule in by_id.items()},
            postings=postings,
        )

    def search(self, query: str, system: str | None = None) -> list[Match]:
        """Return all rules that share a word with ``query``, best first; ties by id.

        ``system`` is compared without regard to case; None means all systems.
        """
        wanted = terms(query)[:MAX_TERMS]
        scores: defaultdict[str, float] = defaultdict(float)
        for term in wanted:
            for key, score in self._postings.get(term, ()):
                scores[key] += score
        matches = [
            Match(self.rules[key], score * self._named(key, wanted))
            for key, score in scores.items()
            if system is None or self.rules[key].system.lower() == system.lower()
        ]
        return sorted(matches, key=lambda match: (-match.score, match.rule.id))

    def _named(self, key: str, wanted: Collection[str]) -> float:
        name = self._names[key]
        return _WHOLE_NAME if name and name.issubset(wanted) else 1.0


def terms(text: str) -> list[str]:
    """Return the words of a text and their stems, each once, without stop words."""
    return list(dict.fromkeys(_terms(text)))


def excerpt(text: str, query: str) -> str:
    """Return the sentence that shares most words with ``query``, and what follows.

    It is the first sentence if none shares a word, and is followed by as many of the
    next sentences as fit.
    """
    wanted = set(terms(query))
    sentences = _SENTENCE.split(text)
    shared = [len(wanted.intersection(_terms(sentence))) for sentence in sentences]
    best, *rest = sentences[shared.index(max(shared)) :]
    if len(best) > EXCERPT:
        return best[:EXCERPT].rsplit(maxsplit=1)[0] + " ..."
    for sentence in rest:
        if len(best) + 1 + len(sentence) > EXCERPT:
            break
        best += f" {sentence}"
    return best


def _frequencies(rule: Rule) -> Mapping[str, float]:
    fields = (
        (_NAME, rule.name),
        (_ID, rule.id),
        (_KEYWORD, " ".join(rule.keywords)),
        (_TEXT, rule.text),
    )
    weighted: defaultdict[str, float] = defaultdict(float)
    for weight, text in fields:
        for term, count in Counter(_terms(text)).items():
            weighted[term] += weight * count
    return weighted


def _terms(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text.lower())
    if not plain.isascii():
        plain = "".join(char for char in plain if not unicodedata.combining(char))
    return [
        term
        for word in _WORD.findall(plain)
        if word not in _STOP_WORDS
        for term in {word: None, _stem(word): None}
    ]


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """Cut English endings: grapple, grappled, grappling all become ``grappl``."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            if word.endswith("ss"):
                return word
            word = word.removesuffix(ending)
            # stunned, stunning: one n; but falling, missing keep both letters.
            if ending in ("ing", "ed") and word[-1] == word[-2] not in "lsz":
                word = word[:-1]
            break
    if len(word) > 3 and word.endswith("e"):
        return word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word.endswith("y") else word
