"""Tables and lines on terminals of any width: no word broken, no name cut."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.cli.console import Flow, SafeConsole, say
from glyphoxa_trio.cli.grids import GOOD, HELD, Cell, Column, Grid, show

NAMES = ("oracle.consult", "mcp__oracle__consult_the_seer_about_the_road", "dice.roll")
WHY = "degraded: the last three calls were cut by the limit of the turn"
COLUMNS = (
    Column("shown"),
    Column("tool"),
    Column("p50", right=True, spare=1),
    Column("p99", right=True, spare=2),
    Column("health", whole=False),
)
ROWS: list[list[Cell]] = [
    [("yes", GOOD), NAMES[0], "805 ms", "3112 ms", ("good", GOOD)],
    [("no", HELD), NAMES[1], "12 ms", "14 ms", (WHY, HELD)],
    [("yes", GOOD), NAMES[2], "1.0 ms", "2.0 ms", ("good", GOOD)],
]


def shown(width: int, *, terminal: bool = True, environment: str = "") -> str:
    file = io.StringIO()
    console = SafeConsole(
        file=file,
        force_terminal=terminal,
        width=width,
        highlight=False,
        _environ={"TERM": "xterm", **({environment: "1"} if environment else {})},
    )
    show(console, Grid(title="Tools", columns=COLUMNS, rows=ROWS))
    return file.getvalue()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 200])
def test_names_are_whole_and_words_are_not_broken(width: int) -> None:
    text = plain(shown(width))
    assert all(name in text for name in NAMES)
    assert "…" not in text
    words = set(text.split())
    assert set(WHY.split()) <= words
    longest = max(map(len, NAMES)) + len("tool: ")
    assert all(len(line.rstrip()) <= max(width, longest) for line in text.splitlines())


def test_spare_columns_go_first_and_then_rows_become_blocks() -> None:
    assert "3112 ms" in plain(shown(100))
    narrower = plain(shown(74))
    assert "3112 ms" not in narrower
    assert "805 ms" in narrower
    blocks = plain(shown(40))
    assert f"tool: {NAMES[1]}" in blocks
    assert "3112 ms" in blocks  # there is room below each other


def test_a_pipe_gets_each_row_as_one_line_without_colours() -> None:
    text = shown(40, terminal=False)
    assert "\x1b" not in text
    (line,) = [x for x in text.splitlines() if NAMES[1] in x]
    assert line.split("  ")[-1].strip() == WHY or WHY in line


def test_colours_mean_something_and_no_color_has_none() -> None:
    text = shown(100)
    assert re.search(r"\x1b\[32m ?yes", text)
    assert re.search(r"\x1b\[33m ?no", text)
    without = shown(100, environment="NO_COLOR")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", without)


def test_a_line_is_wrapped_between_words_and_a_long_word_stays_whole() -> None:
    file = io.StringIO()
    console = SafeConsole(file=file, force_terminal=True, width=20, highlight=False)
    say(console, "remedy: glyphoxa replay /tmp/a-very-long-name/of-a-file.jsonl")
    text = plain(file.getvalue())
    assert "/tmp/a-very-long-name/of-a-file.jsonl" in text
    assert set(text.split()) == {
        *("remedy:", "glyphoxa", "replay", "/tmp/a-very-long-name/of-a-file.jsonl")
    }


@given(
    words=st.lists(st.text("abcdefgh", min_size=1, max_size=9), max_size=30),
    cuts=st.lists(st.integers(0, 200), max_size=10),
    width=st.integers(12, 40),
)
def test_an_answer_that_streams_is_wrapped_between_words(
    words: list[str], cuts: list[int], width: int
) -> None:
    text = " ".join(words)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    flow = Flow(width)
    flow.begin(4)
    written = "".join(flow.add(text[start:end]) for start, end in pairwise(edges))
    written += flow.end()
    assert written.split() == words
    lines = ("x" * 4 + written).split("\n")
    assert all(len(line) <= width for line in lines)


def test_without_a_width_nothing_is_held() -> None:
    flow = Flow(None)
    assert flow.add("half a wo") == "half a wo"
    assert flow.end() == ""
