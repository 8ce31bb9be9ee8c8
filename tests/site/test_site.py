"""The site's links, and the pages that are generated for it.

`make docs` builds it and fails at a link that leads nowhere, and `make lint` reads its
pages; here is what its hooks make of them.
"""

from __future__ import annotations

import importlib.util
import re
from typing import Any, Final

import pytest

from glyphoxa_trio.cli.app import app

from .walking import ROOT

DOCS: Final = ROOT / "docs"


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


def test_nothing_is_fetched() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in text
    assert not re.findall(r"https?://\S+", text)


def test_the_page_of_the_command_has_every_verb_and_option() -> None:
    text = hooks.command_reference()
    for verb in app.registered_commands:
        assert verb.callback
        name = verb.name or verb.callback.__name__.replace("_", "-")
        assert verb.hidden or f"## `glyphoxa {name}`" in text
    assert "### `glyphoxa mcp add`" in text
    assert "`--metrics PORT`" in text
    assert hooks.COMMAND in (DOCS / "reference" / "command.md").read_text()
    assert hooks.KEYS in (DOCS / "reference" / "configuration.md").read_text()
