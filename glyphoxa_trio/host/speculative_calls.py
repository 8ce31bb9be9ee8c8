"""Speculative calls: calls that are started before the turn that may make them.

Such a call passes the gate like any other, and once more when the turn makes it. It is
a waiter of its shared task until a fan-out has found the task and waits for it, or
until the call is dropped: then it is cancelled at its server, as by an interruption,
which leaves no health sample. Its own limit counts from its real start; the turn's
clock is charged only with the time that the turn still waits for it.
"""

from __future__ import annotations

from typing import Protocol

import attrs

import trio

from glyphoxa_trio.tools.consent import Purpose, unasked
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.search import SEARCH
from glyphoxa_trio.tools.window import SampleKind

from .attempts import Attempt, Attempts, Whose
from .call_outcome import PendingCall
from .catalogue import CatalogueEntry


class StartCall(Protocol):
    """The function that starts a pending call, if it may start before its turn."""

    def __call__(self, pending_call: PendingCall, /) -> Attempt | None: ...


@attrs.frozen(kw_only=True)
class SpeculativeCallStatistics:
    """Counts of calls started before their turn, and of those used and wasted.

    ``waste``: the total duration of the wasted ones, in seconds.
    """

    begun: int
    used: int
    wasted: int
    waste: float


@attrs.define(eq=False)
class _SpeculativeCall:
    """One started call; ``held`` until it is used, dropped or timed out."""

    pending_call: PendingCall
    attempt: Attempt
    held: bool = True
    used: bool = False
    ended_at: float | None = None
    watch: trio.CancelScope = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # The one limit that applies while no turn waits.
        self.watch = trio.CancelScope(deadline=self.attempt.own_deadline)


@attrs.define(eq=False)
class SpeculativeCalls:
    """The speculative calls of one response. Made by `ToolHost.ahead`.

    Its maker must call `close`, whatever happens: until then an unused call keeps
    running.
    """

    _nursery: trio.Nursery
    _attempts: Attempts
    _start: StartCall
    _seats: dict[int, _SpeculativeCall] = attrs.field(factory=dict, init=False)
    _calls: int = attrs.field(default=0, init=False)
    _closed_at: float | None = attrs.field(default=None, init=False)

    def begin(self, call: ToolCall) -> bool:
        """Take the next call of the response; return True if it was started."""
        pending_call = PendingCall(self._calls, call)
        self._calls += 1
        if self._closed_at is not None:
            return False
        attempt = self._start(pending_call)
        if attempt is None:
            return False
        attempt.task.add_waiter()
        self._attempts.start_speculative(attempt)
        seat = self._seats[pending_call.index] = _SpeculativeCall(pending_call, attempt)
        self._nursery.start_soon(self._watch, seat)
        return True

    def find(self, pending_call: PendingCall) -> Attempt | None:
        """Return the attempt started for this call, if the call is still the same.

        An attempt that ended at its own limit is returned too: that is its outcome. It
        is not returned if a write has outdated it, or if the tool was replaced.
        """
        seat = self._seats.get(pending_call.index)
        if (
            seat is None
            or seat.used
            or self._closed_at is not None
            or seat.attempt.outdated
            or pending_call.call != seat.pending_call.call
            or pending_call.listing is None
            or pending_call.listing.tool != seat.attempt.listing.tool
        ):
            return None
        return seat.attempt

    def let_go(self, pending_call: PendingCall) -> None:
        """Release the attempt, now that the fan-out that found it is a waiter."""
        seat = self._seats.get(pending_call.index)
        if seat is not None and self.find(pending_call) is not None:
            seat.used = True
            self._leave(seat)

    def close(self) -> None:
        """Cancel the unused calls. Does nothing if it is closed already."""
        if self._closed_at is None:
            self._closed_at = trio.current_time()
            for seat in self._seats.values():
                self._leave(seat)
                self._attempts.end_speculative(seat.attempt)

    def statistics(self) -> SpeculativeCallStatistics:
        now = trio.current_time() if self._closed_at is None else self._closed_at
        wasted = [seat for seat in self._seats.values() if not seat.used]
        return SpeculativeCallStatistics(
            begun=len(self._seats),
            used=len(self._seats) - len(wasted),
            wasted=len(wasted),
            waste=sum(
                (now if seat.ended_at is None else seat.ended_at) - seat.attempt.started
                for seat in wasted
            ),
        )

    async def _watch(self, seat: _SpeculativeCall) -> None:
        """Enforce the attempt's own limit while no turn waits for it."""
        attempt = seat.attempt
        limit = seat.watch.deadline
        while True:
            with seat.watch:
                await attempt.task.settled()
            if not (seat.watch.cancelled_caught and seat.held):
                break
            until = attempt.extended(limit)
            if until <= trio.current_time():
                self._leave(seat, SampleKind.TIMEOUT)
                break
            seat.watch = trio.CancelScope(deadline=until)
        if seat.ended_at is None:
            seat.ended_at = trio.current_time()

    def _leave(self, seat: _SpeculativeCall, early: SampleKind | None = None) -> None:
        if seat.held:
            seat.held = False
            seat.watch.cancel("its seat was given up")
            self._attempts.leave(seat.attempt, early)


def may_go_ahead(
    listing: CatalogueEntry,
    attempts: Attempts,
    grant: Grant,
    whose: Whose,
    *,
    agreed: bool,
) -> bool:
    """Return True if the tool may be called although the turn may never happen.

    The call must change nothing: an idempotent write does no more the second time, but
    the first time is already too much if the turn never comes. A blocking tool cannot
    be cancelled in its thread. The search loads what it finds, so it waits as well.
    """
    no = unasked(
        listing.definition,
        Purpose.SPECULATION,
        (grant,),
        exposed=listing.exposed,
        agreed=agreed,
    )
    return (
        no is None
        and not listing.tool.blocking
        and listing.key != SEARCH.key
        and attempts.is_trusted(listing, whose)
    )
