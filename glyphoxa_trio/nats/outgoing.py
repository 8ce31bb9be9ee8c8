"""The bytes that wait to be sent on a connection, with a bound."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from glyphoxa_trio.actors import Signal

from .errors import OutgoingFull

_AT_ONCE: Final = 64 * 1024  # bytes; a larger piece is sent by itself


@attrs.define(eq=False)
class OutgoingBytes:
    """A queue of bytes for one writer, which may hold ``most``.

    ``unsent`` counts bytes that were put here and never sent, since the connection
    broke.
    """

    most: int
    unsent: int = attrs.field(default=0, init=False)
    waiting: int = attrs.field(default=0, init=False)
    _pieces: deque[bytes] = attrs.field(factory=deque, init=False, repr=False)
    _taken: int = attrs.field(default=0, init=False)
    _changed: Signal = attrs.field(factory=Signal, init=False, repr=False)

    def has_room(self, size: int) -> bool:
        """Return True if so many bytes may be put here; anything into an empty one."""
        return not self.waiting or self.waiting + size <= self.most

    def put(self, data: bytes) -> None:
        """Add a message.

        Raises:
          OutgoingFull: too much waits already, and this was not added.
        """
        if not self.has_room(len(data)):
            raise OutgoingFull(f"{self.waiting} bytes wait for the server to read them")
        self.put_control(data)

    def put_control(self, data: bytes) -> None:
        """Add a command, of which there are few, whatever waits."""
        self._pieces.append(data)
        self.waiting += len(data)
        self._changed.set()

    async def take(self) -> bytes:
        """Wait for bytes and return some; they count as waiting until `sent`."""
        await self._changed.until(lambda: bool(self._pieces))
        taken = [self._pieces.popleft()]
        size = len(taken[0])
        while self._pieces and size + len(self._pieces[0]) <= _AT_ONCE:
            taken.append(self._pieces.popleft())
            size += len(taken[-1])
        self._taken = size
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def sent(self) -> None:
        """Note that the bytes taken last were sent."""
        self.waiting -= self._taken
        self._taken = 0

    def clear(self) -> None:
        """Drop everything: the connection has ended."""
        self.unsent += self.waiting
        self.waiting = self._taken = 0
        self._pieces.clear()
