"""The words of spoken audio that were heard: the rule of `spoken_audio`, by case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.spoken_audio import TOLERANCE, SpokenAudio

FOUR = "The door is locked."
TWO = "Go away!"


def said(*sentences: tuple[str, float], over: bool = True) -> SpokenAudio:
    """Sentences of one round, so many seconds long; the last is ``over`` or not."""
    aloud = SpokenAudio()
    for place, (text, seconds) in enumerate(sentences):
        aloud.begin(0, place, text)
        aloud.give(0, place, seconds)
        if over or place < len(sentences) - 1:
            aloud.end(0, place)
    return aloud


def heard(aloud: SpokenAudio, *sentences: str, shown: int = 0) -> list[str]:
    return aloud.heard(0, sentences, shown)


@pytest.mark.parametrize(
    ("played", "words"),
    [
        (0.0, []),
        (0.49, []),
        (0.5, ["The"]),
        (0.99, ["The"]),
        (1.0, ["The door"]),
        (1.9, ["The door is"]),
        (2.0 - TOLERANCE, [FOUR]),
        (2.0, [FOUR]),
        (2.49, [FOUR]),
        (2.5, [FOUR, "Go"]),
        (3.0, [FOUR, TWO]),
        (99.0, [FOUR, TWO]),
    ],
)
def test_a_sentence_that_is_cut_keeps_the_words_that_were_played(
    played: float, words: list[str]
) -> None:
    aloud = said((FOUR, 2.0), (TWO, 1.0))
    aloud.playback.played(played)
    assert heard(aloud, FOUR, TWO, "Never said.") == words


def test_a_sentence_of_unknown_length_counts_as_long_as_people_take_for_it() -> None:
    # Nineteen characters, fifteen a second: 1.27 s, of which 0.4 s came.
    aloud = said((FOUR, 0.4), over=False)
    aloud.playback.played(0.4)
    assert heard(aloud, FOUR) == ["The"]
    longer = said((FOUR, 4.0), over=False)
    longer.playback.played(3.0)
    assert heard(longer, FOUR) == ["The door is"]


@pytest.mark.parametrize(
    ("played", "words"),
    [
        (0.17, []),
        (0.2, ["The"]),
        (1.7, ["The"]),  # a pause, in which a share of the time would be two words
        (1.8, ["The door"]),
        (1.9, ["The door is"]),
        (2.0, [FOUR]),
        (2.5, [FOUR, "Go"]),
    ],
)
def test_words_whose_end_is_told_are_heard_when_that_was_played(
    played: float, words: list[str]
) -> None:
    aloud = said((FOUR, 2.0), (TWO, 1.0))
    for count, end in ((1, 0.2), (2, 1.8), (3, 1.9), (4, 2.0)):
        aloud.time_words(0, 0, count, end)
    aloud.playback.played(played)
    assert heard(aloud, FOUR, TWO) == words


@pytest.mark.parametrize(
    ("played", "words"),
    [(0.9, ["The"]), (1.0, ["The door"]), (1.4, ["The door"]), (1.5, ["The door is"])],
)
def test_after_the_last_word_whose_end_is_told_the_rest_is_a_share(
    played: float, words: list[str]
) -> None:
    aloud = said((FOUR, 2.0))
    aloud.time_words(0, 0, 1, 0.1)
    aloud.time_words(0, 0, 2, 1.0)
    aloud.playback.played(played)
    assert heard(aloud, FOUR) == words


def test_ends_are_believed_of_a_sentence_that_broke_off() -> None:
    aloud = said((FOUR, 1.0), over=False)
    aloud.time_words(0, 0, 2, 0.8)
    aloud.playback.played(1.0)
    assert heard(aloud, FOUR) == ["The door"]  # of "is locked." 0.2 s, of 0.67 probably


def test_a_filler_takes_time_and_is_no_word_of_the_answer() -> None:
    aloud = SpokenAudio()
    aloud.give_filler(1.0)
    aloud.begin(0, 0, TWO)
    aloud.give(0, 0, 1.0)
    aloud.end(0, 0)
    aloud.playback.played(1.5)
    assert heard(aloud, TWO) == ["Go"]


def test_what_could_not_be_said_counts_as_text_does() -> None:
    aloud = said((FOUR, 1.0))
    aloud.begin(0, 1, "Mute.")
    aloud.end(0, 1, failed=True)
    aloud.begin(0, 2, TWO)
    aloud.give(0, 2, 1.0)
    aloud.end(0, 2)
    aloud.playback.played(2.0)
    assert heard(aloud, FOUR, "Mute.", TWO, shown=1) == [FOUR, TWO]
    assert heard(aloud, FOUR, "Mute.", TWO, shown=2) == [FOUR, "Mute.", TWO]


def test_nothing_counts_after_what_was_cut() -> None:
    aloud = said((FOUR, 2.0))
    aloud.begin(0, 1, "Mute.")
    aloud.end(0, 1, failed=True)
    aloud.playback.played(1.0)
    assert heard(aloud, FOUR, "Mute.", shown=2) == ["The door"]


def test_what_broke_off_in_the_middle_is_no_whole_sentence() -> None:
    aloud = SpokenAudio()
    aloud.begin(0, 0, FOUR)
    aloud.give(0, 0, 0.7)  # of 1.27 s, probably
    aloud.end(0, 0, failed=True)
    aloud.begin(0, 1, TWO)
    aloud.give(0, 1, 1.0)
    aloud.end(0, 1)
    aloud.playback.played(9.0)
    assert heard(aloud, FOUR, TWO) == ["The door", TWO]


def test_nothing_to_say_is_no_end() -> None:
    aloud = said((FOUR, 1.0), ("…", 0.0), (TWO, 1.0), ("", 0.0), over=True)
    aloud.playback.played(2.0)
    assert heard(aloud, FOUR, "…", TWO, "") == [FOUR, "…", TWO, ""]


@given(
    st.lists(st.tuples(st.text("ab ", min_size=1), st.floats(0, 5)), max_size=5),
    st.lists(st.floats(0, 30), min_size=1),
    st.booleans(),
)
def test_more_that_was_played_is_never_less_that_was_heard(
    sentences: list[tuple[str, float]], reports: list[float], over: bool
) -> None:
    aloud = said(*sentences, over=over)
    texts = [text for text, _ in sentences]
    before = ""
    for report in reports:
        aloud.playback.played(report)
        now = " ".join(" ".join(heard(aloud, *texts)).split())
        assert " ".join(texts).split()[: len(now.split())] == now.split()
        assert now.startswith(before)
        before = now


def test_the_first_report_decides_what_counts() -> None:
    exchange = Exchange("Ann", "Hello?")
    first = exchange.begin_round()
    first.sentences += [FOUR, TWO]
    exchange.delivered(0)
    exchange.played(9.0)  # it has no audio: nothing to report
    assert exchange.heard == FOUR
    exchange.aloud = said((FOUR, 2.0), (TWO, 1.0))
    assert exchange.heard == FOUR  # nobody has said what was played
    exchange.played(0.0)
    assert exchange.heard == ""
    exchange.played(1.0)
    assert exchange.heard == "The door"
    second = exchange.begin_round()
    second.sentences.append("More.")
    exchange.delivered(1)
    assert exchange.heard == "The door"
    exchange.played(3.0)
    assert exchange.heard == f"{FOUR} {TWO}"
    told = [message.content for message in exchange.messages(heard_only=True)]
    assert told == ["Hello?", f"{FOUR} {TWO}"]
