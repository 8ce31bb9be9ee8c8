"""A rate limit on unsolicited messages: beyond it, a server is read more slowly.

Reading takes time from everything else, so a server that never stops talking could take
all of it. Output that is not read fills the server's pipe, and then the server waits.
"""

from __future__ import annotations

from typing import Final

import attrs

import trio

from . import bounds

_NAP: Final = 0.01  # seconds of the shortest pause


@attrs.define(eq=False)
class RateLimit:
    """An allowance of lines and bytes that grows with time."""

    _lines: float = attrs.field(default=bounds.LINES_AT_ONCE, init=False)
    _bytes: float = attrs.field(default=bounds.BYTES_AT_ONCE, init=False)
    _counted: float = attrs.field(factory=trio.current_time, init=False)

    async def one_more(self, size: int = 0, *, lines: int = 1) -> None:
        """Count ``lines`` lines of ``size`` bytes.

        If the allowance of either is used up, wait for as long as it takes to earn it
        back.
        """
        self._lines -= lines
        self._bytes -= size
        if self._lines >= 0 and self._bytes >= 0:
            return
        now = trio.current_time()
        passed = now - self._counted
        lines_earned = self._lines + passed * bounds.LINES_A_SECOND
        bytes_earned = self._bytes + passed * bounds.BYTES_A_SECOND
        self._lines = min(bounds.LINES_AT_ONCE, lines_earned)
        self._bytes = min(bounds.BYTES_AT_ONCE, bytes_earned)
        self._counted = now
        if self._lines < 0 or self._bytes < 0:
            earned = max(
                -self._lines / bounds.LINES_A_SECOND,
                -self._bytes / bounds.BYTES_A_SECOND,
            )
            await trio.sleep(max(_NAP, earned))
