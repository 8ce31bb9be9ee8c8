"""Running one tool call until the client has its answer.

Handlers are foreign code. They run as tasks that a caller may leave behind, so that one
which does not stop when its time is over does not delay the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import outcome

import trio

from glyphoxa_trio.actors import SharedTask, SharedTaskCancelled, SharedTasks
from glyphoxa_trio.errors import TooManyFlights, words
from glyphoxa_trio.tools import foreign
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult

from . import serialize

_log = logging.getLogger(__name__)


async def run(
    flights: SharedTasks, tool: Tool, arguments: Mapping[str, Any], context: CallContext
) -> Mapping[str, Any]:
    """Return the handler's answer, or the reason for none, as a CallToolResult.

    The call ends at the deadline of ``context``. If cancelled, cancels the handler and
    does not wait for it to end.
    """
    try:
        flight = _launch(flights, tool, arguments, context)
    except TooManyFlights as error:
        return serialize.refused(str(error), "Unavailable")
    flight.add_waiter()
    try:
        with trio.CancelScope(deadline=context.deadline):
            return _answer(tool, await flight.settled())
    finally:
        flight.release()
    return serialize.too_late()


def _launch(
    flights: SharedTasks, tool: Tool, arguments: Mapping[str, Any], context: CallContext
) -> SharedTask[Any]:
    if tool.blocking:
        work = partial(tool.handler, arguments, context)
        return flights.start_in_thread(tool.key, work)
    return flights.start(tool.key, _handle, tool, arguments, context)


async def _handle(
    tool: Tool, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    said = tool.handler(arguments, context)
    return said if isinstance(said, ToolResult) else await said


def _answer(tool: Tool, end: outcome.Maybe[Any]) -> Mapping[str, Any]:
    if isinstance(end, outcome.Value):
        try:
            value = end.value
            if isinstance(value, ToolResult):
                value = foreign.received(tool.handler, value)
            return serialize.answer(value)
        except Exception as error:  # border: what a handler returned
            return crashed(tool, error)
    match end.error:
        case ToolError() as no:
            return serialize.refused(words(no), no.code)
        case ToolUnavailable() as away:
            return serialize.refused(str(away), "Unavailable")
        case SharedTaskCancelled():
            return serialize.refused("the server is ending", "Unavailable")
    return crashed(tool, end.error)


def crashed(tool: Tool, error: BaseException) -> Mapping[str, Any]:
    """Log a bug in a handler, and return the answer to its call.

    The answer names only the type of the exception: its message may be secret, and is
    for our own log.
    """
    _log.error("%s crashed", tool.key, exc_info=error)
    return serialize.refused(f"{tool.key}: {type(error).__name__}", "Internal")
