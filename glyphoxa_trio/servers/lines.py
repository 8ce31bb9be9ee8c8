"""Bytes in, whole lines out, within bounds. No I/O."""

from __future__ import annotations

from typing import Final

import attrs

LONGEST_LINE: Final = 4 * 2**20  # bytes
HEAD: Final = 512  # bytes that are kept of a longer one


@attrs.frozen
class Overlong:
    """A line that was too long to be kept: its beginning."""

    head: bytes


@attrs.define(eq=False)
class LineSplitter:
    """Chunks of bytes in, whole lines out; of one that is too long the beginning.

    An empty line is none. Never holds more than the longest line and one chunk.
    """

    _unfinished: bytearray = attrs.field(factory=bytearray, init=False)
    _skipping: bool = attrs.field(default=False, init=False)

    @property
    def held(self) -> int:
        """Bytes that wait for the end of their line."""
        return len(self._unfinished)

    def feed(self, chunk: bytes | bytearray) -> list[bytes | Overlong]:
        """The lines that ``chunk`` completes, and the one it makes too long."""
        found: list[bytes | Overlong] = []
        *finished, rest = bytes(chunk).split(b"\n")
        for part in finished:
            self._grow(part, found)
            self._finish(found)
        self._grow(rest, found)
        return found

    def end(self) -> list[bytes | Overlong]:
        """What there is after the last newline, now that nothing follows."""
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
