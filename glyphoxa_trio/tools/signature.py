"""A function's signature: the schema of a tool, and how its arguments are passed."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Literal, Union

import attrs

from .definition import CallContext

_SCALARS: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


@attrs.frozen
class Signature:
    """The parameters of a function: their schema, and the values to convert."""

    schema: dict[str, Any]
    context_at: str | None
    enums: dict[str, type[Enum]]

    def bound(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> dict[str, Any]:
        """Return the arguments as the function takes them."""
        values = dict(arguments)
        for name, enum in self.enums.items():
            if values.get(name) is not None:
                values[name] = enum(values[name])
        if self.context_at is not None:
            values[self.context_at] = context
        return values


def called_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that calls the function with arguments and a context."""
    signature = signature_of(function, derive=False)
    return lambda arguments, context: function(**signature.bound(arguments, context))


def signature_of(function: Callable[..., Any], *, derive: bool) -> Signature:
    """Read a function's signature.

    Args:
      derive: make the schema from the annotations; else it has no properties.

    Raises:
      TypeError: for an object that is not a function, or a parameter that cannot be
        passed by name or has no JSON schema.
    """
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
            raise TypeError(
                f"{place}: arguments are passed by name, which it does not allow"
            )
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
    return Signature(schema, context_at, enums)


def _default(value: object) -> dict[str, Any]:
    """Return the default for the schema, if it can be written as JSON."""
    plain = value.value if isinstance(value, Enum) else value
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        return {}
    return {} if plain is None else {"default": plain}


def _options(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union; nothing for any other hint."""
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
        # null is a valid value of an optional parameter: strict models send it.
        return {"anyOf": [_schema(option, place) for option in options]}
    if hint is list or origin is list:
        return {"type": "array"} | ({"items": _schema(args[0], place)} if args else {})
    if hint is dict or origin is dict:
        extra = {"additionalProperties": _schema(args[1], place)} if args else {}
        return {"type": "object"} | extra
    raise TypeError(f"{place}: no JSON schema for {hint!r}; give `parameters`")
