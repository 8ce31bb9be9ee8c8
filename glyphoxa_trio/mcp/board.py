"""What is known of one server, and whom that is told.

A connection, its calls and its lives share it. Each change is announced at once.
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
from .restart_policy import StartTimes
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .transport import ServerSession

_SHOWN_LINES: Final = 5
_MOST_TOLD: Final = 200


@attrs.define(eq=False, kw_only=True)
class Board:
    """How one server is, in one life of its connection.

    ``turned`` is set with every change. ``wanted``: somebody waits for a session;
    ``stopping``: nobody will any more.

    Args:
      publish, report, warn: as in `spawn_connection`.
    """

    spec: ServerSpec
    _publish: Publish
    _report: Callable[[ServerStatus], None]
    _warn: Callable[[ServerWarning], None]
    state: ServerState = attrs.field(default=ServerState.STARTING, init=False)
    tools: tuple[Tool, ...] = attrs.field(default=(), init=False)
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
        """It is like this now."""
        if state is not self.state:
            self.state = state
            self._since = trio.current_time()
        if state not in (ServerState.STARTING, ServerState.RESTARTING):
            self.starts.over()
        self.announce()

    def offer(self, tools: tuple[Tool, ...]) -> None:
        """It has these tools; told with the next `announce`."""
        self.tools = tools

    def began(self) -> None:
        """A life begins."""
        self._begun += 1

    def expect(self, *, after: float = 0.0) -> None:
        """A start begins ``after`` so many seconds: announce when it should be over."""
        if self.state is not ServerState.FAILED and self.starts.begin(after=after):
            self.announce()

    def listen_to(self, stderr: LastLines) -> None:
        """This is what its process says."""
        self._stderr = stderr

    def serve(self, session: ServerSession) -> None:
        """Calls are sent there."""
        self.session = session
        self.become(ServerState.READY)

    def lose(self) -> None:
        """Calls from now on wait; not after the process has ended, but at once."""
        if self.session is not None:
            self.session = None
            if not self.stopping.is_set():
                self.starts.begin()
                self.become(ServerState.RESTARTING)

    def failed(self, error: BaseException, *, warn: bool) -> None:
        """A life has ended, for this reason."""
        self.last_error = str(error) or type(error).__name__
        if warn:
            self.warn(self.last_error)
        if self.state is not ServerState.FAILED:
            self.become(ServerState.RESTARTING)

    def stop(self) -> None:
        """Nobody wants it any more: calls that wait for a session wait in vain."""
        self.stopping.set()
        self.turned.set()

    def close(self) -> None:
        """It is not served any more."""
        self.session = None
        self.tools = ()
        self.become(ServerState.STOPPED)

    def announce(self) -> None:
        """Tell everybody how it is."""
        self._report(
            ServerStatus(
                name=self.spec.name,
                transport=str(self.spec.transport),
                state=self.state,
                tools=tuple(tool.definition.name for tool in self.tools),
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
        """Tell the operator, with what its process said last."""
        said = "".join(f"\n  {line}" for line in self._stderr.lines[-_SHOWN_LINES:])
        self._warn(ServerWarning(server=self.spec.name, text=text + said))

    def warn_once(self, text: str) -> None:
        """Tell the operator what they were not told before."""
        if text not in self._told:
            if len(self._told) >= _MOST_TOLD:  # a server may rename for ever
                self._told.clear()
            self._told.add(text)
            self._warn(ServerWarning(server=self.spec.name, text=text))
