"""Sentences out of a stream: the same ones however it is cut, and nothing lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.npc.sentences import Sentences


def split(*pieces: str) -> list[str]:
    sentences = Sentences()
    found = [whole for piece in pieces for whole in sentences.feed(piece)]
    return [*found, *sentences.end()]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Hello there.", "How are you?", "Fine!"],
        ["Dr. Ahn paid 3.50 for it, i.e. too much.", "She left."],
        ["Mr. J. R. Smith lives in St. Ives.", "He waits."],
        ["Use rope, torches, etc. for the climb.", "Go."],
        ["The cost is 12.", "Pay it."],
        ["Version 2.5.1 it is.", "Good."],
        ["Wait... what is that?", "A bear!"],
        ["Wait…", "That is a bear."],
        ["Well... maybe.", "Or not."],
        ['"Run!" she cried.', "He ran."],
        ['"Run!"', "He ran."],
        ["(He lied.)", "Nobody knew."],
        ["“Is it you?” he asked.", "“Yes.”", "Silence."],
        ["You did WHAT?!", "Oh no!!!"],
        ["1. Take the sword.", "2. Leave."],
        ["no newline", "needs a stop", "at all"],
        ["Ünder Öl.", "Ärger…", "Ñandú?"],
    ],
    ids=lambda sentences: sentences[0][:20],
)
def test_what_is_a_sentence(sentences: list[str]) -> None:
    joint = "\n" if sentences[0].startswith(("1.", "no newline")) else " "
    assert split(joint.join(sentences)) == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n\t ", []),
        ("no end", ["no end"]),
        ("  one.  \n\n  two.  ", ["one.", "two."]),
        ("A list:\n- one\n- two", ["A list:", "- one", "- two"]),
        ("a\r\nb", ["a", "b"]),
        ("...", ["..."]),
        ("? !", ["?", "!"]),
        ("No.More", ["No.More"]),  # a stop without a blank after it ends nothing
    ],
)
def test_blanks_and_lines(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


def test_a_sentence_comes_as_soon_as_it_is_certain() -> None:
    sentences = Sentences()
    assert sentences.feed("It is open.") == []  # "It is open.5" could follow
    assert sentences.feed(" ") == []  # so could a lower-case word
    assert sentences.feed("C") == ["It is open."]
    assert sentences.feed("ome in") == []
    assert sentences.feed("\n") == ["Come in"]
    assert sentences.feed("Sit down.\n") == ["Sit down."]  # a line is certain at once
    assert sentences.end() == []
    assert sentences.feed("Again. And") == ["Again."]
    assert sentences.end() == ["And"]
    assert sentences.end() == []
    assert sentences.feed("Dr. Ahn") == []
    assert sentences.end() == ["Dr. Ahn"]
    assert sentences.feed("Go. On") == ["Go."]  # nothing is left of the text before


PIECES = st.sampled_from(
    [
        *("Hello", "the bear", "Dr", "e.g", "J", "12", "3.5", "A", "well", "is"),
        *(".", "!", "?", "…", "...", '"', "'", ")", "(", "“", "”", ","),
        *(" ", " ", "\n", "\t", "\r\n", "\u00a0", "  "),
    ]
)
prose = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=60)


@given(prose, st.lists(st.integers(0, 90), max_size=12))
def test_any_chunking_gives_the_same_sentences(text: str, cuts: list[int]) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert split(*pieces) == split(text)
    assert split(*text) == split(text)


@given(prose)
def test_nothing_but_blanks_is_lost(text: str) -> None:
    sentences = split(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


@pytest.fixture
def five_seconds_of_work() -> Iterator[None]:
    """Fails, instead of hanging, a test that takes more of the processor."""

    def too_much(*_: object) -> None:
        raise AssertionError("five seconds of the processor were not enough")

    before = signal.signal(signal.SIGPROF, too_much)
    signal.setitimer(signal.ITIMER_PROF, 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("piece", [".", "?!", "Dr. ", "... and ", '." ', "1. ", "x"])
def test_a_model_that_repeats_itself_holds_nobody_up(
    piece: str, five_seconds_of_work: None
) -> None:
    # Work that grows with the cube of the length would stop the whole table, every
    # clock included; this takes hundredths of a second.
    text = piece * 3000
    visible = "".join(text.split())
    for pieces in ([text], list(text)):
        assert "".join("".join(split(*pieces)).split()) == visible
