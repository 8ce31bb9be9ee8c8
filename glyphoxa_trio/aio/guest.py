"""A trio run as the guest of an asyncio loop: in its thread, between its callbacks.

The steps of trio go to the loop through a queue of ours. So a run whose loop was
stopped early can still be run to its end, from the loop's thread; and SIGINT is handled
only between two steps.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic

import attrs
import outcome

import trio

from .interrupts import Interrupts
from .run import Finished, Function, Main


@attrs.define(eq=False, repr=False)
class GuestRun:
    """A `Run` in the loop's own thread, which has room for one."""

    _loop: asyncio.AbstractEventLoop
    _functions: SimpleQueue[Function] = attrs.field(factory=SimpleQueue, init=False)
    _thread: int = attrs.field(factory=threading.get_ident, init=False)
    _interrupts: Interrupts = attrs.field(factory=Interrupts, init=False)
    _ended: bool = attrs.field(default=False, init=False)

    def start(self, main: Main, finished: Finished) -> None:
        """Start the run; see `Run.start`.

        Raises:
          RuntimeError: if a trio run is in this thread already.
        """
        if trio.lowlevel.in_trio_run():
            raise RuntimeError(
                "a trio run is in this thread already: use mode='thread'"
            )

        def end(found: outcome.Outcome[None]) -> None:
            self._ended = True
            self.to_loop(partial(finished, found))

        self._interrupts.install()  # first: trio keeps foreign handlers
        trio.lowlevel.start_guest_run(
            main,
            run_sync_soon_threadsafe=self._from_any_thread,
            run_sync_soon_not_threadsafe=self._from_this_thread,
            done_callback=end,
            host_uses_signal_set_wakeup_fd=True,
            restrict_keyboard_interrupt_to_checkpoints=True,
        )

    def to_trio(self, function: Function) -> None:
        # Finalizers of garbage may call this in another thread, where trio is not.
        if not self._ended and threading.get_ident() == self._thread:
            self._interrupts.spare(function)

    def to_loop(self, function: Function) -> None:
        if not self._loop.is_closed():
            function()

    def end_without_loop(self, cancel: Function, *, within: float) -> None:
        if threading.get_ident() != self._thread:
            return
        hooks = sys.get_asyncgen_hooks()  # trio restores those of the ended loop
        self.to_trio(cancel)
        until = monotonic() + within
        while not self._ended and (left := until - monotonic()) > 0:
            try:
                function = self._functions.get(timeout=left)
            except Empty:
                break
            self._interrupts.spare(function)
        if self._ended:
            sys.set_asyncgen_hooks(*hooks)

    def close(self) -> None:
        self._interrupts.remove()

    def _from_any_thread(self, function: Function) -> None:
        self._functions.put(function)
        with suppress(RuntimeError):  # the loop is closed; see `end_without_loop`
            self._loop.call_soon_threadsafe(self._next)

    def _from_this_thread(self, function: Function) -> None:
        self._functions.put(function)
        if not self._loop.is_closed():
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        if not self._functions.empty():  # else `end_without_loop` has run it
            self._interrupts.spare(self._functions.get_nowait())
