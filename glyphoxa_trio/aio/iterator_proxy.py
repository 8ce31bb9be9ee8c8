"""What a trio async iterator yields, one item each time that asyncio asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, Generic, TypeVar

import attrs

from .bridge import LoopBridge
from .call import BridgedCall

E = TypeVar("E")


class IteratorEnd(Enum):
    """There are no more. A value: an exception would carry its traceback along, and
    leave a cycle at each turn's end to the collector of garbage."""

    END = 0


END: Final = IteratorEnd.END


@attrs.define(eq=False)
class IteratorProxy(Generic[E]):
    """Items for one consumer. Nothing is asked for before somebody waits for it.

    A wait that is cancelled loses nothing: the next one gets what it had asked for.
    """

    _bridge: LoopBridge
    _asked: BridgedCall[E | IteratorEnd] | None = attrs.field(default=None, init=False)
    _waiting: bool = attrs.field(default=False, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    @property
    def asked(self) -> bool:
        """Whether an item was asked for that nobody has got."""
        return self._asked is not None

    async def take(self, step: Callable[[], Awaitable[E | IteratorEnd]]) -> E:
        """The next item.

        Args:
          step: on trio's side, what it is. Not kept, where it would be a cycle.

        Raises:
          StopAsyncIteration: there are no more.
          RuntimeClosed: the runtime has ended.
          RuntimeError: somebody else waits for it, or this is another loop.
        """
        if self._closed:
            raise StopAsyncIteration
        if self._waiting:
            raise RuntimeError("somebody else waits for the next event already")
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
        """Nothing follows, also for whoever waits."""
        self._closed = True
        if self._asked is not None:
            self._asked.cancel()
