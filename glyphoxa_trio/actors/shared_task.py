"""Work that runs in its owner's nursery while callers come and go (D3a).

Foreign code may shield itself or sit in a thread that ignores cancellation.
Run here, it cannot hold a caller: the caller waits for the flight's landing as
long as it likes and leaves when it likes. A flight is cancelled when its last
passenger leaves; one that does not stop then is *lingering*, counted under its
key, and beyond a bound nothing more is launched under that key.

Above 300 lines, because the ways in which a flight can begin and end are read together.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar, cast

import attrs
import outcome

import trio

from glyphoxa_trio.errors import GlyphoxaError, TooManyFlights

from .lingering import LingeringTasks, ThreadToken

R = TypeVar("R")
OnLanded = Callable[[outcome.Maybe[R]], None]
Leave = Callable[[], None]


class SharedTaskEnded(Exception):
    """The work wanted to end more than itself; no error on purpose, but a bug."""


class SharedTaskCancelled(GlyphoxaError):
    """The flight has no result: nobody waited, or its owner was cancelled."""


@attrs.define(eq=False)
class SharedTask(Generic[R]):
    """One piece of work in the air, with the passengers who wait for it."""

    key: Hashable
    started: float
    _strays: LingeringTasks
    _stop: Leave = attrs.field(init=False)
    _passengers: int = attrs.field(default=0, init=False)
    _cancelled: bool = attrs.field(default=False, init=False)
    # Who sleeps until it lands, in order. A `trio.Event` takes longer to wake them.
    _waiting: dict[trio.lowlevel.Task, None] = attrs.field(factory=dict, init=False)
    _result: outcome.Maybe[R] | None = attrs.field(default=None, init=False)
    _down: bool = attrs.field(default=False, init=False)

    def add_waiter(self) -> None:
        """Count as a passenger until `leave`."""
        self._passengers += 1

    def release(self) -> bool:
        """Stop being a passenger; the last one out cancels a flight in the air.

        Returns True if this cancelled it.
        """
        self._passengers -= 1
        if self._passengers or self.done or self.cancelled:
            return False
        self._cancelled = True
        self._strays.add(self.key, self)
        self._stop()
        return True

    @property
    def done(self) -> bool:
        return self._down

    @property
    def cancelled(self) -> bool:
        """True once nobody waits: there is nothing to join any more."""
        return self._cancelled

    async def result(self) -> R:
        """The result of the work, or its exception. Board first.

        Cancelling the wait does nothing to the flight: that is `leave`'s.
        """
        # Not `unwrap`, which may be done once only: there may be more passengers.
        match await self.settled():
            case outcome.Error(error):
                raise error
            case outcome.Value(value):
                result: R = value
                return result

    async def settled(self) -> outcome.Maybe[R]:
        """As `result`, the result or exception as a value. Do not unwrap it."""
        if self._down:
            await trio.lowlevel.checkpoint()
        else:
            task = trio.lowlevel.current_task()

            def give_up(_: object) -> trio.lowlevel.Abort:
                del self._waiting[task]
                return trio.lowlevel.Abort.SUCCEEDED

            self._waiting[task] = None
            await trio.lowlevel.wait_task_rescheduled(give_up)
        assert self._result is not None
        return self._result

    def _finish(self) -> None:
        self._down = True
        for task in self._waiting:
            trio.lowlevel.reschedule(task)
        self._waiting.clear()


@attrs.define(eq=False)
class TaskResult(Generic[R]):
    """How work that needs no task of its own ends: it calls one of these two, once."""

    _flights: SharedTasks
    _flight: SharedTask[R]
    _on_landed: OnLanded[R] | None

    def set(self, result: outcome.Maybe[R]) -> None:
        """It has ended. What comes for a flight that was cancelled is dropped."""
        flight = self._flight
        if flight.done:
            return
        flight._result = result
        if self._on_landed is not None and not flight.cancelled:
            self._on_landed(result)
        self._flights._end(flight)

    def continue_with(self, work: Callable[[], Awaitable[R]]) -> None:
        """It needs a task after all."""
        if not self._flight.done:
            self._flights._go(self._flight, work, (), self._on_landed)


@attrs.frozen(kw_only=True)
class SharedTaskStatistics:
    """``flying`` counts what is in the air; ``lingering`` is by key."""

    launched: int
    flying: int
    lingering: dict[Hashable, int]


@attrs.define(eq=False)
class SharedTasks:
    """Everything in the air over one nursery.

    Args:
      lingering_limit: how many flights of one key may ignore their
        cancellation before `start` refuses that key.
      grace: seconds that a cancelled flight may take to stop before it counts
        as lingering.
      threads: how many blocking functions may run at once.
      threads_per_key: how many of one key; more of them wait, so that one that
        hangs does not take every thread.
    """

    _nursery: trio.Nursery
    lingering_limit: int = 2
    grace: float = 0.1
    threads: int = 40
    threads_per_key: int = 8
    _launched: int = attrs.field(default=0, init=False)
    _flying: int = attrs.field(default=0, init=False)
    _strays: LingeringTasks = attrs.field(factory=LingeringTasks, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _taskless: set[SharedTask[Any]] = attrs.field(factory=set, init=False)
    _seats: trio.CapacityLimiter = attrs.field(init=False)
    _key_seats: dict[Hashable, trio.CapacityLimiter] = attrs.field(
        factory=dict, init=False
    )

    def __attrs_post_init__(self) -> None:
        self._seats = trio.CapacityLimiter(self.threads)

    def when_lingering_stops(self, told: Callable[[Hashable], None]) -> None:
        """Tell ``told`` the key whenever something cancelled has really stopped.

        Until then it may still have done something.
        """
        self._strays.when_stopped(told)

    def start(
        self,
        key: Hashable,
        work: Callable[..., Awaitable[R]],
        *args: Any,
        on_landed: OnLanded[R] | None = None,
        begin: Callable[[TaskResult[R]], Leave | None] | None = None,
    ) -> SharedTask[R]:
        """Start ``await work(*args)`` in the owner's nursery.

        An `Exception` raised by it belongs to the passengers. ``on_landed`` is
        told of the result before they are, and not of a cancelled flight's end.

        Args:
          begin: begins the work without a task, if it can: returns what leaves it at
            once, for good, or None if ``work`` is to be awaited instead.

        Raises:
          TooManyFlights: if so many under this key already ignore cancellation.
        """
        lingering = self.lingering(key)
        if lingering >= self.lingering_limit:
            raise TooManyFlights(f"{key}: {lingering} earlier calls do not stop")
        flight: SharedTask[R] = SharedTask(key, trio.current_time(), self._strays)
        leave = None
        if begin is not None and not self._closed:
            leave = begin(TaskResult(self, flight, on_landed))
        if leave is None:
            self._go(flight, work, args, on_landed)
        else:
            flight._stop = partial(self._leave, flight, leave)
            self._taskless.add(flight)
        self._launched += 1
        self._flying += 1
        return flight

    def start_in_thread(
        self,
        key: Hashable,
        function: Callable[..., R],
        *args: Any,
        on_landed: OnLanded[R] | None = None,
    ) -> SharedTask[R]:
        """Start ``function(*args)`` in a worker thread.

        A cancelled flight lands at once; its thread lingers until it returns.

        Raises:
          TooManyFlights: as `start`.
        """
        return self.start(
            key, self._in_thread, key, function, args, on_landed=on_landed
        )

    def lingering(self, key: Hashable) -> int:
        """How many under ``key`` were cancelled and have not stopped."""
        return self._strays.count(key, self.grace)

    def close(self) -> None:
        """The owner's nursery is cancelled: end what has no task in it."""
        self._closed = True
        for flight in tuple(self._taskless):
            flight._stop()

    def statistics(self) -> SharedTaskStatistics:
        counts = {key: self.lingering(key) for key in self._strays.by_key}
        return SharedTaskStatistics(
            launched=self._launched,
            flying=self._flying,
            lingering={key: count for key, count in counts.items() if count},
        )

    def _go(
        self,
        flight: SharedTask[R],
        work: Callable[..., Awaitable[R]],
        args: Any,
        on_landed: OnLanded[R] | None,
    ) -> None:
        scope = trio.CancelScope()
        self._taskless.discard(flight)
        flight._stop = partial(scope.cancel, "the last passenger left")
        self._nursery.start_soon(
            self._run, flight, scope, work, args, on_landed, name=str(flight.key)
        )

    def _leave(self, flight: SharedTask[Any], leave: Leave) -> None:
        leave()
        self._end(flight)

    def _end(self, flight: SharedTask[Any]) -> None:
        if flight._result is None:
            flight._result = outcome.Error(SharedTaskCancelled(str(flight.key)))
        self._flying -= 1
        self._taskless.discard(flight)
        self._strays.discard(flight.key, flight)
        flight._finish()

    async def _run(
        self,
        flight: SharedTask[R],
        scope: trio.CancelScope,
        work: Callable[..., Awaitable[R]],
        args: Any,
        on_landed: OnLanded[R] | None,
    ) -> None:
        try:
            # Around the scope: a cancelled work may fail as well, and what the
            # scope leaves of such a group is an error like any other.
            try:
                with scope:
                    flight._result = outcome.Value(await work(*args))
            except BaseException as error:  # foreign code: its passengers judge it
                theirs, ours = _parted(error)
                if theirs is not None:
                    flight._result = outcome.Error(theirs)
                if ours is not None:
                    raise ours from None
            if on_landed is not None and flight._result and not flight.cancelled:
                on_landed(flight._result)
        finally:
            self._end(flight)

    async def _in_thread(
        self, key: Hashable, function: Callable[..., R], args: Any
    ) -> R:
        own = self._key_seats.get(key)
        if own is None:
            own = self._key_seats[key] = trio.CapacityLimiter(self.threads_per_key)
        seat = ThreadToken(own, self._seats, self._strays, key)
        try:
            return await trio.to_thread.run_sync(
                function,
                *args,
                abandon_on_cancel=True,
                # trio documents that anything with these two methods will do.
                limiter=cast("trio.CapacityLimiter", seat),
            )
        except trio.Cancelled:
            if seat.taken:
                self._strays.add(key, seat)
            raise


