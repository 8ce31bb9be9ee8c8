"""The queue of lines to write to a client, in order and within bounds."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol, runtime_checkable

import attrs

import trio

MOST_BYTES: Final = 4 * 2**20
MOST_LINES: Final = 1024
_BATCH: Final = 2**16  # bytes: what a pipe holds


@runtime_checkable
class Prompt(Protocol):
    """A stream that can also be written to without waiting, as pipes can."""

    def send_nowait(self, data: bytes) -> int:
        """Write what fits now, and return the number of bytes.

        Raises nothing: `send_all` reports the error.
        """
        ...


@attrs.define(eq=False)
class LineOutbox:
    """A queue of lines with one writer.

    A task that puts a line waits for room, and so does the reader of requests: while a
    client does not read its answers, its requests are not read either.

    A line that can be written at once is written by the task that puts it: waking the
    writer for each line would take a third of the time of a short call.
    """

    _lines: deque[bytes] = attrs.field(factory=deque, init=False)
    _size: int = attrs.field(default=0, init=False)
    _writing: bool = attrs.field(default=False, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _prompt: Prompt | None = attrs.field(default=None, init=False)
    _filled: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )
    _emptier: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    @property
    def full(self) -> bool:
        return self._size >= MOST_BYTES or len(self._lines) >= MOST_LINES

    @property
    def size(self) -> int:
        """The number of bytes that wait."""
        return self._size

    def put_nowait(self, line: bytes) -> None:
        """Queue a line even if the queue is full. After `close` the line is dropped.

        For lines that are small and of bounded number, as the answers to one line of
        input.
        """
        if self._closed:
            return
        if self._prompt is not None and not (self._lines or self._writing):
            line = line[self._prompt.send_nowait(line) :]
            if not line:
                return
        self._lines.append(line)
        self._size += len(line)
        self._filled.unpark()

    async def roomy(self) -> None:
        """Wait until there is room for a line, or the queue is closed."""
        while self.full and not self._closed:
            await self._emptier.park()

    async def put(self, line: bytes) -> None:
        """Queue a line when there is room. If cancelled, it has not been queued."""
        await self.roomy()
        self.put_nowait(line)

    async def drained(self) -> None:
        """Wait until every line has been written, or the queue is closed."""
        while (self._lines or self._writing) and not self._closed:
            await self._emptier.park()

    async def write_to(self, stream: trio.abc.SendStream) -> None:
        """Write lines to ``stream`` as they come, until cancelled.

        Raises:
          trio.BrokenResourceError: if the other end no longer reads.
        """
        if isinstance(stream, Prompt):
            self._prompt = stream
        while True:
            while not self._lines:
                await self._filled.park()
            batch = self._batch()
            self._writing = True
            await stream.send_all(batch)
            self._writing = False
            self._emptier.unpark_all()

    def close(self) -> None:
        """Drop the queued lines and wake all waiters: the client is gone."""
        self._closed = True
        self._lines.clear()
        self._size = 0
        self._emptier.unpark_all()

    def _batch(self) -> bytes:
        first = self._lines.popleft()
        if not self._lines:
            self._size = 0
            return first
        batch, size = [first], len(first)
        while self._lines and size + len(self._lines[0]) <= _BATCH:
            line = self._lines.popleft()
            batch.append(line)
            size += len(line)
        self._size -= size
        return b"".join(batch)
