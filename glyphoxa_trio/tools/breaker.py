"""The breaker of one tool: after five failures in a row, its calls are paused.

Theory of operation::

    CLOSED  threshold failures in a row   OPEN
    OPEN    begin, after the pause        TRIAL
    TRIAL   succeeded                     CLOSED
    TRIAL   failed                        OPEN, for another pause
    TRIAL   released                      OPEN, its pause being over

Rule 1: every change of state begins a new *era*.
Rule 2: a call that begins gets a ticket of the current era, and its report counts only
in that era.

Rule 3: a closed breaker that is *suspected* opens at the first failure, not at the last
of a row. A suspicion lasts as long as a pause, so it has ended before a trial begins.

So a call that began while closed and ends after it opened, during the trial or after
it, changes nothing: neither a stale failure nor a stale success is the trial's result.
An era of trial has one ticket, so only the caller of the trial can end it. Results
within a closed era count in the order in which they arrive.
"""

from __future__ import annotations

import math
from enum import StrEnum

import attrs


class BreakerState(StrEnum):
    """The state, which decides whether calls are admitted."""

    CLOSED = "closed"  # all calls are admitted
    OPEN = "open"  # no call is, until the pause is over
    TRIAL = "trial"  # one call is in flight, the others are refused until it ends


@attrs.frozen
class Ticket:
    """Permission to make one call. It ends in one `record` or one `release`."""

    era: int


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class Breaker:
    """A breaker. It opens after ``threshold`` failures in a row, for ``pause`` seconds.

    A failure is one of health (own limit, transport, crash); an error that the tool
    reports itself is not. ``now`` is seconds on any clock, the same for all calls.
    """

    threshold: int = attrs.field(default=5, validator=attrs.validators.ge(1))
    pause: float = attrs.field(default=10.0, validator=attrs.validators.ge(0))
    _state: BreakerState = attrs.field(default=BreakerState.CLOSED, init=False)
    _era: int = attrs.field(default=0, init=False, repr=False)
    _failures: int = attrs.field(default=0, init=False)  # in a row, while closed
    _retry_at: float = attrs.field(default=-math.inf, init=False, repr=False)
    _suspected_until: float = attrs.field(default=-math.inf, init=False, repr=False)

    @property
    def state(self) -> BreakerState:
        """The state. OPEN lasts until a call starts the trial, even after the pause."""
        return self._state

    def admits(self, now: float) -> bool:
        """Return True if `begin` would give a ticket. Changes nothing."""
        match self._state:
            case BreakerState.CLOSED:
                return True
            case BreakerState.OPEN:
                return now >= self._retry_at
            case BreakerState.TRIAL:
                return False

    def begin(self, now: float) -> Ticket | None:
        """Return the ticket of a call that starts, or None if it must not start.

        The first call after the pause is the trial; no other starts until it ends.
        """
        if not self.admits(now):
            return None
        if self._state is BreakerState.OPEN:
            self._enter(BreakerState.TRIAL)
        return Ticket(self._era)

    def record(self, ticket: Ticket, *, ok: bool, now: float) -> bool:
        """Record that a call has ended, and whether the tool was healthy (``ok``).

        Returns:
          True if this closed the breaker: the health window then starts anew.
        """
        if ticket.era != self._era:
            return False
        if self._state is BreakerState.TRIAL:
            if ok:
                self._enter(BreakerState.CLOSED)
            else:
                self._open(until=now + self.pause)
            return ok
        self._failures = 0 if ok else self._failures + 1
        suspected = not ok and now < self._suspected_until
        if suspected or self._failures >= self.threshold:
            self._open(until=now + self.pause)
        return False

    def release(self, ticket: Ticket, now: float) -> None:
        """Release the ticket of a call that says nothing of health or did not start.

        After a trial the next call may be the trial at once. Otherwise nothing
        changes: failures before and after such a call are still in a row.
        """
        if ticket.era == self._era and self._state is BreakerState.TRIAL:
            self._open(until=now)

    def suspect(self, now: float) -> None:
        """Open at the first failure from now on, for the length of a pause, since the
        tool has failed elsewhere. Without effect unless the breaker is closed."""
        if self._state is BreakerState.CLOSED:
            self._suspected_until = now + self.pause

    def retry_in(self, now: float) -> float:
        """Return the seconds until a trial may start: 0 if now or during a trial."""
        if self._state is BreakerState.OPEN:
            return max(0.0, self._retry_at - now)
        return 0.0

    def _open(self, *, until: float) -> None:
        self._retry_at = until
        self._enter(BreakerState.OPEN)

    def _enter(self, state: BreakerState) -> None:
        self._state = state
        self._era += 1
        self._failures = 0
