"""The errors of a memory file, as callers of a memory store know them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glyphoxa_trio.memory.errors import MemoryUnavailable, MemoryUnusable
from glyphoxa_trio.storage.database import translated
from glyphoxa_trio.storage.errors import StorageError, UnusableFile


@contextmanager
def translated_for_memory(path: Path) -> Iterator[None]:
    """Translate errors of APSW and of `storage` into those of a memory store.

    All of them name the file.
    """
    try:
        with translated(path):
            yield
    except UnusableFile as error:
        raise MemoryUnusable(str(error)) from error
    except StorageError as error:
        raise MemoryUnavailable(str(error)) from error
