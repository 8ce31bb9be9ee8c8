"""Helpers of the tests of this room: specs of servers, a recorder, dead pids."""

from __future__ import annotations

import os
import select
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

import trio

from glyphoxa_trio.actors import SharedTask, SharedTasks, SupervisionEvent, lone_errors
from glyphoxa_trio.config import RestartConfig, ServerSpec
from glyphoxa_trio.mcp import ServerState, ServerStatus, ServerWarning
from glyphoxa_trio.tools.definition import CallContext, Tool
from glyphoxa_trio.tools.outcome import ToolResult

from .fakes import FakeServer

SERVERS = Path(__file__).parent / "servers"
TAVERN = Path(__file__).parents[2] / "config" / "servers"
QUICKLY = RestartConfig(backoff=0.01)


def plain(*habits: str, name: str = "plain", **options: Any) -> ServerSpec:
    """The server of ``servers/plain.py``, with its habits."""
    command = ("python", str(SERVERS / "plain.py"), *habits)
    options.setdefault("restart", QUICKLY)
    options.setdefault("start_timeout", 30.0)  # on a machine with other work
    return ServerSpec(name=name, command=command, **options)


@attrs.define(eq=False)
class Watcher:
    """Records the events of a server pool or a connection, and waits for some."""

    published: list[tuple[str, ServerState, tuple[Tool, ...]]] = attrs.field(
        factory=list
    )
    warnings: list[ServerWarning] = attrs.field(factory=list)
    logged: list[tuple[str, str]] = attrs.field(factory=list)
    events: list[SupervisionEvent] = attrs.field(factory=list)
    ready_at: list[float | None] = attrs.field(factory=list)  # as published
    statuses: dict[str, ServerStatus] = attrs.field(factory=dict)
    pids: set[int] = attrs.field(factory=set)
    _moved: trio.Event = attrs.field(factory=trio.Event)

    def publish(
        self,
        server: str,
        state: ServerState,
        tools: tuple[Tool, ...],
        ready_at: float | None = None,
    ) -> None:
        self.published.append((server, state, tools))
        self.ready_at.append(ready_at)
        self._move()

    def warn(self, warning: ServerWarning) -> None:
        self.warnings.append(warning)
        self._move()

    def log(self, server: str, line: str) -> None:
        self.logged.append((server, line))
        self._move()

    def report(self, status: ServerStatus) -> None:
        self.statuses[status.name] = status
        if status.pid is not None:
            self.pids.add(status.pid)
        self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    async def until(self, condition: Callable[[], bool], *, within: float = 30) -> None:
        with trio.fail_after(within):
            while not condition():
                await self._moved.wait()

    def state(self, server: str) -> ServerState | None:
        return next((s for n, s, _ in reversed(self.published) if n == server), None)

    def states(self, server: str) -> list[ServerState]:
        """The states it went through, each change once."""
        states: list[ServerState] = []
        for name, state, _ in self.published:
            if name == server and states[-1:] != [state]:
                states.append(state)
        return states

    def tools(self, server: str) -> dict[str, Tool]:
        tools = next(t for n, _, t in reversed(self.published) if n == server)
        return {tool.definition.name: tool for tool in tools}

    async def call(
        self, server: str, tool: str, /, *, deadline: float = 1e9, **arguments: Any
    ) -> ToolResult:
        """Call as a host does: through the handler, on somebody's behalf."""
        context = CallContext(deadline=trio.current_time() + deadline)
        return await asked(self.tools(server)[tool], arguments, context)


async def asked(
    tool: Tool, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Call a server's tool as a host does, whose task is not the caller's."""
    begin = getattr(tool.handler, "begin", None)
    with lone_errors():
        async with trio.open_nursery() as nursery:
            flight: SharedTask[ToolResult] = SharedTasks(nursery).start(
                tool.key,
                cast("Callable[..., Awaitable[ToolResult]]", tool.handler),
                arguments,
                context,
                begin=begin and partial(begin, arguments, context),
            )
            flight.add_waiter()
            try:
                return await flight.result()
            finally:
                flight.release()


@pytest.fixture(params=[False, True], ids=["in a task", "at once"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripted servers take calls as HTTP does, and as pipes do."""
    monkeypatch.setattr(FakeServer, "at_once", request.param)


async def gone(pid: int, *, within: float = 30) -> None:
    """Wait until a process that need not be our child is dead."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with trio.fail_after(within):
            await trio.lowlevel.wait_readable(handle)
    finally:
        os.close(handle)


def is_dead(pid: int) -> bool:
    """Whether a process has ended, also if it is not yet buried."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 0)[0])
    finally:
        os.close(handle)


def is_gone(pid: int) -> bool:
    """Whether a child of ours is dead and buried, now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
