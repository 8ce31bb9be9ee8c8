"""What the site is made of: its links, its reference, and the pages that are generated.

`make docs` builds it and fails at a link that leads nowhere; here is what can be seen
without building it.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from pathlib import PurePosixPath
from typing import Any, Final

import pytest

from glyphoxa_trio.cli.app import app

from .walking import ROOT

DOCS: Final = ROOT / "docs"
PUBLIC: Final = ("", ".npc", ".aio", ".servers")
"""Modules of which everything that they export is public …"""

OUR_OWN: Final = {"Costs", "NpcSession"}
"""… but for what the other rooms take from there."""


def _hooks() -> Any:
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks: Final = _hooks()


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[x](budgets.md#tiers)", "[x](../budgets.md#tiers)"),
        ("[x](../README.md#a)", "[x](../source/README.md.md#a)"),
        ("[x](../tests/site)", "[x](../source/tests/site.md)"),
        ("[x](examples/embed.py)", "[x](../source/docs/examples/embed.py.md)"),
        ("[x](../Makefile#L3)", "[x](../source/Makefile.md)"),
        ("![x](pictures/turn.svg)", "![x](../pictures/turn.svg)"),
        ("[x](#here) [y](https://a.example/b.md)", None),
        ("`[x](../README.md)`", None),
        ("```\n[x](../README.md)\n```", None),
    ],
)
def test_links_hold_in_the_site(markdown: str, expected: str | None) -> None:
    # A page that stands in a folder of the site, made of one that does not.
    seen = hooks.relinked(markdown, "docs/page.md", "folder/page.md", hooks.page_of)
    assert seen == (markdown if expected is None else expected)


def test_a_file_is_shown_as_it_is() -> None:
    text = hooks._text("docs/examples/embed.py")
    assert (DOCS / "examples" / "embed.py").read_text().strip() in text
    # This file has fences of its own, which do not end it.
    assert re.search(r"\n`{4,}python\n", hooks._text("tests/site/test_site.py"))


def test_the_navigation_has_every_page_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"(?m)^ *- [^#:\n]+: (\S+\.md)$", text)
    pages = {str(PurePosixPath(x.relative_to(DOCS))) for x in DOCS.rglob("*.md")}
    assert sorted(named) == sorted(pages)


def test_warnings_end_the_build() -> None:
    """With --quiet they are neither shown nor counted, whatever --strict says."""
    (line,) = re.findall(r"mkdocs build.*", (ROOT / "Makefile").read_text())
    assert line == "mkdocs build --strict"


def test_nothing_is_fetched() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in text
    assert not re.findall(r"https?://\S+", text)


# The reference


# Importing them needs libraries that are elsewhere (tests/frameworks).
ELSEWHERE = (
    "glyphoxa_trio.discord.",
    "glyphoxa_trio.livekit.",
    "glyphoxa_trio.pipecat.",
)


def documented() -> list[str]:
    pages = (DOCS / "reference").glob("*.md")
    found = [x for p in pages for x in re.findall(r"(?m)^::: (\S+)$", p.read_text())]
    return [x for x in found if not x.startswith(ELSEWHERE)]


def _found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", documented())
def test_what_the_reference_documents_is_there_and_has_words(path: str) -> None:
    thing = _found(path)
    if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing):
        assert (thing.__doc__ or "").strip(), path


@pytest.mark.parametrize("room", PUBLIC)
def test_what_is_public_is_in_the_reference(room: str) -> None:
    module = importlib.import_module(f"glyphoxa_trio{room}")
    paths = documented()
    things = [_found(path) for path in paths]
    whole = {x.__name__ for x in things if inspect.ismodule(x)}
    missing = [
        name
        for name in module.__all__
        for thing in [getattr(module, name)]
        if name not in OUR_OWN
        and f"{module.__name__}.{name}" not in paths
        and not any(thing is x for x in things)
        and getattr(thing, "__module__", "") not in whole
    ]
    assert not missing


def test_the_page_of_the_command_has_every_verb_and_option() -> None:
    text = hooks.command_reference()
    for verb in app.registered_commands:
        assert verb.callback
        name = verb.name or verb.callback.__name__.replace("_", "-")
        assert verb.hidden or f"## `glyphoxa {name}`" in text
    assert "### `glyphoxa mcp add`" in text
    assert "`--metrics PORT`" in text
    assert hooks.COMMAND in (DOCS / "reference" / "command.md").read_text()


def test_every_page_of_the_reference_is_named_by_what_is_public() -> None:
    public = (DOCS / "reference" / "public.md").read_text()
    for page in (DOCS / "reference").glob("*.md"):
        assert page.name == "public.md" or f"]({page.name}" in public, page.name
