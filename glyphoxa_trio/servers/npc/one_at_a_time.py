"""The order of calls that speak to one NPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.tools.definition import ToolUnavailable
from glyphoxa_trio.units import many

MOST_WAITING: Final = 8  # calls that wait for one NPC of a session


@attrs.define(eq=False)
class OneAtATime:
    """Lets one caller at a time speak to an NPC; the others wait, in order.

    Without it, a second call would interrupt the first, since both would come from one
    player who speaks again.
    """

    _locks: dict[tuple[str, str], trio.Lock] = attrs.field(factory=dict, init=False)

    @asynccontextmanager
    async def turn(self, session: str, npc: str) -> AsyncIterator[None]:
        """Hold the NPC for the block.

        Raises:
          ToolUnavailable: `MOST_WAITING` wait already.
        """
        key = session, npc
        lock = self._locks.setdefault(key, trio.Lock())
        if (waiting := lock.statistics().tasks_waiting) >= MOST_WAITING:
            raise ToolUnavailable(
                f"{many(waiting, 'call waits', 'calls wait')} for {npc} already:"
                " try again later"
            )
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    def __len__(self) -> int:
        return len(self._locks)
