"""A call from asyncio into trio: one result, or the exception that ended it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar

import attrs
import outcome

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.runtime import RuntimeClosed

from .run import Run

R = TypeVar("R")

FAREWELL: Final = 10.0  # seconds to wait for the end of work in trio
CLOSED: Final = "the runtime is closed"


@attrs.define(eq=False)
class BridgedCall(Generic[R]):
    """A trio function that runs for asyncio, and the one task that waits for it.

    Args:
      over: called on the loop's side when the call has ended.
    """

    _loop: asyncio.AbstractEventLoop
    _run: Run
    _over: Callable[[BridgedCall[Any]], None]
    ended: asyncio.Future[outcome.Maybe[R]] = attrs.field(init=False)
    _found: outcome.Maybe[R] | None = attrs.field(default=None, init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self.ended = self._loop.create_future()

    def cancel(self) -> None:
        """Cancel the function, on trio's side."""
        self._run.to_trio(partial(self.scope.cancel, "asyncio left"))

    async def wait(self) -> R:
        """Return the result, or raise the exception that ended the call.

        Cancelled, it cancels the function and waits for its end, for `FAREWELL` seconds
        at most.
        """
        try:
            found = await self.look()
        except asyncio.CancelledError as left:
            self.cancel()
            await outlast(self.ended)  # then raise the first cancellation, not the last
            gone = isinstance(self.failure, RuntimeClosed)
            raise left from (None if gone else self.failure)
        except BaseException:  # the task that waits is closed
            self.cancel()
            raise
        return found.unwrap()

    async def look(self) -> outcome.Maybe[R]:
        """Return how the call ended. Cancelled, it lets the function go on."""
        try:
            return await self.ended
        finally:
            # A cancelled task also cancels the future that it waits for. Replacing that
            # future costs less than a shield, which every event would need.
            if self.ended.cancelled():
                self.ended = self._loop.create_future()
                if self._found is not None:  # it ended between the two
                    self.ended.set_result(self._found)

    @property
    def failure(self) -> BaseException | None:
        """The exception that ended the call; None without one."""
        return self._found.error if isinstance(self._found, outcome.Error) else None

    async def carry_out(self, function: Callable[[], Awaitable[R]]) -> None:
        """Run the function, on trio's side, and send the result to the loop."""
        found: outcome.Maybe[R] = outcome.Error(RuntimeClosed(CLOSED))
        try:
            with lone_errors(), self.scope:
                found = outcome.Value(await function())
        except Exception as error:  # raised to the caller
            found = outcome.Error(error)
        finally:
            self._run.to_loop(partial(self.end, found))

    def end(self, found: outcome.Maybe[R]) -> None:
        """End the call, on the loop's side; only the first result counts."""
        self._over(self)
        if self._found is None:
            self._found = found
            if not self.ended.done():
                self.ended.set_result(found)


async def outlast(
    future: asyncio.Future[Any], within: float | None = None
) -> asyncio.CancelledError | None:
    """Wait for ``future``, for ``within`` seconds (`FAREWELL` if None), despite
    cancellation.

    Returns the cancellation, for the caller to raise.
    """
    cancelled: asyncio.CancelledError | None = None
    loop = asyncio.get_running_loop()
    until = loop.time() + (FAREWELL if within is None else within)
    while not future.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait([future], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
