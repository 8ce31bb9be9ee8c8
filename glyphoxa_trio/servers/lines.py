"""Splitting a stream of bytes into lines of bounded length. No I/O."""

from __future__ import annotations

from typing import Final

import attrs

LONGEST_LINE: Final = 4 * 2**20  # bytes
HEAD: Final = 512  # bytes that are kept of a line that is too long


@attrs.frozen
class Overlong:
    """The beginning of a line that was too long to be kept."""

    head: bytes


@attrs.define(eq=False)
class LineSplitter:
    """A buffer that takes chunks of bytes and returns whole lines.

    Empty lines are dropped. Of a line that is too long, only the beginning is returned.
    Never holds more than the longest line and one chunk.
    """

    _unfinished: bytearray = attrs.field(factory=bytearray, init=False)
    _skipping: bool = attrs.field(default=False, init=False)

    @property
    def held(self) -> int:
        """The number of bytes that wait for the end of their line."""
        return len(self._unfinished)

    def feed(self, chunk: bytes | bytearray) -> list[bytes | Overlong]:
        """Return the lines that ``chunk`` completes, or makes too long."""
        found: list[bytes | Overlong] = []
        *finished, rest = bytes(chunk).split(b"\n")
        for part in finished:
            self._grow(part, found)
            self._finish(found)
        self._grow(rest, found)
        return found

    def end(self) -> list[bytes | Overlong]:
        """Return the text after the last newline, at the end of the stream."""
        found: list[bytes | Overlong] = []
        self._finish(found)
        return found

    def _grow(self, part: bytes, found: list[bytes | Overlong]) -> None:
        if self._skipping:
            return
        self._unfinished += part
        if len(self._unfinished) > LONGEST_LINE:
            found.append(Overlong(bytes(self._unfinished[:HEAD])))
            self._unfinished.clear()
            self._skipping = True

    def _finish(self, found: list[bytes | Overlong]) -> None:
        if not self._unfinished.isspace() and self._unfinished:
            found.append(bytes(self._unfinished))
        self._unfinished.clear()
        self._skipping = False
