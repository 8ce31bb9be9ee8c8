"""Forms of a word, and what everyday words mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.words import EMPTY, SAID, meant_by, stem


@pytest.mark.parametrize(
    "forms",
    [
        "write writes writing",
        "commit commits committed committing",
        "change changes changed changing",
        "entity entities",
        "observation observations",
        "query queries queried querying",
        "directory directories",
        "run runs running",
        "address addressed addressing",
        "search searches searched searching",
        "file files",
        "list lists listed listing",
        "stage stages staged staging",
        "recursive recursively",
    ],
)
def test_forms_of_a_word_are_one(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "pair",
    [
        "log lot",
        "read ready",
        "sing song",
        "bus bush",
        "thing this",
        "king kin",
        "ring r",
    ],
)
def test_other_words_stay_apart(pair: str) -> None:
    one, other = pair.split()
    assert stem(one) != stem(other)


@given(st.text(max_size=30))
def test_any_word_has_a_stem_of_its_own_beginning(word: str) -> None:
    found = stem(word)
    assert len(found) <= len(word)
    assert bool(found) == bool(word)
    assert stem(word) == found
    if not word.isascii():
        assert found == word  # another language's


def test_everyday_words_mean_those_that_tools_use() -> None:
    assert stem("time") in meant_by("clock")
    assert {stem("url"), stem("fetch")} <= set(meant_by("websites"))
    assert stem("observations") in meant_by("remembered")
    assert meant_by("dragon") == ()


def test_a_word_that_says_nothing_stands_for_nothing() -> None:
    said = {word for words in SAID for word in words.split()}
    assert said.isdisjoint(EMPTY)
