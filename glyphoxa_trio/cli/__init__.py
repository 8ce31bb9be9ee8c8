"""L5, the command ``glyphoxa``: one file per verb, thin over `open_runtime`."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script."""
    words = sys.argv[1:]
    if words[:1] == ["serve"] and words[1:2] not in (["--help"], ["-h"]):
        # A client has started it and waits: nothing of the rest is imported.
        from glyphoxa_trio.servers.program.command import main as serve

        sys.exit(serve(words[1:]))
    from .app import run_app

    sys.exit(run_app(words))
