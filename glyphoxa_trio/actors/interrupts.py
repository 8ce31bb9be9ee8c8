"""Interrupts: signals of the system, passed to the program instead of ending it."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from .lone import lone_errors

# Ctrl-C, a request to end, and the loss of the terminal.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@asynccontextmanager
async def interrupts(on_interrupt: Callable[[int], None]) -> AsyncGenerator[None]:
    """Call ``on_interrupt`` with each SIGINT, SIGTERM or SIGHUP, which end nothing."""
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
