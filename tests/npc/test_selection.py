"""The rules of seed 000: who gets which tier, and why."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.npc.selection import (
    DEEP_KEYWORDS,
    STANDARD_KEYWORDS,
    Keywords,
    SelectionRules,
    Situation,
    select,
)
from glyphoxa_trio.tools.tier import Tier

FAST, STANDARD, DEEP = Tier
RULES = SelectionRules()


def tier_of(text: str, **situation: object) -> Tier:
    return select(RULES, Situation(text=text, **situation)).tier  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "text", "situation"),
    [
        # 1. the DM's override beats everything, FAST too; None is no override (D2)
        (FAST, "think carefully", {"override": FAST}),
        (FAST, "remember?", {"override": FAST, "first_turn": True}),
        (STANDARD, "think carefully", {"override": STANDARD}),
        (DEEP, "hi", {"override": DEEP, "queue_depth": 9, "since_deep": 0.0}),
        (DEEP, "think carefully", {"override": None}),
        # 2. a DEEP keyword, more than the queue and STANDARD keywords
        (DEEP, "remember, and think carefully", {"queue_depth": 9}),
        (DEEP, "take your time", {"first_turn": True}),
        # ... but not again within 30 s: then it is STANDARD, whatever the queue
        (STANDARD, "think carefully", {"since_deep": 29.999}),
        (STANDARD, "think carefully", {"since_deep": 0.0, "queue_depth": 9}),
        (DEEP, "think carefully", {"since_deep": 30.0}),
        (DEEP, "think carefully", {"since_deep": None}),
        # 3. three who wait, more than STANDARD keywords and the first turn
        (FAST, "tell me about the rules", {"queue_depth": 3}),
        (FAST, "hi", {"queue_depth": 3, "first_turn": True}),
        (STANDARD, "tell me about the rules", {"queue_depth": 2}),
        # 4. a STANDARD keyword
        (STANDARD, "do you remember me?", {}),
        # 5. the first turn
        (STANDARD, "hi", {"first_turn": True}),
        # 6. ordinary talk
        (FAST, "hi", {}),
        (FAST, "", {}),
    ],
)
def test_the_first_rule_that_applies_wins(
    expected: Tier, text: str, situation: dict[str, object]
) -> None:
    # G18, D2
    assert tier_of(text, **situation) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A question for you", FAST),  # not "quest"
        ("requests and quests", FAST),
        ("the quest", STANDARD),
        ("The QUEST!", STANDARD),
        ("side-quest", STANDARD),
        ("he rules_lawyers", FAST),
        ("whois", FAST),
        ("Who\n  is... that?", STANDARD),
        ("who was, is and will be", FAST),
        ("Tell me\tabout “the duke”", STANDARD),
        ("the last, time and again", STANDARD),  # punctuation does not part words
        ("lasttime", FAST),
        ("THINK CAREFULLY", DEEP),
        ("think very carefully", FAST),
        ("think\ncarefully", DEEP),
        ("search the web", DEEP),
        ("search the webs", FAST),
        ("generate an image of it", DEEP),
        ("generate image", DEEP),
    ],
)
def test_keywords_are_whole_words_and_phrases(text: str, expected: Tier) -> None:
    # G18, G19: A-words: case and punctuation do not matter, parts of words do not count
    assert tier_of(text) is expected


def test_the_reason_names_what_was_found() -> None:
    assert select(RULES, Situation(text="Who is she?")).reason == "'who is'"
    again = select(RULES, Situation(text="think carefully", since_deep=12.4))
    assert again.reason == "'think carefully', but the last deep turn was 12 s ago"
    crowd = select(RULES, Situation(text="who is she?", queue_depth=4))
    assert crowd.reason == "4 are waiting"


def test_every_option_can_be_replaced() -> None:
    # G19
    rules = SelectionRules(
        deep=Keywords.of(["ponder"]),
        standard=Keywords.of(["lore", "Straße"]),
        min_deep_interval=5.0,
        queue_depth=1,
    )

    def tier(text: str, **situation: object) -> Tier:
        return select(rules, Situation(text=text, **situation)).tier  # type: ignore[arg-type]

    assert tier("think carefully, remember the quest") is FAST
    assert tier("ponder", since_deep=5.0) is DEEP
    assert tier("ponder", since_deep=4.9) is STANDARD
    assert tier("some lore") is STANDARD
    assert tier("STRASSE") is STANDARD
    assert tier("some lore", queue_depth=1) is FAST


def test_no_keywords_are_never_found() -> None:
    assert Keywords.of([]).find(["think", "carefully"]) is None


@pytest.mark.parametrize("phrase", ["", "  ", "?!"])
def test_a_keyword_without_a_word_is_refused(phrase: str) -> None:
    with pytest.raises(ValueError, match="needs a word"):
        Keywords.of(["quest", phrase])


WORDS = sorted(
    {word for phrase in (*DEEP_KEYWORDS, *STANDARD_KEYWORDS) for word in phrase.split()}
    | {"question", "quests", "re", "an", "times", "a1", "7", "naïve"}
)
SEPARATORS = [" ", "  ", "\n", ", ", "-", "...", "'", "_", "", "\t(", "—"]
texts = st.lists(
    st.tuples(
        st.sampled_from(WORDS), st.sampled_from(SEPARATORS), st.sampled_from("lut")
    ),
    max_size=12,
).map(
    lambda parts: "".join(
        {"l": word, "u": word.upper(), "t": word.title()}[case] + separator
        for word, separator, case in parts
    )
)


def occurs(phrases: tuple[str, ...], text: str) -> bool:
    """The dumbest way to look: one regular expression after the other."""
    return any(
        re.search(r"\b" + r"\W+".join(phrase.split()) + r"\b", text, re.IGNORECASE)
        for phrase in phrases
    )


@given(
    text=texts,
    override=st.sampled_from([None, None, None, *Tier]),
    queue_depth=st.integers(0, 5),
    first_turn=st.booleans(),
    since_deep=st.none() | st.floats(0, 60),
)
def test_the_rules_agree_with_the_naive_reading_of_the_seed(
    text: str,
    override: Tier | None,
    queue_depth: int,
    first_turn: bool,
    since_deep: float | None,
) -> None:
    # G18
    if override is not None:
        expected = override
    elif occurs(DEEP_KEYWORDS, text):
        recent = since_deep is not None and since_deep < 30
        expected = STANDARD if recent else DEEP
    elif queue_depth >= 3:
        expected = FAST
    elif occurs(STANDARD_KEYWORDS, text) or first_turn:
        expected = STANDARD
    else:
        expected = FAST
    chosen = tier_of(
        text,
        override=override,
        queue_depth=queue_depth,
        first_turn=first_turn,
        since_deep=since_deep,
    )
    assert chosen is expected


@given(phrase=st.sampled_from((*DEEP_KEYWORDS, *STANDARD_KEYWORDS)), text=texts)
def test_a_phrase_is_found_at_any_place(phrase: str, text: str) -> None:
    # What stands around it cannot hide it, unless it grows into the same word.
    words = re.findall(r"\w+", f"{text} {phrase} {text}".casefold())
    assert Keywords.of([phrase]).find(words) == phrase
