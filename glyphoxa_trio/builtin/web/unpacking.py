"""Decompressing a body piece by piece, up to a limit. Pure.

A kilobyte can hold a megabyte, and that a gigabyte. So nothing is decompressed twice,
and a body that has reached its limit is not read further.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import attrs

from .refusals import Unreadable

ACCEPTED: Final = "gzip, deflate"
# Text never shrinks as much; zeros do.
BOMB: Final = 100

_GZIP: Final = 31
_ZLIB: Final = 15
_RAW: Final = -15
_HEADS: Final = 1024  # bytes that may stand before and after the compressed data
_MAGIC: Final = b"\x1f\x8b"


@attrs.define(eq=False)
class Body:
    """At most ``cap`` bytes of a body.

    Args:
      coding: the ``Content-Encoding`` header.

    Raises:
      Unreadable: for a coding that was not asked for.
    """

    coding: str
    cap: int
    data: bytearray = attrs.field(factory=bytearray, init=False)
    truncated: bool = attrs.field(default=False, init=False)
    _windows: list[int] = attrs.field(init=False)
    _unpacker: Any = attrs.field(default=None, init=False)
    _held: bytes = attrs.field(default=b"", init=False)
    _eaten: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        match self.coding.strip().lower():
            case "" | "identity":
                self._windows = []
            case "gzip" | "x-gzip":
                self._windows = [_GZIP]
            case "deflate":  # some servers send it without its header
                self._windows = [_ZLIB, _RAW]
            case _:
                raise Unreadable("The page is compressed in an unknown way.")

    def feed(self, piece: bytes) -> bool:
        """Take a piece; return False once no more is wanted.

        Raises:
          Unreadable: if it cannot be decompressed, or is a decompression bomb.
        """
        if not self._windows:
            self._eaten += len(piece)
            self.data += piece[: self._room]
        while piece and self._windows and len(self.data) <= self.cap:
            piece = self._unpack(piece)
        if len(self.data) > self.cap:
            if self._windows and len(self.data) > BOMB * self._eaten:
                raise Unreadable("The page is a decompression bomb.")
            del self.data[self.cap :]
            self.truncated = True
        # A stream may also go on for ever and contain nothing.
        return not self.truncated and self._eaten <= 2 * self.cap + _HEADS

    def end(self) -> bytes:
        """Return the body, after its last piece."""
        if self._windows and self._unpacker is not None and not self._unpacker.eof:
            self.truncated = True
        return bytes(self.data)

    @property
    def _room(self) -> int:
        return self.cap + 1 - len(self.data)

    def _unpack(self, piece: bytes) -> bytes:
        """Decompress what fits; return the bytes after the end of a stream."""
        if self._unpacker is None or self._unpacker.eof:
            piece, self._held = self._held + piece, b""
            if len(piece) < len(_MAGIC):  # too little to recognise the format
                self._held = piece
                return b""
            # After a gzip stream another one may follow; anything else is padding.
            if self._unpacker is not None and not (
                self._windows[0] == _GZIP and piece.startswith(_MAGIC)
            ):
                self._eaten += len(piece)
                return b""
            self._unpacker = zlib.decompressobj(self._windows[0])
        try:
            self.data += self._unpacker.decompress(piece, self._room)
        except zlib.error:
            if len(self._windows) == 1 or self._eaten:
                raise Unreadable("The page is compressed, and damaged.") from None
            self._windows.pop(0)
            self._unpacker = None
            return piece
        rest = bytes(self._unpacker.unused_data)
        self._eaten += len(piece) - len(rest) - len(self._unpacker.unconsumed_tail)
        return rest
