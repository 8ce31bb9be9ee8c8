"""The page docs/acceptance.md: every promise is a sentence, and its tests are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(
    r"\| ([GANF]\d+) \| ([^|]*?) ?\| (done|part|not yet) \| (.*?) ?\|$", re.MULTILINE
)
SPAN = re.compile(r"\b([A-Z])(\d+) to [A-Z]?(\d+)\b")

PAGE = (ROOT / "docs" / "acceptance.md").read_text(encoding="utf-8")
ROWS = ROW.findall(PAGE)


def test_every_row_is_there_once() -> None:
    rows = [row for row, *_ in ROWS]
    counts = {"G": 43, "A": 54, "N": 32, "F": 50}
    expected = [f"{k}{n}" for k, most in counts.items() for n in range(1, most + 1)]
    assert rows == expected


def test_no_line_of_a_table_is_left_out() -> None:
    lines = re.findall(r"^\| [GANF]\d+ .*", PAGE, re.MULTILINE)
    assert len(lines) == len(ROWS)


@pytest.mark.parametrize(("row", "promise"), [row[:2] for row in ROWS])
def test_a_row_says_in_a_sentence_what_it_promises(row: str, promise: str) -> None:
    assert re.match(r"[A-Z`].*[^.]\.$", promise), f"{row} is no sentence: {promise!r}"
    assert len(promise.split()) >= 5, f"{row} promises too little: {promise!r}"
    same = [other for other, text, *_ in ROWS if text == promise]
    assert same == [row]


def marks(path: Path) -> set[str]:
    """The rows that the comments of a test file name."""
    found: set[str] = set()
    for comment in re.findall(r"#(.*)", path.read_text()):
        found |= set(re.findall(r"\b[GANF]\d{1,2}\b", comment))
        for kind, first, last in SPAN.findall(comment):
            found |= {f"{kind}{n}" for n in range(int(first), int(last) + 1)}
    return found


@pytest.mark.parametrize(
    ("row", "state", "shown"),
    [(row, state, shown) for row, _, state, shown in ROWS],
    ids=[row for row, *_ in ROWS],
)
def test_a_row_is_shown_where_it_says(row: str, state: str, shown: str) -> None:
    files = re.findall(r"`(tests/[\w/.]+)`", shown)
    assert bool(files) == (state != "not yet")
    if state == "part":
        assert re.match(r"\w+ [^`]*: `", shown), f"{row} does not say what is missing"
    for file in files:
        assert row in marks(ROOT / file), f"{file} has no mark for {row}"
