"""What the connection of a server can be asked, and what is handed over with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Request
from glyphoxa_trio.tools.outcome import ToolResult

NOTICE: Final = 0.01  # before a deadline: two that fall together are a toss-up


def _nothing() -> None: ...


@attrs.define(eq=False)
class SendAttempt:
    """What became of a call so far. ``at``: when it was last sent; from then on it may
    have had an effect. ``met``: what went wrong the first time, if it did.

    Args:
      tell: called each time that the call is sent, before the request is written.
    """

    tell: Callable[[], None] = _nothing
    at: float | None = attrs.field(default=None, init=False)
    met: Exception | None = attrs.field(default=None, init=False)

    def sent(self) -> None:
        self.at = trio.current_time()
        self.tell()

    def take_back(self) -> None:
        """It never arrived."""
        self.at = None

    def went_wrong(self, error: Exception) -> None:
        """So that the next one begins where this has ended."""
        self.met = error


class ConnectionMessages:
    """Whom all of these are for: the connection of a server."""


@attrs.frozen
class CallTool(Request[ConnectionMessages, ToolResult]):
    """Call ``tool``, by the server's own name. Times are on trio's clock.

    ``deadline`` is until when the answer is of use, ``awaited_until`` until when
    somebody waits: a call that could not even be sent by then has done nothing.
    ``repeatable``: the tool only reads, or the operator says that twice is as good as
    once. ``attempt``: an `SendAttempt` was handed over under that name.
    """

    tool: str
    arguments: Mapping[str, Any]
    deadline: float = math.inf
    awaited_until: float = math.inf
    repeatable: bool = False
    attempt: str = ""

    @property
    def until(self) -> float:
        """Just before nobody waits any more, so that it ends with what is true."""
        return min(self.deadline, self.awaited_until) - NOTICE


@attrs.frozen
class Drain(Request[ConnectionMessages, None]):
    """Answered as soon as no call is in flight."""
