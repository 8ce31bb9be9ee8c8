"""The game masters at their pages, who are asked for approvals while they watch."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import attrs

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.runtime import Runtime

from .watching import TurnHistory, show


class TurnWatch(Protocol):
    """The turns that clients may watch, wherever they are."""

    async def show(
        self,
        put: Callable[[dict[str, Any]], None],
        started: Callable[[], None],
        *,
        session: str | None,
        deltas: bool,
        directs: bool,
    ) -> None:
        """Put every event from now on, numbered, until cancelled.

        Args:
          started: called once nothing is missed any more.
          session: only of this one; None means all of them, and what is of none.
          deltas: with the pieces of texts.
          directs: whoever watches answers approvals.

        Raises:
          Refused: they cannot be watched here.
        """
        ...


@attrs.frozen(eq=False)
class WatchedTurns:
    """The turns of a runtime in this process, and the game masters who watch them."""

    history: TurnHistory
    desk: ApprovalDesk

    async def show(
        self,
        put: Callable[[dict[str, Any]], None],
        started: Callable[[], None],
        *,
        session: str | None,
        deltas: bool,
        directs: bool,
    ) -> None:
        """See `TurnWatch`."""
        started()
        with self.desk.present() if directs else nullcontext():
            await show(self.history, put, session=session, deltas=deltas)


@attrs.define(eq=False)
class ApprovalDesk:
    """Counts the game masters who see questions, and tells the runtime of them."""

    _runtime: Runtime
    _present: int = attrs.field(default=0, init=False)
    _changed: Signal = attrs.field(factory=Signal, init=False)

    @contextmanager
    def present(self) -> Generator[None]:
        """Count a game master until the block is left."""
        self._present += 1
        self._changed.set()
        try:
            yield
        finally:
            self._present -= 1
            self._changed.set()

    async def run(self) -> None:
        """Tell the runtime whenever the first one comes or the last one goes."""
        while True:
            await self._changed.until(lambda: self._present > 0)
            await self._runtime.expect_approvals(expected=True)
            await self._changed.until(lambda: self._present == 0)
            await self._runtime.expect_approvals(expected=False)
