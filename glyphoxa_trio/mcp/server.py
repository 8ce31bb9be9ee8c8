"""One server of the pool: its connection, and its status feed."""

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

CLOSING: Final = 2.0  # seconds within which every server is gone


@attrs.define(eq=False)
class StatusFeed:
    """The status feed of one connection: what it reports and publishes.

    A feed that is ``held`` keeps the newest state until it is opened; a cut one drops
    everything. A narrowed one leaves out all other tools.
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
        """Store the status, and report it unless the feed is held or cut."""
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
        """Store the tools, and publish them unless the feed is held or cut."""
        self._tools = tuple(x for x in tools if self._tells_of(x.definition.name))
        if not (self.held or self._cut):
            self._publish(server, state, self._tools, ready_at)

    async def settled(self) -> None:
        """Wait until the server's first attempt is over.

        That is when it is ready, has failed, or is lazy and waits for a call.
        """
        await self._moved.until(
            lambda: (
                self.status is not None
                and self.status.state is not ServerState.STARTING
            )
        )

    def open(self) -> None:
        """Report and publish the stored state, and each change from now on."""
        self.held = False
        now = self.status
        if now is not None:
            self._report(now)
            self._publish(now.name, now.state, self._tools, now.ready_at)

    def cut(self) -> None:
        """Report and publish nothing from now on."""
        self._cut = True

    def narrow(self, only: Collection[str]) -> None:
        """Publish only these tools, at once and from now on."""
        self._only = only
        now = self.status
        if now is not None:
            self.report(now)
            self.publish(now.name, now.state, self._tools, now.ready_at)

    def _tells_of(self, tool: str) -> bool:
        """Return whether this tool is published."""
        return self._only is None or tool in self._only


@attrs.define(eq=False)
class Server:
    """One server of the pool: its connection, and the status feed of that.

    ``branches`` are the connections of its sessions, if it has one for each.
    """

    spec: ServerSpec
    ref: Ref[ConnectionMessages]
    line: StatusFeed
    branches: Branches | None = None

    async def settled(self) -> None:
        """Wait until the server's first attempt is over; see `StatusFeed.settled`."""
        await self.line.settled()

    async def end(self, *, after: float = 0.0) -> None:
        """Stop the server: as soon as no call is in flight, or after ``after`` seconds.

        If cancelled, the server stops all the same.
        """
        try:
            if after > 0:
                with suppress(GlyphoxaError):  # calls that are still in flight end now
                    await self.ref.ask(Drain(), within=after)
                if self.branches is not None:
                    await self.branches.drain(within=after)
        finally:
            self.ref.close()
        async with trio.open_nursery() as nursery:
            if self.branches is not None:
                nursery.start_soon(self.branches.end, CLOSING)
            await self.ref.stop(within=CLOSING)
