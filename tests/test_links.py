"""Every link of the README, the documentation and the configurations leads somewhere:
its file is there, and so is the heading or the line that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "config/**/*.md")
    for path in ROOT.glob(pattern)
)
_ELSEWHERE: Final = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_SNIPPET: Final = re.compile(r'^\s*--8<-- "([^":]+)(?::(\w+))?"$', re.MULTILINE)


def problems(page: Path) -> list[str]:
    """What is wrong with the links of a page; each names its target."""
    found = [
        wrong for target in links(page.read_text()) if (wrong := broken(page, target))
    ]
    for snippet in _SNIPPET.finditer(page.read_text()):
        path, part = ROOT / snippet[1], snippet[2]
        if not path.is_file():
            found.append(f"{snippet[1]}: no such file")
        elif part and f"[start:{part}]" not in path.read_text():
            found.append(f"{snippet[1]}:{part}: no such part")
    return found


def broken(page: Path, target: str) -> str:
    """Why a link of ``page`` leads nowhere; nothing if it does."""
    if _ELSEWHERE.match(target):
        return ""
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if name.startswith("/"):
        return f"{target}: must be relative"
    if not path.is_relative_to(ROOT):
        return f"{target}: is outside the repository"
    if not path.exists():
        return f"{target}: no such file"
    if not anchor:
        return ""
    if path.suffix == ".md":
        return "" if anchor in anchors(path) else f"{target}: no such heading"
    line = re.fullmatch(r"L(\d+)", anchor)
    there = path.is_file() and path.read_text().count("\n")
    return "" if line and int(line[1]) <= there else f"{target}: no such line"


def links(text: str) -> list[str]:
    """The targets of the links and pictures of a page; not what stands in code."""
    return [
        str(token.attrs[name])
        for token in _tokens(text)
        for name in ("href", "src")
        if name in token.attrs
    ]


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, None] = {}
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text())
    for token, inline in pairwise(tokens):
        if token.type != "heading_open":
            continue
        words = "".join(
            x.content
            for x in inline.children or ()
            if x.type in ("text", "code_inline")
        )
        plain = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        name, again = plain, 0
        while name in found:
            again += 1
            name = f"{plain}-{again}"
        found[name] = None
    return frozenset(found)


def _tokens(text: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert problems(page) == []


def test_no_page_is_left_out() -> None:
    names = {str(path.relative_to(ROOT)) for path in PAGES}
    assert {"README.md", "docs/index.md", "config/clients/README.md"} <= names
    assert "docs/tutorials/operator.md" in names


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[x](there.md)", []),
        ("[x](there.md#a-heading-of-2-words)", []),
        ("[x](there.md#a-heading-of-2-words-1)", []),
        ("[x](#mine)\n\n# Mine\n", []),
        ("[x](program.py#L2)", []),
        ("`[x](gone.md)` and\n\n```\n[x](gone.md)\n```\n", []),
        ("[x](https://gone.example/x)", []),
        ("[two\nlines](gone.md)", ["gone.md: no such file"]),
        ("![x](gone.svg)", ["gone.svg: no such file"]),
        ("[x][y]\n\n[y]: gone.md\n", ["gone.md: no such file"]),
        ("| a |\n| --- |\n| [x](gone.md) |\n", ["gone.md: no such file"]),
        ("[x](there.md#gone)", ["there.md#gone: no such heading"]),
        ("[x](program.py#L9)", ["program.py#L9: no such line"]),
        ("[x](/there.md)", ["/there.md: must be relative"]),
        ("[x](../../../x.md)", ["../../../x.md: is outside the repository"]),
        ('--8<-- "gone.py"', ["gone.py: no such file"]),
    ],
)
def test_what_the_checker_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, wrong: list[str]
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    heading = "# A heading of `2` words!\n"
    (folder / "there.md").write_text(heading + heading)
    (folder / "program.py").write_text("one\ntwo\n")
    (folder / "page.md").write_text(text)
    assert problems(folder / "page.md") == wrong
