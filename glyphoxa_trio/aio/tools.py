"""Adapters that let trio run an embedder's asyncio coroutines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from inspect import isawaitable
from typing import Any, cast

import attrs

import trio

from glyphoxa_trio.mcp.questions import Answer, Answers, ServerQuestion
from glyphoxa_trio.npc import ApprovalRequest, Approver, Moment, Provide
from glyphoxa_trio.npc.hot_context import Lines
from glyphoxa_trio.tools.definition import CallContext, Tool
from glyphoxa_trio.tools.isolated import IsolatedHandler
from glyphoxa_trio.tools.outcome import ToolResult

from .reverse_calls import HERE


def tool(made: Tool) -> Tool:
    """Return a tool whose coroutine runs on the asyncio loop, not in trio.

        @aio.tool
        @tool(read_only=True, max_duration_ms=300)
        async def find(name: str) -> str:
            async with session.get(...) as answer: ...

    When its time is up, or the player interrupts, the coroutine gets
    `asyncio.CancelledError` at its await; one that continues regardless counts as a
    handler that does not stop. Times of a `CallContext` are on the loop's clock, so
    that `asyncio.timeout_at` accepts them. The tool works only in
    `glyphoxa_trio.aio.open_runtime`.

    Raises:
      TypeError: for a function that runs in a thread or a process, which needs no loop
        of the program.
    """
    if made.blocking:
        raise TypeError(f"{made.key} is a plain function: it needs no asyncio loop")
    if isinstance(made.handler, IsolatedHandler):
        raise TypeError(f"{made.key} runs in a process: it needs no asyncio loop")
    handler = cast(
        "Callable[[Mapping[str, Any], CallContext], Awaitable[ToolResult]]",
        made.handler,
    )

    async def on_the_loop(
        arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        try:
            errands = HERE.get()
        except LookupError:
            text = f"{made.key} needs glyphoxa_trio.aio.open_runtime"
            raise RuntimeError(text) from None
        later = errands.loop.time() - trio.current_time()
        here = attrs.evolve(
            context,
            deadline=context.deadline + later,
            awaited_until=context.awaited_until + later,
        )
        return await errands.run(handler, arguments, here)

    return attrs.evolve(made, handler=on_the_loop)


def approver(ask: Callable[[ApprovalRequest], Awaitable[bool]]) -> Approver:
    """Return an approver whose coroutine runs on the asyncio loop."""

    async def approve(request: ApprovalRequest) -> bool:
        return await HERE.get().run(ask, request)

    return approve


def answers(ask: Answers) -> Answers:
    """Return a function for questions of servers that runs on the asyncio loop."""

    async def answer(question: ServerQuestion) -> Answer | None:
        return await HERE.get().run(ask, question)

    return answer


def context(provide: Provide) -> Provide:
    """Return a provider of context that is called on the asyncio loop."""

    async def ask(moment: Moment) -> Lines:
        found = provide(moment)
        return await found if isawaitable(found) else found

    @wraps(provide, updated=())
    async def provided(moment: Moment) -> Lines:
        return await HERE.get().run(ask, moment)

    return provided
