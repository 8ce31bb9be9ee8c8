"""The screen of `play`: answers as they are written, and quiet lines between them.

Words of models, tools and servers reach the terminal without what steers it, and
are never taken for markup.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import attrs
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from glyphoxa_trio.mcp import ServerWarning

from .console import Flow, say
from .render import on_screen
from .terminal import InputLines

if TYPE_CHECKING:
    from .editing import EditedLines


@attrs.define(eq=False)
class Screen:
    """A console that knows whether an NPC is speaking or the player is asked for a
    line.

    Args:
      interactive: a person sits there and is asked for lines.
    """

    console: Console
    interactive: bool
    _edited: EditedLines | None = attrs.field(default=None, init=False)
    _lines: InputLines = attrs.field(factory=InputLines, init=False)
    _asked: str | None = attrs.field(default=None, init=False)
    _flow: Flow = attrs.field(factory=lambda: Flow(None), init=False)
    _speaking: bool = attrs.field(default=False, init=False)
    _questioned: bool = attrs.field(default=False, init=False)
    _opening: bool = attrs.field(default=False, init=False)
    _held: list[tuple[str, str]] = attrs.field(factory=list, init=False)

    def edit(self, lines: EditedLines | None) -> None:
        """Let the player edit lines from now on; None reads them as they are typed."""
        self._edited = lines

    async def next_line(self, npc: str) -> str | None:
        """Ask the player for a line to ``npc``; None at the end of the input."""
        try:
            if self._edited is None:
                self._ask(npc)
                return await self._lines.next()
            self.console.print()
            self._asked = npc
            return await self._edited.next(npc)
        finally:
            self._asked = None

    def _ask(self, npc: str) -> None:
        if self.interactive:
            self._asked = npc
            self.console.print(f"\n[bold]you[/] to {escape(npc)}> ", end="")

    def drop_typed(self) -> None:
        """Forget what the player has typed of a line, as a terminal does at Ctrl-C."""
        if self._edited is not None:
            self._edited.drop_typed()

    def prompt(self, text: str) -> None:
        """Show a text; the player answers on its last line, and no warning comes
        between."""
        self.pause()
        self._questioned = True
        self.console.print(text, end="", markup=False, soft_wrap=True)

    def speak(self, npc: str, piece: str) -> None:
        """One piece of an answer; the line goes on until something else is shown."""
        if not self._speaking:
            self._speaking = True
            self._flow = Flow(self.console.width if self.console.is_terminal else None)
            self._flow.begin(cell_len(npc) + 2)
            self.console.print(f"[bold cyan]{escape(npc)}:[/] ", end="")
        self._write(self._flow.add(on_screen(piece)))

    def pause(self) -> None:
        """End the line of the NPC that speaks, if one does; show what waited for
        that."""
        if self._speaking:
            self._write(self._flow.end())
            self.console.print()
            self._speaking = False
        self._questioned = False
        held, self._held = ([], self._held) if self._opening else (self._held, [])
        for text, style in held:
            self.aside(text, style=style)

    @contextmanager
    def opening(self) -> Generator[None]:
        """Show no warning before the end of the block: some are questions there."""
        self._opening = self.interactive
        try:
            yield
        finally:
            self._opening = False
            self.pause()

    def forget(self, texts: Iterable[str]) -> None:
        """Forget the warnings with these texts that wait for an answer or its end."""
        gone = tuple(f": {text}" for text in texts)
        self._held = [x for x in self._held if not x[0].endswith(gone)]

    def _write(self, text: str) -> None:
        self.console.print(text, end="", markup=False, soft_wrap=True)

    def warn(self, warning: ServerWarning) -> None:
        """Show a warning beside the talk."""
        self.aside(f"! {warning.server}: {warning.text}", style="yellow")

    def aside(self, text: str, *, style: str = "dim") -> None:
        """Show a line beside the talk: not in the midst of an NPC's answer, nor of a
        question. A player who was asked for a line is asked again, and keeps what has
        been typed of it where that can be edited."""
        if self._speaking or self._questioned or self._opening:
            self._held.append((text, style))
            return
        if self._asked is None or self._edited is not None:
            self._line(text, style)
            return
        self.console.print()
        self._line(text, style)
        self._ask(self._asked)

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
        show: Callable[[], None] = partial(say, self.console, text, style)
        if self._asked is not None and self._edited is not None:
            self._edited.beside(show)
        else:
            show()
