"""References to the past, by the phrases of the tier selector."""

from __future__ import annotations

import pytest

from glyphoxa_trio.recall.references import reference_in


@pytest.mark.parametrize(
    "text",
    [
        "last time you said the gate was open",
        "remember when we fought the dragon?",
        "what did Bartok say about the key",
        "did you promise us a horse",
        "who was here yesterday",
    ],
)
def test_the_past_is_referred_to(text: str) -> None:
    assert reference_in(text).past
    assert reference_in(text).asks


@pytest.mark.parametrize("text", ["tell me about the sage", "where is the king"])
def test_a_question_asks_without_the_past(text: str) -> None:
    assert reference_in(text).asks
    assert not reference_in(text).past


@pytest.mark.parametrize("text", ["another ale, please", "hello", "I attack", ""])
def test_ordinary_talk_refers_to_nothing(text: str) -> None:
    assert not reference_in(text).asks
    assert not reference_in(text).past
