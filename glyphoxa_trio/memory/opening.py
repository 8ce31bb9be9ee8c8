"""Open a memory store by its place: a file, or the address of a database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from .contract import Memory

POSTGRES = ("postgresql://", "postgres://")


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
    raise NotImplementedError
