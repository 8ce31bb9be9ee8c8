"""The connections of a server that keeps something for its client: one for each
session.

The server's own connection lists its tools and serves what belongs to no session. A
call of a session goes by one that is opened for it, waits while that starts, and finds
what earlier calls of its session have left there.
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

from .calls import ask
from .messages import CallTool, ConnectionMessages, Drain, SendAttempt

MOST_BRANCHES: Final = 32  # at once, of one server

Key = tuple[str, str]
"""Tenant and session."""


@attrs.define(eq=False)
class _Branch:
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
        """Close it, when the calls are over that it has."""
        self.left = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self.left and not self.calls:
            self.ref.close()


@attrs.define(eq=False)
class Branches:
    """Those of one server, whichever was idle longest first.

    Args:
      connect: opens one more connection; what has to be handed over goes by this.
    """

    spec: ServerSpec
    _connect: Callable[[Handover], Ref[ConnectionMessages]]
    _open: OrderedDict[Key, _Branch] = attrs.field(factory=OrderedDict, init=False)
    _left: set[_Branch] = attrs.field(factory=set, init=False)

    def serves(self, context: CallContext) -> bool:
        """Whether this call goes by one of them."""
        return bool(context.session)

    async def ask(
        self, context: CallContext, request: CallTool, attempt: SendAttempt
    ) -> ToolResult:
        """Call a tool by the connection of the caller's session.

        Raises:
          ToolUnavailable: also if as many sessions as may be call it just now.
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

    def _of(self, key: Key) -> _Branch:
        branch = self._open.get(key)
        if branch is None:
            self._make_room()
            handover = Handover()
            branch = _Branch(self._connect(handover), handover)
            self._open[key] = branch
        return branch

    def _make_room(self) -> None:
        if len(self._open) < MOST_BRANCHES:
            return
        for key, branch in self._open.items():
            if not branch.calls:
                self.leave(key)
                return
        raise ToolUnavailable(
            f"{self.spec.name} serves {len(self._open)} sessions just now, and no more"
        )

    def leave(self, key: Key) -> None:
        """This session is over, or set aside: its connection ends when its calls
        have."""
        if (branch := self._open.pop(key, None)) is not None:
            if branch.calls:
                self._left.add(branch)
            branch.leave()

    async def drain(self, within: float) -> None:
        """Return as soon as no call is in flight, or after so many seconds."""

        async def drain(branch: _Branch) -> None:
            with suppress(GlyphoxaError):
                await branch.ref.ask(Drain(), within=within)

        async with trio.open_nursery() as nursery:
            for branch in (*self._open.values(), *self._left):
                nursery.start_soon(drain, branch)

    async def end(self, within: float) -> None:
        """Close all of them, and wait for that."""
        async with trio.open_nursery() as nursery:
            for branch in (*self._open.values(), *self._left):
                nursery.start_soon(lambda x: x.ref.stop(within=within), branch)

    def __len__(self) -> int:
        return len(self._open)
