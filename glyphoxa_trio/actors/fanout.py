"""Run the jobs of one fan-out in parallel, under one deadline, keep what is done.

A job is our own code and stops when cancelled; foreign code belongs in a
`SharedTask`, on which a job waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Final, Generic, Literal, TypeVar

import attrs

import trio

R = TypeVar("R")


class _Late(Enum):
    LATE = "late"


LATE: Final = _Late.LATE
"""Stands where the result of a job would, had it come in time."""

Late = Literal[_Late.LATE]


@attrs.define(eq=False)
class FanOut(Generic[R]):
    """One fan-out: at most ``deadline`` (on trio's clock), results in call order.

    It costs the time of its slowest job, never the sum. What has finished when
    the time is up is kept; what has not is cancelled and reads `LATE`. At an
    exact tie either is right.
    """

    deadline: float
    _scope: trio.CancelScope | None = attrs.field(default=None, init=False)

    @property
    def time_is_up(self) -> bool:
        """Tells a cancelled job whose doing it was: the deadline's, or the caller's."""
        if self._scope is None:  # nothing runs, or one job that keeps the time itself
            return trio.current_time() >= self.deadline
        return self._scope.cancel_called

    async def run(self, jobs: Sequence[Callable[[], Awaitable[R]]]) -> list[R | Late]:
        """Run every job and return a result each, by the deadline at the latest.

        Cancelling the caller cancels every job. An exception of a job ends the
        fan-out: turn what may go wrong into a result inside the job.
        """
        results: list[R | Late] = [LATE] * len(jobs)

        async def fill(slot: int, job: Callable[[], Awaitable[R]]) -> None:
            results[slot] = await job()

        self._scope = trio.CancelScope(deadline=self.deadline)
        with self._scope:
            if len(jobs) == 1:  # the usual case needs no task of its own
                results[0] = await jobs[0]()
            elif jobs:
                async with trio.open_nursery() as nursery:
                    for slot, job in enumerate(jobs):
                        nursery.start_soon(fill, slot, job)
        return results
