"""What goes wrong with files, by what can be done about it. Needs no APSW."""

from __future__ import annotations

from glyphoxa_trio.errors import GlyphoxaError


class StorageError(GlyphoxaError):
    """A file could not be read or written; later it may be. Names the file."""


class UnusableFile(StorageError):
    """The file is damaged, somebody else's, or of a newer version. It was left as
    it is, and to try again is of no use."""


class StorageFull(StorageError):
    """There is no room for more, on the disk or in the file. Nothing was changed."""
