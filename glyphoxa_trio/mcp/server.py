"""One server of a fleet: its connection, and what that tells the world."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Ref, Signal
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import Tool

from .branches import Branches
from .messages import ConnectionMessages, Drain
from .status import Publish, ServerState, ServerStatus

CLOSING: Final = 2.0  # seconds within which every server is gone (A43, N22)


@attrs.define(eq=False)
class StatusFeed:
    """What one connection tells the world: at once, later, or no more.

    A line that is ``held`` keeps the newest of what it was told until it is
    opened; a cut one forgets all. A narrowed one keeps the other tools to itself.
    """

    _publish: Publish
    _report: Callable[[ServerStatus], None]
    held: bool = False
    _cut: bool = attrs.field(default=False, init=False)
    _only: Collection[str] | None = attrs.field(default=None, init=False)
    status: ServerStatus | None = attrs.field(default=None, init=False)
    _tools: tuple[Tool, ...] = attrs.field(default=(), init=False)
    _moved: Signal = attrs.field(factory=Signal, init=False)

    def report(self, status: ServerStatus) -> None:
        named = tuple(name for name in status.tools if self._tells_of(name))
        self.status = status = attrs.evolve(status, tools=named)
        self._moved.set()
        if not (self.held or self._cut):
            self._report(status)

    def publish(
        self,
        server: str,
        state: ServerState,
        tools: tuple[Tool, ...],
        ready_at: float | None = None,
    ) -> None:
        self._tools = tuple(x for x in tools if self._tells_of(x.definition.name))
        if not (self.held or self._cut):
            self._publish(server, state, self._tools, ready_at)

    async def settled(self) -> None:
        """Return once the server is ready, its first attempt has failed, or it is
        lazy and waits for a call."""
        await self._moved.until(
            lambda: (
                self.status is not None
                and self.status.state is not ServerState.STARTING
            )
        )

    def open(self) -> None:
        self.held = False
        now = self.status
        if now is not None:
            self._report(now)
            self._publish(now.name, now.state, self._tools, now.ready_at)

    def cut(self) -> None:
        self._cut = True

    def narrow(self, only: Collection[str]) -> None:
        """Tell of these tools only, at once and from now on."""
        self._only = only
        now = self.status
        if now is not None:
            self.report(now)
            self.publish(now.name, now.state, self._tools, now.ready_at)

    def _tells_of(self, tool: str) -> bool:
        return self._only is None or tool in self._only


@attrs.define(eq=False)
class Server:
    """One server of a fleet: its connection, the line on which that speaks, and those
    of its sessions if it has one for each."""

    spec: ServerSpec
    ref: Ref[ConnectionMessages]
    line: StatusFeed
    branches: Branches | None = None

    async def settled(self) -> None:
        """As `StatusFeed.settled`."""
        await self.line.settled()

    async def end(self, *, after: float = 0.0) -> None:
        """Stop it: at once, or when no call is in flight, after so many seconds
        at the latest.

        Cancelled, it stops all the same.
        """
        try:
            if after > 0:
                with suppress(GlyphoxaError):  # calls that are not over end now
                    await self.ref.ask(Drain(), within=after)
                if self.branches is not None:
                    await self.branches.drain(within=after)
        finally:
            self.ref.close()
        async with trio.open_nursery() as nursery:
            if self.branches is not None:
                nursery.start_soon(self.branches.end, CLOSING)
            await self.ref.stop(within=CLOSING)
