"""The words of what older versions have written, brought up to date behind the turns.

Each step writes the words of some rows anew, in one transaction, and notes how far it
came: a process that is killed loses nothing, and the next one goes on. What is not
reached yet is found by words that are as they were, such as all English ones.
"""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from .errors import MemoryUnavailable

ROWS: Final = 200  # of a step, so that a turn's own write waits for some 20 ms
_PAUSE: Final = 0.02  # seconds between two steps
_AGAIN: Final = 10.0  # seconds, if the store cannot be written now


@asynccontextmanager
async def rebuilding(step: Callable[[], Awaitable[bool]]) -> AsyncGenerator[None]:
    """Take steps for the length of the block, until one returns False."""
    stopping, stopped = trio.CancelScope(), trio.Event()

    async def rebuild() -> None:
        try:
            with stopping:
                more = True
                while more:
                    try:
                        more = await step()
                    except MemoryUnavailable:
                        await trio.sleep(_AGAIN)
                    except Exception:  # border: a damaged store may fail in any way
                        return  # an error of a system task would end the program
                    await trio.sleep(_PAUSE)
        finally:
            stopped.set()

    # Not in a nursery: its block would have to be left before those of other stores
    # that were opened earlier.
    trio.lowlevel.spawn_system_task(rebuild, context=contextvars.copy_context())
    try:
        yield
    finally:
        stopping.cancel()
        with trio.CancelScope(shield=True):
            await stopped.wait()
