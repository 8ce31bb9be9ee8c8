"""Numbers, letters and ages as they are said. Pure."""

from __future__ import annotations

import pytest

from glyphoxa_trio.servers.atis.words import Manner, ago, listed

SAY = Manner()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "zero"),
        (50, "five zero"),
        (100, "one hundred"),
        (900, "niner hundred"),
        (1000, "one thousand"),
        (1050, "one zero five zero"),
        (1500, "one thousand five hundred"),
        (10_000, "one zero thousand"),
        (25_300, "two five thousand three hundred"),
    ],
)
def test_numbers(number: int, said: str) -> None:
    assert SAY.number(number) == said


def test_digits_signs_and_decimals() -> None:
    assert SAY.digits(5, 3) == "zero zero five"
    assert Manner(niner=False).digits(90) == "nine zero"
    assert (SAY.signed(-12), SAY.signed(0)) == ("minus one two", "zero")
    assert SAY.decimal("118.300") == "one one eight decimal three"
    assert SAY.decimal("118.325") == "one one eight decimal three two five"
    assert SAY.decimal("121.000") == "one two one decimal zero"


def test_letters_and_runways() -> None:
    assert SAY.letters("E2X") == "Echo two X-ray"
    assert Manner(phonetic=False).letters("E2X") == "E two X"
    assert SAY.runway("01L") == "zero one left"
    assert SAY.runway("36") == "three six"
    assert SAY.runway("09C") == "zero niner centre"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "less than a minute ago"),
        (59, "less than a minute ago"),
        (60, "one minute ago"),
        (40 * 60 + 59, "forty minutes ago"),
        (59 * 60, "fifty-nine minutes ago"),
        (3600, "one hour ago"),
        (3600 * 2 + 660, "two hours and eleven minutes ago"),
        (3600 * 23 + 3540, "twenty-three hours and fifty-nine minutes ago"),
        (3600 * 24, "more than a day ago"),
    ],
)
def test_ages(seconds: float, said: str) -> None:
    assert ago(seconds) == said


def test_lists() -> None:
    assert [listed(["a", "b", "c"][:count]) for count in range(4)] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
