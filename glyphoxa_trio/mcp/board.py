"""The state of one server, and the announcement of its changes.

A connection, its calls and its restarts share it. Each change is announced at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.tools.definition import Tool

from .process import LastLines
from .prompts import ServerPrompt
from .restart_policy import StartTimes
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .transport import ServerSession

_SHOWN_LINES: Final = 5
_MOST_TOLD: Final = 200


@attrs.define(eq=False, kw_only=True)
class Board:
    """The state of one server, in one life of its connection.

    ``prompts`` are set by the connection, and announced with the next `announce`.
    ``turned`` is set with every change. ``wanted`` is set when a call waits for a
    session, ``stopping`` when the server is no longer needed.

    Args:
      publish, report, warn: as in `spawn_connection`.
    """

    spec: ServerSpec
    _publish: Publish
    _report: Callable[[ServerStatus], None]
    _warn: Callable[[ServerWarning], None]
    state: ServerState = attrs.field(default=ServerState.STARTING, init=False)
    tools: tuple[Tool, ...] = attrs.field(default=(), init=False)
    prompts: tuple[ServerPrompt, ...] = attrs.field(default=(), init=False)
    session: ServerSession | None = attrs.field(default=None, init=False)
    last_error: str | None = attrs.field(default=None, init=False)
    starts: StartTimes = attrs.field(factory=StartTimes, init=False)
    turned: Signal = attrs.field(factory=Signal, init=False)
    wanted: trio.Event = attrs.field(factory=trio.Event, init=False)
    stopping: trio.Event = attrs.field(factory=trio.Event, init=False)
    _stderr: LastLines = attrs.field(factory=LastLines, init=False)
    _since: float = attrs.field(factory=trio.current_time, init=False)
    _begun: int = attrs.field(default=0, init=False)
    _told: set[str] = attrs.field(factory=set, init=False)

    def become(self, state: ServerState) -> None:
        """Change to ``state``, and announce it."""
        if state is not self.state:
            self.state = state
            self._since = trio.current_time()
        if state not in (ServerState.STARTING, ServerState.RESTARTING):
            self.starts.over()
        self.announce()

    def offer(self, tools: tuple[Tool, ...]) -> None:
        """Set the server's tools; they are announced with the next `announce`."""
        self.tools = tools

    def began(self) -> None:
        """Count one more life of the server."""
        self._begun += 1

    def expect(self, *, after: float = 0.0) -> None:
        """Announce when a start that begins in ``after`` seconds should be over."""
        if self.state is not ServerState.FAILED and self.starts.begin(after=after):
            self.announce()

    def listen_to(self, stderr: LastLines) -> None:
        """Take the lines of this process for warnings."""
        self._stderr = stderr

    def serve(self, session: ServerSession) -> None:
        """Send calls to ``session`` from now on: the server is ready."""
        self.session = session
        self.become(ServerState.READY)

    def lose(self) -> None:
        """Drop the session at once, not only when the process has ended.

        Calls from now on wait for the next session.
        """
        if self.session is not None:
            self.session = None
            if not self.stopping.is_set():
                self.starts.begin()
                self.become(ServerState.RESTARTING)

    def failed(self, error: BaseException, *, warn: bool) -> None:
        """Note that a life has ended with ``error``; ``warn`` tells the operator."""
        self.last_error = str(error) or type(error).__name__
        if warn:
            self.warn(self.last_error)
        if self.state is not ServerState.FAILED:
            self.become(ServerState.RESTARTING)

    def stop(self) -> None:
        """Refuse the calls that wait for a session: the server is no longer needed."""
        self.stopping.set()
        self.turned.set()

    def close(self) -> None:
        """Note that the server is stopped, and withdraw its tools."""
        self.session = None
        self.tools = ()
        self.prompts = ()
        self.become(ServerState.STOPPED)

    def announce(self) -> None:
        """Report the status and publish the tools."""
        self._report(
            ServerStatus(
                name=self.spec.name,
                transport=str(self.spec.transport),
                state=self.state,
                tools=tuple(tool.definition.name for tool in self.tools),
                prompts=self.prompts,
                restarts=max(0, self._begun - 1),
                since=self._since,
                last_error=self.last_error,
                pid=self.session.pid if self.session is not None else None,
                ready_at=self.starts.ready_at,
            )
        )
        self._publish(self.spec.name, self.state, self.tools, self.starts.ready_at)
        self.turned.set()

    def warn(self, text: str) -> None:
        """Warn the operator, with the last lines that the process wrote to stderr."""
        said = "".join(f"\n  {line}" for line in self._stderr.lines[-_SHOWN_LINES:])
        self._warn(ServerWarning(server=self.spec.name, text=text + said))

    def warn_once(self, text: str) -> None:
        """Warn the operator, unless the same text was sent before."""
        if text not in self._told:
            # A server may rename its tools without end.
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(text)
            self._warn(ServerWarning(server=self.spec.name, text=text))
