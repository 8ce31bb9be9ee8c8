"""The `tool` decorator, which makes a `Tool` of a function and its signature.

    @tool(estimated_duration_ms=10, max_duration_ms=50, read_only=True)
    async def get_weather(location: str, season: Season = "summer") -> dict[str, str]:
        \"\"\"Get the current in-world weather for a location.\"\"\"

A parameter annotated `CallContext` receives it and is not part of the schema.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, overload

import attrs

from glyphoxa_trio.apart import run_apart
from glyphoxa_trio.units import seconds

from . import foreign
from .definition import CallContext, OnInterrupt, Tool, ToolDefinition
from .outcome import ToolResult
from .signature import Signature, signature_of
from .tier import Tier


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    function: Callable[..., Any] | None = ...,
    /,
    *,
    name: str | None = ...,
    group: str = ...,
    description: str | None = ...,
    parameters: Mapping[str, Any] | None = ...,
    estimated_duration_ms: float | None = ...,
    max_duration_ms: float | None = ...,
    title: str = ...,
    read_only: bool = ...,
    destructive: bool = ...,
    open_world: bool = ...,
    idempotent: bool = ...,
    cacheable_seconds: float = ...,
    per_npc: bool = ...,
    min_tier: Tier | str = ...,
    examples: tuple[Mapping[str, Any], ...] = ...,
    on_interrupt: OnInterrupt | str | None = ...,
    speech_field: str | None = ...,
    speech_template: str | None = ...,
    slow_response_threshold_ms: float | None = ...,
    slow_response_message: str | None = ...,
    expose_as: str | None = ...,
    category: str = ...,
    blocking: bool = ...,
    isolated: bool = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    group: str = "custom",
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    estimated_duration_ms: float | None = None,
    max_duration_ms: float | None = None,
    title: str = "",
    read_only: bool = False,
    destructive: bool = False,
    open_world: bool = False,
    idempotent: bool = False,
    cacheable_seconds: float = 0,
    per_npc: bool = False,
    min_tier: Tier | str = Tier.FAST,
    examples: tuple[Mapping[str, Any], ...] = (),
    on_interrupt: OnInterrupt | str | None = None,
    speech_field: str | None = None,
    speech_template: str | None = None,
    slow_response_threshold_ms: float | None = None,
    slow_response_message: str | None = None,
    expose_as: str | None = None,
    category: str = "",
    blocking: bool = False,
    isolated: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of an async function, or of a plain one (run in a thread).

    Name, description and schema come from the function unless given. Durations are the
    declared median and the hard limit. See `ToolDefinition` for the rest.

    Args:
      blocking: run an async function that blocks the event loop in a worker thread, in
        a trio run of its own; a plain function always runs in a thread. It cannot share
        trio's objects with the rest of the program.
      isolated: run the function, async or not, in a process of its own, which is killed
        when the call's time is up. For code that holds the interpreter, never ends, or
        crashes.

    Raises:
      TypeError: for a parameter that cannot be given by name, or whose annotation has
        no JSON schema; give ``parameters`` then. For an isolated function that another
        process cannot find: a lambda, or one defined in another function.
      ValueError: for a definition that contradicts itself.
    """

    def make(function: Callable[..., Any]) -> Tool:
        if (max_duration_ms or math.inf) < (estimated_duration_ms or 0.0):
            raise ValueError(
                f"{name or function.__name__}: its max_duration_ms of"
                f" {max_duration_ms:g} is below its estimated_duration_ms of"
                f" {estimated_duration_ms:g}"
            )
        signature = signature_of(function, derive=parameters is None)
        definition = ToolDefinition(
            name=name or function.__name__,
            group=group,
            description=description
            if description is not None
            else inspect.cleandoc(function.__doc__ or ""),
            parameters=signature.schema if parameters is None else parameters,
            estimated_duration=_seconds(estimated_duration_ms),
            max_duration=_seconds(max_duration_ms),
            title=title,
            read_only=read_only,
            destructive=destructive,
            open_world=open_world,
            idempotent=idempotent,
            cacheable=cacheable_seconds,
            per_npc=per_npc,
            min_tier=Tier.parse(min_tier) if isinstance(min_tier, str) else min_tier,
            examples=examples,
            on_interrupt=None if on_interrupt is None else OnInterrupt(on_interrupt),
            speech_field=speech_field,
            speech_template=speech_template,
            slow_response_threshold=_seconds(slow_response_threshold_ms),
            slow_response_message=slow_response_message,
            expose_as=expose_as,
            category=category,
        )
        is_async = inspect.iscoroutinefunction(function)
        if isolated:
            from .isolated import IsolatedHandler, place

            if blocking:
                raise ValueError(f"{definition.key}: blocking or isolated, not both")
            handler: Any = IsolatedHandler(*place(function))
        else:
            handler = _handler(function, signature, is_async, apart=blocking)
        return Tool(
            definition=definition,
            handler=handler,
            blocking=not isolated and (blocking or not is_async),
            function=function,
        )

    return make if function is None else make(function)


def _seconds(value: float | None) -> float | None:
    return None if value is None else seconds(value)


def _handler(
    function: Callable[..., Any],
    signature: Signature,
    is_async: bool,
    *,
    apart: bool,
) -> Callable[[Mapping[str, Any], CallContext], Awaitable[ToolResult] | ToolResult]:
    def at_once(arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        return foreign.result(function(**signature.bound(arguments, context)))

    async def later(arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        return foreign.result(await function(**signature.bound(arguments, context)))

    def in_a_thread(arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        def begin(ahead: float) -> Awaitable[ToolResult]:
            return later(
                arguments,
                attrs.evolve(
                    context,
                    deadline=context.deadline + ahead,
                    awaited_until=context.awaited_until + ahead,
                ),
            )

        return run_apart(begin, deadline=context.deadline)

    if is_async and apart:
        return foreign.makes_results(in_a_thread)
    return foreign.makes_results(later if is_async else at_once)
