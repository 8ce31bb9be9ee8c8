"""One phrase: how it is written, and where in a text it occurs. Pure.

Between any two words of a phrase there may be fillers, words without meaning: "think
very carefully". `...` in a phrase stands for up to six words of any kind: "tell me ...
about". The rules of the package are written as patterns, which can say more::

    who|what be          alternatives; `be` is found as "is", "was", "'re"
    think .. careful     up to two words of any kind
    you =said            this very form, not its stem
    why <past>           any verb that is in the past
    ^ explain            only where the text begins
    what be that $       only where it ends
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from .stems import PAST, StemmedText, plain_words, stem

_LONG: Final = 6  # words of any kind in "..."
_SHORT: Final = 2  # and in ".."
_OF_PHRASE: Final = re.compile(r"\.{3,}|…|[^.…]+|\.")
# Words in nearly every text: no line is indexed by them if it has another word.
_COMMON: Final = """
who what where when why how which be do have can will would you i we he she they it the
a to of in at on for from and me that this there about with all out up down my your not
no so any get go know think say see take make give come look one time
"""
MUCH: Final = 100
_WEIGHTS: Final = dict.fromkeys(_COMMON.split(), MUCH) | {PAST: 10 * MUCH}
_GAPS: Final = {"..": _SHORT, "...": _LONG}


@attrs.frozen
class PatternStep:
    """One word of a phrase: any of ``keys``, after at most ``gap`` others."""

    keys: frozenset[str]
    gap: int = 0


@attrs.frozen(eq=False)
class PhrasePattern:
    """A compiled phrase. ``name`` is the phrase for people to read.

    ``first``: it counts only where a text begins; ``last``: only where it ends.
    """

    name: str
    steps: tuple[PatternStep, ...]
    first: bool = False
    last: bool = False
    looked_for: tuple[tuple[str, frozenset[str], int], ...] = attrs.field(init=False)
    checked: tuple[frozenset[str], ...] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        _, *rest = self.steps
        several = (step.keys for step in rest if len(step.keys) > 1)
        object.__setattr__(self, "checked", tuple(sorted(several, key=how_common)))
        looked_for = (
            ("" if len(x.keys) > 1 else next(iter(x.keys)), x.keys, x.gap) for x in rest
        )
        object.__setattr__(self, "looked_for", tuple(looked_for))

    def place(self, said: StemmedText, without: int = 0) -> int:
        """Return the first place of the phrase outside the words of ``without``, or 0.

        The place is a number with a bit for each word, as in `StemmedText.places`. All
        places where the next word may be are followed at once, so the work is bounded
        by the phrase, however often its words are said.
        """
        places, keys, fillers, count = said
        for any_of in self.checked:
            if any_of.isdisjoint(keys):
                return 0
        begins = 0
        for key in self.steps[0].keys & keys:
            begins |= places[key]
        begins &= ~without
        if self.first:  # only fillers are before it
            begins &= fillers ^ fillers + 1
        if not begins:
            return 0
        rest = []
        for only, any_of, gap in self.looked_for:
            if only:  # a single word is looked up, which is faster
                if only not in places:
                    return 0
                here = places[only]
            else:
                here = 0
                for key in any_of & keys:
                    here |= places[key]
            rest.append((here & ~without, gap))
        while begins:
            at = begin = begins & -begins
            begins ^= begin
            for here, gap in rest:
                at <<= 1
                if among := at & fillers:
                    at |= beyond(among, fillers)
                while gap:
                    gap -= 1
                    at |= at << 1
                    if among := at & fillers:
                        at |= beyond(among, fillers)
                at &= here
                if not at:
                    break
            else:
                end = at & -at
                if self.last and ((1 << count) - 2 * end) & ~fillers:
                    continue
                return 2 * end - begin
        return 0


def beyond(among: int, fillers: int) -> int:
    """Return all places up to the end of each run of fillers, and one more.

    The sum does this: its carry passes through a run of ones.
    """
    return (among + fillers) ^ fillers


def line_of_phrase(phrase: str) -> PhrasePattern:
    """Compile a phrase as an operator writes it: words, and ``...``.

    Raises:
      ValueError: the phrase contains no word.
    """
    steps: list[PatternStep] = []
    gap = 0
    for part in _OF_PHRASE.findall(phrase):
        if part[0] == "…" or part.startswith("..."):
            gap = _LONG if steps else 0
        for word in plain_words(part):
            steps.append(PatternStep(frozenset((stem(word),)), gap))
            gap = 0
    if not steps:
        raise ValueError(f"a keyword needs a word, got {phrase!r}")
    return PhrasePattern(phrase, tuple(steps))


def line_of_pattern(pattern: str) -> PhrasePattern:
    """Compile a pattern, as the rules of the package are written."""
    steps: list[PatternStep] = []
    gap, shown = 0, []
    parts = pattern.split()
    first, last = parts[0] == "^", parts[-1] == "$"
    for part in parts[first : len(parts) - last]:
        if part in _GAPS:
            gap = _GAPS[part]
            shown.append("...")
            continue
        keys = part.split("|")
        steps.append(PatternStep(frozenset(map(_key, keys)), gap))
        shown.append(keys[0].lstrip("="))
        gap = 0
    return PhrasePattern(" ".join(shown), tuple(steps), first, last)


def _key(word: str) -> str:
    return word if word[0] in "=<" else stem(word)


def how_common(keys: frozenset[str]) -> int:
    """Return how common these words are in talk, as a weight.

    From `MUCH` on, at least one of them is in nearly every text.
    """
    return sum(_WEIGHTS.get(key, 1) for key in keys)
