"""Servers and tools that are made up, under the production code.

    scenery = FakeWorld(direct, {"oracle": oracle_tools})
    environment = scenery.environment()
    async with open_runtime(config, llm=model, environment=environment) as runtime:
        scenery.server("oracle").die()

Everything between a session with a server and the events of a turn is the real
thing: connections and their restarts, lists, the gate, flights, deadlines. What a
tool does when it is called, and for how long, is for the director, a function, to say.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import Any

import attrs
import outcome

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ConnectionFailed, SessionLost
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.transport import Busy, NeverSent, ToolListing
from glyphoxa_trio.runtime import Environment
from glyphoxa_trio.tools.arguments import canonical
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    Tool,
    ToolError,
)
from glyphoxa_trio.tools.outcome import ToolResult


class Ending(StrEnum):
    """The end of a call, once its seconds are over."""

    ANSWER = "answer"
    SAY_NO = "say_no"  # an answer, too
    CRASH = "crash"  # of a tool of ours a bug; of a server, its death
    HANG = "hang"  # never, unless it is cancelled
    STUBBORN = "stubborn"  # answers in the end, cancelled or not
    BUSY = "busy"  # a server did not run it; a tool of ours says no


@attrs.frozen
class Act:
    """The behaviour of a tool's call: its end, after so many seconds."""

    ending: Ending = Ending.ANSWER
    seconds: float = 0.0


Direct = Callable[[str, Mapping[str, Any]], Act]
"""Given a tool's key and the arguments of a call, decides what it does."""


@attrs.define(eq=False)
class Performance:
    """One run of a tool, where it runs: at its server, or here.

    ``arguments`` are canonical. ``over`` is None while it runs; ``complete`` is
    false if it was cancelled or lost. ``listed`` is what its server said of the tool;
    None for one in this process.
    """

    key: str
    arguments: str
    began: float
    act: Act
    over: float | None = None
    complete: bool = False
    listed: Mapping[str, Any] | None = attrs.field(default=None, repr=False)


def answer_of(key: str) -> str:
    """Return the answer of every tool here."""
    return f"{key} has answered."


