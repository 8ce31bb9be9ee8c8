"""The page on security names tests; they are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "security.md"
_NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_every_test_that_the_page_names_exists() -> None:
    named = _NAMED.findall(PAGE.read_text())
    assert len(named) >= 8
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (TESTS / file).is_file()
        or not re.search(rf"def {test}\(", (TESTS / file).read_text())
    ]
    assert not missing


def test_every_row_of_an_attack_names_a_test() -> None:
    attacks = PAGE.read_text().partition("## Attacks")[2].partition("\n## ")[0]
    rows = [row for row in attacks.splitlines() if row.startswith("| ")][2:]
    assert rows
    assert [row for row in rows if not _NAMED.search(row)] == []
