"""Words, snippets and the relevance of lines, as all stores compare them."""

from __future__ import annotations

import sys

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.memory.relevance import relevance
from glyphoxa_trio.memory.snippet import MOST, snippet, snippet_of_line
from glyphoxa_trio.memory.words import words_in_line, words_of

_TEXTS = st.text(max_size=300)


@given(_TEXTS)
def test_words_of_words_are_the_words(text: str) -> None:
    words = words_of(text)
    assert words_of(" ".join(words)) == words


def test_letters_without_a_small_form_of_their_own_have_the_plain_one() -> None:
    assert words_of("\N{MATHEMATICAL BOLD CAPITAL A}bc") == ["abc"]
    assert words_of("ÉLOÏSE, Straße; STRASSE x_y") == [
        "eloise",
        "strasse",
        "strasse",
        "x",
        "y",
    ]


@pytest.mark.long
def test_the_index_of_a_file_takes_every_word_as_it_is() -> None:
    words = {
        word
        for number in range(sys.maxunicode + 1)
        for word in words_of(f"a{chr(number)}")
    }
    with apsw.Connection(":memory:") as connection:
        connection.execute(
            """create virtual table written using fts5 (
                words, content='', contentless_delete=1, tokenize='ascii');
            create virtual table terms using fts5vocab (written, 'row')"""
        )
        connection.executemany(
            "insert into written (rowid, words) values (?, ?)",
            enumerate(sorted(words), 1),
        )
        terms = {term for (term,) in connection.execute("select term from terms")}
    assert terms == words


def test_a_correction_adds_the_words_that_are_new() -> None:
    assert words_in_line("the wurm, the wurm", "the wyrm") == [
        "the",
        "wurm",
        "the",
        "wurm",
        "wyrm",
    ]


@given(_TEXTS, st.lists(st.text(max_size=5), max_size=3))
def test_a_snippet_is_short_and_a_part_of_the_text(text: str, words: list[str]) -> None:
    passage = snippet(text, [x for word in words for x in words_of(word)])
    assert len(passage) <= MOST
    assert passage.strip("…").strip() in text


@given(
    st.text(st.sampled_from("abc  é"), max_size=2000),
    st.text(st.sampled_from("abc  é"), max_size=2000),
)
def test_a_snippet_has_the_word_in_it(before: str, behind: str) -> None:
    passage = snippet(f"{before} Dragon {behind}", ["dragon"])
    assert "Dragon" in passage
    assert len(passage) <= MOST


def test_a_snippet_of_a_text_in_one_piece_ends_somewhere() -> None:
    passage = snippet("x" * 5000, ["y"])
    assert passage == "x" * (MOST - 1) + "…"


def test_a_snippet_begins_and_ends_between_words() -> None:
    text = f"{'some words ' * 30}Dragon {'more words ' * 30}"
    passage = snippet(text, ["dragon"])
    assert set(passage.strip("…").split()) == {"some", "more", "words", "Dragon"}
    assert passage[0] == passage[-1] == "…"


def test_a_line_is_shown_as_corrected_if_only_that_has_the_word() -> None:
    assert snippet_of_line("the wurm", "the wyrm", ["wyrm"]) == "the wyrm"
    assert snippet_of_line("the wurm", "the wyrm", ["wurm"]) == "the wurm"
    assert snippet_of_line("the wurm", "", ["wyrm"]) == "the wurm"


def test_rare_words_repeated_words_and_short_lines_are_more_relevant() -> None:
    common = {"gold": 1000, "dragon": 3}
    assert relevance(["dragon", "x"], common) > relevance(["gold", "x"], common)
    assert relevance(["gold", "gold"], common) > relevance(["gold", "x"], common)
    assert relevance(["gold"], common) > relevance(["gold", *"abcdef"], common)
    assert relevance(["x"], common) == 0
    assert relevance([], common) == 0


@given(
    st.lists(st.sampled_from("abcd")),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**6)),
)
def test_the_relevance_is_below_one(words: list[str], lines: dict[str, int]) -> None:
    assert 0 <= relevance(words, lines) < 1
    assert (relevance(words, lines) > 0) is not lines.keys().isdisjoint(words)
