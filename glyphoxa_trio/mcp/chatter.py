"""How much a server may say unasked before it is read more slowly.

To read is work, and everybody's: a server that talks without end would have all
of it. What is not read fills its pipe, and then the server waits.
"""

from __future__ import annotations

from typing import Final

import attrs

import trio

_A_SECOND: Final = 1_000.0  # lines that answer nothing of ours …
_AT_ONCE: Final = 200.0  # … after so many
_NAP: Final = 0.01  # seconds


@attrs.define(eq=False)
class Chatter:
    """An allowance of lines, earned with time."""

    _left: float = attrs.field(default=_AT_ONCE, init=False)
    _counted: float = attrs.field(factory=trio.current_time, init=False)

    async def one_more(self) -> None:
        """Count a line; waits a moment if there were too many."""
        self._left -= 1
        if self._left >= 0:
            return
        now = trio.current_time()
        earned = (now - self._counted) * _A_SECOND
        self._left = min(_AT_ONCE, self._left + earned)
        self._counted = now
        if self._left < 0:
            await trio.sleep(_NAP)
