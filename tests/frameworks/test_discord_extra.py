"""The extra that has py-cord, where it is not installed, and where discord.py is."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import import_module

import pytest

from glyphoxa_trio.extras import ExtraMissing, installed, missing

from .support import ROOT


@pytest.mark.skipif(installed("discord"), reason="py-cord is installed here")
def test_without_it_the_import_says_what_to_install() -> None:
    with pytest.raises(ExtraMissing) as caught:
        import_module("glyphoxa_trio.discord")
    assert str(caught.value) == missing("a bot for Discord", "discord")
    assert "glyphoxa_trio.discord" not in sys.modules


def test_the_tests_have_a_version_that_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "py-cord[voice]>=2.8.1,<2.9" in project["optional-dependencies"]["discord"]
    pinned = (ROOT / "tests" / "frameworks" / "discord.txt").read_text()
    assert re.search(r"^py-cord==2\.8\.[1-9]\d*$", pinned, re.MULTILINE)
    assert re.search("file:|://|^-", pinned, re.MULTILINE) is None
