"""A console that no text can steer, whatever its source; lines and JSON on it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment

from .render import on_screen

# A word with the blanks before it, so that a line never begins with one.
_WORDS: Final = re.compile(r"\s*\S+|\s+")


class SafeConsole(Console):
    """Rich's console; what it writes has only the controls that are rich's own.

    The last place before the terminal: a verb that forgets `on_screen` is as safe as
    one that does not. Tables, titles and tracebacks go through here as well.
    """

    def widen(self, columns: int) -> None:
        """Have at least so many columns."""
        self.width = max(self.width, columns)

    def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
        for segment in super().render(*args, **kwargs):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=on_screen(segment.text))


def wide_console(*, stderr: bool = False) -> SafeConsole:
    """Return a console for the output, or for the errors, of a command.

    Where it is no terminal, lines are not folded at a width that nothing has.
    """
    console = SafeConsole(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.widen(160)
    return console


def say(console: Console, text: str, style: str = "") -> None:
    """Print a line, wrapped between words on a terminal, and nowhere else.

    A word that is longer than a line stays whole, so that it can be copied.
    """
    flow = Flow(console.width if console.is_terminal else None)
    text = on_screen(text)
    text = flow.add(text) + flow.end()
    console.print(text, style=style, markup=False, soft_wrap=True)


def say_json(value: Mapping[str, Any]) -> None:
    """Print an object as one line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")


@attrs.define(eq=False)
class Flow:
    """Text that arrives in pieces, wrapped between words as it is shown.

    The last word of a piece may go on in the next one, so it is held until then.

    Args:
      width: columns of the screen; None wraps nothing and holds nothing.
    """

    width: int | None
    _column: int = attrs.field(default=0, init=False)
    _held: str = attrs.field(default="", init=False)

    def begin(self, column: int) -> None:
        """Begin a line in which so many columns are taken."""
        self._column, self._held = column, ""

    def add(self, piece: str) -> str:
        """Return the text to show now."""
        if self.width is None:
            return piece
        *done, self._held = _WORDS.findall(self._held + piece) or [""]
        return "".join(map(self._placed, done))

    def end(self) -> str:
        """Return the rest."""
        rest, self._held = self._held, ""
        return self._placed(rest)

    def _placed(self, word: str) -> str:
        assert self.width is not None or not word
        lines = word.split("\n")
        if len(lines) > 1:
            self._column = cell_len(lines[-1])
            return word
        bare = word.strip(" ")
        size = cell_len(word)
        if bare and self._column + size > (self.width or 0) > cell_len(bare):
            self._column = cell_len(bare)
            return f"\n{bare}"
        self._column += size
        return word
