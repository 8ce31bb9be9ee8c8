"""What a trio run beside an asyncio loop must be able to do; `guest` and `thread` are
the two that there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import outcome

Function = Callable[[], object]
Main = Callable[[], Awaitable[None]]
Finished = Callable[["outcome.Outcome[None]"], None]


class Run(Protocol):
    """A trio run, and how a function gets from one side to the other.

    Functions arrive in the order in which they were sent and must not raise. Where
    the other side has ended they go nowhere, without an error.
    """

    def start(self, main: Main, finished: Finished) -> None:
        """Begin; ``finished`` is told of the end, on the loop's side."""

    def to_trio(self, function: Function) -> None:
        """Called on the loop's side."""

    def to_loop(self, function: Function) -> None:
        """Called on trio's side."""

    def end_without_loop(self, cancel: Function, *, within: float) -> None:
        """See the run to its end though its loop serves nobody any more.

        Blocks, for ``within`` seconds at most.

        Args:
          cancel: ends the run, called on trio's side.
        """

    def close(self) -> None:
        """The run has ended: give back what belongs to the whole process."""
