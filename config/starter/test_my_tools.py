"""A tool is a function, so its test is a call. Run it with:  pytest"""

from __future__ import annotations

import pytest
from my_tools import look_at_gate

import trio

from glyphoxa_trio import ToolError


def test_a_gate_is_looked_at() -> None:
    seen = trio.run(look_at_gate, "River")
    assert seen == {"gate": "river", "state": "open, with a guard"}


def test_a_gate_that_is_not_there_is_a_no_that_names_the_others() -> None:
    with pytest.raises(ToolError, match="north, river"):
        trio.run(look_at_gate, "moon")
