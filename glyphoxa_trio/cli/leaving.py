"""Two signals to leave: the first one asks, the second one does not wait."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs

import trio

from glyphoxa_trio.actors.interrupts import interrupts

from .common import end_for_sure


@attrs.define(eq=False)
class Leaving:
    """The wish that a program that serves ends. ``status``: its exit status."""

    told: trio.Event = attrs.field(factory=trio.Event, init=False)
    status: int = attrs.field(default=0, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def _leave(self, number: int) -> None:
        if self.told.is_set():
            self.status = 128 + number
            self._scope.cancel("a second signal")
            end_for_sure()
        self.told.set()


@asynccontextmanager
async def two_signals() -> AsyncGenerator[Leaving]:
    """Set ``told`` at the first SIGINT, SIGTERM or SIGHUP; cancel the block at the
    second."""
    leaving = Leaving()
    with leaving._scope:
        async with interrupts(leaving._leave):
            yield leaving
