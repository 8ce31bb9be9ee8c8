"""docs/acceptance.md and docs/security.md name the tests that show each promise, and
these exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from .repository import File, Finding, Repository

_ACCEPTANCE: Final = "docs/acceptance.md"
_SECURITY: Final = "docs/security.md"
# How many promises there are of each kind.
_COUNTS: Final = {"G": 43, "A": 54, "N": 32, "F": 50}
_LINE: Final = re.compile(r"(?m)^\| (?P<row>[GANF]\d+) \|.*")
_ROW: Final = re.compile(
    r"\| (?P<row>\w+) \| (?P<promise>[^|]*?) ?\| (?P<state>done|part|not yet)"
    r" \| (?P<shown>.*?) ?\|$"
)
_FILE: Final = re.compile(r"`(tests/[\w/.]+)`")
_SPAN: Final = re.compile(r"\b([A-Z])(\d+) to [A-Z]?(\d+)\b")
_TEST: Final = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows_are_complete(repository: Repository) -> Iterator[Finding]:
    page = repository.file(_ACCEPTANCE)
    names: list[str] = []
    said: dict[str, str] = {}
    for line, name, row in _rows(page):
        names.append(name)
        if row is None:
            text = (
                f"{name} is no row; write: | row | promise | done, part or not yet | |"
            )
            yield page.wrong(line, text)
            continue
        promise = row["promise"]
        if not re.match(r"[A-Z`].*[^.]\.$", promise) or len(promise.split()) < 5:
            yield page.wrong(line, f"{name} is no sentence; say what is promised")
        if (other := said.setdefault(promise, name)) != name:
            yield page.wrong(
                line, f"{name} promises what {other} does; say what is new"
            )
    expected = [f"{k}{n}" for k, most in _COUNTS.items() for n in range(1, most + 1)]
    if names != expected:
        wrong = ", ".join(sorted({*names} ^ {*expected})) or "their order"
        text = f"the rows are not those of _COUNTS in tests/lint/promises.py: {wrong}"
        yield page.wrong(1, text)


def rows_are_shown(repository: Repository) -> Iterator[Finding]:
    page = repository.file(_ACCEPTANCE)
    for line, name, row in _rows(page):
        if row is None:
            continue
        files = _FILE.findall(row["shown"])
        if bool(files) == (row["state"] == "not yet"):
            text = (
                f"{name} is {row['state']}; name its tests, if and only if it has any"
            )
            yield page.wrong(line, text)
        if row["state"] == "part" and not re.match(r"\w+ [^`]*: `", row["shown"]):
            text = f"{name} is not whole; say what is missing, and then the tests"
            yield page.wrong(line, text)
        for shown in files:
            file = repository.file(shown)
            if not file.path.is_file():
                text = f"{name} names {shown}, which is not there; name its tests"
                yield page.wrong(line, text)
            elif not file.path.name.startswith("test_"):
                yield page.wrong(line, f"{name} names {shown}, which has no tests")
            elif name not in _marks(file):
                text = f"no comment in {shown} has {name}; mark the test that shows it"
                yield page.wrong(line, text)


def attacks_are_shown(repository: Repository) -> Iterator[Finding]:
    page = repository.file(_SECURITY)
    for named in _TEST.finditer(page.text):
        file = repository.file(f"tests/{named[1]}")
        if not file.path.is_file() or not re.search(rf"def {named[2]}\(", file.text):
            text = (
                f"there is no test {named[1]}::{named[2]}; name the one that shows it"
            )
            yield page.wrong(page.line_of(named.start()), text)
    begins = page.text.find("## Attacks")
    rows = re.finditer(r"(?m)^\| .*|^## ", page.text[begins + len("## Attacks") :])
    for number, row in enumerate(rows):
        if row[0] == "## ":
            break
        if number >= 2 and not _TEST.search(row[0]):  # below the heads of the columns
            line = page.line_of(begins + len("## Attacks") + row.start())
            yield page.wrong(
                line, "this attack names no test; name the one that shows it"
            )


def _rows(page: File) -> Iterator[tuple[int, str, re.Match[str] | None]]:
    for found in _LINE.finditer(page.text):
        yield page.line_of(found.start()), found["row"], _ROW.fullmatch(found[0])


@cache
def _marks(file: File) -> frozenset[str]:
    """Return the rows that the comments of a test file name."""
    found: set[str] = set()
    for comment in re.findall(r"#(.*)", file.text):
        found |= set(re.findall(r"\b[GANF]\d{1,2}\b", comment))
        for kind, first, last in _SPAN.findall(comment):
            found |= {f"{kind}{n}" for n in range(int(first), int(last) + 1)}
    return frozenset(found)
