"""One caller's wait for the answer to its call: in one flight, or later in two (D12).

The first answer counts, and a no of the tool is one. A failure is none while the other
attempt still flies. Both attempts end inside the limits of the call that was made:
its turn's, its tool's, its server's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import attrs
import outcome

import trio

from glyphoxa_trio.actors import SharedTask
from glyphoxa_trio.tools.definition import AnswerUnusable
from glyphoxa_trio.tools.window import SampleKind

from .attempts import Attempt, Attempts, classify


class Second(Protocol):
    """What a booking needs of whoever has made a second attempt (`hedging`)."""

    async def one_landed(self, *flights: SharedTask[Any]) -> None: ...
    def reckon(self, second: Attempt, *, won: bool) -> None: ...
    def late(self, attempt: Attempt) -> SampleKind | None: ...
    def in_vain(self, attempt: Attempt) -> None: ...


@attrs.define(eq=False)
class HedgedCall:
    """One caller's wait for the answer to its call. `add_waiter` first, `leave` last.

    ``until`` is the own limit of the tool that was called, on trio's clock; it holds
    for whoever else is asked, also when that tool has failed. ``answered_by`` is the
    key of another tool, if that one's answer counts, and ``failed`` how the tool that
    was called has failed while another is waited for.

    Args:
      second_from: when ``ask_also`` is asked for a second attempt, if by then the
        first has not landed.
    """

    _attempts: Attempts
    first: Attempt
    _hedging: Second | None = None
    _second_from: float = math.inf
    _ask_also: Callable[[], Attempt | None] = lambda: None
    until: float = attrs.field(init=False)
    _limit: float = attrs.field(init=False)
    _second: Attempt | None = attrs.field(default=None, init=False)
    _decided: bool = attrs.field(default=False, init=False)
    answered_by: str | None = attrs.field(default=None, init=False)
    failed: outcome.Maybe[Any] | None = attrs.field(default=None, init=False)

    @until.default
    def _own_limit(self) -> float:
        return self.first.own_deadline

    def __attrs_post_init__(self) -> None:
        self._limit = self.until

    def extended(self) -> bool:
        """Whether there is more time after all, as `Attempt.extended` says."""
        if self.first.flight.cancelled:  # at its limit, before anybody waited for it
            return False
        until = self.first.extended(self._limit)
        if until <= max(self._limit, trio.current_time()):
            return False
        self.until = until
        return True

    def bound(self, seconds: float) -> None:
        """Give it a limit that is not its own, from when the first attempt began."""
        self.until = self.first.started + seconds

    def cut_at(self, latest: float) -> None:
        """Wait no longer than until then."""
        self.until = min(self.until, latest)

    def add_waiter(self) -> None:
        self.first.flight.add_waiter()

    def wait_for_what_flies(self) -> None:
        """Nobody is kept waiting any more: start no second attempt."""
        self._second_from = math.inf

    async def settled(self) -> outcome.Maybe[Any]:
        """How the call ended, by whichever attempt counts. Do not unwrap it.

        Cancelling the wait does nothing to the attempts, and it may be begun again.
        """
        first = self.first.flight
        if self._second is None and self._second_from < math.inf:
            with trio.CancelScope(deadline=self._second_from):
                return await first.settled()
            self._second_from = math.inf
            if not first.done and (second := self._ask_also()) is not None:
                second.flight.add_waiter()
                self._second = second
        if self._second is None or self._hedging is None:
            return await first.settled()
        result = await self._earlier(self._second, self._hedging)
        self._decided = True
        return result

    async def _earlier(self, second: Attempt, hedging: Second) -> outcome.Maybe[Any]:
        first = self.first
        with trio.CancelScope(deadline=second.own_deadline):
            await hedging.one_landed(first.flight, second.flight)
        if first.flight.done:
            result = await first.flight.settled()
            if _is_answer(result):
                return result
            self.failed = result
            with trio.CancelScope(deadline=second.own_deadline):
                await second.flight.settled()
        if second.flight.done:
            result = await second.flight.settled()
            if _is_answer(result):
                self.answered_by = second.listing.key
                hedging.reckon(second, won=True)
                return result
        # It failed, or met its own limit: from here on as if there had been none.
        self._second = None
        own_limit = trio.current_time() >= second.own_deadline
        self._attempts.leave(second, SampleKind.TIMEOUT if own_limit else None)
        hedging.reckon(second, won=False)
        return await first.flight.settled()

    def release(self, early: SampleKind | None) -> None:
        """Get off.

        Args:
          early: what it says of the tool if that ends the first attempt, and no
            answer of the second has: its own limit, the turn's, or nothing.
        """
        first, second, hedging = self.first, self._second, self._hedging
        if second is None or hedging is None:
            self._attempts.leave(first, early)
            return
        self._second = None
        won = self.answered_by is not None
        if self._attempts.leave(first, hedging.late(first) if won else early) and won:
            hedging.in_vain(first)
        interrupted = early is None and not self._decided
        self._attempts.leave(second, None if interrupted else hedging.late(second))
        if second.flight.done or second.flight.cancelled:
            hedging.reckon(second, won=False)


def _is_answer(result: outcome.Maybe[Any]) -> bool:
    """Whether the tool said yes or no; a no that says nothing is a failure here."""
    match result:
        case outcome.Error(AnswerUnusable()):
            return False
    kind, _ = classify(result)
    return kind is SampleKind.OK or kind is SampleKind.TOOL_ERROR
