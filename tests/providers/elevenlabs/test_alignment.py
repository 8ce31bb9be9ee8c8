"""Words in the audio of a sentence, by hand: what the vendor's messages look like."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.elevenlabs.alignment import WordedSentence, WordTimes


def times(chars: str, *, each: int = 100) -> dict[str, Any]:
    """Characters of a tenth of a second each, from the beginning of their message."""
    return {
        "chars": list(chars),
        "charStartTimesMs": [each * at for at in range(len(chars))],
        "charDurationsMs": [each] * len(chars),
    }


def clock(text: str, **pronunciation: str) -> WordTimes:
    return WordTimes(WordedSentence.of(text, pronunciation))


def test_words_end_with_their_last_character() -> None:
    words = clock("Go away!")
    assert words.hear(times("Go a"), 0.0) == [(1, 0.2)]
    assert words.hear(times("way! "), 1.0) == [(2, 1.4)]


def test_audio_without_times_tells_nothing_and_the_next_ones_do() -> None:
    words = clock("Go away!")
    assert words.hear(None, 0.0) == []
    assert words.hear(times("Go away!"), 0.5) == [(1, 0.7), (2, 1.3)]


def test_a_message_that_begins_again_tells_only_what_is_new() -> None:
    # The vendor's issue: a part of the sentence first, and then all of it.
    words = clock("Hello there, friend.")
    assert words.hear(times("Hello the"), 0.0) == [(1, 0.5)]
    assert words.hear(times("Hello there, friend. "), 0.0) == [(2, 1.2), (3, 2.0)]


def test_what_does_not_fit_the_sentence_is_not_believed_any_more() -> None:
    words = clock("It costs 75 gold.")
    assert words.hear(times("It costs "), 0.0) == [(1, 0.2), (2, 0.8)]
    assert words.hear(times("seventy-five gold."), 1.0) == []
    assert words.hear(times("75 gold."), 2.0) == []


def test_written_words_are_told_whatever_is_said_for_them() -> None:
    sentence = WordedSentence.of("Sir Vex of Ye Olde Inn.", {"vex": "Veks the Third"})
    assert sentence.text == "Sir Veks the Third of Ye Olde Inn."
    said = clock("Vex sleeps.", Vex="Veks Third")
    assert said.hear(times("Veks "), 0.0) == []
    assert said.hear(times("Third sleeps."), 1.0) == [(1, 1.5), (2, 2.3)]
    both = clock("Ye Olde Inn.", **{"Ye Olde": "old"})
    assert both.hear(times("old Inn."), 0.0) == [(1, 0.3), (2, 0.3), (3, 0.8)]


def test_a_word_for_which_blanks_are_said_ends_with_the_one_before() -> None:
    words = clock("Go away\n\nlad ", lad="  ")
    assert words.hear(times(words.sentence.text), 0.0) == [(1, 0.2), (2, 0.7), (3, 0.7)]


def test_times_do_not_run_backwards() -> None:
    words = clock("Go away!")
    assert words.hear(times("Go"), 5.0) == [(1, 5.2)]
    assert words.hear(times(" away!"), 1.0) == [(2, 5.2)]


@pytest.mark.parametrize(
    "nonsense",
    [
        "Go",
        {"chars": "Go"},
        {"chars": ["G", "o"], "charStartTimesMs": [0], "charDurationsMs": [1, 1]},
        {"chars": ["G", 7], "charStartTimesMs": [0, 1], "charDurationsMs": [1, 1]},
        {"chars": ["G"], "charStartTimesMs": ["0"], "charDurationsMs": [1]},
        {"chars": ["G"], "charStartTimesMs": [-5], "charDurationsMs": [1]},
        {"chars": ["G"], "charStartTimesMs": [float("nan")], "charDurationsMs": [1]},
        {"chars": [], "charStartTimesMs": [], "charDurationsMs": []},
    ],
    ids=repr,
)
def test_nonsense_tells_nothing(nonsense: object) -> None:
    words = clock("Go away!")
    assert words.hear(nonsense, 0.0) == []
    assert words.hear(times("Go away!"), 0.0) == [(1, 0.2), (2, 0.8)]


def test_the_older_name_of_a_field_is_understood() -> None:
    old = times("Go away!")
    old["charsDurationsMs"] = old.pop("charDurationsMs")
    assert clock("Go away!").hear(old, 0.0) == [(1, 0.2), (2, 0.8)]


TEXTS = st.text(alphabet="ab ,.\u00e9\n", max_size=30)


@given(
    text=TEXTS,
    said=st.dictionaries(
        st.sampled_from(["a", "b", "ab", "a b"]), st.text("xy ", max_size=4), max_size=2
    ),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_every_word_ends_once_wherever_messages_end(
    text: str, said: dict[str, str], cuts: list[int]
) -> None:
    sentence = WordedSentence.of(text, said)
    words = WordTimes(sentence)
    places = sorted(
        {0, len(sentence.text), *(min(x, len(sentence.text)) for x in cuts)}
    )
    told: list[tuple[int, float]] = []
    for begin, end in itertools.pairwise(places):
        told += words.hear(times(sentence.text[begin:end]), begin / 10)
    audible = [end for end in sentence.ends if sentence.text[:end].strip()]
    # Words for which nothing is said have no time before the first that is.
    if audible and len(audible) == len(sentence.ends):
        assert [count for count, _ in told] == list(range(1, len(text.split()) + 1))
    assert [end for _, end in told] == sorted(end for _, end in told)
