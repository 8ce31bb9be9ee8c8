"""A bar on the error stream, for whatever takes long and does not speak meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from .tools import wide_console


@contextmanager
def counting(what: str) -> Generator[Callable[[int, int], None]]:
    """Gives a function to be told how many of how many are done.

    Nothing is shown where nobody looks: the error stream is no terminal.
    """
    console = wide_console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = TextColumn(what), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield tell
