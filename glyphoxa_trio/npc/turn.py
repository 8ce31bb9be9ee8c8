"""The clocks of one turn: pure state, no trio. Times are seconds.

Two clocks that are never confused (D0, D3): the tool clock runs while the turn
waits for tools and is bounded by construction; the model clock runs while it
waits for the model.
"""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class Clock:
    """Time that may be spent, in stretches: it runs between `start` and `stop`."""

    budget: float
    _spent: float = attrs.field(default=0.0, init=False)
    _since: float | None = attrs.field(default=None, init=False)

    @property
    def running(self) -> bool:
        return self._since is not None

    def start(self, now: float) -> float:
        """Let the clock run; returns the moment at which nothing is left.

        Raises:
          ValueError: if it runs already.
        """
        if self._since is not None:
            raise ValueError("the clock runs already")
        self._since = now
        return now + self.remaining(now)

    def stop(self, now: float) -> float:
        """Stop it; returns how long this stretch was. Nothing if it stands still."""
        if self._since is None:
            return 0.0
        stretch = now - self._since
        self._spent += stretch
        self._since = None
        return stretch

    def forgive(self, seconds: float) -> None:
        """So much of what was spent was somebody else's."""
        self._spent -= seconds

    def spent(self, now: float) -> float:
        return self._spent + (0.0 if self._since is None else now - self._since)

    def remaining(self, now: float) -> float:
        """What is left, never less than nothing."""
        return max(0.0, self.budget - self.spent(now))
