"""L5, the command ``glyphoxa``: one file per verb, thin over `open_runtime`."""

from __future__ import annotations

import gc
import sys
from typing import Final, NoReturn

from .outside import cause_outside, end_with, flush_output, open_streams

# Imports make hundreds of thousands of objects that stay. With Python's thresholds, the
# collector walks them again and again meanwhile: an eighth of the start.
STARTING: Final = (10_000, 10, 10)


def main() -> NoReturn:
    """Entry point of the console script."""
    gc.set_threshold(*STARTING)
    open_streams()
    try:
        sys.exit(_guarded(sys.argv[1:]))
    finally:
        # The process ends: what is left is not walked once more to be freed. soxr would
        # say on the screen that it was left.
        if "soxr" not in sys.modules:
            gc.freeze()


def _guarded(words: list[str]) -> int:
    """Run a command; a stream that fails ends it with a line."""
    try:
        status = _run(words)
    except Exception as error:
        flush_output()
        failure = cause_outside(error)
        if failure is None:
            raise
        return end_with(failure)
    failure = flush_output()
    return status if failure is None else end_with(failure)


def _run(words: list[str]) -> int:
    if words[:1] == ["serve"] and words[1:2] not in (["--help"], ["-h"]):
        # A client has started it and waits: nothing of the rest is imported.
        from glyphoxa_trio.servers.program.command import main as serve

        return serve(words[1:])
    from .app import run_app

    return run_app(words)
