"""The bridge between an asyncio loop and a trio run: what crosses, and how it ends.

A `BridgedCall` is a trio function that runs for an asyncio task; `ReverseCalls` are the
other direction. Each ends once, with a result or with the exception that was raised. A
caller that is cancelled cancels the work on the other side and waits for its end. When
the run ends, for whatever reason, every call has ended.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeVar

import attrs
import outcome

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.runtime import RuntimeClosed

from .call import CLOSED, FAREWELL, BridgedCall, outlast
from .call_order import Order
from .guest import GuestRun
from .interrupts import Interrupts
from .reverse_calls import HERE, ReverseCalls
from .run import Run
from .thread import ThreadRun

R = TypeVar("R")
Mode = Literal["guest", "thread"]

GRACE: Final = 1.0  # seconds for coroutines to stop when the run ends


class StillRunning(GlyphoxaError):
    """Code on trio's side ignores its cancellation and was left behind."""


@attrs.define(eq=False, repr=False)
class LoopBridge:
    """The two sides of a bridge.

    `main` runs on trio's side; the other methods are called on the loop's side.
    """

    loop: asyncio.AbstractEventLoop
    run: Run
    errands: ReverseCalls = attrs.field(init=False)
    ready: asyncio.Future[None] = attrs.field(init=False)
    over: asyncio.Future[outcome.Outcome[None]] = attrs.field(init=False)
    order: Order = attrs.field(factory=Order, init=False)
    calls: set[BridgedCall[Any]] = attrs.field(factory=set, init=False)
    _nursery: trio.Nursery | None = attrs.field(default=None, init=False)
    _ending: bool = attrs.field(default=False, init=False)
    _patience: asyncio.TimerHandle | None = attrs.field(default=None, init=False)

    @classmethod
    def begin(cls, mode: Mode) -> LoopBridge:
        """Start a trio run beside the loop that runs here. The caller must `close` it.

        Raises:
          ValueError: if ``mode`` is neither ``"guest"`` nor ``"thread"``.
          RuntimeError: in guest mode, if a trio run is in this thread already.
        """
        if mode not in ("guest", "thread"):
            raise ValueError(f"mode: 'guest' or 'thread', not {mode!r}")
        loop = asyncio.get_running_loop()
        bridge = cls(loop, GuestRun(loop) if mode == "guest" else ThreadRun(loop))
        bridge.run.start(bridge.main, bridge.finished)
        atexit.register(bridge._end_at_exit)  # for loops that are never closed
        return bridge

    def __attrs_post_init__(self) -> None:
        self.errands = ReverseCalls(self.loop, self.run)
        self.ready = self.loop.create_future()
        self.over = self.loop.create_future()

    async def main(self) -> None:
        """Run as the main task of the trio run."""
        HERE.set(self.errands)
        with lone_errors():
            async with trio.open_nursery() as self._nursery:
                if self._ending:
                    self._nursery.cancel_scope.cancel("it ended before it began")
                self.run.to_loop(self._set_ready)
                await trio.sleep_forever()

    def _set_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    @property
    def closed(self) -> bool:
        """True once the run has ended."""
        return self.over.done()

    def start(self, function: Callable[[], Awaitable[R]]) -> BridgedCall[R]:
        """Start ``function`` in trio; it need not be waited for."""
        call: BridgedCall[R] = BridgedCall(self.loop, self.run, self.calls.discard)
        if self.closed:
            call.end(outcome.Error(RuntimeClosed(CLOSED)))
            return call
        self.calls.add(call)
        self.run.to_trio(partial(self._begin, call, function))
        return call

    async def ask(self, function: Callable[[], Awaitable[R]]) -> R:
        """Run ``function`` in trio, and return its result; see `BridgedCall.wait`.

        Raises:
          RuntimeClosed: if the run ends first, or has ended.
          RuntimeError: in another loop than the one that opened it.
        """
        self.must_be_here()
        return await self.start(function).wait()

    def post(self, function: Callable[[], object]) -> None:
        """Call ``function`` in trio, soon, and in order.

        An exception of it goes to the loop's exception handler.
        """

        def call() -> None:
            try:
                function()
            except Exception as error:  # border: its arguments may be wrong
                text = "a function that an asyncio program gave to trio failed"
                told = {"message": text, "exception": error}
                self.errands.tell(self.loop.call_exception_handler, told)

        self.run.to_trio(call)

    async def see_out(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run ``function`` in trio, for `FAREWELL` seconds at most.

        It runs on while this task is cancelled; its exceptions are dropped.
        """
        if cancelled := await outlast(self.start(function).ended):
            raise cancelled

    def must_be_here(self) -> None:
        """Raise RuntimeError in another loop than the bridge's."""
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("this runtime belongs to another loop")

    def _begin(
        self, call: BridgedCall[R], function: Callable[[], Awaitable[R]]
    ) -> None:
        try:
            if self._nursery is None:
                raise RuntimeError("the runtime never opened")
            self._nursery.start_soon(call.carry_out, function)
        except RuntimeError:  # the nursery is closed: the run is about to end
            closed: outcome.Maybe[R] = outcome.Error(RuntimeClosed(CLOSED))
            self.run.to_loop(partial(call.end, closed))

    def lose_patience(self) -> None:
        """Give cancelled coroutines `GRACE` seconds to stop; then stop waiting for
        them."""
        if self._patience is None and not self.closed:
            self._patience = self.loop.call_later(
                GRACE, lambda: self.run.to_trio(self.errands.let_go)
            )

    def finished(self, found: outcome.Outcome[None]) -> None:
        """Note that the run has ended, and end every call that has not ended yet."""
        self.over.set_result(found)
        self._set_ready()
        for call in list(self.calls):
            call.end(outcome.Error(RuntimeClosed(CLOSED)))

    async def close(self) -> asyncio.CancelledError | None:
        """End the run and wait for its end, as `outlast` does."""
        self.lose_patience()
        self.run.to_trio(self._cancel)
        cancelled = await outlast(self.over)
        if self._patience is not None:
            self._patience.cancel()
        if self.closed:
            self.run.close()
            atexit.unregister(self._end_at_exit)
        return cancelled

    @property
    def failure(self) -> BaseException | None:
        """The error that the run crashed with; `StillRunning` if it has not ended."""
        if not self.closed:
            return StillRunning("trio's run does not end, and was left behind")
        found = self.over.result()
        return found.error if isinstance(found, outcome.Error) else None

    def end_without_loop(self) -> None:
        """End the run within this call, because the loop will not run any more.

        Raises:
          KeyboardInterrupt: afterwards, if SIGINT came meanwhile.
        """

        def cancel() -> None:
            self.errands.let_go()
            self._cancel()

        interrupts = Interrupts()
        interrupts.install()
        try:
            interrupts.spare(
                partial(self.run.end_without_loop, cancel, within=FAREWELL)
            )
        finally:
            interrupts.remove()
            self.run.close()
            atexit.unregister(self._end_at_exit)

    def _end_at_exit(self) -> None:
        with suppress(KeyboardInterrupt):  # the program is ending already
            self.end_without_loop()

    def __repr__(self) -> str:
        return f"<LoopBridge: {'closed' if self.closed else 'open'}, {self.run!r}>"

    def _cancel(self) -> None:
        self._ending = True
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel("the block was left")
