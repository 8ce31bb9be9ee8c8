"""Shared tasks: work in its owner's nursery, for which any number of callers wait.

Foreign code may shield itself from cancellation, or run in a thread that ignores it.
Run here, it cannot block a caller: a caller waits for the task's result as long as it
likes, and leaves when it likes. A task is cancelled when its last waiter leaves; one
that does not stop then is *lingering*. Lingering tasks are counted by key, and beyond a
limit no more tasks are started for that key.
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
from glyphoxa_trio.units import many

from .lingering import LingeringTasks, ThreadToken

R = TypeVar("R")
OnResult = Callable[[outcome.Maybe[R]], None]
Leave = Callable[[], None]


class SharedTaskEnded(Exception):
    """The work raised an exception that would end more than itself, which is a bug."""


class SharedTaskCancelled(GlyphoxaError):
    """The task has no result: its last waiter left, or its owner was cancelled."""


@attrs.define(eq=False)
class SharedTask(Generic[R]):
    """One piece of running work, with the number of callers that wait for it."""

    key: Hashable
    started: float
    _lingering: LingeringTasks
    _stop: Leave = attrs.field(init=False)
    _waiters: int = attrs.field(default=0, init=False)
    _cancelled: bool = attrs.field(default=False, init=False)
    # Tasks that sleep until it has ended, in order. Waking a `trio.Event` is slower.
    _waiting: dict[trio.lowlevel.Task, None] = attrs.field(factory=dict, init=False)
    _result: outcome.Maybe[R] | None = attrs.field(default=None, init=False)
    _down: bool = attrs.field(default=False, init=False)

    def add_waiter(self) -> None:
        """Count one more waiter, until it calls `release`."""
        self._waiters += 1

    def release(self) -> bool:
        """Count one waiter less; the last one cancels a task that is still running.

        Returns True if this cancelled it.
        """
        self._waiters -= 1
        if self._waiters or self.done or self.cancelled:
            return False
        self._cancelled = True
        self._lingering.add(self.key, self)
        self._stop()
        return True

    @property
    def done(self) -> bool:
        return self._down

    @property
    def cancelled(self) -> bool:
        """True once its last waiter has left, so that it cannot be joined."""
        return self._cancelled

    async def result(self) -> R:
        """Return the result of the work, or raise its exception; `add_waiter` first.

        Cancelling the wait does not cancel the task: only `release` does."""
        # Not `unwrap`, which may be called only once: there may be more waiters.
        match await self.settled():
            case outcome.Error(error):
                raise error
            case outcome.Value(value):
                result: R = value
                return result

    async def settled(self) -> outcome.Maybe[R]:
        """Return the result or exception as a value. Do not unwrap it."""
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
    """The end of work that needs no task of its own: it calls one method, once."""

    _tasks: SharedTasks
    _shared: SharedTask[R]
    _on_result: OnResult[R] | None

    def set(self, result: outcome.Maybe[R]) -> None:
        """Set the result. A result for a cancelled task is dropped."""
        shared = self._shared
        if shared.done:
            return
        shared._result = result
        if self._on_result is not None and not shared.cancelled:
            self._on_result(result)
        self._tasks._end(shared)

    def continue_with(self, work: Callable[[], Awaitable[R]]) -> None:
        """Run ``work`` in a task after all."""
        if not self._shared.done:
            self._tasks._go(self._shared, work, (), self._on_result)


@attrs.frozen(kw_only=True)
class SharedTaskStatistics:
    """Counts of shared tasks: ``running`` are running now; ``lingering`` is by key."""

    started: int
    running: int
    lingering: dict[Hashable, int]


@attrs.define(eq=False)
class SharedTasks:
    """All shared tasks of one nursery.

    Args:
      lingering_limit: the number of tasks of one key that may ignore their
        cancellation before `start` refuses that key.
      grace: seconds that a cancelled task may take to stop before it counts as
        lingering.
      threads: the number of blocking functions that may run at once.
      threads_per_key: the number for one key; more of them wait, so that a tool that
        hangs does not take every thread.
    """

    _nursery: trio.Nursery
    lingering_limit: int = 2
    grace: float = 0.1
    threads: int = 40
    threads_per_key: int = 8
    _started: int = attrs.field(default=0, init=False)
    _running: int = attrs.field(default=0, init=False)
    _lingering: LingeringTasks = attrs.field(factory=LingeringTasks, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _taskless: set[SharedTask[Any]] = attrs.field(factory=set, init=False)
    _seats: trio.CapacityLimiter = attrs.field(init=False)
    _key_seats: dict[Hashable, trio.CapacityLimiter] = attrs.field(
        factory=dict, init=False
    )

    def __attrs_post_init__(self) -> None:
        self._seats = trio.CapacityLimiter(self.threads)

    def when_lingering_stops(self, told: Callable[[Hashable], None]) -> None:
        """Have ``told`` called with the key of each cancelled task when it has stopped.

        Until then it may still have an effect.
        """
        self._lingering.when_stopped(told)

    def start(
        self,
        key: Hashable,
        work: Callable[..., Awaitable[R]],
        *args: Any,
        on_result: OnResult[R] | None = None,
        begin: Callable[[TaskResult[R]], Leave | None] | None = None,
    ) -> SharedTask[R]:
        """Start ``await work(*args)`` in the owner's nursery.

        An `Exception` raised by it is for the waiters. ``on_result`` is called with the
        result before they get it; it is not called for a cancelled task.

        Args:
          begin: starts the work without a task, if possible: it returns a function that
            ends the work at once, for good, or None if ``work`` must be awaited.

        Raises:
          TooManyFlights: if too many tasks of this key already ignore cancellation.
        """
        lingering = self.lingering(key)
        if lingering >= self.lingering_limit:
            raise TooManyFlights(
                f"{key}:"
                f" {many(lingering, 'earlier call does', 'earlier calls do')} not stop"
            )
        shared: SharedTask[R] = SharedTask(key, trio.current_time(), self._lingering)
        leave = None
        if begin is not None and not self._closed:
            leave = begin(TaskResult(self, shared, on_result))
        if leave is None:
            self._go(shared, work, args, on_result)
        else:
            shared._stop = partial(self._leave, shared, leave)
            self._taskless.add(shared)
        self._started += 1
        self._running += 1
        return shared

    def start_in_thread(
        self,
        key: Hashable,
        function: Callable[..., R],
        *args: Any,
        on_result: OnResult[R] | None = None,
    ) -> SharedTask[R]:
        """Start ``function(*args)`` in a worker thread.

        A cancelled task ends at once; its thread lingers until the function returns.

        Raises:
          TooManyFlights: as `start`.
        """
        return self.start(
            key, self._in_thread, key, function, args, on_result=on_result
        )

    def lingering(self, key: Hashable) -> int:
        """Return the number of tasks of ``key`` that were cancelled and still run."""
        return self._lingering.count(key, self.grace)

    def close(self) -> None:
        """End the work that has no task, since the owner's nursery is cancelled."""
        self._closed = True
        for shared in tuple(self._taskless):
            shared._stop()

    def statistics(self) -> SharedTaskStatistics:
        counts = {key: self.lingering(key) for key in self._lingering.by_key}
        return SharedTaskStatistics(
            started=self._started,
            running=self._running,
            lingering={key: count for key, count in counts.items() if count},
        )

    def _go(
        self,
        shared: SharedTask[R],
        work: Callable[..., Awaitable[R]],
        args: Any,
        on_result: OnResult[R] | None,
    ) -> None:
        scope = trio.CancelScope()
        self._taskless.discard(shared)
        shared._stop = partial(scope.cancel, "the last waiter left")
        self._nursery.start_soon(
            self._run, shared, scope, work, args, on_result, name=str(shared.key)
        )

    def _leave(self, shared: SharedTask[Any], leave: Leave) -> None:
        leave()
        self._end(shared)

    def _end(self, shared: SharedTask[Any]) -> None:
        if shared._result is None:
            shared._result = outcome.Error(SharedTaskCancelled(str(shared.key)))
        self._running -= 1
        self._taskless.discard(shared)
        self._lingering.discard(shared.key, shared)
        shared._finish()

    async def _run(
        self,
        shared: SharedTask[R],
        scope: trio.CancelScope,
        work: Callable[..., Awaitable[R]],
        args: Any,
        on_result: OnResult[R] | None,
    ) -> None:
        try:
            # Around the scope: cancelled work may fail as well, and the rest of such an
            # exception group is an error like any other.
            try:
                with scope:
                    shared._result = outcome.Value(await work(*args))
            except BaseException as error:  # foreign code: its waiters handle it
                theirs, ours = _parted(error)
                if theirs is not None:
                    shared._result = outcome.Error(theirs)
                if ours is not None:
                    raise ours from None
            if on_result is not None and shared._result and not shared.cancelled:
                on_result(shared._result)
        finally:
            self._end(shared)

    async def _in_thread(
        self, key: Hashable, function: Callable[..., R], args: Any
    ) -> R:
        own = self._key_seats.get(key)
        if own is None:
            own = self._key_seats[key] = trio.CapacityLimiter(self.threads_per_key)
        seat = ThreadToken(own, self._seats, self._lingering, key)
        try:
            return await trio.to_thread.run_sync(
                function,
                *args,
                abandon_on_cancel=True,
                # As trio documents, any object with these two methods is accepted.
                limiter=cast("trio.CapacityLimiter", seat),
            )
        except trio.Cancelled:
            if seat.taken:
                self._lingering.add(key, seat)
            raise


def _parted(
    error: BaseException,
) -> tuple[Exception | None, BaseException | None]:
    """Split an exception: the work's own error, as an `Exception`, and the rest, which
    the work must not end with: a Ctrl-C, and the cancellation of the nursery."""
    kind = type(error)  # not `isinstance`, which asks the error itself
    if issubclass(kind, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[Any]", error)
        parts = [_parted(inner) for inner in group.exceptions]
        own = [theirs for theirs, _ in parts if theirs is not None]
        rest = [ours for _, ours in parts if ours is not None]
        left = BaseExceptionGroup("the end of a shared task", rest) if rest else None
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
        return SharedTaskEnded("it raised a cancellation without being cancelled"), None
    # An exception that ends a program, or a generator, must not end the host.
    text = kind.__name__
    try:
        if isinstance(error, Exception) and error.__class__ is kind:
            return error, None
        text = repr(error)
    except BaseException:  # foreign code again
        pass
    return SharedTaskEnded(text), None
