"""A continuation is said once, whatever a model makes of its opener."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.npc.engines.continuation import Continuation


def heard(opener: str, *pieces: str, joined: bool = True) -> str:
    continuation = Continuation(opener, joined)
    return "".join([*map(continuation.feed, pieces), continuation.end()])


@pytest.mark.parametrize(
    ("opener", "text", "new"),
    [
        ("Hm, let me see.", " The king is dead.", " The king is dead."),
        ("Hm, let me see.", "The king is dead.", " The king is dead."),
        ("Hm, let me see.", "Hm, let me see. The king.", " The king."),
        ("Hm, let me see.", "hm,  let me\nsee.\nThe king.", "\nThe king."),
        ("“Hm,” let me see.", '"Hm," let me see. The king.', " The king."),
        ("Hm, let me see.", "*Hm, let me see.* The king.", " The king."),
        ("Hm, let me see.", "Hm, let me see.", ""),  # and that was all
        ("Hm, let me see.", "Hm, let me think. No.", " Hm, let me think. No."),
        ("Hm, let me see.", "Hm, let", " Hm, let"),
        ("Hm, let me see.", "", ""),
        ("by the old", " mill", " mill"),
        ("by the old", ", and", ", and"),  # a sentence that was cut goes on
        ("by the old", "by the old mill", " mill"),
        ("by the old", "by the older mill", " by the older mill"),
        ("No.", "No. Never.", " Never."),
        ("...", "Aye.", " Aye."),
    ],
)
def test_what_is_new(opener: str, text: str, new: str) -> None:
    assert heard(opener, text) == heard(opener, *text) == new


def test_a_repetition_costs_no_time_beyond_itself() -> None:
    continuation = Continuation("Hm, let me see.")
    assert continuation.feed("Hm") == ""
    assert continuation.feed("m. The") == " Hmm. The"  # another word: all of it, now
    assert continuation.feed(" king") == " king"


def test_in_later_rounds_nothing_is_joined() -> None:
    assert heard("Hm.", "The king.", joined=False) == "The king."
    assert heard("Hm.", "Hm. The king.", joined=False) == " The king."


WORDS = st.lists(
    st.sampled_from(["Hm", "let", "the", "old", "older", "STRASSE", "straße", "'s"]),
    max_size=6,
).map(" ".join)
STOPS = st.sampled_from(["", ".", "...", "?!", '."'])
phrases = st.builds(str.__add__, WORDS, STOPS) | st.text(max_size=12)


@given(phrases, phrases, st.lists(st.integers(0, 60), max_size=8), st.booleans())
def test_any_chunking_gives_the_same_and_only_the_opener_is_dropped(
    opener: str, text: str, cuts: list[int], joined: bool
) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    new = heard(opener, *pieces, joined=joined)
    assert new == heard(opener, text, joined=joined)
    assert text.endswith((new, new.removeprefix(" ")))


@given(WORDS, phrases)
def test_an_opener_that_is_written_again_is_said_once(words: str, rest: str) -> None:
    opener = f"{words}."
    assert heard(opener, f"{opener} {rest}") == f" {rest}"
