"""Numbers in words."""

from __future__ import annotations

import pytest

from glyphoxa_trio.units import many


@pytest.mark.parametrize(
    ("one", "more"),
    [
        ("tool", "tools"),
        ("entity", "entities"),
        ("day", "days"),
        ("more search", "more searches"),
        ("box", "boxes"),
        ("class", "classes"),
    ],
)
def test_one_thing_is_singular_and_any_other_number_plural(one: str, more: str) -> None:
    assert many(1, one) == f"1 {one}"
    assert [many(n, one) for n in (0, 2, 21)] == [f"{n} {more}" for n in (0, 2, 21)]


def test_a_verb_goes_with_its_number() -> None:
    assert many(1, "session is", "sessions are") == "1 session is"
    assert many(2, "session is", "sessions are") == "2 sessions are"
