"""A progress bar on the error stream, for work that takes long and prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from .console import wide_console


@contextmanager
def counting(what: str) -> Generator[Callable[[int, int], None]]:
    """Yield a function to call with the number that is done and the number in all.

    Nothing is shown if the error stream is no terminal.
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
