"""The order of utterances: the first to speak is heard first, as in asyncio.

Tasks of an asyncio loop run in the order in which they were made, and a chat delivers
its messages so. Trio's scheduler does not keep the order of tasks that are started
together.
"""

from __future__ import annotations

from collections.abc import Hashable

import attrs

import trio


@attrs.define(eq=False)
class QueuePosition:
    """A position in a queue, as a context: entered when those before it were left.

    Cancelled while it waits, it makes those behind it wait for those before it.
    """

    _before: QueuePosition | None
    _left: trio.Event = attrs.field(factory=trio.Event, init=False)
    _given_up: bool = attrs.field(default=False, init=False)

    async def __aenter__(self) -> None:
        try:
            while self._before is not None:
                before = self._before
                await before._left.wait()
                self._before = before._before if before._given_up else None
        except trio.Cancelled:
            self._given_up = True
            self._left.set()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._left.set()

    @property
    def waited_for(self) -> QueuePosition | None:
        """The position that those behind this one wait for; None if there is none."""
        place: QueuePosition | None = self
        while place is not None and place._left.is_set():
            place = place._before if place._given_up else None
        return place


@attrs.define(eq=False)
class Order:
    """The queues of one runtime, by key. Its methods are called on the loop's side."""

    _last: dict[Hashable, QueuePosition] = attrs.field(factory=dict, init=False)

    def take(self, key: Hashable) -> QueuePosition:
        """Return a new position at the end of the queue of ``key``."""
        self._last[key] = place = QueuePosition(self._last.get(key))
        return place

    def forget(self, key: Hashable, place: QueuePosition) -> None:
        """Forget a position whose call has ended, unless others come behind it."""
        if self._last.get(key) is place:
            if (before := place.waited_for) is None:
                del self._last[key]
            else:
                self._last[key] = before

    def __len__(self) -> int:
        return len(self._last)
