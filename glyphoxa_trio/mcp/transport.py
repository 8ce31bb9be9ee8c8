"""The protocols and errors of a session, as a connection uses it.

`opening` opens a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import attrs
import outcome

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import ToolUnavailable

from .process import LastLines


class ConnectionFailed(GlyphoxaError):
    """A session could not be opened, or ended by itself; the message says why."""


class NeverSent(ToolUnavailable):
    """The call did not reach the server, so it may be sent over a new session."""


class Busy(ToolUnavailable):
    """The server did not run the call, because it is busy.

    ``retry_after`` is the time after which it will, in seconds; None if it did not say.
    """

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


@attrs.define(eq=False)
class SessionLost:
    """The loss of a session, with its reason: the first reason that is reported counts.

    ``forgotten`` is True if the server is well and has only dropped this session.
    ``clean`` removes the secrets from a reason.
    """

    why: str | None = None
    forgotten: bool = False
    clean: Callable[[str], str] = attrs.field(default=str, kw_only=True, repr=False)
    _happened: trio.Event = attrs.field(factory=trio.Event, init=False)

    def report(self, why: str, *, forgotten: bool = False) -> None:
        """Report that the session is gone; later reports are ignored."""
        if self.why is None:
            self.why = self.clean(why)
            self.forgotten = forgotten
            self._happened.set()

    async def wait(self) -> str:
        """Wait until the session is gone; return the reason."""
        await self._happened.wait()
        assert self.why is not None
        return self.why


@attrs.frozen
class ToolListing:
    """The tools of a server as plain MCP objects, and warnings about the list.

    ``prompts`` are those of the server, likewise. ``start`` is how many seconds the
    server took to be ready with them, if known.
    """

    tools: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...] = ()
    start: float | None = None
    prompts: tuple[Mapping[str, Any], ...] = ()


class ServerSession(Protocol):
    """An open, negotiated session with one server."""

    @property
    def pid(self) -> int | None:
        """The pid of a stdio server's process; None for other servers."""

    @property
    def loss(self) -> SessionLost:
        """The loss of the session, reported as soon as it is known."""

    @property
    def timed(self) -> bool:
        """True if this start tells how long the next one will take.

        It does not if the server waited for this program, or started beside other
        servers.
        """

    def asking(self, before: float = 0.0) -> float:
        """Return for how many seconds it has asked a person something so far, without
        those ``before``."""

    async def ping(self) -> bool:
        """Return True as soon as the server answers; False if the answer is an error.

        Raises:
          ToolUnavailable, ConnectionLost: as `call_tool`; these are no sign of life.
        """

    async def list_tools(self) -> ToolListing:
        """Return all tools, page by page, within limits.

        Raises:
          ConnectionFailed: if the server gives no usable list.
        """

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Call a tool; return its result as a plain MCP object.

        Cancelling the call tells the server.

        Raises:
          ToolError: the server refused this one call; the session is fine.
          ToolUnavailable: the server was reached and did not run it.
          NeverSent: the server was not reached; the session is gone.
          ConnectionLost: the answer is lost; the effect is unknown.
        """

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request that is no call of a tool; return its result.

        Cancelling it tells the server.

        Raises:
          ToolError, ToolUnavailable, ConnectionLost: as `call_tool`.
        """

    def begin_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        sent: Callable[[], None],
        settle: Callable[[outcome.Maybe[Mapping[str, Any]]], None],
    ) -> Callable[[], None] | None:
        """Send a call without a task that waits for it, if that cannot block.

        Args:
          sent: called just before it is sent: the server may answer before the sending
            is over.
          settle: called with what `call_tool` would return or raise, in the task that
            knows it first. It must neither block nor raise.

        Returns the function that gives the call up for good; None if it was not sent:
        then use `call_tool`.
        """


class OpenSession(Protocol):
    """The function that opens a session; see `opening.open_session`."""

    def __call__(
        self,
        spec: ServerSpec,
        *,
        on_tools_changed: Callable[[], None],
        stderr: LastLines,
    ) -> AbstractAsyncContextManager[ServerSession]: ...
