"""The server pool: start, add, replace, remove and stop servers.

    async with open_server_pool(config.mcp.servers, publish=..., warn=...) as pool:
        await pool.wait_ready(5.0)
        pool.add(one_more)

Each server has an actor of its own: a slow server delays no other, and a broken one is
a warning. The code that serves the tools passes ``publish``, and is called with each
state of each server, so this package does not import it.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Handover, OnEvent, Ref, Signal
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.servers import Sharing
from glyphoxa_trio.errors import GlyphoxaError

from .branches import Branches
from .connection import spawn_connection
from .messages import AskServer, ConnectionMessages
from .opening import open_session
from .server import CLOSING, Server, StatusFeed
from .server_lines import ServerLines
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .tool_cache import ToolCache
from .transport import OpenSession

_BACKSTOP: Final = 1.0  # seconds; the connection says sooner why there is no answer


class ServerPoolError(GlyphoxaError):
    """The pool has a server of that name already, or has none."""


@attrs.define(eq=False)
class ServerPool:
    """The pool of connected servers, by name. Made by `open_server_pool`."""

    _spawn: Callable[[ServerSpec, StatusFeed], Server]
    _publish: Publish
    _on_change: Callable[[ServerStatus], None] | None = None
    _lines: ServerLines = attrs.field(factory=ServerLines)
    _members: dict[str, Server] = attrs.field(factory=dict, init=False)
    _staged: list[Server] = attrs.field(factory=list, init=False)
    _statuses: dict[str, ServerStatus] = attrs.field(factory=dict, init=False)
    _moved: Signal = attrs.field(factory=Signal, init=False)

    def add(self, spec: ServerSpec) -> None:
        """Connect one more server; its tools are published when they are known.

        Raises:
          ServerPoolError: if there is a server of that name, or it is still being
            removed.
        """
        if spec.name in self._members:
            raise ServerPoolError(f"there is a server {spec.name!r} already")
        # The connection reports its state only after it has read the cache of the last
        # run.
        self._statuses[spec.name] = ServerStatus(
            name=spec.name,
            transport=str(spec.transport),
            state=ServerState.STARTING,
            since=trio.current_time(),
        )
        self._members[spec.name] = self._connect(spec, held=False)

    async def remove(self, name: str, *, after: float = 0.0) -> None:
        """Withdraw a server's tools and stop it; its calls in flight end.

        If cancelled, the server stops all the same.

        Args:
          after: seconds to wait at most for calls in flight.

        Raises:
          ServerPoolError: if there is no server of that name.
        """
        await self.let_go(self.withdraw(name), after=after)

    def withdraw(self, name: str) -> Server:
        """Withdraw a server's tools at once; its name is free after `let_go`.

        A server that is staged to replace it is stopped as well.

        Raises:
          ServerPoolError: if there is no server of that name.
        """
        member = self._members.get(name)
        if member is None:
            raise ServerPoolError(f"there is no server {name!r}")
        for staged in [one for one in self._staged if one.spec.name == name]:
            self._staged.remove(staged)
            staged.ref.close()  # it was never published, and stops by itself
        self._silence(member)
        return member

    async def let_go(self, member: Server, *, after: float = 0.0) -> None:
        """Stop a server that was withdrawn, as `remove` does."""
        name = member.spec.name
        try:
            await member.end(after=after)
        finally:
            if self._members.get(name) is member:
                del self._members[name]
                self._forget(name)

    def enter(self, name: str, tenant: str, session: str) -> None:
        """Open the connection that this session will have to a server of its own."""
        member = self._members.get(name)
        if member is not None and member.branches is not None:
            member.branches.enter((tenant, session))

    def leave(self, tenant: str, session: str) -> None:
        """Close the connections that only this session had: it is over or set aside."""
        for member in (*self._members.values(), *self._staged):
            if member.branches is not None:
                member.branches.leave((tenant, session))

    def narrow(self, name: str, only: Collection[str]) -> None:
        """Publish only these tools of a server from now on, if the server exists."""
        member = self._members.get(name)
        if member is not None:
            member.line.narrow(only)

    def stage(self, spec: ServerSpec) -> Server:
        """Connect a server beside the one of its name, without publishing it.

        It becomes the server of that name with `switch`, or is stopped with `discard`.
        """
        member = self._connect(spec, held=True)
        self._staged.append(member)
        return member

    def switch(self, member: Server) -> Server | None:
        """Replace the server of the same name by a staged one; return the old one.

        This is one step: the new tools replace the old ones at once. The old server
        finishes the calls it has; the caller stops it. If the name was withdrawn
        meanwhile, nothing happens and None is returned.
        """
        if member not in self._staged:
            return None
        self._staged.remove(member)
        old = self._members.get(member.spec.name)
        if old is not None:
            old.line.cut()
        self._members[member.spec.name] = member
        member.line.open()
        return old

    async def discard(self, member: Server) -> None:
        """Stop a staged server that is no longer needed."""
        member.line.cut()
        await member.end()
        if member in self._staged:
            self._staged.remove(member)

    def spec(self, name: str) -> ServerSpec | None:
        """Return the spec of the server of that name; None if there is none."""
        member = self._members.get(name)
        return None if member is None else member.spec

    def specs(self) -> tuple[ServerSpec, ...]:
        """Return the spec of every server. May be called from any thread."""
        return tuple(member.spec for member in tuple(self._members.values()))

    async def wait_ready(self, within: float, *, known: bool = False) -> bool:
        """Wait until no server is starting any more, for at most ``within`` seconds.

        A server whose first attempt failed is not waited for, nor a lazy one that was
        never called; nor, with ``known``, one whose tools are cached from an earlier
        run. Returns whether every server is ready.
        """
        with trio.move_on_after(within):
            await self._moved.until(lambda: self._settled(known))
        return all(
            status.state is ServerState.READY for status in self._statuses.values()
        )

    @property
    def settled(self) -> bool:
        """True while no server is making its first attempt."""
        return self._settled(known=False)

    def status(self) -> tuple[ServerStatus, ...]:
        """Return a status for each server, in the order in which they were added."""
        return tuple(self._statuses[name] for name in self._members)

    def lines(self, name: str) -> tuple[str, ...]:
        """Return the last lines that a server wrote to stderr, the oldest first."""
        return self._lines.of(name)

    async def ask(
        self, name: str, method: str, params: Mapping[str, Any], *, within: float
    ) -> Mapping[str, Any]:
        """Send a server a request that is no call of a tool; return its result.

        A server with a connection for each session is asked over the one of all. If
        cancelled, the server is told.

        Args:
          within: seconds to wait at most, also for a server that is starting.

        Raises:
          ServerPoolError: if there is no server of that name.
          ToolError: the server refused.
          ToolUnavailable, ConnectionLost, DeadlineExceeded: the server did not answer.
        """
        member = self._members.get(name)
        if member is None:
            raise ServerPoolError(f"there is no server {name!r}")
        request = AskServer(method, params, trio.current_time() + within)
        return await member.ref.ask(request, within=within + _BACKSTOP)

    async def close(self) -> None:
        """Stop all servers together, within 2 s, also those that do not cooperate."""
        async with trio.open_nursery() as nursery:
            for member in (*self._members.values(), *self._staged):
                nursery.start_soon(member.end)

    def _connect(self, spec: ServerSpec, *, held: bool) -> Server:
        line = StatusFeed(self._publish, self._on_status, held)
        return self._spawn(spec, line)

    def _silence(self, member: Server) -> None:
        """Publish that a server has stopped, and nothing after that."""
        member.line.cut()
        status = member.line.status
        if status is not None:
            stopped = attrs.evolve(
                status,
                state=ServerState.STOPPED,
                tools=(),
                since=trio.current_time(),
                ready_at=None,
            )
            self._on_status(stopped)
        self._publish(member.spec.name, ServerState.STOPPED, ())

    def _forget(self, name: str) -> None:
        self._statuses.pop(name, None)
        self._lines.forget(name)
        self._moved.set()

    def _settled(self, known: bool) -> bool:
        return not any(
            status.state is ServerState.STARTING and not (known and status.tools)
            for status in self._statuses.values()
        )

    def _on_status(self, status: ServerStatus) -> None:
        self._statuses[status.name] = status
        self._moved.set()
        if self._on_change is not None:
            self._on_change(status)


@asynccontextmanager
async def open_server_pool(
    specs: Iterable[ServerSpec],
    *,
    publish: Publish,
    warn: Callable[[ServerWarning], None],
    log: Callable[[str, str], None] | None = None,
    on_event: OnEvent | None = None,
    on_status: Callable[[ServerStatus], None] | None = None,
    open_session: OpenSession = open_session,
    known: ToolCache | None = None,
    rng: random.Random | None = None,
) -> AsyncGenerator[ServerPool]:
    """Start every server of ``specs``; leaving the block stops them all.

    The servers start in parallel, and this does not wait for them: see
    `ServerPool.wait_ready`. Leaving takes at most 2 s, cancelled or not, and leaves no
    process behind.

    Args:
      publish: called with each state of each server, and its tools.
      warn: called with what an operator should see.
      log: called with a server's name and a line of its stderr, rate-limited.
      on_event: called on starts, failures and restarts; an event has the server's name.
      on_status: called with each change of a server's status.
      open_session: opens a session; for tests.
      known: the cache that holds the tool lists of the last run, and takes new ones.
      rng: the source of jitter for restart delays.
    """
    lines = ServerLines(log)
    async with trio.open_nursery() as nursery:

        def spawn(spec: ServerSpec, line: StatusFeed) -> Server:
            connect = partial(
                spawn_connection,
                nursery,
                spec,
                warn=warn,
                log=partial(lines.add, spec.name),
                open_session=open_session,
                rng=rng,
            )

            def branch(handover: Handover) -> Ref[ConnectionMessages]:
                return connect(
                    publish=lambda *_: None, report=lambda _: None, handover=handover
                )

            each = spec.connection is Sharing.PER_SESSION
            branches = Branches(spec, branch) if each else None
            ref = connect(
                publish=line.publish,
                report=line.report,
                on_event=on_event,
                known=known,
                branches=branches,
            )
            return Server(spec, ref, line, branches)

        fleet = ServerPool(spawn, publish, on_status, lines)
        for spec in specs:
            fleet.add(spec)
        try:
            yield fleet
        finally:
            with trio.move_on_after(CLOSING, shield=True):
                await fleet.close()
            nursery.cancel_scope.cancel()
