"""Open a memory store by its place: a file, or the address of a database."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from glyphoxa_trio.extras import require
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.errors import MemoryUnusable
from glyphoxa_trio.user_folders import NO_HOME, expanded

POSTGRES: Final = ("postgresql://", "postgres://")

# As other programs accept the address of a database. A file is not called that.
_OTHER_ADDRESS: Final = re.compile(
    r"[a-z][a-z0-9+.-]+://|.*\b(dbname|host)\s*=", re.IGNORECASE
)


def not_a_place(place: str) -> str:
    """Return why this is neither a file nor an address; "" if it is one."""
    if place.startswith(POSTGRES) or not _OTHER_ADDRESS.match(place):
        return ""
    return "must be a file, or an address that begins with postgresql://"


def exists(place: str) -> bool:
    """Return False for a file that does not exist. A database is not asked."""
    if place.startswith(POSTGRES):
        return True
    path = expanded(Path(place))
    return path is not None and path.is_file()


def open_memory(
    place: str, *, durable: bool = False
) -> AbstractAsyncContextManager[Memory]:
    """Open a store until the block is left; a file is made if there is none.

    Args:
      place: a file, or an address that begins with ``postgresql://``.
      durable: what is written survives a loss of power as well.

    Raises:
      MemoryUnusable: it is damaged, of another program or of a newer version; or
        ``place`` is neither a file nor such an address.
      MemoryUnavailable: it cannot be opened now.
      ExtraMissing: a library for it is not installed.
    """
    # A program without memory need not wait until these libraries are imported.
    if place.startswith(POSTGRES):
        require("memory in a PostgreSQL database", "postgres")
        from glyphoxa_trio.memory.postgres.store import open_postgres

        return open_postgres(place, durable=durable)
    if why := not_a_place(place):
        raise MemoryUnusable(f"the place of memory {why}")
    from glyphoxa_trio.memory.sqlite.store import open_sqlite

    path = expanded(Path(place))
    if path is None:
        raise MemoryUnusable(f"{place}: {NO_HOME}, or write the whole path")
    return open_sqlite(path, durable=durable)
