"""The interface of a trio run beside an asyncio loop; `guest` and `thread` implement
it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import outcome

Function = Callable[[], object]
Main = Callable[[], Awaitable[None]]
Finished = Callable[["outcome.Outcome[None]"], None]


class Run(Protocol):
    """A trio run, and the transport of functions from one side to the other.

    Functions arrive in the order in which they were sent and must not raise. If the
    other side has ended, they are dropped without an error.
    """

    def start(self, main: Main, finished: Finished) -> None:
        """Start the run; ``finished`` is called on the loop's side at its end."""

    def to_trio(self, function: Function) -> None:
        """Call ``function`` on trio's side. Used on the loop's side."""

    def to_loop(self, function: Function) -> None:
        """Call ``function`` on the loop's side. Used on trio's side."""

    def end_without_loop(self, cancel: Function, *, within: float) -> None:
        """Run trio to its end although the loop does not run any more.

        Blocks, for ``within`` seconds at most.

        Args:
          cancel: ends the run, called on trio's side.
        """

    def close(self) -> None:
        """Give back resources of the process, after the run has ended."""
