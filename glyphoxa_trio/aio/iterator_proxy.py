"""A trio async iterator whose items are taken from asyncio, one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, Generic, TypeVar

import attrs

from .bridge import LoopBridge
from .call import BridgedCall

E = TypeVar("E")


class IteratorEnd(Enum):
    """The end of the items. A value, because an exception would carry its traceback
    along, and leave a reference cycle to the garbage collector at each turn's end."""

    END = 0


END: Final = IteratorEnd.END


@attrs.define(eq=False)
class IteratorProxy(Generic[E]):
    """The items of a trio iterator for one consumer, requested only when it waits for
    one.

    A wait that is cancelled loses nothing: the next one gets the item it had requested.
    """

    _bridge: LoopBridge
    _asked: BridgedCall[E | IteratorEnd] | None = attrs.field(default=None, init=False)
    _waiting: bool = attrs.field(default=False, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    @property
    def asked(self) -> bool:
        """True if an item was requested and not taken yet."""
        return self._asked is not None

    async def take(self, step: Callable[[], Awaitable[E | IteratorEnd]]) -> E:
        """Return the next item.

        Args:
          step: returns the item, on trio's side. Not kept here, which would be a
            reference cycle.

        Raises:
          StopAsyncIteration: there are no more items.
          RuntimeClosed: the runtime has ended.
          RuntimeError: another task waits for the next item, or this is another loop.
        """
        if self._closed:
            raise StopAsyncIteration
        if self._waiting:
            raise RuntimeError("another task waits for the next event already")
        self._bridge.must_be_here()
        if self._asked is None:
            self._asked = self._bridge.start(step)
        self._waiting = True
        try:
            found = await self._asked.look()
        finally:
            self._waiting = False
        self._asked = None
        if self._closed or (item := found.unwrap()) is END:
            raise StopAsyncIteration
        return item

    def close(self) -> None:
        """End the iteration, also for a task that waits for an item."""
        self._closed = True
        if self._asked is not None:
            self._asked.cancel()
