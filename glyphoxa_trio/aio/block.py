"""A trio context manager that is entered and left from asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import attrs

import trio

from glyphoxa_trio.runtime import RuntimeClosed

from .bridge import FAREWELL, Bridge, Call, StillRunning, leave_with, outlast

T = TypeVar("T")


@attrs.define(eq=False)
class Block(Generic[T]):
    """One trio task that enters it, stays, and leaves when it is told to.

    If it ends by itself, the task that entered is cancelled, as trio would have
    cancelled the body; the error is what the block raises then.
    """

    _bridge: Bridge
    _open: Callable[[], AbstractAsyncContextManager[T]]
    crashed: bool = attrs.field(default=False, init=False)
    _call: Call[None] = attrs.field(init=False)
    _entered: asyncio.Future[T] = attrs.field(init=False)
    _host: asyncio.Task[object] | None = attrs.field(init=False)
    _inside: bool = attrs.field(default=False, init=False)  # trio's side
    _stay: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _leaving: bool = attrs.field(default=False, init=False)

    async def enter(self) -> T:
        """Raises whatever entering raises."""
        self._host = asyncio.current_task()
        self._entered = self._bridge.loop.create_future()
        self._call = self._bridge.start(self._hold)
        first: list[asyncio.Future[Any]] = [self._call.ended, self._entered]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not self._entered.done():
            await self._call.wait()
        self._call.ended.add_done_callback(self._end)
        return self._entered.result()

    def leave(self) -> None:
        self._leaving = True
        self._bridge.run.to_trio(self._tell_to_leave)

    async def left(self) -> BaseException | None:
        """Wait for the end; returns what it failed with.

        Cancelled, it goes on, and is cancelled at the end.
        """
        here = asyncio.current_task()
        if self.crashed and here is not None and here is self._host:
            here.uncancel()
        await outlast(self._call.ended, FAREWELL)
        if not self._call.ended.done():
            return StillRunning("the runtime does not end; it was left behind")
        closed = RuntimeClosed("it has ended by itself") if self.crashed else None
        return self._call.failure or closed

    def _end(self, _: object) -> None:
        if not self._leaving and self._host is not None:
            self.crashed = True
            self._host.cancel("the runtime has ended")

    async def _hold(self) -> None:
        async with self._open() as resource:
            self._inside = True
            try:
                with self._stay:
                    self._bridge.run.to_loop(partial(self._enter, resource))
                    await trio.sleep_forever()
            finally:
                self._bridge.run.to_loop(self._bridge.lose_patience)

    def _enter(self, resource: T) -> None:
        if not self._entered.done():
            self._entered.set_result(resource)

    def _tell_to_leave(self) -> None:
        if self._inside:
            self._stay.cancel("the block was left")
        else:
            self._call.cancel()


@asynccontextmanager
async def entered(
    bridge: Bridge, opening: Callable[[], AbstractAsyncContextManager[T]]
) -> AsyncGenerator[T]:
    """Be inside of a trio context manager until the block is left."""
    block = Block(bridge, opening)
    error: BaseException | None = None
    try:
        yield await block.enter()
    except GeneratorExit:
        block.leave()
        raise
    except BaseException as raised:
        error = raised
    block.leave()
    if block.crashed and isinstance(error, asyncio.CancelledError):
        error = None  # it was ours
    await leave_with(error, block.left())
