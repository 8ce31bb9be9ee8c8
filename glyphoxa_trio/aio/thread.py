"""A trio run in a thread of its own, which a blocked asyncio loop does not delay."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final

import attrs
import outcome

import trio

from .run import Finished, Function, Main

_BEGINS: Final = 5.0  # seconds to wait for a thread's first step
_ENDS: Final = 1.0  # seconds to wait for its end after the run's


@attrs.define(eq=False, repr=False)
class ThreadRun:
    """A `Run` in a thread of its own."""

    _loop: asyncio.AbstractEventLoop
    _thread: threading.Thread = attrs.field(init=False)
    _began: threading.Event = attrs.field(factory=threading.Event, init=False)
    _token: trio.lowlevel.TrioToken = attrs.field(init=False)
    _cancel: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def start(self, main: Main, finished: Finished) -> None:
        async def begin() -> None:
            self._token = trio.lowlevel.current_trio_token()
            self._began.set()
            with self._cancel:
                await main()

        def live() -> None:
            found = outcome.capture(trio.run, begin)
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(finished, found)

        # A daemon: a loop that is never closed must not keep the program from ending.
        self._thread = threading.Thread(target=live, name="glyphoxa trio", daemon=True)
        self._thread.start()

    def to_trio(self, function: Function) -> None:
        if self._began.wait(_BEGINS):
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(function)

    def to_loop(self, function: Function) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed, so the run has no purpose
            self._cancel.cancel("the loop is closed")

    def end_without_loop(self, cancel: Function, *, within: float) -> None:
        self.to_trio(cancel)
        if threading.current_thread() is not self._thread:
            self._thread.join(within)

    def close(self) -> None:
        self._thread.join(_ENDS)
