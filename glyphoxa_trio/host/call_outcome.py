"""Pending calls, and the `Outcome` that follows from each way a call can end.

Pure: no clock, no tasks. ``now`` is on trio's clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import outcome

from glyphoxa_trio.actors import SharedTaskCancelled
from glyphoxa_trio.errors import GlyphoxaError, said, words
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    OutputMismatch,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.gate import Refusal
from glyphoxa_trio.tools.outcome import (
    Effect,
    Limit,
    Outcome,
    Status,
    ToolCall,
    ToolResult,
)
from glyphoxa_trio.tools.speech import present
from glyphoxa_trio.tracing import NO_SPAN, Span
from glyphoxa_trio.units import in_ms

from .catalogue import CatalogueEntry


def _nobody() -> None:
    return None


@attrs.define(eq=False)
class PendingCall:
    """One call in progress in a fan-out, as far as it has come.

    The `Executor` that runs the fan-out sets the attributes, each at the step that
    decides it; nothing else does, and this module only reads them.

    ``was_started`` is true once its handler was started, for it or for an identical
    call that it joined: from then on it may have had an effect. ``reader`` returns the
    name of the tool that reads linked resources, if the caller has one. ``goes_on`` is
    true if its turn does not wait for it and it may finish, ``pending`` if that is
    because the turn's time was up. ``in_vain``: its expected duration is longer than
    the time it can be waited for. ``begun_as`` is its shared task until the result is
    awaited, ``seat`` the semaphore that it must acquire before it may have one.
    ``failed`` is the error of its tool, if the tool of another server was still running
    then; ``answered_by`` is that other tool, if it answered.
    """

    index: int
    call: ToolCall
    approved: bool = False
    listing: CatalogueEntry | None = None
    arguments: str = ""  # canonical
    begun: float | None = None
    was_started: bool = False
    goes_on: bool = False
    pending: bool = False
    in_vain: bool = False
    begun_as: Any = None
    seat: Any = None
    reader: Callable[[], str | None] = _nobody
    settled: bool = False
    span: Span = NO_SPAN
    failed: outcome.Maybe[Any] | None = None
    answered_by: str | None = None

    def begin(self, now: float) -> None:
        """Note when the call comes to the gate, perhaps for the second time."""
        self.begun = now
        self.seat = self.begun_as = None

    def hand_over(self) -> Any:
        """Hand its shared task to the caller, which awaits its result or leaves it."""
        begun, self.begun_as = self.begun_as, None
        return begun

    def learn(self, failed: outcome.Maybe[Any] | None, answered_by: str | None) -> None:
        """Note the error of its tool, and the other tool that answered, if any."""
        self.failed, self.answered_by = failed, answered_by


def refused(pending_call: PendingCall, no: Refusal, now: float) -> Outcome:
    """Return the outcome of a call that the gate refused."""
    return _end(pending_call, no.status, now, message=no.text, data=no.data)


def invalid(pending_call: PendingCall, why: str, now: float) -> Outcome:
    """Return the outcome of a call with arguments that the schema does not accept."""
    return _end(pending_call, Status.INVALID_ARGUMENTS, now, message=why)


def answered(
    pending_call: PendingCall,
    result: ToolResult,
    now: float,
    *,
    cached: bool = False,
    shared: bool = False,
) -> Outcome:
    """Return the outcome of a call that the tool answered, with success or refusal."""
    assert pending_call.listing is not None
    definition = pending_call.listing.definition
    # The reader of this server cannot read the links of another one.
    if (
        result.links
        and pending_call.answered_by is None
        and (reader := pending_call.reader())
    ):
        how = f"{reader} reads a linked resource by its URI."
        result = attrs.evolve(result, text=(*result.text, how))
    said = present(result, definition)
    wrote = definition.side_effects and not (cached or result.is_error)
    return _end(
        pending_call,
        Status.TOOL_ERROR if result.is_error else Status.OK,
        now,
        message=said.message,
        data=said.data,
        media=result.media,
        effect=Effect.DONE if wrote else Effect.NONE,
        cached=cached,
        shared=shared,
        truncated=result.truncated,
    )


def to_outcome(
    pending_call: PendingCall,
    result: outcome.Maybe[Any],
    now: float,
    *,
    cached: bool = False,
    shared: bool = False,
) -> Outcome:
    """Return the outcome of a finished task, or a cached one: a value or an error."""
    try:
        match result:
            case outcome.Value(value):
                answer = ToolResult.of(value)
                return answered(pending_call, answer, now, cached=cached, shared=shared)
            case outcome.Error(ToolError() as error):
                if isinstance(error, OutputMismatch):
                    return _ran(pending_call, error, now)
                nonsense = isinstance(error, AnswerUnusable)
                return _end(
                    pending_call,
                    Status.TOOL_ERROR,
                    now,
                    message=words(error),
                    no_answer=nonsense,
                )
            case outcome.Error(ToolUnavailable() as error):
                return _end(pending_call, Status.UNAVAILABLE, now, message=words(error))
            case outcome.Error(SharedTaskCancelled()):
                text = f"{pending_call.call.name} was stopped before it had answered"
                return _end(
                    pending_call, Status.UNAVAILABLE, now, message=text, no_answer=True
                )
            case outcome.Error(GlyphoxaError() as error):  # a connection lost
                return _end(
                    pending_call,
                    Status.UNAVAILABLE,
                    now,
                    message=words(error),
                    no_answer=True,
                )
            case outcome.Error(error):
                return _crashed(pending_call, error, now)
    except Exception as error:  # border: no result, or it fails when it is looked at
        return _crashed(pending_call, error, now)


def timed_out(
    pending_call: PendingCall, now: float, *, limit: Limit | None = None
) -> Outcome:
    """Return the outcome of a timeout; without ``limit`` that of the tool or server.

    If the tool has failed, and another one gave no answer, the failure is the outcome.
    """
    assert pending_call.listing is not None
    if pending_call.failed is not None:
        return to_outcome(pending_call, pending_call.failed, now)
    definition = pending_call.listing.definition
    if limit is None:
        by_server = definition.server_timeout == definition.own_limit
        limit = Limit.SERVER if by_server else Limit.TOOL
    waited = now - (now if pending_call.begun is None else pending_call.begun)
    whose = {
        Limit.TOOL: "the tool's own limit",
        Limit.SERVER: "its server's limit",
        Limit.TURN: "the turn's tool time",
        Limit.HOST: "the host's own limit for calls",
    }[limit]
    return _end(
        pending_call,
        Status.TIMEOUT,
        now,
        message=f"no answer after {in_ms(waited)}, {whose} was reached",
        no_answer=True,
        limit=limit,
    )


def cut(pending_call: PendingCall, now: float) -> Outcome:
    """Return the outcome of a call that was running when the turn's time was up."""
    if pending_call.pending:
        return _end(
            pending_call,
            Status.PENDING,
            now,
            message="still working; its result comes later, do not call it again",
            no_answer=True,
        )
    if pending_call.was_started:
        return timed_out(pending_call, now, limit=Limit.TURN)
    return _end(
        pending_call,
        Status.SKIPPED,
        now,
        message="the turn's tool time ended before this call could begin",
        limit=Limit.TURN,
    )


