"""Wrappers of tools' handlers, which record calls and answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import attrs

import trio

from glyphoxa_trio.actors.shared_task import SharedTaskEnded
from glyphoxa_trio.errors import GlyphoxaError, words
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.observability.recording.hiding import AsJson
from glyphoxa_trio.observability.recording.models import Note
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    CallContext,
    ConnectionLost,
    OutputMismatch,
    ServerFault,
    Tool,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult

# Of blocking handlers, as `SharedTasks` has them.
_THREADS: Final = 40
_THREADS_PER_TOOL: Final = 8

FAILURES: Final[Mapping[str, type[GlyphoxaError]]] = {
    "output_mismatch": OutputMismatch,  # each is one of the next, so before it
    "answer_unusable": AnswerUnusable,
    "server_fault": ServerFault,
    "tool_error": ToolError,
    "unavailable": ToolUnavailable,
    "connection_lost": ConnectionLost,
    "failed": GlyphoxaError,
}
"""What a handler may raise on purpose, as a recording names it. All else is a bug."""


@attrs.frozen
class HeardHandler:
    """A tool's handler, as `Tool.handler` of its stand-in.

    A blocking one runs in a thread of ours: a handler that the host starts in a thread
    ends there at a moment that only the host knows. A cancelled one is waited for as
    the host waits for any task, until it stops or the recording ends.
    """

    tool: Tool
    _threads: Threads = attrs.field(eq=False)
    _note: Note = attrs.field(eq=False)
    _number: Callable[[], int] = attrs.field(eq=False)

    async def __call__(self, arguments: Mapping[str, Any], context: CallContext) -> Any:
        number, key = self._number(), self.tool.key
        whose: dict[str, Any]
        whose = {}
        if context.npc:
            npc = SessionKey(context.session, context.tenant).npc(context.npc)
            whose = {**npc.named, "id": context.call_id}
        if context.call_id == "probe":
            whose = {"until": context.deadline}
        asked = AsJson(json.dumps(arguments))
        self._note("call", call=number, tool=key, arguments=asked, **whose)
        if self.tool.remote:
            send = context.sent

            def sent() -> None:
                self._note("sent", call=number)
                send()

            context = attrs.evolve(context, sent=sent)
        try:
            if self.tool.blocking:
                value = await self._threads.run(
                    key, self.tool.handler, arguments, context
                )
            else:
                value = await self.tool.handler(arguments, context)  # type: ignore[misc]
        except trio.Cancelled:
            self._note("answer", call=number, cancelled=True)
            raise
        except SystemExit as error:
            ended = SharedTaskEnded(repr(error))
            self._note("answer", call=number, error=_failure(ended))
            raise
        except Exception as error:  # border: the handler is foreign code
            self._note("answer", call=number, error=_failure(error))
            raise
        except BaseException:
            self._note("answer", call=number, cancelled=True)
            raise
        self._note("answer", call=number, **_answer(value), **_in_spite())
        return value


def _answer(value: object) -> dict[str, Any]:
    try:
        result = ToolResult.of(value)
        return {"result": AsJson(json.dumps(attrs.asdict(result), default=_base64))}
    except Exception as error:  # border: the value is foreign, and no result
        return {"error": _failure(error)}


def _base64(value: object) -> str:
    """Bytes of an image or a sound, which a replay gives back."""
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is no JSON")
    return base64.b64encode(value).decode("ascii")


def _in_spite() -> dict[str, Any]:
    cancelled = trio.current_effective_deadline() == -float("inf")
    return {"in_spite": True} if cancelled else {}


def _failure(error: Exception) -> dict[str, Any]:
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    known = (name for name, kind in FAILURES.items() if isinstance(error, kind))
    kind = next(known, "crashed")
    crash = {"error": type(error).__name__} if kind == "crashed" else {}
    return {"kind": kind, **crash, "detail": words(error)}


@attrs.define(eq=False)
class Threads:
    """Runs blocking handlers. One that goes on after its cancellation holds its task,
    so that the host counts it, but not beyond ``over``."""

    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _all: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(_THREADS), init=False
    )
    _seats: dict[str, trio.CapacityLimiter] = attrs.field(factory=dict, init=False)

    async def run(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        seats = self._seats.get(key)
        if seats is None:
            seats = self._seats[key] = trio.CapacityLimiter(_THREADS_PER_TOOL)
        seat = _ThreadLimiter(seats, self._all)
        try:
            return await trio.to_thread.run_sync(
                function,
                *args,
                abandon_on_cancel=True,
                # trio documents that anything with these two methods will do.
                limiter=cast("trio.CapacityLimiter", seat),
            )
        except trio.Cancelled:
            if seat.taken:
                with trio.CancelScope(shield=True):
                    await _either(seat.free, self.over)
            raise


@attrs.define(eq=False)
class _ThreadLimiter:
    """A limiter of one thread; ``free`` is set when that has really ended."""

    _own: trio.CapacityLimiter
    _all: trio.CapacityLimiter
    taken: bool = attrs.field(default=False, init=False)
    free: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._own.acquire_on_behalf_of(borrower)
        try:
            await self._all.acquire_on_behalf_of(borrower)
        except BaseException:
            self._own.release_on_behalf_of(borrower)
            raise
        self.taken = True

    def release_on_behalf_of(self, borrower: object) -> None:
        self._all.release_on_behalf_of(borrower)
        self._own.release_on_behalf_of(borrower)
        self.free.set()


async def _either(one: trio.Event, other: trio.Event) -> None:
    async def end_after(event: trio.Event) -> None:
        await event.wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_after, one)
        nursery.start_soon(end_after, other)
