"""The messages of one subscription, in a queue that has a bound.

A subscriber that does not read must not fill the memory, nor hold the connection that
others share. What comes while its queue is full is dropped, and counted.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

import attrs

import trio

from .errors import NatsError
from .protocol import NatsMessage

_IN_A_ROW: Final = 32  # messages that are read before other tasks must run


class Receiver(Protocol):
    """The end of a subscription to which a connection hands messages. None waits."""

    def offer(self, message: NatsMessage) -> bool:
        """Take a message; return False if it was dropped."""
        ...

    def disconnected(self, why: str) -> None:
        """Learn that the connection broke: messages may be missing from here on."""
        ...

    def ended(self, error: NatsError) -> None:
        """Learn that nothing more will come, since the server does not allow this
        subscription, or the connection was left."""
        ...

    def unpublished(self, subject: str, error: NatsError) -> None:
        """Learn that the server does not allow a message that was published."""
        ...


# A validator makes all attributes slow to set, unless it is for new objects only.
@attrs.define(eq=False, repr=False, on_setattr=attrs.setters.NO_OP)
class NatsMessages:
    """Messages of one subscription, in order; ``dropped`` counts those it lost.

    A broken connection does not end them, although some may be missing then:
    ``interruptions`` counts how often that was.

    Args:
      capacity: the number of messages that may wait.
      most_bytes: of the payloads and headers of messages that wait; one may always.
    """

    pattern: str
    capacity: int = attrs.field(validator=attrs.validators.ge(1))
    most_bytes: int
    dropped: int = attrs.field(default=0, init=False)
    interruptions: int = attrs.field(default=0, init=False)
    _waiting: deque[NatsMessage] = attrs.field(factory=deque, init=False)
    _size: int = attrs.field(default=0, init=False)
    _read: int = attrs.field(default=0, init=False)
    _error: NatsError | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _reader: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def __aiter__(self) -> NatsMessages:
        return self

    async def __anext__(self) -> NatsMessage:
        """Wait for the next message and return it. If cancelled, none is lost.

        Raises:
          NatsRefused: after what still waits, if the server does not allow this.
          NatsDisconnected: likewise, if the connection was left.
        """
        # A pass of the scheduler for each of many messages would send each answer to
        # them by itself.
        self._read += 1
        if self._read % _IN_A_ROW:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._closed:
                raise StopAsyncIteration
            await self._reader.park()
        return self._popped()

    def take_nowait(self) -> NatsMessage | None:
        """Return the next message if one waits, else None."""
        return self._popped() if self._waiting else None

    def _popped(self) -> NatsMessage:
        message = self._waiting.popleft()
        self._size -= _size(message)
        return message

    def offer(self, message: NatsMessage) -> bool:
        size = _size(message)
        full = self._size + size > self.most_bytes or (
            len(self._waiting) >= self.capacity
        )
        if full and self._waiting:
            self.dropped += 1
            return False
        self._waiting.append(message)
        self._size += size
        self._reader.unpark()
        return True

    def disconnected(self, why: str) -> None:
        self.interruptions += 1

    def ended(self, error: NatsError) -> None:
        self._error = error
        self._reader.unpark_all()

    def unpublished(self, subject: str, error: NatsError) -> None:
        pass  # the publisher has no answer to wait for

    def close(self) -> None:
        """End the iteration, after what still waits."""
        self._closed = True
        self._reader.unpark_all()

    def __repr__(self) -> str:
        waiting = f"{len(self._waiting)} wait, {self.dropped} dropped"
        return f"<NatsMessages of {self.pattern}: {waiting}>"


def _size(message: NatsMessage) -> int:
    return len(message.payload) + len(message.head)
