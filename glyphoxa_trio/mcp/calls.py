"""Calls to a server: when each is sent, and whether it is retried.

A call that had no effect yet (it never arrived, or the server was too busy to run it)
may be sent again. A call whose answer was lost is sent again only if its tool is
read-only or configured to be idempotent. All of this happens within the time that the
caller waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import attrs
import outcome

import trio

from glyphoxa_trio.actors import Handover, Ref, Signal, TaskResult
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import ActorGone
from glyphoxa_trio.tools.definition import ConnectionLost, ToolError, ToolUnavailable
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tracing import within
from glyphoxa_trio.units import milliseconds

from .board import Board
from .liveness import Liveness
from .messages import AskServer, CallTool, ConnectionMessages, SendAttempt
from .metadata import PREFIX, result_of
from .status import ServerState
from .transport import Busy, NeverSent, ServerSession

# Seconds; the executor enforces the deadline, this only catches its faults.
_BACKSTOP: Final = 1.0
_SOON: Final = 0.05  # seconds; a shorter wait is not worth reporting


@attrs.define(eq=False)
class RetryingCall:
    """A retrying call: sends the call, and sends it once more where that is safe.

    Args:
      request: the call.
      attempt: records when it was sent.
      ready: waits for the session; raises ToolUnavailable when there is no hope of one.
      meta: the ``_meta`` of the call, made anew for each sending.
    """

    request: CallTool
    attempt: SendAttempt
    ready: Callable[[CallTool], Awaitable[ServerSession]]
    meta: Callable[[CallTool], Mapping[str, Any]]
    _again: bool = attrs.field(default=True, init=False)

    async def run(self) -> Mapping[str, Any]:
        """Send the call, and return the server's answer.

        Raises:
          ToolError, ToolUnavailable, ConnectionLost: as `ServerSession.call_tool`.
        """
        try:
            return await self._sent(self.attempt.met)
        except ConnectionLost as error:
            if not (self._again and self.request.repeatable):
                raise
            self._again = False
            lost = error
        try:
            return await self._sent()
        except ToolUnavailable:
            # The second sending had no effect; whether the first one had is still
            # unknown.
            raise lost from None

    async def _sent(self, met: Exception | None = None) -> Mapping[str, Any]:
        """Send until the call arrives; ``met`` is an error that happened already."""
        request = self.request
        session: ServerSession | None = None
        while True:
            try:
                if met is not None:
                    error, met = met, None
                    raise error
                session = await self.ready(request)
                self.attempt.asking = partial(session.asking, session.asking())
                self.attempt.sent()
                return await session.call_tool(
                    request.tool, request.arguments, self.meta(request)
                )
            except NeverSent:
                # Try the next session. Each turn of this loop costs a session, and the
                # restart policy limits those.
                if session is not None and session.loss.why is None:
                    raise
            except Busy as busy:
                pause = busy.retry_after
                if pause is None or not self._again:
                    raise
                if trio.current_time() + pause >= request.until:
                    raise
                self._again = False
                await trio.sleep(pause)


async def ask(
    ref: Ref[ConnectionMessages],
    handover: Handover,
    spec: ServerSpec,
    request: CallTool,
    attempt: SendAttempt,
) -> ToolResult:
    """Call a tool through a connection's mailbox.

    Raises:
      ToolError, ToolUnavailable, ConnectionLost: as `ServerSession.call_tool`.
    """
    try:
        with handover.offered(attempt) as offer:
            request = attrs.evolve(request, attempt=offer)
            # Time in which a person is asked something is not the server's.
            within = spec.timeout + _BACKSTOP
            return await ref.ask(
                request, within=within, excused=lambda: attempt.asking()
            )
    except ActorGone as error:
        if attempt.at is not None:
            raise ConnectionLost(f"{spec.name} stopped") from error
        raise ToolUnavailable(f"{spec.name} is stopped") from error


@attrs.define(eq=False, kw_only=True)
class InFlightCalls:
    """The calls of one server that are in flight.

    Args:
      board: holds the session, and says when there will be one.
      liveness: is told of each answer and each time-out.
      ref: the connection whose mailbox takes the calls that have to wait.
      handover: passes attempts to the connection.
    """

    board: Board
    liveness: Liveness
    _ref: Ref[ConnectionMessages]
    _handover: Handover
    _in_flight: int = attrs.field(default=0, init=False)
    _idle: Signal = attrs.field(factory=Signal, init=False)

    async def drain(self) -> None:
        """Return as soon as no call is in flight."""
        await self._idle.until(lambda: not self._in_flight)

    async def ask(self, request: CallTool, attempt: SendAttempt) -> ToolResult:
        """Call a tool through the mailbox, whatever state the server is in.

        Raises:
          ToolError, ToolUnavailable, ConnectionLost: as `ServerSession.call_tool`.
        """
        spec = self.board.spec
        if self.board.state is ServerState.STOPPED:
            raise ToolUnavailable(f"{spec.name} is stopped")
        return await ask(self._ref, self._handover, spec, request, attempt)

    async def answer(self, request: CallTool) -> ToolResult:
        """Send a call that came through the mailbox, and return its result."""
        attempt = self._handover.take(request.attempt, SendAttempt) or SendAttempt()
        self._in_flight += 1
        try:
            delivery = RetryingCall(request, attempt, self._ready_for, self._meta)
            with within(attempt.context):
                answer = await delivery.run()
            self.liveness.heard()
            return result_of(answer)
        except ToolError:
            self.liveness.heard()
            raise
        except BaseException as error:
            if not isinstance(error, Exception):  # cancelled, alone or in a group
                self._left_unanswered(request, attempt)
            raise
        finally:
            self._one_less()

    def begin(
        self, request: CallTool, attempt: SendAttempt, landing: TaskResult[ToolResult]
    ) -> Callable[[], None] | None:
        """Send a call at once, without mailbox and task, if there is a session.

        The result goes to ``landing``. Returns the function that gives the call up;
        None if the call could not be sent this way.
        """
        session = self.board.session
        if (
            session is None
            or session.loss.why is not None
            or self.board.stopping.is_set()
        ):
            return None

        def settle(answer: outcome.Maybe[Mapping[str, Any]]) -> None:
            self._one_less()
            match answer:
                case outcome.Value(result):
                    self.liveness.heard()
                    landing.set(outcome.capture(result_of, result))
                case outcome.Error(ToolError()):
                    self.liveness.heard()
                    landing.set(answer)
                case outcome.Error(Exception() as error) if self._may_go_on(
                    session, request, attempt, error
                ):
                    attempt.met = error
                    landing.continue_with(partial(self.ask, request, attempt))
                case _:
                    landing.set(answer)

        forget = session.begin_call(
            request.tool,
            request.arguments,
            self._meta(request),
            sent=attempt.sent,
            settle=settle,
        )
        if forget is None:
            return None
        self._in_flight += 1
        return partial(self._leave, request, attempt, forget)

    def _leave(
        self, request: CallTool, attempt: SendAttempt, forget: Callable[[], None]
    ) -> None:
        """Give up a call that `begin` has sent."""
        forget()
        self._one_less()
        self._left_unanswered(request, attempt)

    def _may_go_on(
        self,
        session: ServerSession,
        request: CallTool,
        attempt: SendAttempt,
        error: Exception,
    ) -> bool:
        """Return whether a call that failed at once may be tried another time."""
        match error:
            case NeverSent():
                attempt.at = None  # it never arrived
                return session.loss.why is not None
            case ConnectionLost():
                return request.repeatable
        return isinstance(error, Busy)

    def _left_unanswered(self, request: CallTool, attempt: SendAttempt) -> None:
        """Note that the caller of a call in flight stopped waiting.

        If the call's time was up, the server may hang, and `Liveness` is told. An
        interruption says nothing about the server.
        """
        sent, now = attempt.at, trio.current_time()
        if (
            self.board.session is not None
            and sent is not None
            and now >= min(request.deadline, request.awaited_until)
        ):
            self.liveness.cut(sent)

    async def forward(self, request: AskServer) -> Mapping[str, Any]:
        """Send a request that is no call, once there is a session; return its result.

        Raises:
          ToolError, ToolUnavailable, ConnectionLost: as `ServerSession.ask`.
        """
        self._in_flight += 1
        try:
            session = await self._ready_for(request)
            answer = await session.ask(request.method, request.params)
            self.liveness.heard()
            return answer
        finally:
            self._one_less()

    async def _ready_for(self, request: CallTool | AskServer) -> ServerSession:
        """Return the session, if there is one before the caller stops waiting.

        Raises:
          ToolUnavailable: shortly before that moment, so that the call ends with the
            true reason: it was not sent. Or as `_ready`.
        """
        session = self.board.session
        if session is not None and session.loss.why is None:
            return session
        with trio.move_on_at(request.until):
            return await self._ready()
        how = f"{self.board.state}{self._when()}"
        name = self.board.spec.name
        raise ToolUnavailable(f"{name} is {how} and the call was not sent")

    def _when(self) -> str:
        """Say when the server should be ready: ``, ready in about 1.2 s,``, if known.

        The text is for a model.
        """
        left = self.board.starts.left
        return f", ready in about {left:.1f} s," if left >= _SOON else ""

    async def _ready(self) -> ServerSession:
        """Return the session, waiting for one as long as one may come.

        Raises:
          ToolUnavailable: if the server has failed or is being stopped.
        """
        self.board.wanted.set()
        while True:
            if self.board.state is ServerState.FAILED:
                raise ToolUnavailable(
                    f"{self.board.spec.name} has failed: {self.board.last_error}"
                )
            if self.board.stopping.is_set():
                raise ToolUnavailable(f"{self.board.spec.name} is being stopped")
            if self.board.session is not None and self.board.session.loss.why is None:
                return self.board.session
            await self.board.turned.changed()

    def _meta(self, request: CallTool) -> dict[str, Any]:
        """Return the ``_meta`` of a call: the milliseconds left for its answer, and the
        claim of its session."""
        until = min(request.deadline, request.awaited_until)
        remaining = min(until - trio.current_time(), self.board.spec.timeout)
        meta: dict[str, Any] = {
            f"{PREFIX}remaining_ms": max(0, milliseconds(remaining))
        }
        if (claim := request.claim) is not None:
            meta[f"{PREFIX}session"] = claim.session
            meta[f"{PREFIX}epoch"] = claim.epoch
        return meta

    def _one_less(self) -> None:
        """Count one call less in flight."""
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()
