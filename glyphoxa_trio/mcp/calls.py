"""One call on its way to a server: when it is sent, and whether it is sent again.

A call that did nothing yet (it never arrived, or the server was too busy to run
it) may be sent again; one whose answer was lost only if its tool only reads, or the
operator says that twice is as good as once. Always inside the time in which somebody
waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Request
from glyphoxa_trio.tools.definition import ConnectionLost, ToolUnavailable
from glyphoxa_trio.tools.outcome import ToolResult

from .transport import Busy, NeverSent, Session

NOTICE: Final = 0.01  # before a deadline: two that fall together are a toss-up


def _nothing() -> None: ...


@attrs.define(eq=False)
class Sent:
    """When a call was last sent: from then on it may have had an effect.

    Args:
      tell: called each time that the call is sent, before the request is written.
    """

    tell: Callable[[], None] = _nothing
    at: float | None = attrs.field(default=None, init=False)

    def note(self) -> None:
        self.at = trio.current_time()
        self.tell()

    def take_back(self) -> None:
        """It never arrived."""
        self.at = None


class ConnectionMessages:
    """Whom `CallTool` is for: the connection of a server."""


@attrs.frozen
class CallTool(Request[ConnectionMessages, ToolResult]):
    """Call ``tool``, by the server's own name. Times are on trio's clock.

    ``deadline`` is until when the answer is of use, ``awaited_until`` until when
    somebody waits: a call that could not even be sent by then has done nothing.
    ``repeatable``: the tool only reads, or the operator says that twice is as good as
    once. ``met``: what became of it when it was sent for the first time, if it was.
    """

    tool: str
    arguments: Mapping[str, Any]
    deadline: float = math.inf
    awaited_until: float = math.inf
    repeatable: bool = False
    met: Exception | None = attrs.field(default=None, eq=False, repr=False)
    sent: Sent = attrs.field(factory=lambda: Sent(), eq=False, repr=False)

    @property
    def until(self) -> float:
        """Just before nobody waits any more, so that it ends with what is true."""
        return min(self.deadline, self.awaited_until) - NOTICE


@attrs.define(eq=False)
class Delivery:
    """Sends one call, and once more where that is right.

    Args:
      ready: the session, waited for; raises ToolUnavailable when there is no hope.
      meta: what goes along with the call, made anew for each sending.
    """

    request: CallTool
    ready: Callable[[CallTool], Awaitable[Session]]
    meta: Callable[[CallTool], Mapping[str, Any]]
    _again: bool = attrs.field(default=True, init=False)

    async def run(self) -> Mapping[str, Any]:
        """The server's answer.

        Raises:
          ToolError, ToolUnavailable, ConnectionLost: as `Session.call_tool`.
        """
        try:
            return await self._sent(self.request.met)
        except ConnectionLost as error:
            if not (self._again and self.request.repeatable):
                raise
            self._again = False
            lost = error
        try:
            return await self._sent()
        except ToolUnavailable:
            # The second one did nothing; what the first one did is still unknown.
            raise lost from None

    async def _sent(self, met: Exception | None = None) -> Mapping[str, Any]:
        request = self.request
        session: Session | None = None
        while True:
            try:
                if met is not None:
                    error, met = met, None
                    raise error
                session = await self.ready(request)
                request.sent.note()
                return await session.call_tool(
                    request.tool, request.arguments, self.meta(request)
                )
            except NeverSent:
                # The next session may have it. Each turn of this loop costs a
                # session, and those are counted.
                if session is not None and session.loss.why is None:
                    raise
            except Busy as busy:
                pause = busy.retry_after
                if pause is None or not self._again:
                    raise
                if trio.current_time() + pause >= request.until:
                    raise
                self._again = False
                await trio.sleep(pause)
