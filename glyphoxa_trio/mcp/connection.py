"""The actor that owns the connection to one server.

It starts the server, lists its tools, serves calls in parallel, and reconnects when the
server is lost. A call that comes while there is no session waits for one, as long as
its caller waits; once the server has *failed*, calls are refused at once. A tool of a
server is a `Tool` whose handler asks this actor, so code above this package does not
need to know about servers.

Calls run beside the session, not inside it: whatever tears a session down, each call
ends with a result or an error that says what happened, and the error of one call does
not end the session of the others.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import (
    Backoff,
    Call,
    Failed,
    Handover,
    Inbox,
    OnEvent,
    Ref,
    Restarting,
    Signal,
    Started,
    SupervisionEvent,
    TaskResult,
    crash_report,
    spawn,
)
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.secrecy import mask_of
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.consent import Purpose, unasked
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolDefinition,
)
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.units import in_ms

from .board import Board
from .branches import Branches
from .calls import InFlightCalls
from .liveness import Liveness
from .messages import (
    AskServer,
    CallTool,
    ConnectionMessages,
    Drain,
    SendAttempt,
)
from .metadata import compile_schemas, describe_in_turn, in_turn
from .opening import open_session
from .process import LastLines
from .prompts import described as described_prompts
from .resources import READER, TOOLS
from .restart_policy import run_with_restarts
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .tool_cache import ServerToolCache, ToolCache
from .transport import (
    ConnectionFailed,
    OpenSession,
    ServerSession,
    SessionLost,
    ToolListing,
)

# The first turn should not compete for the processor with sixteen servers that start.
# If a server's tools are known, it starts this much later, or when a tool is called.
_HEAD_START: Final = 0.2
_GOODBYE: Final = 1.0  # seconds to tell a server that the session ends
# Seconds between two readings of the list of a server that keeps changing it.
_RELIST_PAUSE: Final = 0.1


# A fault in this actor must not end the runtime, nor restart in a busy loop.
_AFTER_A_FAULT: Final = Backoff(first=1.0, ceiling=60.0, max_restarts=1_000_000)
# Seconds; the loss of a session that was shorter counts as a failure.
_FORGETFUL: Final = 1.0


class _TooSlow(ConnectionFailed):
    """The tools were not listed in time."""


def spawn_connection(
    nursery: trio.Nursery,
    spec: ServerSpec,
    *,
    publish: Publish,
    warn: Callable[[ServerWarning], None],
    report: Callable[[ServerStatus], None],
    log: Callable[[str], None] | None = None,
    on_event: OnEvent | None = None,
    open_session: OpenSession = open_session,
    known: ToolCache | None = None,
    rng: random.Random | None = None,
    handover: Handover | None = None,
    branches: Branches | None = None,
) -> Ref[ConnectionMessages]:
    """Start the connection actor of ``spec`` in ``nursery``.

    Stop it with `Ref.stop`: it ends the session, then the server's process, within 2 s.
    The callables must neither block nor raise.

    Args:
      publish: called with each state and its tools; `STOPPED` comes without tools.
      warn: called with what the operator should see.
      report: called whenever the status changes.
      log: called with the lines that the server writes to stderr, rate-limited.
      on_event: called on starts, failures and restarts of the server.
      open_session: opens a session; for tests.
      known: the cache that holds the tool lists of the last run, and takes new ones.
      rng: the source of jitter for restart delays.
      handover: passes attempts from callers that do not use the tools' handlers.
      branches: the session connections; None if one connection serves all sessions.
    """
    memory = ServerToolCache(known, spec)  # they outlive a crash of the actor
    handover = handover or Handover()

    def live(inbox: Inbox[ConnectionMessages]) -> Awaitable[None]:
        board = Board(spec=spec, publish=publish, report=report, warn=warn)
        liveness = Liveness(spec.timeout)
        return _Connection(
            board=board,
            calls=InFlightCalls(
                board=board, liveness=liveness, ref=ref, handover=handover
            ),
            liveness=liveness,
            log=log,
            on_event=on_event,
            open_session=open_session,
            memory=memory,
            rng=rng,
            branches=branches,
        ).run(inbox)

    def on_fault(event: SupervisionEvent) -> None:
        """Warn about a crash of this actor itself, which is always a fault of ours."""
        if isinstance(event, Failed):
            warn(ServerWarning(server=spec.name, text=crash_report(event)))

    ref: Ref[ConnectionMessages] = spawn(
        nursery,
        live,
        name=f"mcp {spec.name}",
        restart=_AFTER_A_FAULT,
        on_event=on_fault,
    )
    return ref


@attrs.define(eq=False, kw_only=True)
class _Connection:
    """One life of the actor."""

    board: Board
    calls: InFlightCalls
    _liveness: Liveness
    log: Callable[[str], None] | None
    on_event: OnEvent | None
    open_session: OpenSession
    _memory: ServerToolCache
    rng: random.Random | None
    _branches: Branches | None
    _list_changed: Signal = attrs.field(factory=Signal, init=False)
    _listed: ToolListing = attrs.field(factory=lambda: ToolListing(()), init=False)
    _served: bool = attrs.field(default=False, init=False)
    _warned: bool = attrs.field(default=False, init=False)

    @property
    def spec(self) -> ServerSpec:
        return self.board.spec

    # -------------------------------------------------------------- the actor

    async def run(self, inbox: Inbox[ConnectionMessages]) -> None:
        """Serve calls until stopped, whatever happens to the server meanwhile."""
        over = trio.Event()

        async def live() -> None:
            try:
                if self.board.tools:  # of the last run: no call waits for the process
                    lazily = self.board.state is ServerState.IDLE
                    with trio.move_on_after(math.inf if lazily else _HEAD_START):
                        await self.board.wanted.wait()
                    self.board.become(ServerState.STARTING)
                await run_with_restarts(
                    self._life,
                    self.spec.restart,
                    name=self.spec.name,
                    served=lambda: self._served,
                    on_failed=self._give_up,
                    on_event=self._on_event,
                    rng=self.rng,
                )
            finally:
                over.set()

        try:
            await self._remember()
            lazily = self.spec.lazy and bool(self.board.tools)
            if not lazily:
                self.board.starts.begin(after=_HEAD_START if self.board.tools else 0.0)
            self.board.become(ServerState.IDLE if lazily else ServerState.STARTING)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live)
                nursery.start_soon(self._keep_known)
                async for call in inbox:
                    nursery.start_soon(self._answer, call)
                polite = _GOODBYE if self.board.session is not None else 0
                self.board.stop()
                with trio.move_on_after(polite):
                    await over.wait()
                nursery.cancel_scope.cancel()
            await self._keep()  # lists that came at the very end
        finally:
            self.board.close()

    async def _answer(self, call: Call[ConnectionMessages]) -> None:
        """Answer one message of the mailbox."""
        with call.answering():
            match call.request:
                case Drain():
                    await self.calls.drain()
                    call.reply(None)
                case CallTool() as request:
                    call.reply(await self.calls.answer(request))
                case AskServer() as request:
                    call.reply(await self.calls.forward(request))

    # ------------------------------------------------------ from run to run

    async def _remember(self) -> None:
        """Start with the tools of the last run, if they are cached."""
        listing = await self._memory.recall()
        if listing is not None:
            self.board.starts.recall(listing.start)
            await self._adopt(listing, sound=True)

    async def _keep_known(self) -> None:
        """Write each new list to the cache; calls do not wait for that."""
        while True:
            await self._keep()
            await self.board.turned.changed()

    async def _keep(self) -> None:
        """Write the list, and again if a newer one came meanwhile."""
        kept: ToolListing | None = None
        while kept is not self._listed:
            kept = self._listed
            await self._memory.keep(kept)

    # --------------------------------------------------------------- its lives

    async def _life(self) -> None:
        """Serve until the server is lost or no longer needed.

        A server that has only forgotten the session, as servers do that were idle or
        were restarted, has not failed: the next session begins at once, unless the last
        one was shorter than a second.

        Raises:
          ConnectionFailed: if the server could not be reached, or was lost.
        """
        while True:
            born = trio.current_time()
            lost = await self._serve()
            if lost is None or lost.why is None:
                return
            if not lost.forgotten or trio.current_time() - born < _FORGETFUL:
                raise ConnectionFailed(lost.why)

    async def _serve(self) -> SessionLost | None:
        """Run one session to its end.

        Returns how the session was lost; None if the server is no longer needed.

        Raises:
          ConnectionFailed: if the session could not be opened, or broke.
        """
        self._served = False
        self._list_changed = Signal()
        stderr = LastLines(mask_of(self.spec), self.log)
        self.board.listen_to(stderr)
        born = trio.current_time()
        patience = born + self.spec.start_timeout
        self.board.expect()
        lost: SessionLost | None = None
        try:
            async with self.open_session(
                self.spec,
                on_tools_changed=self._on_tools_changed,
                stderr=stderr,
            ) as session:
                listing = await self._list(session, until=patience)
                self.board.starts.note(trio.current_time() - born, timed=session.timed)
                self._liveness.heard()
                await self._adopt(listing)
                self._served = True
                self._warned = False
                self.board.serve(session)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._follow, session)
                    nursery.start_soon(self._time_round_trip, session)
                    nursery.start_soon(self._liveness.watch, session)
                    nursery.start_soon(
                        _cancel_when, self.board.stopping, nursery.cancel_scope
                    )
                    await session.loss.wait()
                    lost = session.loss
                    nursery.cancel_scope.cancel()
                self.board.lose()
        finally:
            self.board.lose()
        return lost

    async def _list(self, session: ServerSession, *, until: float) -> ToolListing:
        """Read the list of tools and compile their schemas, until ``until``.

        Raises:
          _TooSlow: if that takes longer.
        """
        with trio.move_on_at(until):
            listing = await session.list_tools()
            await compile_schemas(self.spec, listing.tools)
            return listing
        limit = in_ms(self.spec.start_timeout)
        raise _TooSlow(f"no list of tools within {limit}")

    async def _follow(self, session: ServerSession) -> None:
        """Read the list again whenever the server says that it changed."""
        while True:
            await self._list_changed.take()
            try:
                until = trio.current_time() + self.spec.start_timeout
                await self._adopt(await self._list(session, until=until))
            except GlyphoxaError as error:
                if session.loss.why is not None:
                    pass  # the loss of the session is reported elsewhere
                elif isinstance(error, _TooSlow) and self.spec.url is not None:
                    # Nothing else detects the loss of an HTTP connection that only we
                    # keep open.
                    session.loss.report(f"it does not answer any more: {error}")
                else:
                    text = f"its changed list of tools cannot be read: {error}"
                    self.board.warn_once(text)
            else:
                self._liveness.heard()
                self.board.announce()
            await trio.sleep(_RELIST_PAUSE)

    async def _time_round_trip(self, session: ServerSession) -> None:
        """Measure the round trip of a new session, while it serves calls already."""
        if await self._liveness.time(session):
            before = None
            while before is not self.board.tools:  # another list may come in between
                before = self.board.tools
                timed = [self._timed(tool) async for tool in in_turn(before)]
            self.board.offer(tuple(timed))
            self.board.announce()

    def _timed(self, tool: Tool) -> Tool:
        took = self._liveness.round_trip
        definition = attrs.evolve(tool.definition, round_trip=took)
        return attrs.evolve(tool, definition=definition)

    def _on_tools_changed(self) -> None:
        self._list_changed.set()

    def _on_event(self, event: SupervisionEvent) -> None:
        match event:
            case Started():
                self.board.began()
            case Failed(error=error):
                self.board.failed(error, warn=not self._warned)
                self._warned = True
            case Restarting(delay=delay):
                self.board.expect(after=delay)
        if self.on_event is not None:
            self.on_event(event)

    def _give_up(self) -> None:
        if self.board.state is not ServerState.FAILED:
            retried = self.spec.restart.enabled
            next_step = "retried once a minute" if retried else "not retried"
            self.board.warn(f"has failed, and is {next_step}: {self.board.last_error}")
            self.board.become(ServerState.FAILED)

    # ------------------------------------------------------- what others see

    async def _adopt(self, listing: ToolListing, *, sound: bool = False) -> None:
        """Take over a new list of tools.

        ``sound`` lists were checked in the last run, and are not checked again.
        """
        described = await describe_in_turn(self.spec, listing.tools, sound=sound)
        added = frozenset(tool["name"] for tool in TOOLS if tool in listing.tools)
        tools = [
            self._tool(
                definition,
                described.fingerprints[definition.name],
                added=definition.name in added,
            )
            async for definition in in_turn(described.definitions)
        ]
        self._listed = attrs.evolve(listing, start=self.board.starts.first)
        self.board.offer(tuple(tools))
        self.board.prompts = described_prompts(self.spec.name, listing.prompts)
        for text in (*listing.warnings, *described.warnings):
            self.board.warn_once(text)

    def _tool(
        self, definition: ToolDefinition, fingerprint: str, *, added: bool
    ) -> Tool:
        """Build the `Tool` of a definition; its handler asks this actor."""
        repeatable = unasked(definition, Purpose.RETRY) is None
        branches = self._branches
        handler = _Handler(self.calls, definition.name, repeatable, branches)
        definition = attrs.evolve(
            definition,
            round_trip=self._liveness.round_trip,
            # The answer in one session says nothing about another session.
            per_npc=definition.per_npc or branches is not None,
        )
        return Tool(
            definition=definition,
            handler=handler,
            fingerprint=fingerprint,
            remote=True,
            per_session=branches is not None,
            reads_resources=added and definition.name == READER["name"],
            added=added,
        )


@attrs.frozen(eq=False)
class _Handler:
    """The handler of one tool of a server."""

    _calls: InFlightCalls = attrs.field(repr=False)
    _tool: str
    _repeatable: bool
    _branches: Branches | None

    async def __call__(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        request, attempt = self._request(arguments, context), SendAttempt(context.sent)
        branches = self._branches
        if branches is not None and branches.serves(context):
            return await branches.ask(context, request, attempt)
        return await self._calls.ask(request, attempt)

    def begin(
        self,
        arguments: Mapping[str, Any],
        context: CallContext,
        landing: TaskResult[ToolResult],
    ) -> Callable[[], None] | None:
        """Send the call without a task; see `SharedTasks.launch`.

        Returns None if that is not possible.
        """
        if self._branches is not None:
            return None
        request = self._request(arguments, context)
        return self._calls.begin(request, SendAttempt(context.sent), landing)

    def _request(self, arguments: Mapping[str, Any], context: CallContext) -> CallTool:
        return CallTool(
            self._tool,
            arguments,
            context.deadline,
            context.awaited_until,
            self._repeatable,
            context.claim,
        )


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
