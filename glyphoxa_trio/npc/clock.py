"""The clocks of one turn: pure state, no trio. Times are seconds.

There are two, which are never mixed. The tool clock runs while the turn waits for
tools, and its budget bounds their time. The model clock runs while the turn waits for
the model.
"""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class Clock:
    """Time that may be spent, in stretches from a `start` to its `stop`.

    If stretches overlap, the first starts the clock and the last stops it.
    """

    budget: float
    _spent: float = attrs.field(default=0.0, init=False)
    _since: float = attrs.field(default=0.0, init=False)
    _holders: int = attrs.field(default=0, init=False)

    @property
    def running(self) -> bool:
        """True while a stretch is open."""
        return self._holders > 0

    def start(self, now: float) -> float:
        """Start a stretch; return the time at which nothing is left."""
        if not self._holders:
            self._since = now
        self._holders += 1
        return now + self.remaining(now)

    def stop(self, now: float) -> None:
        """End one stretch; does nothing if the clock is stopped."""
        if not self._holders:
            return
        self._holders -= 1
        if not self._holders:
            self._spent += now - self._since

    def forgive(self, seconds: float) -> None:
        """Give back seconds of the time that was spent."""
        self._spent -= seconds

    def spent(self, now: float) -> float:
        """Return the time spent until ``now``."""
        return self._spent + (now - self._since if self._holders else 0.0)

    def remaining(self, now: float) -> float:
        """Return the time that is left, at least 0."""
        return max(0.0, self.budget - self.spent(now))
