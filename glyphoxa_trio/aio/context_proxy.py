"""A trio context manager that is entered and left from asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

import attrs

import trio

from glyphoxa_trio.runtime import RuntimeClosed
from glyphoxa_trio.tracing import here, within

from .bridge import LoopBridge, StillRunning
from .call import BridgedCall, outlast

T = TypeVar("T")


@attrs.define(eq=False)
class ContextProxy(Generic[T]):
    """An asyncio context manager for one of trio: a trio task enters it, waits, and
    leaves it.

    If the trio task ends by itself, the asyncio task inside the block is cancelled, as
    trio would have cancelled the body, and the block raises the error. This is a class
    and not a generator: when a coroutine that waits in the ``__aenter__`` of an async
    generator's context manager is closed, the generator is not told.

    Args:
      open: makes the context manager, on trio's side.
      ends: called on the loop's side when it begins to end.
    """

    _bridge: LoopBridge
    _open: Callable[[], AbstractAsyncContextManager[T]]
    _ends: Callable[[], None] = lambda: None
    _host: asyncio.Task[Any] | None = attrs.field(init=False)
    _call: BridgedCall[None] = attrs.field(init=False)
    _entered: asyncio.Future[T] = attrs.field(init=False)
    _inside: bool = attrs.field(default=False, init=False)  # trio's side
    _stay: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _leaving: bool = attrs.field(default=False, init=False)
    # The trace of the program that opens it, which its turns belong to.
    _context: Any = attrs.field(factory=here, init=False)
    _crashed: bool = attrs.field(default=False, init=False)

    async def __aenter__(self) -> T:
        self._host = asyncio.current_task()
        self._entered = self._bridge.loop.create_future()
        self._call = call = self._bridge.start(self._hold)
        first: list[asyncio.Future[Any]] = [call.ended, self._entered]
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not self._entered.done():
                await call.wait()
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        call.ended.add_done_callback(self._end)
        return self._entered.result()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the context manager, and wait until it was left, also while cancelled.

        Raises:
          BaseException: the error that it failed with; `asyncio.CancelledError`, at the
            end, if this task was cancelled meanwhile.
        """
        self._leaving = True
        self._bridge.run.to_trio(self._leave)
        if isinstance(error, GeneratorExit):  # closed: no await is possible
            return
        worst = error
        if self._crashed:
            if isinstance(error, asyncio.CancelledError):
                worst = RuntimeClosed("the runtime or voice has ended by itself")
            if self._host is not None and self._host is asyncio.current_task():
                self._host.uncancel()
        cancelled = await outlast(self._call.ended)
        if self._call.ended.done():
            worst = worse(worst, self._call.failure)
        else:
            worst = worse(
                worst,
                StillRunning("the runtime or voice does not end, and was left behind"),
            )
        if cancelled is not None:
            raise cancelled from worst
        if worst is not None and worst is not error:
            raise worst

    def _enter(self, resource: T) -> None:
        if not self._entered.done():
            self._entered.set_result(resource)

    def _end(self, _: object) -> None:
        if not self._leaving and self._host is not None:
            self._crashed = True
            self._host.cancel("the runtime or voice of this block has ended")

    # On trio's side.

    async def _hold(self) -> None:
        async with AsyncExitStack() as stack:
            stack.enter_context(within(self._context))
            resource = await stack.enter_async_context(self._open())
            self._inside = True
            try:
                with self._stay:
                    self._bridge.run.to_loop(partial(self._enter, resource))
                    await trio.sleep_forever()
            finally:
                self._bridge.run.to_loop(self._ends)

    def _leave(self) -> None:
        scope = self._stay if self._inside else self._call.scope
        scope.cancel("the block was left")


def worse(
    error: BaseException | None, failure: BaseException | None
) -> BaseException | None:
    """Return the error that leaves a block: of its body, of the context manager, or
    both."""
    if failure is None or failure is error:
        return error
    if error is None or isinstance(error, RuntimeClosed | StillRunning):
        return failure
    if isinstance(failure, RuntimeClosed):  # a consequence of the error
        return error
    if isinstance(error, Exception) and isinstance(failure, Exception):
        text = "both the block and its runtime failed"
        return ExceptionGroup(text, [error, failure])
    error.__cause__ = failure
    return error
