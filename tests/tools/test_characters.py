"""Hidden characters: taken out on a terminal, shown where somebody decides."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.characters import MOST_MARKS, harmless, visible

_BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
_TAGGED = "".join(chr(0xE0000 + ord(char)) for char in "ignore it")


@given(st.text())
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    left = harmless(text)
    assert not any(char in _BIDI for char in left)
    for char in left:
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
    left.encode()  # no half of a pair, at which a terminal's encoder fails


@given(st.text())
def test_nothing_hidden_is_left_where_somebody_decides(text: str) -> None:
    signs = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
    hidden = ("Cc", "Cf", "Cs", "Co", "Cn")
    for char in visible(text):
        if char not in "\n\t\U000110bd\U000110cd" + signs:
            assert unicodedata.category(char) not in hidden


@pytest.mark.parametrize(
    "text",
    [
        "שלום עולם",
        "مرحبا بالعالم",
        "می\u200cخواهم",  # noqa: RUF001 Persian, and a character without width
        "नमस्ते",
        "👩\u200d🚀 reaches for the torch",
        "naïve, e\u0301 and e\u0301\u0323",
    ],
)
def test_text_of_every_script_stays_readable(text: str) -> None:
    assert harmless(text) == text


def test_a_flood_of_marks_is_cut() -> None:
    flood = "a" + "\u0301" * 500
    assert harmless(flood) == "a" + "\u0301" * MOST_MARKS
    assert visible(flood).count("⟨U+0301⟩") == 500 - MOST_MARKS


@pytest.mark.parametrize(
    "char",
    ["\u200b", "\u202e", "\u00ad", "\ufe0f", "\ue000", "\u3164", "\ufeff", "\u00a0"],
)
def test_each_kind_of_hidden_character_is_marked(char: str) -> None:
    assert visible(f"a{char}b") == f"a⟨U+{ord(char):04X}⟩b"


def test_tag_characters_are_read_out() -> None:
    assert visible(f"Rolls dice.{_TAGGED}") == (
        "Rolls dice.⟨hidden tag characters: ignore it⟩"
    )
    assert harmless(f"Rolls dice.{_TAGGED}") == "Rolls dice."
