"""L5, the command ``glyphoxa``: one file per verb, thin over `open_runtime`."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    from .app import app

    app()
