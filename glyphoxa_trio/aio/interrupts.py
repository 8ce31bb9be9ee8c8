"""SIGINT, kept from what must not be interrupted.

A `KeyboardInterrupt` in the midst of trio's own code would break the run beyond repair.
Who handles SIGINT, and how, stays as it was.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import attrs

from .run import Function


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
        ours = signal.getsignal(signal.SIGINT) == self._handle  # equal, never the same
        if self._before is not None and ours:
            signal.signal(signal.SIGINT, self._before)
            _end_with_its_program(self._before)
            self._before = None
        # Else whoever came later may still hand on to ours, and ours knows to whom.

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
