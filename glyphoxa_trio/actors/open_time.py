"""The time in which at least one of several things was open, such as a question."""

from __future__ import annotations

import attrs

import trio


@attrs.define(eq=False)
class OpenTime:
    """Counts what is open, and the seconds in which that was one or more."""

    count: int = attrs.field(default=0, init=False)
    _before: float = attrs.field(default=0.0, init=False)
    _since: float = attrs.field(default=0.0, init=False)

    def seconds(self) -> float:
        """Return the seconds until now."""
        return self._before + (trio.current_time() - self._since if self.count else 0.0)

    def begin(self) -> None:
        """One more is open."""
        if not self.count:
            self._since = trio.current_time()
        self.count += 1

    def end(self) -> None:
        """One less is open."""
        if self.count == 1:
            self._before = self.seconds()
        self.count -= 1
