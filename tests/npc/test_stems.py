"""Stems: which words are one, and which are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.npc.stems import FILLER, PAST, keys_of, plain_words, stem, words_of


@pytest.mark.parametrize(
    "words",
    [
        "remember remembers remembered remembering rember",
        "quest quests questing",
        "rule rules ruled ruling",
        "plan plans planned planning",
        "make makes made making",
        "story stories",
        "carry carries carried carrying",
        "witch witches",
        "fight fights fought fighting",
        "be is are was were been being am",
        "analyse analyze analysed analyzing",
        "summarise summarize summarised",
        "armour armor",
        "travel travels travelled traveled travelling",
        "careful carefully",
        "me us",
        "who whose whom",
    ],
)
def test_the_forms_of_a_word_are_one(words: str) -> None:
    # G18
    assert len({stem(word) for word in words.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("quest", "question"),
        ("quest", "request"),
        ("rule", "ruler"),
        ("plan", "plane"),
        ("king", "kin"),
        ("thing", "think"),
        ("here", "her"),
        ("evening", "even"),
        ("need", "ne"),
        ("during", "dure"),
        ("his", "hi"),
    ],
)
def test_words_that_look_alike_stay_two(one: str, other: str) -> None:
    # G18
    assert stem(one) != stem(other)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Who's the King?", "who s the king"),
        ("whos the king", "who s the king"),
        ("I don't know", "i don t know"),
        ("dont know", "don t know"),
        ("Éowyn, naïve", "eowyn naive"),
        ("STRASSE Straße", "strasse strasse"),
        ("he rules_lawyers", "he rules_lawyers"),
        ("...", ""),
    ],
)
def test_words_without_case_accents_and_apostrophes(text: str, words: str) -> None:
    # G18: as recognisers write them
    assert plain_words(text) == words.split()


def test_what_a_word_is_beside_its_stem() -> None:
    assert PAST in keys_of("killed")
    assert PAST in keys_of("fought")
    assert PAST not in keys_of("hundred")
    assert PAST not in keys_of("need")
    assert FILLER in keys_of("very")
    assert FILLER not in keys_of("dragon")


def test_of_a_very_long_text_the_ends_are_heard() -> None:
    words = words_of("first " + "middle " * 100_000 + "last")
    assert len(words) == 400
    assert (words[0], words[-1]) == ("first", "last")


@given(st.text(max_size=60))
def test_every_word_has_a_stem(text: str) -> None:
    for word in plain_words(text):
        assert word
        assert stem(word)
        assert keys_of(word)


def test_what_is_too_long_for_a_word_has_no_forms() -> None:
    assert keys_of("x" * 10_000 + "s") == ("x" * 10_000 + "s",)
