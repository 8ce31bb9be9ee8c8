"""What a table sees: answers as they are written, and quiet lines between them.

Words of models, tools and servers reach the terminal without what steers it, and
are never taken for markup.
"""

from __future__ import annotations

import attrs
from rich.console import Console
from rich.markup import escape

from glyphoxa_trio.mcp import ServerWarning

from .render import on_screen


@attrs.define(eq=False)
class Screen:
    """A console that knows whether somebody is speaking, or is asked to.

    Args:
      interactive: a person sits there and is asked for lines.
    """

    console: Console
    interactive: bool
    _asked: str | None = attrs.field(default=None, init=False)
    _speaking: bool = attrs.field(default=False, init=False)
    _held: list[ServerWarning] = attrs.field(factory=list, init=False)

    def ask(self, npc: str) -> None:
        """Ask the player for a line to ``npc``; `answered` once it is there."""
        if self.interactive:
            self._asked = npc
            self.console.print(f"\n[bold]you[/] to {escape(npc)}> ", end="")

    def prompt(self, text: str) -> None:
        """Show a text; the player answers on its last line."""
        self.pause()
        self.console.print(text, end="", markup=False, soft_wrap=True)

    def answered(self) -> None:
        self._asked = None

    def speak(self, npc: str, piece: str) -> None:
        """One piece of an answer; the line goes on until something else is shown."""
        if not self._speaking:
            self._speaking = True
            self.console.print(f"[bold cyan]{escape(npc)}:[/] ", end="")
        self.console.print(on_screen(piece), end="", markup=False, soft_wrap=True)

    def pause(self) -> None:
        """End the line that somebody speaks, if one is; show what waited for it."""
        if self._speaking:
            self.console.print()
            self._speaking = False
        while self._held:
            self.warn(self._held.pop(0))

    def warn(self, warning: ServerWarning) -> None:
        """Show a warning; not in the middle of what somebody says."""
        if self._speaking:
            self._held.append(warning)
        else:
            self.aside(f"! {warning.server}: {warning.text}", style="yellow")

    def aside(self, text: str, *, style: str = "dim") -> None:
        """A line beside the talk; whoever was asked for theirs is asked again."""
        if self._asked is not None:
            self.console.print()
        self._line(text, style)
        if self._asked is not None:
            self.ask(self._asked)

    def quiet(self, text: str) -> None:
        self.pause()
        self._line(text, "dim")

    def refuse(self, text: str) -> None:
        self.pause()
        self._line(text, "red")

    def plain(self, text: str, *, style: str = "") -> None:
        self.pause()
        self._line(text, style)

    def _line(self, text: str, style: str) -> None:
        # Left whole, a terminal would break the line in the middle of a word.
        whole = not self.console.is_terminal
        self.console.print(on_screen(text), style=style, markup=False, soft_wrap=whole)
