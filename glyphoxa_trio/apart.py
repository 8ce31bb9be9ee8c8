"""Async code that blocks, in a run of trio of its own: in a thread, or a process."""

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
      work: given the seconds by which the clock of this run is ahead of the one that
        the thread was started from: what to add to moments of that.
      deadline: when it is cancelled, on the clock that the thread was started from.

    Raises:
      TimeoutError: it was cancelled.
    """
    try:
        there = trio.from_thread.run_sync(trio.current_time)
    except RuntimeError:  # not started from a run, or from one that is over
        there = None

    async def main() -> R:
        ahead = 0.0 if there is None else trio.current_time() - there
        with trio.CancelScope(deadline=deadline + ahead):
            return await work(ahead)
        raise TimeoutError("its time was up")

    return trio.run(main)


def now() -> float:
    """The moment on the clock of this run."""
    return trio.current_time()
