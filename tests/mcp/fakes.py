"""A scripted server, in place of the SDK's sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar, cast

import attrs
import outcome

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import ConnectionFailed, SessionLost
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.transport import Busy, NeverSent, ToolListing
from glyphoxa_trio.tools.definition import ConnectionLost, ToolError

TOOLS = ("echo", "sleep", "refuse", "break", "stumble", "busy", "miss", "forget")


def listing(*names: str, warnings: tuple[str, ...] = ()) -> ToolListing:
    tools = tuple({"name": name, "inputSchema": {"type": "object"}} for name in names)
    return ToolListing(tools, warnings)


@attrs.define(eq=False)
class FakeSession:
    """Tools: ``echo``, ``sleep`` for so long, ``refuse`` this call, ``break`` the
    session or ``stumble`` in it the first so many ``times``, be ``busy`` so often,
    ``miss`` it (the call never arrives) in the first so many sessions; ``forget``,
    likewise, is a server that has let go of its session; ``nonsense`` breaks the
    contract of this seam; ``play`` a script of all calls.
    """

    server: FakeServer
    pid: int | None = 4711
    loss: SessionLost = attrs.field(factory=SessionLost)
    timed: bool = True

    def asking(self, before: float = 0.0) -> float:
        return 0.0

    async def ping(self) -> bool:
        self.server.pings.append(trio.current_time())
        if self.server.dies_of_pings:
            self.loss.report("it did not understand")
            raise ConnectionLost("it did not understand")
        await trio.sleep(self.server.ping_takes)
        return self.server.knows_pings

    async def list_tools(self) -> ToolListing:
        await trio.sleep(self.server.listing_takes)
        if self.server.listing_fails:
            raise ConnectionFailed("it lists nothing today")
        return self.server.tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self.server.received.append((trio.current_time(), name, dict(meta)))
        if name == "miss" and len(self.server.attempts) <= arguments["sessions"]:
            self.loss.report("gone before it arrived")
            raise NeverSent("gone before it arrived")
        if name == "forget":
            session = len(self.server.attempts)
            if session <= arguments.get("sessions", 1):
                self.loss.report("the session has ended", forgotten=True)
                raise NeverSent("the session has ended")
        if name == "refuse":
            raise ToolError("no")
        if name == "play":
            match arguments["script"][len(self.server.received) - 1]:
                case "lost":
                    raise ConnectionLost("it broke")
                case "busy":
                    raise Busy("too many requests", 1.0)
                case "never":
                    raise NeverSent("a full pipe")
        if name == "nonsense":
            return cast("Mapping[str, Any]", None)
        if name != "busy":
            self.server.ran.append(name)
        sent = sum(one == name for _, one, _ in self.server.received)
        if name in ("break", "stumble") and sent <= arguments.get("times", 99):
            if name == "break":
                self.loss.report("it broke")
            raise ConnectionLost("it broke")
        if name == "busy" and sent <= arguments.get("times", 99):
            raise Busy("too many requests", arguments.get("retry_after"))
        await self._answered(arguments.get("seconds", 0))
        return {"content": [{"type": "text", "text": str(arguments)}]}

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
        if not self.server.at_once:
            return None
        sent()
        scope = trio.CancelScope()

        async def run() -> None:
            answer: outcome.Maybe[Mapping[str, Any]]
            with scope:
                try:
                    answer = outcome.Value(await self.call_tool(name, arguments, meta))
                except Exception as error:
                    answer = outcome.Error(error)
                if not scope.cancel_called:
                    settle(answer)

        trio.lowlevel.spawn_system_task(run)
        return partial(scope.cancel, "left")

    async def _answered(self, seconds: float) -> None:
        """Work for so long; a session's end ends its calls, as its contract says."""
        try:
            async with trio.open_nursery() as nursery:

                async def lose() -> None:
                    await self.loss.wait()
                    raise ConnectionLost("in flight")

                nursery.start_soon(lose)
                await trio.sleep(seconds)
                nursery.cancel_scope.cancel()
        except* ConnectionLost:
            lost = True
        else:
            lost = False
        if lost:
            raise ConnectionLost("in flight")


@attrs.define(eq=False)
class FakeServer:
    """Its ``script`` says what each attempt to connect meets, in order.

    ``ok`` connects, ``refuse`` and ``hang`` do not, a number connects and is
    lost after so many seconds; when the script is over, all is ``ok``.

    If it takes calls ``at_once``, they need no task of ours, as over a pipe.
    """

    at_once: ClassVar[bool] = False

    script: Sequence[str | float] = ()
    tools: ToolListing = attrs.field(factory=lambda: listing(*TOOLS))
    listing_takes: float = 0.0
    listing_fails: bool = False
    ping_takes: float = 0.0
    knows_pings: bool = False
    dies_of_pings: bool = False
    starting_takes: float = 0.0
    timed: bool = True
    pings: list[float] = attrs.field(factory=list)
    goodbye_takes: float = 0.0
    closing_takes: float = 0.0
    goodbyes: list[float] = attrs.field(factory=list)
    attempts: list[float] = attrs.field(factory=list)
    received: list[tuple[float, str, dict[str, Any]]] = attrs.field(factory=list)
    ran: list[str] = attrs.field(factory=list)  # or began to
    session: FakeSession | None = None
    changed: Callable[[], None] | None = None

    @asynccontextmanager
    async def open(
        self,
        spec: ServerSpec,
        *,
        on_tools_changed: Callable[[], None],
        stderr: LastLines,
    ) -> AsyncGenerator[FakeSession]:
        attempt = len(self.attempts)
        self.attempts.append(trio.current_time())
        line = self.script[attempt] if attempt < len(self.script) else "ok"
        if line == "refuse":
            stderr.feed(b"the cellar is flooded\n")
            raise ConnectionFailed("refused")
        if line == "hang":
            await trio.sleep(spec.start_timeout)
            raise ConnectionFailed("no handshake")
        await trio.sleep(self.starting_takes)
        self.changed = on_tools_changed
        session = self.session = FakeSession(self, timed=self.timed)

        async def end(seconds: float) -> None:
            await trio.sleep(seconds)
            session.loss.report("it died")

        try:
            async with trio.open_nursery() as nursery:
                if isinstance(line, int | float):
                    nursery.start_soon(end, line)
                yield session
                await trio.sleep(self.goodbye_takes)
                self.goodbyes.append(trio.current_time())
                nursery.cancel_scope.cancel()
        except ExceptionGroup as group:  # the seam promises a plain error
            raise ConnectionFailed(str(group.exceptions[0])) from group
        finally:
            session.loss.report("closed")
            self.session = None
            with trio.CancelScope(shield=True):
                await trio.sleep(self.closing_takes)
