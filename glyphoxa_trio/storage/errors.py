"""The errors of files, by what the caller can do about them. Needs no APSW."""

from __future__ import annotations

from glyphoxa_trio.errors import GlyphoxaError


class StorageError(GlyphoxaError):
    """A file could not be read or written, but perhaps later. Names the file."""


class UnusableFile(StorageError):
    """The file is damaged, of another program, or of a newer version.

    It was left as it is, and trying again is of no use.
    """


class StorageFull(StorageError):
    """There is no room for more, on the disk or in the file. Nothing was changed."""
