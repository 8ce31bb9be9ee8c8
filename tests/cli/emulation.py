"""What a terminal shows of the bytes that a program writes: enough for ours.

As wide and as high as it takes: nothing is wrapped, and nothing scrolls away. Its text
is that of all rows. A place in it is a row and a column, so that it can be said what
has been written behind a place, also where a prompt is erased and drawn again.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[(?P<numbers>[0-9;?>]*)[ ]?(?P<letter>[@-~])"  # moves, colours, modes
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # a title
    r"|[^\[\]])"
)


@attrs.define(eq=False)
class Emulation:
    """Rows of cells, and a cursor.

    ``changed`` is the first place that was written over or erased since it was reset.
    """

    row: int = 0
    column: int = 0
    changed: tuple[int, int] | None = None
    _rows: list[list[str]] = attrs.field(factory=lambda: [[]])
    _rest: str = ""

    @property
    def text(self) -> str:
        return "\n".join("".join(cells) for cells in self._rows)

    def offset(self, place: tuple[int, int]) -> int:
        """Where in the text a place is."""
        row, column = place
        before = sum(len(cells) + 1 for cells in self._rows[:row])
        return before + min(column, len(self._rows[row]) if self._has(row) else 0)

    def place(self, offset: int) -> tuple[int, int]:
        """The place of an offset in the text."""
        for row, cells in enumerate(self._rows):
            if offset <= len(cells):
                return row, offset
            offset -= len(cells) + 1
        return len(self._rows), 0

    def feed(self, text: str) -> None:
        """Show what was written. A sequence that is not whole waits for its rest."""
        text, at = self._rest + text, 0
        self._rest = ""
        while at < len(text):
            character = text[at]
            if character == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:
                    self._rest = text[at:]
                    return
                self._control(found["numbers"] or "", found["letter"] or "")
                at = found.end()
                continue
            at += 1
            match character:
                case "\r":
                    self.column = 0
                case "\n":
                    self._down(1)
                case "\b":
                    self.column = max(0, self.column - 1)
                case "\x07":
                    pass
                case _:
                    self._write(character)

    def _control(self, numbers: str, letter: str) -> None:
        first = numbers.partition(";")[0]
        count = int(first) if first.isdigit() else 0
        match letter:
            case "A":
                self.row = max(0, self.row - max(1, count))
            case "B":
                self._down(max(1, count))
            case "C":
                self.column += max(1, count)
                cells = self._rows[self.row]
                cells += [" "] * (self.column - len(cells))
            case "D":
                self.column = max(0, self.column - max(1, count))
            case "G":
                self.column = max(1, count) - 1
            case "K":
                self._erase_line(count)
            case "J":
                assert count == 0, "a screen is erased from the cursor on only"
                self._erase_line(0)
                del self._rows[self.row + 1 :]
            case "H":
                raise AssertionError("nothing is written at a place of its own")
            case _:
                pass  # colours and modes

    def _erase_line(self, how: int) -> None:
        cells = self._rows[self.row]
        if how == 0:
            self._touch(self.row, self.column)
            del cells[self.column :]
        else:
            self._touch(self.row, 0)
            if how == 2:
                cells.clear()
            else:
                blank = min(self.column + 1, len(cells))
                cells[:blank] = [" "] * blank

    def _write(self, character: str) -> None:
        cells = self._rows[self.row]
        cells += [" "] * (self.column - len(cells))
        if self.column < len(cells):
            if cells[self.column] != character:
                self._touch(self.row, self.column)
            cells[self.column] = character
        else:
            cells.append(character)
        self.column += 1

    def _down(self, count: int) -> None:
        self.row += count
        while len(self._rows) <= self.row:
            self._rows.append([])

    def _has(self, row: int) -> bool:
        return row < len(self._rows)

    def _touch(self, row: int, column: int) -> None:
        place = row, column
        if self.changed is None or place < self.changed:
            self.changed = place