def _parted(
    error: BaseException,
) -> tuple[Exception | None, BaseException | None]:
    """What the work itself raised, as an `Exception`, and what is not its to end with:
    a Ctrl-C, and the cancellation of the nursery that it flies in."""
    kind = type(error)  # not `isinstance`, which asks the error itself
    if issubclass(kind, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[Any]", error)
        parts = [_parted(inner) for inner in group.exceptions]
        own = [theirs for theirs, _ in parts if theirs is not None]
        rest = [ours for _, ours in parts if ours is not None]
        left = BaseExceptionGroup("what ends a flight", rest) if rest else None
        match own:
            case []:
                return None, left
            case [alone]:
                return alone, left
        if not rest and kind is ExceptionGroup:
            return cast("Exception", error), None
        return ExceptionGroup("the tool failed in several places", own), left
    if issubclass(kind, KeyboardInterrupt):
        return None, error
    if issubclass(kind, trio.Cancelled):
        if trio.current_effective_deadline() == -math.inf:
            return None, error
        return SharedTaskEnded("it raised a cancellation that nobody asked for"), None
    # What ends a program, or a generator, must not, from within a tool, end its host.
    text = kind.__name__
    try:
        if isinstance(error, Exception) and error.__class__ is kind:
            return error, None
        text = repr(error)
    except BaseException:  # foreign code again
        pass
    return SharedTaskEnded(text), None
