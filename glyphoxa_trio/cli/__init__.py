"""L5, the command ``glyphoxa``: one file per verb, thin over `open_runtime`."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script."""
    if sys.argv[1:2] == ["serve"]:
        # Somebody's program started it and waits: nothing of the rest is imported.
        from glyphoxa_trio.servers.program.command import main as serve

        sys.exit(serve(sys.argv[2:]))
    from .app import app

    app()
