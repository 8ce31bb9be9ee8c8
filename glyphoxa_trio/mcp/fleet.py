"""All servers together: start, add, remove, end (N17, N21 to N23, G42).

    async with open_fleet(config.mcp.servers, publish=..., warn=...) as fleet:
        await fleet.wait_ready(5.0)
        fleet.add(one_more)

Each server is an actor of its own: a slow one delays nobody, a broken one is a
warning. Whoever serves the tools hands in ``publish`` and is told of each state
of each server, so that this room need not know it.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import OnEvent, Ref
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError

from .connection import CallTool, spawn_connection
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .transport import OpenSession, open_session

CLOSING: Final = 5.0  # seconds within which every server is gone (A43, N22)


class FleetError(GlyphoxaError):
    """The fleet has, or has not, a server of that name."""


@attrs.define(eq=False)
class Fleet:
    """The servers that are connected, by name. Made by `open_fleet`."""

    _spawn: Callable[[ServerSpec, Callable[[ServerStatus], None]], Ref[CallTool]]
    _refs: dict[str, Ref[CallTool]] = attrs.field(factory=dict, init=False)
    _statuses: dict[str, ServerStatus] = attrs.field(factory=dict, init=False)
    _moved: trio.Event = attrs.field(factory=trio.Event, init=False)

    def add(self, spec: ServerSpec) -> None:
        """Connect one more server; it is published when it is ready.

        Raises:
          FleetError: if there is one of that name, or it is still being removed.
        """
        if spec.name in self._refs:
            raise FleetError(f"there is a server {spec.name!r} already")
        self._refs[spec.name] = self._spawn(spec, self._on_status)

    async def remove(self, name: str) -> None:
        """Stop a server and forget it; its calls in flight end at once.

        Cancelled, the server stops all the same.

        Raises:
          FleetError: if there is none of that name.
        """
        if name not in self._refs:
            raise FleetError(f"there is no server {name!r}")
        ref = self._refs[name]
        ref.close()
        await ref.stop(within=CLOSING)
        if self._refs.get(name) is ref:
            del self._refs[name]
            self._statuses.pop(name, None)

    async def wait_ready(self, within: float) -> bool:
        """Wait until no server is starting any more, at most so many seconds.

        A server whose first attempt failed is not waited for. Returns whether
        every server is ready.
        """
        with trio.move_on_after(within):
            while not self._settled():
                await self._moved.wait()
        return len(self._statuses) == len(self._refs) and all(
            status.state is ServerState.READY for status in self._statuses.values()
        )

    def status(self) -> tuple[ServerStatus, ...]:
        """A row for each server, in the order in which they were added."""
        return tuple(
            self._statuses[name] for name in self._refs if name in self._statuses
        )

    async def close(self) -> None:
        """Stop every server, together: 2 s, or 5 with servers that resist."""
        async with trio.open_nursery() as nursery:
            for ref in self._refs.values():
                nursery.start_soon(partial(ref.stop, within=CLOSING))

    def _settled(self) -> bool:
        return len(self._statuses) == len(self._refs) and not any(
            status.state is ServerState.STARTING for status in self._statuses.values()
        )

    def _on_status(self, status: ServerStatus) -> None:
        self._statuses[status.name] = status
        self._moved.set()
        self._moved = trio.Event()


@asynccontextmanager
async def open_fleet(
    specs: Iterable[ServerSpec],
    *,
    publish: Publish,
    warn: Callable[[ServerWarning], None],
    log: Callable[[str, str], None] | None = None,
    on_event: OnEvent | None = None,
    open_session: OpenSession = open_session,
    rng: random.Random | None = None,
) -> AsyncGenerator[Fleet]:
    """Start every server of ``specs`` at once; leaving the block ends them all.

    Does not wait for any: see `Fleet.wait_ready`. Leaving takes at most 5 s,
    cancelled or not, and leaves no process behind (T8).

    Args:
      publish: told of each state of each server, with its tools.
      warn: told of what an operator should see.
      log: told of a server's name and a line of its stderr, rate-limited.
      on_event: told of lives, failures and restarts; an event's name is the
        server's.
    """
    async with trio.open_nursery() as nursery:

        def spawn(
            spec: ServerSpec, report: Callable[[ServerStatus], None]
        ) -> Ref[CallTool]:
            return spawn_connection(
                nursery,
                spec,
                publish=publish,
                warn=warn,
                report=report,
                log=None if log is None else partial(log, spec.name),
                on_event=on_event,
                open_session=open_session,
                rng=rng,
            )

        fleet = Fleet(spawn)
        for spec in specs:
            fleet.add(spec)
        try:
            yield fleet
        finally:
            with trio.move_on_after(CLOSING, shield=True):
                await fleet.close()
            nursery.cancel_scope.cancel()
