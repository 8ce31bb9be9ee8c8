"""Open a memory store by its place: a file, or the address of a database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from glyphoxa_trio.extras import require
from glyphoxa_trio.memory.contract import Memory

POSTGRES: Final = ("postgresql://", "postgres://")


def exists(place: str) -> bool:
    """Return False for a file that does not exist. A database is not asked."""
    return place.startswith(POSTGRES) or Path(place).expanduser().is_file()


def open_memory(
    place: str, *, durable: bool = False
) -> AbstractAsyncContextManager[Memory]:
    """Open a store until the block is left; a file is made if there is none.

    Args:
      place: a file, or an address that begins with ``postgresql://``.
      durable: what is written survives a loss of power as well.

    Raises:
      MemoryUnusable: it is damaged, of another program or of a newer version.
      MemoryUnavailable: it cannot be opened now.
      ExtraMissing: a library for it is not installed.
    """
    # A program without memory need not wait until these libraries are imported.
    if place.startswith(POSTGRES):
        require("memory in a PostgreSQL database", "postgres")
        from glyphoxa_trio.memory.postgres.store import open_postgres

        return open_postgres(place, durable=durable)
    from glyphoxa_trio.memory.sqlite.store import open_sqlite

    return open_sqlite(Path(place).expanduser(), durable=durable)
