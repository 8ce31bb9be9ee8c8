"""Tables that fit the terminal and never break what one must copy.

On a terminal that is too narrow, columns are left out in an order that the table
states; if that is not enough, each row becomes a block of lines. Elsewhere no line is
wrapped, for other programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from .console import say
from .render import on_screen

_WIDEST: Final = 10_000

# Styles that mean something. A console that is no terminal, or NO_COLOR, has none.
GOOD: Final = "green"
HELD: Final = "yellow"  # hidden, degraded, waiting
FAILED: Final = "red"


@attrs.frozen
class Column:
    """A column of a table.

    Args:
      whole: its cells are never wrapped: names, times.
      right: they stand on the right.
      spare: on a narrow terminal it is left out: the highest number first; 0 never.
    """

    name: str
    whole: bool = True
    right: bool = False
    spare: int = 0


Cell = str | tuple[str, str]
"""A text, or a text and its style."""


@attrs.frozen(kw_only=True)
class Grid:
    """A table: its columns and, in their order, the cells of each row."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""


def show(console: Console, grid: Grid) -> None:
    """Print a table as wide as there is room."""
    unlimited = console.options.update(width=_WIDEST)
    left_out = 0
    spare = sorted({x.spare for x in grid.columns if x.spare}, reverse=True)
    for left_out in (_WIDEST, *spare):
        table = _table(grid, least=left_out)
        measured = console.measure(table, options=unlimited)
        if not console.is_terminal:
            table = _table(grid, least=left_out, width=measured.maximum)
        elif measured.minimum > console.width:
            continue
        console.print(table, crop=False)
        return
    _show_blocks(console, grid)


def _table(grid: Grid, *, least: int, width: int | None = None) -> Table:
    """Return the table without the columns whose ``spare`` is ``least`` or more."""
    title = Text(grid.title) if grid.title else None
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, width=width)
    shown = [not 0 < least <= x.spare for x in grid.columns]
    for column in (
        x for x, is_shown in zip(grid.columns, shown, strict=True) if is_shown
    ):
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(column.name, justify=justify, no_wrap=column.whole)
    for row in grid.rows:
        cells = zip(row, shown, strict=True)
        table.add_row(*(_text(cell) for cell, is_shown in cells if is_shown))
    return table


def _show_blocks(console: Console, grid: Grid) -> None:
    if grid.title:
        say(console, grid.title, "italic")
    for row in grid.rows:
        console.print()
        for column, cell in zip(grid.columns, row, strict=True):
            text, style = cell if isinstance(cell, tuple) else (cell, "")
            if text:
                say(console, f"{column.name}: {text}", style)


def _text(cell: Cell) -> Text:
    """Return a cell without markup: its words may be a server's."""
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return Text(on_screen(text), style=style)
