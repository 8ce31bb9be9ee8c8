"""The hedged call: one caller's wait for an answer, from one attempt or two.

If the first attempt is slow, a second one may be started at another server. The first
answer counts, and a refusal by the tool is an answer. A failure does not count while
the other attempt is in flight. Both attempts end within the limits of the call that
was made: its turn's, its tool's, its server's.
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
    """The methods of `hedging` that a hedged call uses once it has two attempts."""

    async def one_ended(self, *tasks: SharedTask[Any]) -> None: ...
    def reckon(self, second: Attempt, *, won: bool) -> None: ...
    def late(self, attempt: Attempt) -> SampleKind | None: ...
    def in_vain(self, attempt: Attempt) -> None: ...


@attrs.define(eq=False)
class HedgedCall:
    """One caller's wait for its call. Call `add_waiter` first, `release` last.

    ``until`` is the limit of the tool that was called, on trio's clock; it holds for
    the other tool too, even after the first one has failed. ``answered_by`` is the key
    of the other tool, if its answer counts; ``failed`` is the error of the tool that
    was called while the other one is still waited for.

    Args:
      second_from: the time, on trio's clock, at which ``ask_also`` is called for a
        second attempt if the first has no result by then.
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
        """Move ``until`` to `Attempt.extended`; return True if that is later."""
        if self.first.task.cancelled:  # at its limit, before it had a waiter
            return False
        until = self.first.extended(self._limit)
        if until <= max(self._limit, trio.current_time()):
            return False
        self.until = until
        return True

    def bound(self, seconds: float) -> None:
        """Limit the call to ``seconds`` after the start of its first attempt."""
        self.until = self.first.started + seconds

    def cut_at(self, latest: float) -> None:
        """Wait no longer than until ``latest``, on trio's clock."""
        self.until = min(self.until, latest)

    def add_waiter(self) -> None:
        self.first.task.add_waiter()

    def start_no_second(self) -> None:
        """Start no second attempt, since no turn waits for the call any longer."""
        self._second_from = math.inf

    async def settled(self) -> outcome.Maybe[Any]:
        """Wait for the result of the attempt that counts. Do not unwrap it.

        Cancelling the wait leaves the attempts running; it may be called again.
        """
        first = self.first.task
        if self._second is None and self._second_from < math.inf:
            with trio.CancelScope(deadline=self._second_from):
                return await first.settled()
            self._second_from = math.inf
            if not first.done and (second := self._ask_also()) is not None:
                second.task.add_waiter()
                self._second = second
        if self._second is None or self._hedging is None:
            return await first.settled()
        result = await self._earlier(self._second, self._hedging)
        self._decided = True
        return result

    async def _earlier(self, second: Attempt, hedging: Second) -> outcome.Maybe[Any]:
        first = self.first
        with trio.CancelScope(deadline=second.own_deadline):
            await hedging.one_ended(first.task, second.task)
        if first.task.done:
            result = await first.task.settled()
            if _is_answer(result):
                return result
            self.failed = result
            with trio.CancelScope(deadline=second.own_deadline):
                await second.task.settled()
        if second.task.done:
            result = await second.task.settled()
            if _is_answer(result):
                self.answered_by = second.listing.key
                hedging.reckon(second, won=True)
                return result
        # It failed, or reached its own limit: go on as if it had not been started.
        self._second = None
        own_limit = trio.current_time() >= second.own_deadline
        self._attempts.leave(second, SampleKind.TIMEOUT if own_limit else None)
        hedging.reckon(second, won=False)
        return await first.task.settled()

    def release(self, early: SampleKind | None) -> None:
        """Stop waiting for both attempts.

        Args:
          early: the sample to record if this ends the first attempt and the second has
            not answered: a timeout at the own limit, censored at the turn's, or None.
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
        if second.task.done or second.task.cancelled:
            hedging.reckon(second, won=False)


def _is_answer(result: outcome.Maybe[Any]) -> bool:
    """Return True for a result or a tool's error, unless the error says nothing."""
    match result:
        case outcome.Error(AnswerUnusable()):
            return False
    kind, _ = classify(result)
    return kind is SampleKind.OK or kind is SampleKind.TOOL_ERROR
