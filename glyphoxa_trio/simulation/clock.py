"""A virtual clock that goes to each deadline exactly, not by adding up its jumps."""

from __future__ import annotations

from math import inf

import attrs

import trio

from glyphoxa_trio.observability.stepping import Quiet


@attrs.define(eq=False)
class ExactClock(trio.abc.Clock):
    """Time passes only when no task can run, and then to the next deadline at once.

    trio's `MockClock` adds the length of a jump to its time, so a deadline may fire a
    rounding error late; that is enough to make two runs differ. In exchange,
    `wait_all_tasks_blocked` is of no use here: time passes before it returns; ``quiet``
    is. As there, nothing real may be waited for.
    """

    exact = True

    _now: float = 0.0
    quiet: Quiet = attrs.field(factory=Quiet, init=False)

    def start_clock(self) -> None: ...

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        if deadline <= self._now:
            return 0.0
        if self.quiet.is_quiet():
            return 0.0
        if deadline == inf:
            return inf  # it waits for something that is not on this clock
        self._now = deadline
        return 0.0
