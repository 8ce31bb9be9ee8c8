"""The extra that has LiveKit Agents, where it is not installed."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import import_module

import pytest

from glyphoxa_trio.extras import ExtraMissing, installed, missing

from .support import ROOT


@pytest.mark.skipif(installed("livekit"), reason="LiveKit is installed here")
def test_without_it_the_import_says_what_to_install() -> None:
    with pytest.raises(ExtraMissing) as caught:
        import_module("glyphoxa_trio.livekit")
    assert str(caught.value) == missing("an NPC in LiveKit Agents", "livekit")
    assert "glyphoxa_trio.livekit" not in sys.modules


def test_the_tests_have_a_version_that_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["livekit"] == ["livekit-agents>=1.8,<2"]
    pinned = (ROOT / "tests" / "frameworks" / "livekit.txt").read_text()
    assert re.search(r"^livekit-agents==1\.([89]|\d\d+)\.\d+$", pinned, re.MULTILINE)
    assert re.search("file:|://|^-", pinned, re.MULTILINE) is None