def interrupted(pending_call: PendingCall, now: float) -> Outcome:
    """Return the outcome of a call whose NPC was interrupted before it had one."""
    message = (
        "interrupted; it goes on by itself" if pending_call.goes_on else "interrupted"
    )
    return _end(pending_call, Status.CANCELLED, now, message=message, no_answer=True)


def _ran(pending_call: PendingCall, error: OutputMismatch, now: float) -> Outcome:
    """Return the outcome of a call that ran, and whose answer is of no use."""
    listing = pending_call.listing
    wrote = listing is not None and listing.definition.side_effects
    return _end(
        pending_call,
        Status.TOOL_ERROR,
        now,
        message=words(error),
        effect=Effect.DONE if wrote else Effect.NONE,
    )


def _crashed(pending_call: PendingCall, error: BaseException, now: float) -> Outcome:
    return _end(pending_call, Status.CRASHED, now, message=said(error), no_answer=True)


def _end(
    pending_call: PendingCall,
    status: Status,
    now: float,
    *,
    no_answer: bool = False,
    **more: Any,
) -> Outcome:
    """Build the outcome; ``no_answer``: it may have run, with unknown effect."""
    listing = pending_call.listing
    unknown = (
        no_answer
        and pending_call.was_started
        and listing is not None
        and listing.definition.side_effects
    )
    more.setdefault("effect", Effect.UNKNOWN if unknown else Effect.NONE)
    return Outcome(
        call=pending_call.call,
        tool=None if listing is None else listing.key,
        status=status,
        elapsed=0.0 if pending_call.begun is None else now - pending_call.begun,
        answered_by=pending_call.answered_by,
        **more,
    )
