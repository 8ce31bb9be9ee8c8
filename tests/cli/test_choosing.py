"""The meaning of an answer to a list of choices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.cli.choosing import choose, chosen, numbered


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ("all", {0, 1, 2, 3, 4}),
        ("Y", {0, 1, 2, 3, 4}),
        ("", set()),
        ("none", set()),
        (" no ", set()),
        ("1 3-5", {0, 2, 3, 4}),
        ("2,4", {1, 3}),
        ("2, 2", {1}),
    ],
)
def test_an_answer_means_lines(answer: str, lines: set[int]) -> None:
    assert set(chosen(answer, 5) or ()) == lines


@pytest.mark.parametrize(
    "answer", ["0", "6", "4-2", "1-9", "maybe", "1 x", "-1", "1--2", "9" * 30, ","]
)
def test_what_cannot_be_understood_means_nothing(answer: str) -> None:
    assert chosen(answer, 5) is None


@given(st.text(), st.integers(0, 9))
def test_no_answer_means_a_line_that_is_not_there(answer: str, count: int) -> None:
    assert (chosen(answer, count) or frozenset()) <= set(range(count))


async def test_it_is_asked_until_it_can_be_understood_three_times_at_most() -> None:
    answers, told = ["x", "y9", "7", "all"], list[str]()

    async def answer() -> str | None:
        return answers.pop(0)

    picked = await choose("which?", 2, tell=told.append, answer=answer)
    assert picked == frozenset()
    assert answers == ["all"]
    assert [text for text in told if text.startswith("which?")] == [
        "which? (all, none, or numbers such as 1 3-5) [none] "
    ] * 3

    async def nobody() -> str | None:
        return None

    assert await choose("which?", 2, tell=told.append, answer=nobody) == frozenset()


def test_what_goes_on_in_a_second_line_stands_below_its_first() -> None:
    assert numbered(["a\nb", "c"]) == ["  1  a\n     b", "  2  c"]
