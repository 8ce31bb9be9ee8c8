"""A bounded queue of bytes between two threads. No I/O, no locks.

There is one writer and one reader. Each position only grows and is changed by one of
them; the other one reads it, and at worst sees a little less room or a little less data
than there is. An assignment is atomic in CPython, so nothing else is needed:

    0 ──── void ──── read ───────── written ────
           (writer)  (reader) data  (writer)     and never more than `size` of data
"""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class RingBuffer:
    """The queue. ``size`` is its bound, in bytes.

    Only the writing thread may call `write` and `drop`, only the reading one
    `read_into`; the properties are for both. No method waits, or allocates more than
    some integers.
    """

    size: int = attrs.field(validator=attrs.validators.ge(1))
    _data: memoryview = attrs.field(init=False)
    _written: int = attrs.field(default=0, init=False)  # by the writer, in all
    _void: int = attrs.field(default=0, init=False)  # set by the writer
    _read: int = attrs.field(default=0, init=False)  # by the reader, with what is void

    def __attrs_post_init__(self) -> None:
        self._data = memoryview(bytearray(self.size))

    @property
    def written(self) -> int:
        """The number of bytes that were ever written."""
        return self._written

    @property
    def read(self) -> int:
        """The number of bytes that were ever read or skipped."""
        return self._read

    @property
    def room(self) -> int:
        """The number of bytes that can be written."""
        return self.size - (self._written - self._read)

    def write(self, data: bytes | memoryview) -> int:
        """Write the beginning of ``data`` for which there is room; return its size."""
        count = min(len(data), self.room)
        at = self._written % self.size
        first = min(count, self.size - at)
        self._data[at : at + first] = data[:first]
        self._data[: count - first] = data[first:count]
        self._written += count
        return count

    def drop(self) -> None:
        """Void what was written and not read: the next `read_into` skips it.

        Until then its room is taken, as the reader may be in the middle of it.
        """
        self._void = self._written

    def read_into(self, out: memoryview) -> int:
        """Read into the beginning of ``out``; return how many bytes there were."""
        self._read = max(self._read, self._void)
        count = min(len(out), self._written - self._read)
        at = self._read % self.size
        first = min(count, self.size - at)
        out[:first] = self._data[at : at + first]
        out[first:count] = self._data[: count - first]
        self._read += count
        return count
