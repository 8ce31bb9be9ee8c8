"""Protection of trio's steps from SIGINT.

A `KeyboardInterrupt` inside of trio's own code would break the run beyond repair, so
the signal is held until the step is over. The program's handler of SIGINT stays the
same.
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
    """A handler of SIGINT that delays the signal during protected calls, then passes it
    on."""

    _inside: int = attrs.field(default=0, init=False)
    _missed: bool = attrs.field(default=False, init=False)
    _before: Callable[[int, FrameType | None], Any] | None = attrs.field(
        default=None, init=False
    )

    def install(self) -> None:
        """Wrap the current handler; does nothing outside of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            self._before = handler
            signal.signal(signal.SIGINT, self._handle)

    def remove(self) -> None:
        """Restore the handler, unless another one was installed since."""
        # Bound methods of one object are equal, but not identical.
        ours = signal.getsignal(signal.SIGINT) == self._handle
        if self._before is not None and ours:
            signal.signal(signal.SIGINT, self._before)
            _end_with_its_program(self._before)
            self._before = None
        # A handler that was installed later may still call ours, which passes it on.

    def spare(self, function: Function) -> None:
        """Call ``function`` without an interruption.

        Raises:
          KeyboardInterrupt: afterwards, if the handler raises it.
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
    """Remove an `asyncio.Runner`'s handler when its main task is over.

    The runner removes it itself only if it finds it installed when the program ends.
    Ours was installed then.
    """
    task = getattr(handler, "keywords", {}).get("main_task")

    def end(_: object) -> None:
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    if isinstance(task, asyncio.Task) and not task.get_loop().is_closed():
        task.add_done_callback(end)
    elif task is not None:
        end(task)
