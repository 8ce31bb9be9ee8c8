"""Lines from a terminal or a pipe, and the two meanings of Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

import trio

from glyphoxa_trio.actors import lone_errors

_CHUNK = 4096
# Ctrl-C; the end as asked for by others; the terminal is gone.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@attrs.define(eq=False)
class Lines:
    """Whole lines of a file descriptor.

    Read in a thread that may be left behind: it holds no lock of Python's, so
    the process can end while it waits for somebody to type.
    """

    _descriptor: int = 0
    _rest: bytes = attrs.field(default=b"", init=False)
    _ended: bool = attrs.field(default=False, init=False)

    async def next(self) -> str | None:
        """The next line, or None at the end. Cancelled, it loses no line."""
        while b"\n" not in self._rest and not self._ended:
            try:
                chunk = await trio.to_thread.run_sync(
                    os.read, self._descriptor, _CHUNK, abandon_on_cancel=True
                )
            except OSError:  # a terminal that was closed
                chunk = b""
            self._rest += chunk
            self._ended = not chunk
        if not self._rest:
            return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").strip()


@asynccontextmanager
async def interrupts(on_interrupt: Callable[[int], None]) -> AsyncGenerator[None]:
    """Call ``on_interrupt`` with each SIGINT, SIGTERM or SIGHUP; nobody dies of it."""
    with lone_errors(), trio.open_signal_receiver(*_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hand_on, signals, on_interrupt)
            yield
            nursery.cancel_scope.cancel()


async def _hand_on(
    signals: AsyncIterator[int], on_interrupt: Callable[[int], None]
) -> None:
    async for number in signals:
        on_interrupt(number)
