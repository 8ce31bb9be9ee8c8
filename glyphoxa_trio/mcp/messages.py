"""The messages to a server's connection, and the attempt that goes with a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Request
from glyphoxa_trio.tools.definition import SessionClaim
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tracing import here

# Seconds before a deadline: which of two at the same time comes first is not known.
NOTICE: Final = 0.01


def _nothing() -> None: ...


@attrs.define(eq=False)
class SendAttempt:
    """The state of one call so far.

    ``at`` is when it was last sent; from then on it may have had an effect. ``met`` is
    the error of the first attempt, if there was one. ``context`` is the trace that the
    call belongs to. `calls` sets ``at`` to None if the call never arrived, and ``met``.
    ``asking`` is the session's, once `calls` has sent it there.

    Args:
      tell: called each time that the call is sent, before the request is written.
    """

    tell: Callable[[], None] = _nothing
    at: float | None = attrs.field(default=None, init=False)
    met: Exception | None = attrs.field(default=None, init=False)
    context: Any = attrs.field(factory=here, init=False)
    asking: Callable[[], float] = attrs.field(default=lambda: 0.0, init=False)

    def sent(self) -> None:
        """Note that the call is being sent."""
        self.at = trio.current_time()
        self.tell()


class ConnectionMessages:
    """The type of all messages to a server's connection."""


@attrs.frozen
class CallTool(Request[ConnectionMessages, ToolResult]):
    """Call ``tool``, by the server's own name. Times are on trio's clock.

    Args:
      tool: the tool's name.
      arguments: its arguments.
      deadline: until when the answer is of use.
      awaited_until: until when the caller waits. A call that could not be sent by then
        has had no effect.
      repeatable: True if the tool is read-only, or configured to be idempotent.
      claim: the claim of the caller's session.
      attempt: the name under which an `SendAttempt` was handed over.
    """

    tool: str
    arguments: Mapping[str, Any]
    deadline: float = math.inf
    awaited_until: float = math.inf
    repeatable: bool = False
    claim: SessionClaim | None = None
    attempt: str = ""

    @property
    def until(self) -> float:
        """The moment at which to give up, while the caller still hears the reason."""
        return min(self.deadline, self.awaited_until) - NOTICE


@attrs.frozen
class AskServer(Request[ConnectionMessages, Mapping[str, Any]]):
    """Send a request that is no call of a tool, and return its result.

    ``until`` is when the caller stops waiting, on trio's clock.
    """

    method: str
    params: Mapping[str, Any]
    until: float = math.inf


@attrs.frozen
class Drain(Request[ConnectionMessages, None]):
    """Wait for the calls in flight; answered as soon as there are none."""
