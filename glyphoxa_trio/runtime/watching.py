"""Telling when files have changed, by looking twice a second.

Looking is dull and works everywhere: over network file systems, for editors that
replace a file instead of writing it, for files that are not there yet.
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

    ``files`` is asked each time, in a thread; ``seen`` is what `look` saw before
    they were read. What changes while the consumer is busy is one change.
    """
    while True:
        await trio.sleep(every)
        now = await trio.to_thread.run_sync(look, files, abandon_on_cancel=True)
        if now == seen:
            continue
        for _ in range(_MOST_LOOKS):  # somebody may still be writing
            await trio.sleep(every / 4)
            later = await trio.to_thread.run_sync(look, files, abandon_on_cancel=True)
            if later == now:
                break
            now = later
        seen = now
        yield


def files_of(config: object, watch: bool | Sequence[Path]) -> Files | None:
    """Which files make up ``config``, if they are to be watched.

    Asked anew each time: a ``.mcp.json`` comes and goes.

    Raises:
      ValueError: if they are, and it is no file.
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
    """What tells one state of the files from another. Blocks on the file system."""
    return tuple(_signature(path) for path in files())


def _signature(path: Path) -> tuple[str, int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino
