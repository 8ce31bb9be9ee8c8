"""A trio run of its own, in a thread or a process, for async code that blocks."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

R = TypeVar("R")


def run_apart(
    work: Callable[[float], Awaitable[R]], *, deadline: float = math.inf
) -> R:
    """Await ``work`` in this thread, which has no run of trio. Blocks until it is done.

    Args:
      work: called with the seconds by which the clock of this run is ahead of the clock
        of the run that started the thread: add them to times of that clock.
      deadline: when it is cancelled, on the clock of the run that started the thread.

    Raises:
      TimeoutError: if it was cancelled at its deadline.
    """
    try:
        there = trio.from_thread.run_sync(trio.current_time)
    except RuntimeError:  # not started from a run, or from one that has ended
        there = None

    async def main() -> R:
        ahead = 0.0 if there is None else trio.current_time() - there
        with trio.CancelScope(deadline=deadline + ahead):
            return await work(ahead)
        raise TimeoutError("its time was up")

    return trio.run(main)


def now() -> float:
    """Return the current time on the clock of this run."""
    return trio.current_time()
