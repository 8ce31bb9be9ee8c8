"""A trio run as the guest of an asyncio loop: in its thread, between its callbacks.

Trio's ticks go through a queue of our own on their way to the loop. So a run whose loop
was stopped in the middle of things can still be seen to its end, from the loop's
thread; and SIGINT waits for the end of a tick, since a `KeyboardInterrupt` in the
midst of trio's own code would break the run beyond repair. Who handles it, and how,
stays as it was.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from types import FrameType
from typing import Any

import attrs
import outcome

import trio

from .run import Finished, Function, Main


@attrs.define(eq=False)
class Interrupts:
    """Keeps SIGINT from what must not be interrupted, and hands it on afterwards."""

    _inside: int = attrs.field(default=0, init=False)
    _missed: bool = attrs.field(default=False, init=False)
    _before: Callable[[int, FrameType | None], Any] | None = attrs.field(
        default=None, init=False
    )

    def install(self) -> None:
        """Stand before the handler that there is; in the main thread, else not."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            self._before = handler
            signal.signal(signal.SIGINT, self._handle)

    def remove(self) -> None:
        """Put the handler back, unless somebody has put another one since."""
        if self._before is not None:
            # Bound methods are equal, and never the same.
            if signal.getsignal(signal.SIGINT) == self._handle:
                signal.signal(signal.SIGINT, self._before)
                _end_with_its_program(self._before)
            self._before = None

    def spare(self, function: Function) -> None:
        """Call ``function`` without an interruption.

        Raises:
          KeyboardInterrupt: afterwards, if that is what the handler does.
        """
        self._inside += 1
        try:
            function()
        finally:
            self._inside -= 1
        if self._missed and not self._inside:
            self._missed = False
            if self._before is not None:
                self._before(signal.SIGINT, sys._getframe())

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._inside:
            self._missed = True
        elif self._before is not None:
            self._before(number, frame)


def _end_with_its_program(handler: Callable[..., Any]) -> None:
    """Take an `asyncio.Runner`'s handler away when its main task is over.

    The runner does so itself, if it finds it in place when the program is asked to
    end. Then ours was there.
    """
    task = getattr(handler, "keywords", {}).get("main_task")

    def end(_: object) -> None:
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    if isinstance(task, asyncio.Task) and not task.get_loop().is_closed():
        task.add_done_callback(end)
    elif task is not None:
        end(task)


@attrs.define(eq=False)
class GuestRun:
    """A `Run` in the loop's own thread, which has room for one."""

    _loop: asyncio.AbstractEventLoop
    _functions: SimpleQueue[Function] = attrs.field(factory=SimpleQueue, init=False)
    _thread: int = attrs.field(factory=threading.get_ident, init=False)
    _interrupts: Interrupts = attrs.field(factory=Interrupts, init=False)
    _ended: bool = attrs.field(default=False, init=False)

    def start(self, main: Main, finished: Finished) -> None:
        """Begin; see `Run.start`.

        Raises:
          RuntimeError: there is a trio run in this thread already.
        """
        if trio.lowlevel.in_trio_run():
            raise RuntimeError("a trio run is in this thread already: mode='thread'")

        def end(found: outcome.Outcome[None]) -> None:
            self._ended = True
            self.to_loop(partial(finished, found))

        self._interrupts.install()  # before: trio leaves SIGINT to whoever has it
        trio.lowlevel.start_guest_run(
            main,
            run_sync_soon_threadsafe=self._from_any_thread,
            run_sync_soon_not_threadsafe=self._from_this_thread,
            done_callback=end,
            host_uses_signal_set_wakeup_fd=True,
            restrict_keyboard_interrupt_to_checkpoints=True,
        )

    def to_trio(self, function: Function) -> None:
        # What is collected as garbage in another thread cannot reach it.
        if not self._ended and threading.get_ident() == self._thread:
            self._interrupts.spare(function)

    def to_loop(self, function: Function) -> None:
        if not self._loop.is_closed():
            function()

    def end_without_loop(self, cancel: Function, *, within: float) -> None:
        if threading.get_ident() != self._thread:
            return
        hooks = sys.get_asyncgen_hooks()  # trio puts those of the dead loop back
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
        with suppress(RuntimeError):  # it is closed, but see `end_without_loop`
            self._loop.call_soon_threadsafe(self._next)

    def _from_this_thread(self, function: Function) -> None:
        self._functions.put(function)
        if not self._loop.is_closed():
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        if not self._functions.empty():  # else it was done without the loop
            self._interrupts.spare(self._functions.get_nowait())
