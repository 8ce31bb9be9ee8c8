"""A Typer application whose help wraps the paragraphs of docstrings itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

Force = Annotated[
    bool, typer.Option("--force", help="Write over a file that is there.")
]
"""Of every command that writes a file of the user's."""


class Commands(typer.Typer):
    """A group of commands. Their docstrings are their help, without line ends inside a
    paragraph, which Typer would keep."""

    def command(  # type: ignore[override]
        self, name: str | None = None, **settings: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a function as a command, as `typer.Typer.command` does."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            paragraphs = (inspect.getdoc(function) or "").split("\n\n")
            text = "\n\n".join(" ".join(x.split()) for x in paragraphs)
            options = {"help": text, **settings}
            return super(Commands, self).command(name, **options)(function)

        return register
