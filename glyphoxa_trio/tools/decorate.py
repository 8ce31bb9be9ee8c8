"""`tool`: a function becomes a `Tool`, its schema read from its signature.

    @tool(estimated_duration_ms=10, max_duration_ms=50, read_only=True)
    async def get_weather(location: str, season: Season = "summer") -> dict[str, str]:
        \"\"\"Get the current in-world weather for a location.\"\"\"

A parameter annotated `CallContext` receives it and is not part of the schema.
Above 300 lines, because its parameters stand here twice, once for type checkers.
"""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Literal, Union, overload

import attrs

from glyphoxa_trio.apart import run_apart
from glyphoxa_trio.units import seconds

from . import foreign
from .definition import CallContext, OnInterrupt, Tool, ToolDefinition
from .outcome import ToolResult
from .tier import Tier

_SCALARS: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


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

    Name, description and schema come from the function unless given. Durations
    are the declared median and the hard limit. See `ToolDefinition` for the rest.

    Args:
      blocking: an async function that holds the event loop all the same runs in a
        worker thread, in a run of trio of its own; a plain one does so anyway. It
        cannot share trio's objects with the rest of the program.
      isolated: the function, async or not, runs in a process of its own, which is
        killed when the call's time is up. For code that keeps the interpreter to
        itself, has no end, or crashes.

    Raises:
      TypeError: for a parameter that cannot be given by name, or whose
        annotation has no JSON schema; give ``parameters`` then. For an isolated
        function that another process cannot find: a lambda, one made in another.
      ValueError: for a definition that contradicts itself.
    """

    def make(function: Callable[..., Any]) -> Tool:
        if (max_duration_ms or math.inf) < (estimated_duration_ms or 0.0):
            raise ValueError(
                f"{name or function.__name__}: its max_duration_ms of"
                f" {max_duration_ms:g} would cut what it usually takes,"
                f" estimated_duration_ms, {estimated_duration_ms:g}"
            )
        signature = _signature(function, derive=parameters is None)
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


@attrs.frozen
class _Signature:
    """What a function takes: as a schema, and what must be turned into it."""

    schema: dict[str, Any]
    context_at: str | None
    enums: dict[str, type[Enum]]

    def bound(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> dict[str, Any]:
        """The arguments as the function wants them."""
        values = dict(arguments)
        for name, enum in self.enums.items():
            if values.get(name) is not None:
                values[name] = enum(values[name])
        if self.context_at is not None:
            values[self.context_at] = context
        return values


def _handler(
    function: Callable[..., Any],
    signature: _Signature,
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


def called_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """What calls a function with the arguments of a call and a context, as it is."""
    signature = _signature(function, derive=False)
    return lambda arguments, context: function(**signature.bound(arguments, context))


def _signature(function: Callable[..., Any], *, derive: bool) -> _Signature:
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise TypeError(f"a tool is made from a function, not from {function!r}")
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    enums: dict[str, type[Enum]] = {}
    context_at: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        place = f"{function.__name__}({parameter.name})"
        hint = hints.get(parameter.name, Any)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{place}: arguments come by name, this cannot be given so")
        if CallContext in (hint, *_options(hint)):
            context_at = parameter.name
            continue
        for option in (hint, *_options(hint)):
            if _is_enum(option):
                enums[parameter.name] = option
        if not derive:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{place}: a variable number of arguments has no schema")
        schema = _schema(hint, place)
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            schema |= _default(parameter.default)
        properties[parameter.name] = schema
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return _Signature(schema, context_at, enums)


def _default(value: object) -> dict[str, Any]:
    """The default as the model is told of it, if it can be."""
    plain = value.value if isinstance(value, Enum) else value
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        return {}
    return {} if plain is None else {"default": plain}


def _options(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union; nothing for anything else."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return typing.get_args(hint)
    return ()


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def _schema(hint: Any, place: str) -> dict[str, Any]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        texts = [extra for extra in args[1:] if isinstance(extra, str)]
        schema = _schema(args[0], place)
        return schema | {"description": texts[0]} if texts else schema
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if hint is Any:
        return {}
    if origin is Literal:
        return {"enum": list(args)}
    if _is_enum(hint):
        return {"enum": [member.value for member in hint]}
    if options := _options(hint):
        # null is an answer to an optional parameter: strict models send it.
        return {"anyOf": [_schema(option, place) for option in options]}
    if hint is list or origin is list:
        return {"type": "array"} | ({"items": _schema(args[0], place)} if args else {})
    if hint is dict or origin is dict:
        extra = {"additionalProperties": _schema(args[1], place)} if args else {}
        return {"type": "object"} | extra
    raise TypeError(f"{place}: no JSON schema for {hint!r}; give `parameters`")
