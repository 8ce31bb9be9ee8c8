"""A watch on files, which looks at them twice a second.

Polling works everywhere: on network file systems, with editors that replace a file
instead of writing it, and for files that do not exist yet.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import trio

from glyphoxa_trio.config.mcp_json import find_mcp_json

EVERY: Final = 0.5  # seconds
_MOST_LOOKS: Final = 40

Files = Callable[[], Iterable[Path]]
Signature = tuple[tuple[str, int, int, int] | None, ...]


async def changes(
    files: Files, seen: Signature, *, every: float = EVERY
) -> AsyncGenerator[None]:
    """Yield when any of the files came, went or changed, and has settled since.

    Changes while the consumer is busy are one change.

    Args:
      files: returns the files; called each time, in a thread.
      seen: the result of `look` from before they were read.
      every: seconds between two looks.
    """
    while True:
        await trio.sleep(every)
        now = await trio.to_thread.run_sync(look, files, abandon_on_cancel=True)
        if now == seen:
            continue
        for _ in range(_MOST_LOOKS):  # a program may still be writing
            await trio.sleep(every / 4)
            later = await trio.to_thread.run_sync(look, files, abandon_on_cancel=True)
            if later == now:
                break
            now = later
        seen = now
        yield


def files_of(config: object, watch: bool | Sequence[Path]) -> Files | None:
    """Return a function for the files that make up ``config``; None if they are not
    watched.

    It is called anew each time, because a ``.mcp.json`` may come and go.

    Raises:
      ValueError: if they are to be watched, and ``config`` is no file.
    """
    if not isinstance(watch, bool):
        return lambda: watch
    if not watch:
        return None
    if not isinstance(config, str | Path):
        raise ValueError("watch=True needs a configuration file; or name the files")
    path = Path(config).absolute()

    def files() -> Iterable[Path]:
        found = find_mcp_json(path.parent)
        return (path,) if found is None else (path, found)

    return files


def look(files: Files) -> Signature:
    """Return a value that differs after any file changed. Does blocking I/O."""
    return tuple(_signature(path) for path in files())


def _signature(path: Path) -> tuple[str, int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino
