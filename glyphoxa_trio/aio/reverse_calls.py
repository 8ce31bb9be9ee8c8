"""Calls from trio into asyncio: an embedder's coroutines, on the embedder's loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple, cast

import attrs
import outcome

import trio

from .run import Run

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class LoopTaskEnded(Exception):
    """An asyncio task that trio waited for was cancelled, but not by trio."""


@attrs.define(eq=False)
class _Errand:
    """One coroutine on the loop, and the trio task that waits for it."""

    waiting: trio.lowlevel.Task
    doing: asyncio.Task[Any] | None = None
    raise_cancel: trio.lowlevel.RaiseCancelT | None = None
    over: bool = False

    def settle(self, found: outcome.Maybe[Any] | None) -> None:
        """Wake the trio task, on trio's side; only the first call counts.

        ``found`` is None if the asyncio task was cancelled.
        """
        if self.over:
            return
        self.over = True
        if found is None and self.raise_cancel is not None:
            found = outcome.capture(self.raise_cancel)
        elif found is None:
            found = outcome.Error(LoopTaskEnded("the asyncio task was cancelled"))
        trio.lowlevel.reschedule(self.waiting, found)

    def cancel(self) -> None:
        """Cancel the asyncio task, on the loop's side."""
        if self.doing is not None:
            self.doing.cancel("the caller on trio's side was cancelled")


@attrs.define(eq=False)
class ReverseCalls:
    """All the calls on the loop that trio tasks wait for."""

    loop: asyncio.AbstractEventLoop
    _run: Run
    # The context in which the run was opened, so that libraries detect asyncio.
    _context: contextvars.Context = attrs.field(
        factory=contextvars.copy_context, init=False
    )
    _open: set[_Errand] = attrs.field(factory=set, init=False)
    _letting_go: bool = attrs.field(default=False, init=False)

    async def run(self, function: Callable[[*Ts], Awaitable[R]], *args: *Ts) -> R:
        """Await ``function(*args)`` in a task of the loop. For trio tasks.

        Cancelled, it cancels the asyncio task and waits for that task's end, and its
        result counts: a coroutine that does not stop is not forgotten.

        Raises:
          LoopTaskEnded: if the asyncio task was cancelled by other code, or ended the
            program from within; or if the loop is closed.
        """
        errand = _Errand(trio.lowlevel.current_task())

        async def work() -> R:
            return await function(*args)

        def begin() -> None:
            if errand.raise_cancel is not None:
                self._run.to_trio(partial(errand.settle, None))
            else:
                errand.doing = self.loop.create_task(work())
                errand.doing.add_done_callback(done)

        def done(task: asyncio.Task[R]) -> None:
            self._run.to_trio(partial(errand.settle, _found(task)))

        def abort(raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            if self._letting_go or self.loop.is_closed():
                errand.over = True
                return trio.lowlevel.Abort.SUCCEEDED
            errand.raise_cancel = raise_cancel
            self._run.to_loop(errand.cancel)
            return trio.lowlevel.Abort.FAILED

        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self.loop.call_soon_threadsafe(begin, context=self._context)
        except RuntimeError:
            raise LoopTaskEnded("the loop is closed") from None
        self._open.add(errand)
        try:
            return cast("R", await trio.lowlevel.wait_task_rescheduled(abort))
        finally:
            self._open.discard(errand)

    def tell(self, function: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call ``function`` on the loop, soon; do nothing if the loop is closed."""
        with suppress(RuntimeError):
            context = self._context.copy()  # its changes stay in the copy
            self.loop.call_soon_threadsafe(function, *args, context=context)

    def telling(
        self, function: Callable[..., None] | None
    ) -> Callable[..., None] | None:
        """Return a function that calls ``function`` on the loop; None for None."""
        return None if function is None else partial(self.tell, function)

    def let_go(self) -> None:
        """Stop waiting for coroutines that were cancelled and do not stop: the run
        ends."""
        self._letting_go = True
        for errand in list(self._open):
            if errand.raise_cancel is not None:
                errand.settle(None)
                self.tell(self.loop.call_exception_handler, _stubborn(errand))


# The loop that a trio run belongs to, for its tasks.
HERE: Final[trio.lowlevel.RunVar[ReverseCalls]] = trio.lowlevel.RunVar("asyncio")


def _stubborn(errand: _Errand) -> dict[str, object]:
    text = "this task ignores its cancellation, and was left behind"
    return (
        {"message": text}
        if errand.doing is None
        else {"message": text, "task": errand.doing}
    )


def _found(task: asyncio.Task[R]) -> outcome.Maybe[R] | None:
    if task.cancelled():
        return None
    error = task.exception()
    if error is None:
        return outcome.Value(task.result())
    if isinstance(error, Exception):
        return outcome.Error(error)
    # SystemExit and the like end the loop by themselves, and must not crash trio's run.
    return outcome.Error(LoopTaskEnded(repr(error)))
