"""What a connection needs of a transport; `opening` opens one."""

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
    """A session could not be opened, or ended by itself; the text says why."""


class NeverSent(ToolUnavailable):
    """The call did not reach the server, so it may be sent over a new session."""


class Busy(ToolUnavailable):
    """The server did not run the call, and said when it may: in so many seconds."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


@attrs.define(eq=False)
class SessionLost:
    """Whether a session is gone, and why: the first reason counts.

    ``forgotten``: the server is well, it has only let go of this session. ``clean``
    takes the secrets out of a reason.
    """

    why: str | None = None
    forgotten: bool = False
    clean: Callable[[str], str] = attrs.field(default=str, kw_only=True, repr=False)
    _happened: trio.Event = attrs.field(factory=trio.Event, init=False)

    def report(self, why: str, *, forgotten: bool = False) -> None:
        if self.why is None:
            self.why = self.clean(why)
            self.forgotten = forgotten
            self._happened.set()

    async def wait(self) -> str:
        """Why the session is gone, once it is."""
        await self._happened.wait()
        assert self.why is not None
        return self.why


@attrs.frozen
class ToolListing:
    """The tools of a server as plain MCP objects, and what was odd about them.

    ``start`` is how many seconds the server took to be ready with them, if known.
    """

    tools: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...] = ()
    start: float | None = None


class ServerSession(Protocol):
    """An open, negotiated session with one server."""

    @property
    def pid(self) -> int | None:
        """The process of a stdio server."""

    @property
    def loss(self) -> SessionLost:
        """Reported as soon as anybody knows that the session is gone."""

    @property
    def timed(self) -> bool:
        """Whether its start tells how long the next one will take: not if the server
        waited for this program, or shared the machine with other servers' starts."""

    async def ping(self) -> bool:
        """Return as soon as the server answers; False if the answer is an error.

        Raises:
          ToolUnavailable, ConnectionLost: as `call_tool`; these are no sign of life.
        """

    async def list_tools(self) -> ToolListing:
        """All tools, page by page, within bounds.

        Raises:
          ConnectionFailed: if the server gives no usable list.
        """

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Call a tool; its result as a plain MCP object.

        Cancelling the call tells the server.

        Raises:
          ToolError: the server refused this one call; the session is fine.
          ToolUnavailable: the server was reached and did not run it.
          NeverSent: it was not reached; the session is gone.
          ConnectionLost: the answer is lost; the effect is unknown.
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
        """Call a tool without a task that waits for it, where nothing can hold that up.

        Args:
          sent: told just before it is sent: the server may answer before the sending
            is over.
          settle: told of what `call_tool` would return or raise, in whichever task
            knows it first. It must neither block nor raise.

        Returns what leaves the call, for good; None if it was not sent: then ask
        `call_tool`.
        """


class OpenSession(Protocol):
    def __call__(
        self,
        spec: ServerSpec,
        *,
        on_tools_changed: Callable[[], None],
        stderr: LastLines,
    ) -> AbstractAsyncContextManager[ServerSession]: ...
