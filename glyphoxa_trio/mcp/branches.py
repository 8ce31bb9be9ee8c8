"""Connections per session, for a server that keeps state for its client.

The server's main connection lists its tools and serves calls that belong to no session.
A call that belongs to a session uses a connection that is opened for that session: the
call waits while it starts, and finds the state that earlier calls of its session left.
It is opened when the session begins, so that its first call rarely has to wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Handover, Ref
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import CallContext, ToolUnavailable
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tracing import apart
from glyphoxa_trio.units import many

from .calls import ask
from .messages import CallTool, ConnectionMessages, Drain, SendAttempt

MOST_BRANCHES: Final = 32  # connections at once, for one server

Key = tuple[str, str]
"""The tenant and the session of a connection."""


@attrs.define(eq=False)
class _Branch:
    """The connection of one session, with the count of its calls in flight."""

    ref: Ref[ConnectionMessages]
    handover: Handover
    calls: int = 0
    left: bool = False

    def begin(self) -> None:
        self.calls += 1

    def over(self) -> None:
        self.calls -= 1
        self._close_if_idle()

    def leave(self) -> None:
        """Close the connection as soon as its calls in flight are over."""
        self.left = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self.left and not self.calls:
            self.ref.close()


@attrs.define(eq=False)
class Branches:
    """The session connections of one server, the one that was idle longest first.

    Args:
      spec: the server.
      connect: opens one more connection; objects are handed over to it by the handover.
    """

    spec: ServerSpec
    _connect: Callable[[Handover], Ref[ConnectionMessages]]
    _open: OrderedDict[Key, _Branch] = attrs.field(factory=OrderedDict, init=False)
    _left: set[_Branch] = attrs.field(factory=set, init=False)

    def serves(self, context: CallContext) -> bool:
        """Return whether a call with this context belongs to a session."""
        return bool(context.session)

    async def ask(
        self, context: CallContext, request: CallTool, attempt: SendAttempt
    ) -> ToolResult:
        """Call a tool on the connection of the caller's session.

        Raises:
          ToolUnavailable: also if the most sessions allowed are in use already.
          ToolError, ConnectionLost: as `Session.call_tool`.
        """
        key = context.tenant, context.session
        branch = self._of(key)
        branch.begin()
        try:
            return await ask(branch.ref, branch.handover, self.spec, request, attempt)
        finally:
            branch.over()
            if self._open.get(key) is branch:
                self._open.move_to_end(key)
            if not branch.calls:
                self._left.discard(branch)

    def enter(self, key: Key) -> None:
        """Open the connection of a session that begins, unless too many are open."""
        if len(self._open) < MOST_BRANCHES:
            self._of(key)

    def _of(self, key: Key) -> _Branch:
        """Return the connection of a session; open one if there is none."""
        branch = self._open.get(key)
        if branch is None:
            self._make_room()
            handover = Handover()
            with apart():  # it outlives the call, and its trace
                branch = _Branch(self._connect(handover), handover)
            self._open[key] = branch
        return branch

    def _make_room(self) -> None:
        """Close the connection that was idle longest, if there are too many.

        Raises:
          ToolUnavailable: if none is idle.
        """
        if len(self._open) < MOST_BRANCHES:
            return
        for key, branch in self._open.items():
            if not branch.calls:
                self.leave(key)
                return
        raise ToolUnavailable(
            f"{self.spec.name} serves {many(len(self._open), 'session')} at the"
            " moment, which"
            " is the limit"
        )

    def leave(self, key: Key) -> None:
        """End the connection of a session that is over or set aside.

        It is closed when its calls in flight are over.
        """
        if (branch := self._open.pop(key, None)) is not None:
            if branch.calls:
                self._left.add(branch)
            branch.leave()

    async def drain(self, within: float) -> None:
        """Return as soon as no call is in flight, or after ``within`` seconds."""

        async def drain(branch: _Branch) -> None:
            with suppress(GlyphoxaError):
                await branch.ref.ask(Drain(), within=within)

        async with trio.open_nursery() as nursery:
            for branch in (*self._open.values(), *self._left):
                nursery.start_soon(drain, branch)

    async def end(self, within: float) -> None:
        """Close all connections, and wait at most ``within`` seconds for each."""
        async with trio.open_nursery() as nursery:
            for branch in (*self._open.values(), *self._left):
                nursery.start_soon(lambda x: x.ref.stop(within=within), branch)

    def __len__(self) -> int:
        return len(self._open)
