"""Which tier an utterance deserves: pure rules, no model, no memory (G18, G19).

Keywords are whole words and phrases, found without regard to case: "question"
is not "quest". The rules are cheap enough for every partial transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import attrs

from glyphoxa_trio.tools.tier import Tier

# Seed 000's lists.
DEEP_KEYWORDS: Final = (
    "think carefully",
    "take your time",
    "deep search",
    "generate image",
    "generate an image",
    "search the web",
)
STANDARD_KEYWORDS: Final = (
    "remember",
    "last time",
    "rules",
    "quest",
    "who is",
    "tell me about",
)

_WORD: Final = re.compile(r"\w+")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


@attrs.frozen
class Keywords:
    """Phrases, compiled: one look-up per word of the text, however many phrases.

    Raises:
      ValueError: for a phrase without a word in it.
    """

    phrases: tuple[str, ...]
    _by_first: dict[str, list[tuple[str, list[str]]]] = attrs.field(
        init=False, repr=False, eq=False
    )

    def __attrs_post_init__(self) -> None:
        by_first: dict[str, list[tuple[str, list[str]]]] = {}
        for phrase in self.phrases:
            words = _words(phrase)
            if not words:
                raise ValueError(f"a keyword needs a word, got {phrase!r}")
            by_first.setdefault(words[0], []).append((phrase, words))
        object.__setattr__(self, "_by_first", by_first)

    @classmethod
    def of(cls, phrases: Iterable[str]) -> Keywords:
        return cls(tuple(phrases))

    def find(self, words: list[str]) -> str | None:
        """The first phrase that occurs, as it was written down."""
        by_first = self._by_first
        for at, word in enumerate(words):
            if word in by_first:
                for phrase, wanted in by_first[word]:
                    if words[at : at + len(wanted)] == wanted:
                        return phrase
        return None


@attrs.frozen(kw_only=True)
class SelectionRules:
    """What the rules listen for. ``min_deep_interval`` in seconds."""

    deep: Keywords = Keywords(DEEP_KEYWORDS)
    standard: Keywords = Keywords(STANDARD_KEYWORDS)
    min_deep_interval: float = 30.0
    queue_depth: int = 3


@attrs.frozen(kw_only=True)
class Situation:
    """What is known when somebody speaks.

    Args:
      override: the DM's choice for this utterance; None is no override, FAST is
        one (D2).
      queue_depth: how many utterances wait for this NPC.
      since_deep: seconds since this session's last DEEP turn, None before it.
    """

    text: str
    override: Tier | None = None
    queue_depth: int = 0
    first_turn: bool = False
    since_deep: float | None = None


@attrs.frozen
class Selection:
    """The tier, and in words why."""

    tier: Tier
    reason: str


def select(rules: SelectionRules, situation: Situation) -> Selection:
    """The first rule that applies, in the order of seed 000."""
    if situation.override is not None:
        return Selection(situation.override, "the DM's choice")
    words = _words(situation.text)
    if phrase := rules.deep.find(words):
        since = situation.since_deep
        if since is not None and since < rules.min_deep_interval:
            return Selection(
                Tier.STANDARD,
                f"{phrase!r}, but the last deep turn was {since:.0f} s ago",
            )
        return Selection(Tier.DEEP, f"{phrase!r}")
    if situation.queue_depth >= rules.queue_depth:
        return Selection(Tier.FAST, f"{situation.queue_depth} are waiting")
    if phrase := rules.standard.find(words):
        return Selection(Tier.STANDARD, f"{phrase!r}")
    if situation.first_turn:
        return Selection(Tier.STANDARD, "the first turn")
    return Selection(Tier.FAST, "ordinary talk")
