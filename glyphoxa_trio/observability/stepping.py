"""A clock whose time stands still while anything runs, so that a run can be repeated.

    clock = SteppingClock()
    trio.run(main, clock=clock)

On the usual clock, every step that follows from a player's line has a time of its own,
which a replay cannot repeat. On this one all of them happen at one instant. Time passes
only while every task waits, as far as it really did, and never past the next deadline,
which fires at exactly its time, as on a virtual clock. So the time between two events
is a difference of the same two numbers in each replay.

Deadlines keep to real time: the clock catches up whenever nothing is to be done, so
the time that code takes is counted with the next wait. A run that always has
something to do would stop time; after `HELD` seconds of that the clock goes on all the
same, and says so: from there on a replay is not exact. How late a loop is cannot be
seen on this clock, so no turn is turned away for that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final

import attrs

import trio

HELD: Final = 1.0  # seconds for which time may stand still
# How far times of a replay may be off, seconds, by the clock that was recorded on.
_ROUNDED: Final = 1e-6  # a virtual clock that adds up its jumps
_REAL: Final = 0.05


def _silent(at: float, seconds: float) -> None: ...


@attrs.define(eq=False)
class Quiet:
    """The waiting for the moment when nothing more can happen at an instant."""

    _first: deque[Callable[[], None]] = attrs.field(factory=deque, init=False)
    _last: deque[Callable[[], None]] = attrs.field(factory=deque, init=False)

    def when_quiet(self, told: Callable[[], None], *, first: bool = False) -> None:
        """Call ``told`` when nothing more can happen at this instant; one such call
        after the other, those that are to be ``first`` before all others. From trio's
        loop: it must neither block nor raise.
        """
        (self._first if first else self._last).append(told)

    def is_quiet(self) -> bool:
        """Tell the next waiter that it is quiet; returns False if there is none."""
        waiting = self._first or self._last
        if waiting:
            waiting.popleft()()
            return True
        return False

    def forget(self, told: Callable[[], None]) -> None:
        with suppress(ValueError):
            self._last.remove(told)


@attrs.define(eq=False)
class SteppingClock(trio.abc.Clock, trio.abc.Instrument):
    """For `trio.run`. Begins at 0.

    Args:
      on_lost: told the time at which exactness was lost, and for how many seconds
        there was always something to do. Must neither block nor raise.
      real: the clock behind it, seconds.
    """

    _on_lost: Callable[[float, float], None] = _silent
    _real: Callable[[], float] = time.perf_counter
    _now: float = attrs.field(default=0.0, init=False)
    _began: float = attrs.field(default=0.0, init=False)
    _next: float = attrs.field(default=inf, init=False)
    _idle: bool = attrs.field(default=False, init=False)
    _stood_since: float = attrs.field(default=0.0, init=False)
    quiet: Quiet = attrs.field(factory=Quiet, init=False)

    def when_lost(self, on_lost: Callable[[float, float], None]) -> None:
        """Call this function when exactness is lost, in place of the one before."""
        self._on_lost = on_lost

    # A clock.

    def start_clock(self) -> None:
        self._began = self._real() - self._now
        self._stood_since = self._now
        trio.lowlevel.add_instrument(self)

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """trio asks this when no task can run: the one moment for time to pass."""
        if deadline > self._now and self.quiet.is_quiet():
            return 0.0
        self._idle, self._next = True, deadline
        return max(0.0, deadline - self._passed())

    # An instrument: trio has waited, and looks at the clock next.

    def after_io_wait(self, timeout: float) -> None:
        passed = self._passed()
        if self._idle:
            self._idle = False
            self._now = max(self._now, min(passed, self._next))
            self._stood_since = passed
        elif passed - self._stood_since > HELD:
            stood, self._stood_since = passed - self._stood_since, passed
            self._now = max(self._now, passed)
            self._on_lost(self._now, stood)
            self.quiet.is_quiet()  # who waits must not wait for ever

    def _passed(self) -> float:
        return self._real() - self._began


def exactness() -> tuple[str, float]:
    """The clock that this runs on, and how exact a replay of it can be."""
    from trio.testing import MockClock

    clock = trio.lowlevel.current_clock()
    if isinstance(clock, SteppingClock) or getattr(clock, "exact", False):
        return "stepping", 0.0
    return ("virtual", _ROUNDED) if isinstance(clock, MockClock) else ("real", _REAL)
