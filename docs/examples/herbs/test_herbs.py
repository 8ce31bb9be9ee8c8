"""The test of a tool is a call of its function."""

import pytest
from herbs import find_herbs

import trio

from glyphoxa_trio import ToolError


def test_the_marsh_has_willow_bark() -> None:
    found = trio.run(find_herbs, "marsh")
    assert found == {"place": "marsh", "herbs": "willow bark and sundew"}


def test_another_place_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ToolError, match="marsh or forest"):
        trio.run(find_herbs, "desert")
