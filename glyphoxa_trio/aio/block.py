"""A trio context manager in a run of its own, entered and left from asyncio.

A class, and not a generator: when a coroutine is closed that waits in the
``__aenter__`` of one made of an async generator, the generator is not told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

import attrs

import trio

from glyphoxa_trio.runtime import RuntimeClosed

from .bridge import Bridge, Call, Mode, outlast

T = TypeVar("T")
U = TypeVar("U")


@attrs.define(eq=False)
class Block(Generic[T, U]):
    """One trio task enters it, stays, and leaves when it is told to.

    If it ends by itself, the asyncio task that entered is cancelled, as trio would
    have cancelled the body, and the error is what the block raises.

    Args:
      open: makes it, on trio's side.
      hand_out: what the block gives, of what trio's gave.
    """

    _mode: Mode
    _open: Callable[[Bridge], AbstractAsyncContextManager[T]]
    _hand_out: Callable[[Bridge, T], U]
    _bridge: Bridge = attrs.field(init=False)
    _host: asyncio.Task[Any] | None = attrs.field(init=False)
    _call: Call[None] | None = attrs.field(default=None, init=False)
    _entered: asyncio.Future[T] = attrs.field(init=False)
    _inside: bool = attrs.field(default=False, init=False)  # trio's side
    _stay: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _leaving: bool = attrs.field(default=False, init=False)
    _crashed: bool = attrs.field(default=False, init=False)

    async def __aenter__(self) -> U:
        self._host = asyncio.current_task()
        self._bridge = Bridge.begin(self._mode)
        try:
            if cancelled := await outlast(self._bridge.ready):
                raise cancelled
            return self._hand_out(self._bridge, await self._enter())
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave, and wait until nothing is left; cancelled, it goes on.

        Raises:
          BaseException: what trio's side failed with; `asyncio.CancelledError`, at
            the end, if this task was cancelled meanwhile.
        """
        self._leaving = True
        if isinstance(error, GeneratorExit):  # nothing can be awaited any more
            self._bridge.end_without_loop()
            return
        worst, cancelled = error, None
        if self._crashed:
            if isinstance(error, asyncio.CancelledError):
                worst = RuntimeClosed("it has ended by itself")
            if self._host is not None and self._host is asyncio.current_task():
                self._host.uncancel()
        if self._call is not None:
            self._bridge.run.to_trio(partial(self._leave, self._call))
            cancelled = await outlast(self._call.ended)
            worst = _worse(worst, self._call.failure)
        cancelled = await self._bridge.close() or cancelled
        worst = _worse(worst, self._bridge.failure)
        if cancelled is not None:
            raise cancelled from worst
        if worst is not None and worst is not error:
            raise worst

    async def _enter(self) -> T:
        self._entered = self._bridge.loop.create_future()
        self._call = call = self._bridge.start(self._hold)
        first: list[asyncio.Future[Any]] = [call.ended, self._entered]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not self._entered.done():
            await call.wait()
        call.ended.add_done_callback(self._end)
        return self._entered.result()

    def _end(self, _: object) -> None:
        if not self._leaving and self._host is not None:
            self._crashed = True
            self._host.cancel("the runtime has ended")

    # On trio's side.

    async def _hold(self) -> None:
        async with self._open(self._bridge) as resource:
            self._inside = True
            try:
                with self._stay:
                    self._bridge.run.to_loop(partial(self._tell, resource))
                    await trio.sleep_forever()
            finally:
                self._bridge.run.to_loop(self._bridge.lose_patience)

    def _leave(self, call: Call[None]) -> None:
        if self._inside:
            self._stay.cancel("the block was left")
        else:
            call.scope.cancel("the block was left")

    # On the loop's.

    def _tell(self, resource: T) -> None:
        if not self._entered.done():
            self._entered.set_result(resource)


def _worse(
    error: BaseException | None, failure: BaseException | None
) -> BaseException | None:
    """What leaves a block: its own error, or that of what it was the block of."""
    if failure is None or failure is error:
        return error
    if error is None or isinstance(error, RuntimeClosed):
        return failure
    if isinstance(failure, RuntimeClosed):  # that is how it came about
        return error
    if isinstance(error, Exception) and isinstance(failure, Exception):
        text = "the block failed, and what is under it"
        return ExceptionGroup(text, [error, failure])
    error.__cause__ = failure
    return error
