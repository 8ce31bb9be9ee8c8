"""The documentation refers to what exists: files, headings, tests and commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .repository import File, Finding, Repository

_ELSEWHERE: Final = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_PROGRAM: Final = re.compile(
    r"^```(?:python|yaml)(?P<title>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINKED: Final = re.compile(r"\]\(\.\./(examples/[^)\s]+\.(?:py|yaml))\)")
_TEST: Final = re.compile(r"`(tests/[\w/.]*\w)/?`")
_MAKE: Final = re.compile(r"(?m)`make ([a-z][\w-]*)[^`\n]*`|^make ([a-z][\w-]*)$")
_TUTORIALS: Final = "docs/tutorials/"
# Their programs are the tutorials'.
_EXAMPLES: Final = ("inn", "herbs", "service")


def links_lead_somewhere(repository: Repository) -> Iterator[Finding]:
    for page in repository.pages.values():
        for line, target in _links(page):
            if wrong := _broken(repository, page, target):
                yield page.wrong(line, f"the link {target} {wrong}")


def tests_and_targets_exist(repository: Repository) -> Iterator[Finding]:
    targets = {*re.findall(r"(?m)^([\w-]+):", repository.file("Makefile").text)}
    for page in repository.pages.values():
        for found in _TEST.finditer(page.text):
            if not (repository.root / found[1]).exists():
                text = f"there is no {found[1]}; name the test that shows it now"
                yield page.wrong(page.line_of(found.start()), text)
        for found in _MAKE.finditer(page.text):
            if (target := found[1] or found[2]) not in targets:
                text = f"the Makefile has no target {target}; name the one that does it"
                yield page.wrong(page.line_of(found.start()), text)


def navigation_has_every_page(repository: Repository) -> Iterator[Finding]:
    site = repository.file("mkdocs.yml")
    named = re.findall(r"(?m)^ *- [^#:\n]+: (\S+\.md)$", site.text)
    pages = {
        shown.removeprefix("docs/")
        for shown in repository.pages
        if shown.startswith("docs/")
    }
    for name in sorted(pages ^ {*named}):
        where = "has no page" if name in named else "leaves out the page"
        yield site.wrong(1, f"nav {where} docs/{name}; correct nav")
    for name in sorted({x for x in named if named.count(x) > 1}):
        yield site.wrong(1, f"nav has docs/{name} twice; take one out")


def examples_are_shown(repository: Repository) -> Iterator[Finding]:
    """What a tutorial shows is in an example that it links, and is all of it where it
    is to be written; and each of the tutorials' programs is in one."""
    tutorials = [
        x for shown, x in repository.pages.items() if shown.startswith(_TUTORIALS)
    ]
    for page in tutorials:
        linked = [
            (repository.root / "docs" / target).read_text()
            for target in _LINKED.findall(page.text)
        ]
        for block in _PROGRAM.finditer(page.text):
            text, whole = block["text"].strip("\n"), "title=" in block["title"]
            if not any(
                text == of.strip("\n") if whole else text in of for of in linked
            ):
                shown = "is" if whole else "is in"
                text = f"this {shown} none of the examples that the page links; copy it"
                yield page.wrong(page.line_of(block.start()), text)
    together = "".join(page.text for page in tutorials)
    for folder in _EXAMPLES:
        for path in sorted((repository.root / "docs" / "examples" / folder).iterdir()):
            name = f"{folder}/{path.name}"
            if path.suffix in (".py", ".yaml") and name not in together:
                text = "no tutorial shows or links it; do, or delete it"
                yield Finding(f"docs/examples/{name}", 1, text)


def readme_shows_examples(repository: Repository) -> Iterator[Finding]:
    """What the README shows is run, since the examples are."""
    readme = repository.file("README.md")
    examples = [program.text for program in repository.programs]
    for block in re.finditer(r"(?s)```python\n(.*?)```", readme.text):
        if not any(block[1].strip() in text for text in examples):
            text = "this program is in no file of docs/examples; copy it from there"
            yield readme.wrong(readme.line_of(block.start()), text)


def _broken(repository: Repository, page: File, target: str) -> str:
    """Why a link of ``page`` leads nowhere, and the remedy; nothing if it does."""
    if _ELSEWHERE.match(target):
        return ""
    name, _, anchor = target.partition("#")
    path = (page.path.parent / name).resolve() if name else page.path
    if name.startswith("/"):
        return "is not relative; begin at the page's folder"
    if not path.is_relative_to(repository.root):
        return "is outside the repository; link to where it is published"
    if not path.exists():
        return "leads to no file; correct it"
    if not anchor:
        return ""
    if path.suffix == ".md":
        shown = path.relative_to(repository.root).as_posix()
        known = anchor in _anchors(repository.file(shown))
        return "" if known else "leads to no heading; name one that is there"
    line = re.fullmatch(r"L(\d+)", anchor)
    there = path.is_file() and path.read_text().count("\n")
    return "" if line and int(line[1]) <= there else "leads to no line; correct it"


@cache
def _tokens(page: File) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.text)


def _links(page: File) -> Iterator[tuple[int, str]]:
    """Yield the targets of links and pictures; not what stands in code."""
    line = 1
    for token in _tokens(page):
        if token.map:
            line = token.map[0] + 1
        for each in (token, *(token.children or ())):
            for name in ("href", "src"):
                if name in each.attrs:
                    yield line, str(each.attrs[name])


@cache
def _anchors(page: File) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for token, inline in pairwise(_tokens(page)):
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
        found.add(name)
    return frozenset(found)
