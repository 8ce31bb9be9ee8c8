"""The fan-out: jobs that run in parallel under one deadline; finished results are kept.

A job is our own code and stops when cancelled; foreign code belongs in a `SharedTask`,
for which a job waits.
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
"""The result of a job that was not finished in time."""

Late = Literal[_Late.LATE]


@attrs.define(eq=False)
class FanOut(Generic[R]):
    """One fan-out: it ends at ``deadline`` (trio's clock); results in call order.

    It takes the time of its slowest job, never the sum. A job that has finished when
    the time is up keeps its result; any other is cancelled and gets `LATE`. At an exact
    tie either may happen.
    """

    deadline: float
    _scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    _moved: float | None = attrs.field(default=None, init=False)

    @property
    def time_is_up(self) -> bool:
        """True if a cancelled job was cancelled by the deadline, not by the caller."""
        if self._scope is None:  # nothing runs, or one job that watches the time itself
            return trio.current_time() >= self._end
        return self._scope.cancel_called

    @property
    def _end(self) -> float:
        return self.deadline if self._moved is None else self._moved

    def move(self, deadline: float) -> None:
        """End at another time, also while jobs run."""
        self._moved = deadline
        if self._scope is not None:
            self._scope.deadline = deadline

    async def run(self, jobs: Sequence[Callable[[], Awaitable[R]]]) -> list[R | Late]:
        """Run every job and return a result each, by the deadline at the latest.

        Cancelling the caller cancels every job. An exception of a job ends the fan-out:
        a job should convert its expected errors to results.
        """
        results: list[R | Late] = [LATE] * len(jobs)

        async def fill(slot: int, job: Callable[[], Awaitable[R]]) -> None:
            results[slot] = await job()

        self._scope = trio.CancelScope(deadline=self._end)
        with self._scope:
            if len(jobs) == 1:  # the usual case needs no task of its own
                results[0] = await jobs[0]()
            elif jobs:
                async with trio.open_nursery() as nursery:
                    for slot, job in enumerate(jobs):
                        nursery.start_soon(fill, slot, job)
        return results
