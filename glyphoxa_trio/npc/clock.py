"""The clocks of one turn: pure state, no trio. Times are seconds.

Two clocks that are never confused (D0, D3): the tool clock runs while the turn
waits for tools and is bounded by construction; the model clock runs while it
waits for the model.
"""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class Clock:
    """Time that may be spent, in stretches: from a `start` to its `stop`. Of several at
    once the first starts it and the last stops it."""

    budget: float
    _spent: float = attrs.field(default=0.0, init=False)
    _since: float = attrs.field(default=0.0, init=False)
    _holders: int = attrs.field(default=0, init=False)

    @property
    def running(self) -> bool:
        return self._holders > 0

    def start(self, now: float) -> float:
        """Let the clock run; returns the moment at which nothing is left."""
        if not self._holders:
            self._since = now
        self._holders += 1
        return now + self.remaining(now)

    def stop(self, now: float) -> None:
        """End one stretch; nothing if the clock stands still."""
        if not self._holders:
            return
        self._holders -= 1
        if not self._holders:
            self._spent += now - self._since

    def forgive(self, seconds: float) -> None:
        """So much of what was spent was somebody else's."""
        self._spent -= seconds

    def spent(self, now: float) -> float:
        return self._spent + (now - self._since if self._holders else 0.0)

    def remaining(self, now: float) -> float:
        """What is left, never less than nothing."""
        return max(0.0, self.budget - self.spent(now))
