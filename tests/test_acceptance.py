"""docs/acceptance.md says nothing that the tests do not say, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"\| ([GANF]\d+) \| (done|part|not yet) \| (.*?) ?\|")
SPAN = re.compile(r"\b([A-Z])(\d+) to [A-Z]?(\d+)\b")

ROWS = ROW.findall((ROOT / "docs" / "acceptance.md").read_text())


def test_every_row_is_there_once() -> None:
    rows = [row for row, _, _ in ROWS]
    counts = {"G": 43, "A": 54, "N": 32, "F": 50}
    expected = [f"{k}{n}" for k, most in counts.items() for n in range(1, most + 1)]
    assert rows == expected


def marks(path: Path) -> set[str]:
    """The rows that the comments of a test file name."""
    found: set[str] = set()
    for comment in re.findall(r"#(.*)", path.read_text()):
        found |= set(re.findall(r"\b[GANF]\d{1,2}\b", comment))
        for kind, first, last in SPAN.findall(comment):
            found |= {f"{kind}{n}" for n in range(int(first), int(last) + 1)}
    return found


@pytest.mark.parametrize(("row", "state", "shown"), ROWS, ids=[row for row, *_ in ROWS])
def test_a_row_is_shown_where_it_says(row: str, state: str, shown: str) -> None:
    files = re.findall(r"`(tests/[\w/.]+)`", shown)
    assert bool(files) == (state != "not yet")
    for file in files:
        assert row in marks(ROOT / file), f"{file} has no mark for {row}"