@attrs.define(eq=False)
class MadeUpServer:
    """A server that plays along: it starts, lists, answers; it can be told to fail.

    Args:
      tools: what it lists, as plain MCP objects.
      lives: when each of its sessions was opened.
    """

    name: str
    tools: tuple[Mapping[str, Any], ...]
    _scenery: FakeWorld
    lives: list[float] = attrs.field(factory=list, init=False)
    _starts: float = attrs.field(default=0.0, init=False)
    _frozen: bool = attrs.field(default=False, init=False)
    _session: _Session | None = attrs.field(default=None, init=False)
    _on_tools_changed: Callable[[], None] | None = attrs.field(default=None, init=False)

    def start_after(self, seconds: float) -> None:
        """Set the seconds that a start takes from now on; infinity is never."""
        self._starts = seconds

    def die(self) -> None:
        """End its process; its supervisor starts it again."""
        if self._session is not None:
            self._session.loss.report("it died")

    def freeze(self) -> None:
        """From now on it neither answers nor lists, in no session, until `thaw`."""
        self._frozen = True

    def thaw(self) -> None:
        self._frozen = False

    def offer(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Replace its list of tools, and tell its clients that it changed."""
        self.tools = tuple(tools)
        if self._on_tools_changed is not None:
            self._on_tools_changed()

    @asynccontextmanager
    async def open(
        self, spec: ServerSpec, on_tools_changed: Callable[[], None]
    ) -> AsyncGenerator[_Session]:
        with trio.move_on_after(spec.start_timeout) as patience:
            await trio.sleep(self._starts)
        if patience.cancelled_caught or self._starts >= spec.start_timeout:
            raise ConnectionFailed("no handshake in time")
        async with trio.open_nursery() as nursery:
            session = _Session(self, nursery, at_once=spec.url is None)
            self._session, self._on_tools_changed = session, on_tools_changed
            self.lives.append(trio.current_time())
            try:
                yield session
            finally:
                session.loss.report("closed")
                if self._session is session:
                    self._session = self._on_tools_changed = None
                nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class _Session:
    _server: MadeUpServer
    _nursery: trio.Nursery
    _at_once: bool  # as over a pipe
    pid: int | None = None
    timed: bool = True
    loss: SessionLost = attrs.field(factory=SessionLost, init=False)

    def asking(self, before: float = 0.0) -> float:
        return 0.0

    async def list_tools(self) -> ToolListing:
        await self._unless_frozen()
        return ToolListing(self._server.tools)

    async def ping(self) -> bool:
        await self._unless_frozen()
        return False  # its answer is that it does not know pings

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if self.loss.why is not None:
            raise NeverSent(self.loss.why)
        await self._unless_frozen()
        listed = next((x for x in self._server.tools if x.get("name") == name), None)
        if listed is None:
            raise ToolError(f"unknown tool {name}")
        key = f"{self._server.name}.{name}"
        run = self._server._scenery.begin(key, arguments, listed)
        if run.act.ending is Ending.BUSY:
            self._server._scenery.end(run)
            raise Busy("too many requests")
        over, scope = trio.Event(), trio.CancelScope()
        self._nursery.start_soon(self._perform, run, over, scope)
        try:
            await self._or_lost(over)
        except BaseException:  # cancelled, alone or as a group
            if run.act.ending is not Ending.STUBBORN:
                scope.cancel()  # as the notification tells a server
            raise
        if not run.complete:
            raise ConnectionLost(self.loss.why or "it died")
        refused = run.act.ending is Ending.SAY_NO
        text = {"type": "text", "text": "No." if refused else answer_of(key)}
        return {"content": [text], "isError": refused}

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        raise ToolError(f"no such method: {method}")

    def begin_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        sent: Callable[[], None],
        settle: Callable[[outcome.Maybe[Mapping[str, Any]]], None],
    ) -> Callable[[], None] | None:
        if not self._at_once:
            return None
        sent()
        scope = trio.CancelScope()

        async def call() -> None:
            end: outcome.Maybe[Mapping[str, Any]]
            end = outcome.Error(ConnectionLost(self.loss.why or "it died"))
            try:
                with scope:
                    try:
                        answer = await self.call_tool(name, arguments, meta)
                        end = outcome.Value(answer)
                    except GlyphoxaError as error:
                        end = outcome.Error(error)
            finally:
                if not scope.cancel_called:
                    settle(end)

        self._nursery.start_soon(call)
        return partial(scope.cancel, "no caller waits for it")

    async def _perform(
        self, run: Performance, over: trio.Event, scope: trio.CancelScope
    ) -> None:
        try:
            with scope:
                await trio.sleep(run.act.seconds)
                if run.act.ending is Ending.HANG:
                    await trio.sleep_forever()
                run.complete = run.act.ending is not Ending.CRASH
        finally:
            self._server._scenery.end(run)
            over.set()
            if run.act.ending is Ending.CRASH and not scope.cancelled_caught:
                self.loss.report("it died of a call")

    async def _or_lost(self, over: trio.Event) -> None:
        """Until the call is over or the session is gone, whichever comes first."""
        async with trio.open_nursery() as nursery:

            async def lost() -> None:
                await self.loss.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(lost)
            await over.wait()
            nursery.cancel_scope.cancel()

    async def _unless_frozen(self) -> None:
        if self._server._frozen:
            await self.loss.wait()
            raise ConnectionLost("it did not answer")
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class FakeWorld:
    """All that is made up in one run, and a journal of what ran, in order.

    Args:
      direct: asked at each run of a tool what it does.
      offers: what each server lists, by its name; one that is not in here lists
        nothing.
      rng: of whatever is left to chance between them and the runtime.
      caches: False makes every call a call, whatever a tool says of its results:
        made-up arguments are all the same, and those of a conversation are not.
    """

    direct: Direct
    offers: Mapping[str, tuple[Mapping[str, Any], ...]] = attrs.field(factory=dict)
    rng: random.Random = attrs.field(factory=partial(random.Random, 0))
    caches: bool = True
    journal: list[Performance] = attrs.field(factory=list, init=False)
    _servers: dict[str, MadeUpServer] = attrs.field(factory=dict, init=False)

    def environment(self) -> Environment:
        """For `open_runtime`."""
        return Environment(
            open_session=self._open, stand_in=self._stand_in, rng=self.rng
        )

    def server(self, name: str) -> MadeUpServer:
        if name not in self._servers:
            tools = self.offers.get(name, ())
            self._servers[name] = MadeUpServer(name, tools, scenery=self)
        return self._servers[name]

    def begin(
        self,
        key: str,
        arguments: Mapping[str, Any],
        listed: Mapping[str, Any] | None = None,
    ) -> Performance:
        act = self.direct(key, arguments)
        now = trio.current_time()
        run = Performance(key, canonical(arguments), now, act, listed=listed)
        self.journal.append(run)
        return run

    def end(self, run: Performance) -> None:
        run.over = trio.current_time()

    @asynccontextmanager
    async def _open(
        self,
        spec: ServerSpec,
        *,
        on_tools_changed: Callable[[], None],
        stderr: LastLines,
    ) -> AsyncGenerator[_Session]:
        try:
            async with self.server(spec.name).open(spec, on_tools_changed) as session:
                yield session
        except ExceptionGroup as group:  # the seam promises a plain error
            raise ConnectionFailed(str(group.exceptions[0])) from group

    def _stand_in(self, tool: Tool) -> Tool:
        if not self.caches:
            definition = attrs.evolve(tool.definition, cacheable=0.0)
            tool = attrs.evolve(tool, definition=definition)
        if tool.definition.external:  # its server plays it
            return tool
        handler = partial(self._perform, tool.key)
        return attrs.evolve(tool, handler=handler, blocking=False)

    async def _perform(
        self, key: str, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        run = self.begin(key, arguments)
        stubborn = run.act.ending is Ending.STUBBORN
        try:
            with trio.CancelScope(shield=stubborn):
                await trio.sleep(run.act.seconds)
                if run.act.ending is Ending.HANG:
                    await trio.sleep_forever()
            match run.act.ending:
                case Ending.CRASH:
                    raise RuntimeError("a bug of the tool")
                case Ending.SAY_NO | Ending.BUSY:
                    run.complete = True
                    raise ToolError("No.")
            run.complete = True
            return ToolResult(text=(answer_of(key),))
        finally:
            self.end(run)
