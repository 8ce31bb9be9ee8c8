"""Select the tier that an utterance needs: pure rules, no model, no memory.

The rules search an utterance for stems and for phrases with gaps (`keywords`): those of
`phrases` or of the operator and, in a question, the names of the configuration, of the
campaign and of tools (`topics`). They are fast enough for every partial transcript.
"""

from __future__ import annotations

from functools import cache, lru_cache

import attrs

from glyphoxa_trio.tools.tier import Tier

from .keywords import KeywordIndex, Keywords, Patterns
from .phrases import FAR, RULE_TERMS
from .phrases_deep import DEEP_KEYWORDS, DEEP_PATTERNS, DEEP_UNLESS
from .phrases_questions import EVERYDAY, QUESTIONS
from .phrases_standard import STANDARD_KEYWORDS, STANDARD_PATTERNS, STANDARD_UNLESS
from .topics import (
    ASKS,
    NO_NAMES,
    NO_TOOLS,
    NO_TOPICS,
    NamedTools,
    PublicNames,
    Topics,
)


@cache
def deep_keywords() -> Keywords:
    """Return the keywords that ask for DEEP unless the operator configures others."""
    return Keywords(DEEP_KEYWORDS, (Patterns.of(DEEP_PATTERNS, DEEP_UNLESS),))


@cache
def standard_keywords() -> Keywords:
    """Return the keywords that ask for STANDARD unless others are configured."""
    return Keywords(
        STANDARD_KEYWORDS,
        (
            Patterns.of(STANDARD_PATTERNS, STANDARD_UNLESS),
            Patterns.of(QUESTIONS, EVERYDAY, called="a question"),
        ),
    )


@cache
def rule_terms() -> Topics:
    """Return the words of the game's rules, which ask for STANDARD in a question."""
    return Topics(tuple((term, "") for term in (*FAR, *RULE_TERMS)))


@attrs.frozen(kw_only=True)
class SelectionRules:
    """The rules, compiled. ``min_deep_interval`` is in seconds.

    ``terms`` and ``topics`` count in a question: words of the game's rules, and names
    of the configuration. ``queue_depth``: with this many waiting utterances the tier is
    FAST.
    """

    deep: Keywords = attrs.field(factory=deep_keywords)
    standard: Keywords = attrs.field(factory=standard_keywords)
    terms: Topics = attrs.field(factory=rule_terms)
    topics: Topics = NO_TOPICS
    min_deep_interval: float = 30.0
    queue_depth: int = 3
    index: KeywordIndex = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        parts = (*self.deep.parts, *self.standard.parts)
        topics = (self.terms.phrases, self.topics.phrases, ASKS)
        object.__setattr__(self, "index", _index_of((*parts, *topics)))


# Most configurations have the same rules; an index takes 10 ms, long for a reload.
_index_of = lru_cache(maxsize=16)(KeywordIndex)


@attrs.frozen(kw_only=True)
class Vocabulary:
    """The rules of a configuration, as data.

    Args:
      names: as in `Topics`.
      deep, standard: keywords in place of the built-in ones; None keeps those.
      min_deep_interval: seconds between two DEEP turns.
      queue_depth: with this many waiting utterances the tier is FAST.
    """

    names: tuple[tuple[str, str], ...] = ()
    deep: tuple[str, ...] | None = None
    standard: tuple[str, ...] | None = None
    min_deep_interval: float = 30.0
    queue_depth: int = 3

    def rules(self) -> SelectionRules:
        """Return the compiled rules; raise `ValueError` for a keyword without words."""
        rules = SelectionRules(
            topics=Topics(self.names),
            min_deep_interval=self.min_deep_interval,
            queue_depth=self.queue_depth,
        )
        if self.deep is not None:
            rules = attrs.evolve(rules, deep=Keywords.of(self.deep))
        if self.standard is not None:
            standard = Keywords.of(self.standard)
            rules = attrs.evolve(rules, standard=standard, terms=NO_TOPICS)
        return rules


@attrs.frozen(kw_only=True)
class Situation:
    """The facts about an utterance that the rules use.

    Args:
      text: the words.
      npc: the addressed NPC; its own name is no topic.
      tools: the tools that it may use and that are too slow for a FAST turn.
      names: the names of its campaign that all NPCs may know.
      override: the DM's choice for this utterance; None means no choice.
      queue_depth: how many utterances wait for this NPC.
      first_turn: whether it is the first of the conversation.
      since_deep: seconds since this session's last DEEP turn; None if there was none.
    """

    text: str
    npc: str = ""
    tools: NamedTools = NO_TOOLS
    names: PublicNames = NO_NAMES
    override: Tier | None = None
    queue_depth: int = 0
    first_turn: bool = False
    since_deep: float | None = None


@attrs.frozen
class Chosen:
    """The earlier choices in one conversation.

    ``any``: a tier was chosen before. ``deep_at``: when DEEP was chosen last.
    """

    any: bool = False
    deep_at: float | None = None

    def then(self, tier: Tier, now: float) -> Chosen:
        """Return the choices with this one added."""
        return Chosen(True, now if tier is Tier.DEEP else self.deep_at)


@attrs.frozen
class Selection:
    """The tier, and the reason in words."""

    tier: Tier
    reason: str


def select(rules: SelectionRules, situation: Situation) -> Selection:
    """Apply the first rule that matches, in this order.

    The DM's choice; a request for DEEP, unless the last DEEP turn was too recent; a
    long queue; a question about a name or a rule of the game; a request for STANDARD; a
    tool asked for by name; the first turn. Everything else is FAST.
    """
    if situation.override is not None:
        return Selection(situation.override, "the DM's choice")
    heard = rules.index.hear(situation.text)
    named = situation.tools.find(situation.text) if situation.tools.tools else None
    by_name = "" if named is None else f"the tool {named[0]!r} is asked for"
    why = rules.deep.find(heard)
    if why is not None or (named is not None and named[1] is Tier.DEEP):
        since = situation.since_deep
        if since is not None and since < rules.min_deep_interval:
            return Selection(
                Tier.STANDARD,
                f"{why or by_name}, but the last deep turn was {since:.0f} s ago",
            )
        return Selection(Tier.DEEP, why or by_name)
    if situation.queue_depth >= rules.queue_depth:
        return Selection(Tier.FAST, f"{situation.queue_depth} are waiting")
    topic = (
        rules.topics.find(heard, situation.npc)
        or situation.names.find(situation.text, heard, situation.npc)
        or rules.terms.find(heard, situation.npc)
    )
    if topic is not None:
        return Selection(Tier.STANDARD, f"a question about {topic!r}")
    if (why := rules.standard.find(heard)) is not None:
        return Selection(Tier.STANDARD, why)
    if named is not None:
        return Selection(Tier.STANDARD, by_name)
    if situation.first_turn:
        return Selection(Tier.STANDARD, "the first turn")
    return Selection(Tier.FAST, "ordinary talk")
