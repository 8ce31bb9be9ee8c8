"""A console that no text can steer, whoever wrote it and whichever verb shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.segment import Segment

from .render import on_screen


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
