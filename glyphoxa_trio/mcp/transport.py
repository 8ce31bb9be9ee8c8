"""What a connection needs of a transport, and how to open one.

`open_session` is the only way to a server. It loads the SDK on first use, in a
thread, because that costs over a second (D27); `sdk` does the work. Whoever
opens a session uses and closes it in the same task (T3); its calls may come
from any task.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from types import ModuleType
from typing import Any, Final, Protocol

import attrs
import outcome

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.tools.definition import ToolUnavailable

from .masking import Masking
from .process import LastLines, running

_A_WHILE: Final = 0.05  # seconds; only the first import of the SDK takes longer
_AT_ONCE: Final = 0.1  # seconds; a server that is up already shakes hands sooner


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
class Loss:
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
class Listing:
    """The tools of a server as plain MCP objects, and what was odd about them.

    ``start`` is how many seconds the server took to be ready with them, if known.
    """

    tools: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...] = ()
    start: float | None = None


class Session(Protocol):
    """An open, negotiated session with one server."""

    @property
    def pid(self) -> int | None:
        """The process of a stdio server."""

    @property
    def loss(self) -> Loss:
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

    async def list_tools(self) -> Listing:
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
    ) -> AbstractAsyncContextManager[Session]: ...


@asynccontextmanager
async def open_session(
    spec: ServerSpec, *, on_tools_changed: Callable[[], None], stderr: LastLines
) -> AsyncGenerator[Session]:
    """Start or reach the server of ``spec``, and shake hands with it.

    Args:
      on_tools_changed: called when the list of tools should be read anew.
      stderr: takes what a stdio server writes there.

    Leaving ends a stdio server within 1.5 s, cancelled or not.

    Raises:
      ConnectionFailed: for whatever went wrong on the way in, within
        ``start_timeout``, or tore the session down from below.
    """
    async with AsyncExitStack() as stack:
        masking = Masking.of(spec)
        stack.enter_context(quiet(masking.text))
        start = stack.enter_context(_starting())
        server: trio.Process | None = None
        if spec.url is None:
            try:
                # It starts while the SDK is loaded: either may take over a second.
                server = await stack.enter_async_context(running(spec, stderr))
            except OSError as error:
                why = masking.text(f"cannot be started: {error}")
                raise ConnectionFailed(why) from error
        begun = trio.current_time()
        sdk: Any = await trio.to_thread.run_sync(_load, abandon_on_cancel=True)
        start.waited = trio.current_time() - begun
        yield await stack.enter_async_context(
            sdk.open_session(
                spec,
                on_tools_changed=on_tools_changed,
                stderr=stderr,
                server=server,
                start=start,
                masking=masking,
            )
        )


@attrs.define(eq=False)
class Start:
    """One start of a server, from its process to the handshake.

    ``alone``: no other server started meanwhile. ``waited``: seconds for the SDK.
    """

    alone: bool = True
    waited: float = 0.0

    def over(self, *, shaking_hands: float | None) -> bool:
        """The session is open. Returns whether this start tells how long the next one
        will take.

        Args:
          shaking_hands: seconds that the handshake took; None for a server that we do
            not start.
        """
        _under_way.discard(self)
        if self.waited < _A_WHILE:
            return self.alone
        was_up = shaking_hands is None or shaking_hands < _AT_ONCE
        return self.alone and not was_up


_under_way: set[Start] = set()


@contextmanager
def _starting() -> Generator[Start]:
    start = Start(alone=not _under_way)
    for other in tuple(_under_way):  # another thread may start one meanwhile
        other.alone = False
    _under_way.add(start)
    try:
        yield start
    finally:
        _under_way.discard(start)


def _load() -> ModuleType:
    from . import http, sdk

    http.trusted()
    return sdk
