"""The actor that owns the connection to one server.

It starts the server, lists its tools, serves calls in parallel, and begins
again when the server is lost (D17). A call that comes while there is no session
waits for one, within its own asker's patience; once the server has *failed* it
is refused at once (D5). A tool of a server is a `Tool` whose handler asks this
actor, so nobody above needs to know that there is a server.

Calls run beside the session, not inside it: whatever tears a session down, they
end with a meaning, and one call's error never costs the others their session.

Above 300 lines, because an actor's state and all that touches it stand together.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import attrs
import outcome

import trio

from glyphoxa_trio.actors import (
    Backoff,
    Call,
    Failed,
    Inbox,
    Landing,
    OnEvent,
    Ref,
    Request,
    Restarting,
    Signal,
    Started,
    SupervisionEvent,
    crash_report,
    spawn,
)
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.secrecy import mask_of
from glyphoxa_trio.errors import ActorGone, GlyphoxaError
from glyphoxa_trio.tools.consent import Purpose, unasked
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    Tool,
    ToolDefinition,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.units import in_ms, milliseconds

from .calls import CallTool, ConnectionMessages, Delivery, Sent
from .known import Known, Memory
from .liveness import Liveness
from .lives import Starts, keep_alive
from .metadata import PREFIX, compile_schemas, describe_in_turn, in_turn, result_of
from .opening import open_session
from .process import LastLines
from .resources import READER
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .transport import (
    Busy,
    ConnectionFailed,
    Listing,
    Loss,
    NeverSent,
    OpenSession,
    Session,
)

_BACKSTOP: Final = 1.0  # the executor owns the deadline; this only catches its bugs
# A first turn goes before sixteen processes that would compete with it for the
# machine, if their tools are known; a call of one starts its server at once.
_HEAD_START: Final = 0.2
_GOODBYE: Final = 1.0  # seconds to tell a server that the session ends
_SOON: Final = 0.05  # seconds; a shorter wait is not worth telling
_RELIST_PAUSE: Final = 0.1  # a server that changes its tools all the time
_SHOWN_LINES: Final = 5


# A fault of ours in here must not end the runtime, nor spin.
_AFTER_A_FAULT: Final = Backoff(first=1.0, ceiling=60.0, max_restarts=1_000_000)
_MOST_TOLD: Final = 200
_FORGETFUL: Final = 1.0  # seconds; sessions that are shorter count as failures


class _TooSlow(ConnectionFailed):
    """The tools were not listed in time."""


@attrs.frozen
class Drain(Request[ConnectionMessages, None]):
    """Answered as soon as no call is in flight."""


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
    known: Known | None = None,
    rng: random.Random | None = None,
) -> Ref[ConnectionMessages]:
    """Start the connection of ``spec``; it needs no further care.

    Stop it with `Ref.stop`: it says goodbye, ends the server's process and is
    gone within 2 s. None of the callables may block or raise.

    Args:
      publish: told of each state and its tools; `STOPPED` comes without any.
      warn: told of what the operator should see.
      report: told whenever the status changes.
      log: told of what the server writes to stderr, rate-limited.
      on_event: told of lives, failures and restarts.
      known: where the tools of the last run are, and those of this one go.
    """
    connection = _Connection(
        spec=spec,
        publish=publish,
        warn=warn,
        report=report,
        log=log,
        on_event=on_event,
        open_session=open_session,
        memory=Memory(known, spec),
        rng=rng,
    )
    connection.ref = spawn(
        nursery,
        connection.run,
        name=f"mcp {spec.name}",
        restart=_AFTER_A_FAULT,
        on_event=connection.on_fault,
    )
    return connection.ref


@attrs.define(eq=False, kw_only=True)
class _Connection:
    """The state of one connection, owned by the actor that runs `run`."""

    spec: ServerSpec
    publish: Publish
    warn: Callable[[ServerWarning], None]
    report: Callable[[ServerStatus], None]
    log: Callable[[str], None] | None
    on_event: OnEvent | None
    open_session: OpenSession
    _memory: Memory
    rng: random.Random | None
    ref: Ref[ConnectionMessages] = attrs.field(init=False)
    state: ServerState = attrs.field(default=ServerState.STARTING, init=False)
    _since: float = attrs.field(factory=trio.current_time, init=False)
    _tools: tuple[Tool, ...] = attrs.field(default=(), init=False)
    _session: Session | None = attrs.field(default=None, init=False)
    _turned: Signal = attrs.field(factory=Signal, init=False)
    _list_changed: Signal = attrs.field(factory=Signal, init=False)
    _stopping: trio.Event = attrs.field(factory=trio.Event, init=False)
    _wanted: trio.Event = attrs.field(factory=trio.Event, init=False)
    _in_flight: int = attrs.field(default=0, init=False)
    _idle: Signal = attrs.field(factory=Signal, init=False)
    _liveness: Liveness = attrs.field(init=False)
    _starts: Starts = attrs.field(factory=Starts, init=False)
    _listed: Listing = attrs.field(factory=lambda: Listing(()), init=False)
    _stderr: LastLines = attrs.field(factory=LastLines, init=False)
    _begun: int = attrs.field(default=0, init=False)
    _served: bool = attrs.field(default=False, init=False)
    _warned: bool = attrs.field(default=False, init=False)
    _told: set[str] = attrs.field(factory=set, init=False)
    _last_error: str | None = attrs.field(default=None, init=False)

    @_liveness.default
    def _unheard(self) -> Liveness:
        return Liveness(self.spec.timeout)

    # -------------------------------------------------------------- the actor

    async def run(self, inbox: Inbox[ConnectionMessages]) -> None:
        """Serve calls until stopped, whatever becomes of the server meanwhile."""
        self._stopping = trio.Event()
        over = trio.Event()

        async def live() -> None:
            try:
                if self._tools:  # of the last run: nobody waits for its process
                    lazily = self.state is ServerState.IDLE
                    with trio.move_on_after(math.inf if lazily else _HEAD_START):
                        await self._wanted.wait()
                    self._become(ServerState.STARTING)
                await keep_alive(
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
            lazily = self.spec.lazy and bool(self._tools)
            if not lazily:
                self._starts.begin(after=_HEAD_START if self._tools else 0.0)
            self._become(ServerState.IDLE if lazily else ServerState.STARTING)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live)
                nursery.start_soon(self._keep_known)
                async for call in inbox:
                    nursery.start_soon(self._answer, call)
                polite = _GOODBYE if self._session is not None else 0
                self._stopping.set()
                self._turned.set()  # calls that wait for a session wait in vain
                with trio.move_on_after(polite):
                    await over.wait()
                nursery.cancel_scope.cancel()
            await self._keep()  # what came at the very end
        finally:
            self._session = None
            self._tools = ()
            self._become(ServerState.STOPPED)

    async def _answer(self, call: Call[ConnectionMessages]) -> None:
        with call.answering():
            if isinstance(call.request, Drain):
                await self._idle.until(lambda: not self._in_flight)
                call.reply(None)
                return
            if not isinstance(call.request, CallTool):
                return  # its asker hears that nobody knows it
            self._in_flight += 1
            try:
                delivery = Delivery(call.request, self._ready_for, self._meta)
                answer = await delivery.run()
                self._liveness.heard()
                call.reply(result_of(answer))
            except ToolError:
                self._liveness.heard()
                raise
            except BaseException as error:
                if not isinstance(error, Exception):  # cancelled, alone or as a group
                    self._left_unanswered(call.request)
                raise
            finally:
                self._one_less()

    def _left_unanswered(self, request: CallTool) -> None:
        """Note that nobody waits for this call any more. If its time was up, the server
        may hang; an interruption says nothing about the server."""
        sent, now = request.sent.at, trio.current_time()
        if (
            self._session is not None
            and sent is not None
            and now >= min(request.deadline, request.awaited_until)
        ):
            self._liveness.cut(sent)

    async def _ready_for(self, request: CallTool) -> Session:
        """The session, if there is one while somebody still waits for the call.

        Raises:
          ToolUnavailable: just before that moment, so that the call ends with what
            is true of it: it was not sent. Or as `_ready`.
        """
        session = self._session
        if session is not None and session.loss.why is None:
            return session
        with trio.move_on_at(request.until):
            return await self._ready()
        text = f"{self.spec.name} is {self.state}{self._when()} and was not asked"
        raise ToolUnavailable(text)

    def _when(self) -> str:
        """When the server is ready, for a model: ``, ready in about 1.2 s,`` if that is
        known."""
        left = self._starts.left
        return f", ready in about {left:.1f} s," if left >= _SOON else ""

    async def _ready(self) -> Session:
        """The session, waiting for one as long as there is hope.

        Raises:
          ToolUnavailable: if the server has failed or is being stopped.
        """
        self._wanted.set()
        while True:
            if self.state is ServerState.FAILED:
                raise ToolUnavailable(
                    f"{self.spec.name} has failed: {self._last_error}"
                )
            if self._stopping.is_set():
                raise ToolUnavailable(f"{self.spec.name} is being stopped")
            if self._session is not None and self._session.loss.why is None:
                return self._session
            await self._turned.changed()

    def _meta(self, request: CallTool) -> dict[str, Any]:
        """How long the answer is of use, for servers that care."""
        until = min(request.deadline, request.awaited_until)
        remaining = min(until - trio.current_time(), self.spec.timeout)
        return {f"{PREFIX}remaining_ms": max(0, milliseconds(remaining))}

    # ------------------------------------------------------ from run to run

    async def _remember(self) -> None:
        """Begin with the tools of the last run, if they are known."""
        listing = await self._memory.recall()
        if listing is not None:
            self._starts.recall(listing.start)
            await self._adopt(listing, sound=True)

    async def _keep_known(self) -> None:
        """Write down each new list; never on the way of a call."""
        while True:
            await self._keep()
            await self._turned.changed()

    async def _keep(self) -> None:
        kept: Listing | None = None
        while kept is not self._listed:
            kept = self._listed
            await self._memory.keep(kept)

    # --------------------------------------------------------------- its lives

    async def _life(self) -> None:
        """Serve until the server is lost or not wanted any more.

        A server that has only forgotten a session, as those do that were idle or
        were restarted, is no failure: the next session begins at once, if the last
        one was not over as soon as it began.

        Raises:
          ConnectionFailed: if it could not be reached, or was lost.
        """
        while True:
            born = trio.current_time()
            lost = await self._serve()
            if lost is None or lost.why is None:
                return
            if not lost.forgotten or trio.current_time() - born < _FORGETFUL:
                raise ConnectionFailed(lost.why)

    async def _serve(self) -> Loss | None:
        """One session, to its end: how it was lost, None if it is not wanted.

        Raises:
          ConnectionFailed: if it could not be opened, or broke.
        """
        self._served = False
        self._list_changed = Signal()
        self._stderr = LastLines(mask_of(self.spec), self.log)
        born = trio.current_time()
        patience = born + self.spec.start_timeout
        self._expect()
        lost: Loss | None = None
        try:
            async with self.open_session(
                self.spec,
                on_tools_changed=self._on_tools_changed,
                stderr=self._stderr,
            ) as session:
                listing = await self._list(session, until=patience)
                self._starts.note(trio.current_time() - born, timed=session.timed)
                self._liveness.heard()
                await self._adopt(listing)
                self._session = session
                self._served = True
                self._warned = False
                self._become(ServerState.READY)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._follow, session)
                    nursery.start_soon(self._time_round_trip, session)
                    nursery.start_soon(self._liveness.watch, session)
                    nursery.start_soon(
                        _cancel_when, self._stopping, nursery.cancel_scope
                    )
                    await session.loss.wait()
                    lost = session.loss
                    nursery.cancel_scope.cancel()
                self._lose()
        finally:
            self._lose()
        return lost

    async def _list(self, session: Session, *, until: float) -> Listing:
        with trio.move_on_at(until):
            listing = await session.list_tools()
            await compile_schemas(self.spec, listing.tools)
            return listing
        limit = in_ms(self.spec.start_timeout)
        raise _TooSlow(f"no list of tools within {limit}")

    async def _follow(self, session: Session) -> None:
        """Read the list again whenever the server says that it changed."""
        while True:
            await self._list_changed.take()
            try:
                until = trio.current_time() + self.spec.start_timeout
                await self._adopt(await self._list(session, until=until))
            except GlyphoxaError as error:
                if session.loss.why is not None:
                    pass  # there are worse news to come
                elif isinstance(error, _TooSlow) and self.spec.url is not None:
                    # Nothing else tells of an HTTP connection that only we hold open.
                    session.loss.report(f"it does not answer any more: {error}")
                else:
                    self._warn_once(f"its changed tools are not known: {error}")
            else:
                self._liveness.heard()
                self._announce()
            await trio.sleep(_RELIST_PAUSE)

    async def _time_round_trip(self, session: Session) -> None:
        """Measure the round trip of a new session, while it serves calls already."""
        if await self._liveness.time(session):
            before = None
            while before is not self._tools:  # another list may come in between
                before = self._tools
                timed = [self._timed(tool) async for tool in in_turn(before)]
            self._tools = tuple(timed)
            self._announce()

    def _timed(self, tool: Tool) -> Tool:
        took = self._liveness.round_trip
        definition = attrs.evolve(tool.definition, round_trip=took)
        return attrs.evolve(tool, definition=definition)

    def _expect(self, *, after: float = 0.0) -> None:
        """A start begins ``after`` so many seconds: announce when it should be over."""
        if self.state is not ServerState.FAILED and self._starts.begin(after=after):
            self._announce()

    def _on_tools_changed(self) -> None:
        self._list_changed.set()

    def _lose(self) -> None:
        """Calls from now on wait; not after the process has ended, but at once."""
        if self._session is not None:
            self._session = None
            if not self._stopping.is_set():
                self._starts.begin()
                self._become(ServerState.RESTARTING)

    def _on_event(self, event: SupervisionEvent) -> None:
        match event:
            case Started():
                self._begun += 1
            case Failed(error=error):
                self._last_error = str(error) or type(error).__name__
                if not self._warned:
                    self._warned = True
                    self._warn(self._last_error)
                if self.state is not ServerState.FAILED:
                    self._become(ServerState.RESTARTING)
            case Restarting(delay=delay):
                self._expect(after=delay)
        if self.on_event is not None:
            self.on_event(event)

    def _give_up(self) -> None:
        if self.state is not ServerState.FAILED:
            retried = self.spec.restart.enabled
            next_step = "tried once a minute" if retried else "not tried again"
            self._warn(f"has failed, and is {next_step}: {self._last_error}")
            self._become(ServerState.FAILED)

    # ------------------------------------------------------- what others see

    async def _adopt(self, listing: Listing, *, sound: bool = False) -> None:
        described = await describe_in_turn(self.spec, listing.tools, sound=sound)
        reader = READER if READER in listing.tools else {}
        tools = [
            self._tool(
                definition,
                described.fingerprints[definition.name],
                reader=definition.name == reader.get("name"),
            )
            async for definition in in_turn(described.definitions)
        ]
        self._listed = attrs.evolve(listing, start=self._starts.first)
        self._tools = tuple(tools)
        for text in (*listing.warnings, *described.warnings):
            self._warn_once(text)

    def _tool(
        self, definition: ToolDefinition, fingerprint: str, *, reader: bool
    ) -> Tool:
        repeatable = unasked(definition, Purpose.RETRY) is None
        handler = _Handler(self, definition.name, repeatable)
        definition = attrs.evolve(definition, round_trip=self._liveness.round_trip)
        return Tool(
            definition=definition,
            handler=handler,
            fingerprint=fingerprint,
            remote=True,
            reads_resources=reader,
        )

    async def ask(self, request: CallTool) -> ToolResult:
        """Call a tool by way of the mailbox, wherever the server is now.

        Raises:
          ToolError, ToolUnavailable, ConnectionLost: as `Session.call_tool`.
        """
        if self.state is ServerState.STOPPED:
            raise ToolUnavailable(f"{self.spec.name} is stopped")
        try:
            return await self.ref.ask(request, within=self.spec.timeout + _BACKSTOP)
        except ActorGone as error:
            if request.sent.at is not None:
                raise ConnectionLost(f"{self.spec.name} stopped") from error
            raise ToolUnavailable(f"{self.spec.name} is stopped") from error

    def begin(
        self, request: CallTool, landing: Landing[ToolResult]
    ) -> Callable[[], None] | None:
        """Send a call now, past the mailbox and without a task, if there is a session
        that can; returns what leaves it, or None."""
        session = self._session
        if session is None or session.loss.why is not None or self._stopping.is_set():
            return None

        def settle(answer: outcome.Maybe[Mapping[str, Any]]) -> None:
            self._one_less()
            match answer:
                case outcome.Value(result):
                    self._liveness.heard()
                    landing.land(outcome.capture(result_of, result))
                case outcome.Error(ToolError()):
                    self._liveness.heard()
                    landing.land(answer)
                case outcome.Error(Exception() as error) if self._may_go_on(
                    session, request, error
                ):
                    again = attrs.evolve(request, met=error)
                    landing.go_on(partial(self.ask, again))
                case _:
                    landing.land(answer)

        forget = session.begin_call(
            request.tool,
            request.arguments,
            self._meta(request),
            sent=request.sent.note,
            settle=settle,
        )
        if forget is None:
            return None
        self._in_flight += 1
        return partial(self._leave, request, forget)

    def _leave(self, request: CallTool, forget: Callable[[], None]) -> None:
        forget()
        self._one_less()
        self._left_unanswered(request)

    def _may_go_on(self, session: Session, request: CallTool, error: Exception) -> bool:
        """Whether what did not go well at once may do so another time."""
        match error:
            case NeverSent():
                request.sent.take_back()
                return session.loss.why is not None
            case ConnectionLost():
                return request.repeatable
        return isinstance(error, Busy)

    def _one_less(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()

    def _become(self, state: ServerState) -> None:
        if state is not self.state:
            self.state = state
            self._since = trio.current_time()
        if state not in (ServerState.STARTING, ServerState.RESTARTING):
            self._starts.over()
        self._announce()

    def _announce(self) -> None:
        self.report(
            ServerStatus(
                name=self.spec.name,
                transport=str(self.spec.transport),
                state=self.state,
                tools=tuple(tool.definition.name for tool in self._tools),
                restarts=max(0, self._begun - 1),
                since=self._since,
                last_error=self._last_error,
                pid=self._session.pid if self._session is not None else None,
                ready_at=self._starts.ready_at,
            )
        )
        ready_at = self._starts.ready_at
        self.publish(self.spec.name, self.state, self._tools, ready_at)
        self._turned.set()

    def _warn(self, text: str) -> None:
        said = "".join(f"\n  {line}" for line in self._stderr.lines[-_SHOWN_LINES:])
        self.warn(ServerWarning(server=self.spec.name, text=text + said))

    def on_fault(self, event: SupervisionEvent) -> None:
        """Told when this actor itself crashed, which nothing should bring about."""
        if isinstance(event, Failed):
            self._warn(crash_report(event))

    def _warn_once(self, text: str) -> None:
        if text not in self._told:
            if len(self._told) >= _MOST_TOLD:  # a server may rename for ever
                self._told.clear()
            self._told.add(text)
            self.warn(ServerWarning(server=self.spec.name, text=text))


@attrs.frozen(eq=False)
class _Handler:
    """The code behind one tool of a server."""

    _connection: _Connection = attrs.field(repr=False)
    _tool: str
    _repeatable: bool

    async def __call__(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        return await self._connection.ask(self._request(arguments, context))

    def begin(
        self,
        arguments: Mapping[str, Any],
        context: CallContext,
        landing: Landing[ToolResult],
    ) -> Callable[[], None] | None:
        """As calling it, without a task; see `Flights.launch`."""
        return self._connection.begin(self._request(arguments, context), landing)

    def _request(self, arguments: Mapping[str, Any], context: CallContext) -> CallTool:
        return CallTool(
            self._tool,
            arguments,
            context.deadline,
            context.awaited_until,
            self._repeatable,
            sent=Sent(context.sent),
        )


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
