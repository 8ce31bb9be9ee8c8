"""Tools as a recording has them: their definitions, in plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.definition import OnInterrupt, Schedule, Tool, ToolDefinition
from glyphoxa_trio.tools.tier import Tier

_USUAL: Final = {
    field.name: field.default
    for field in attrs.fields(ToolDefinition)
    if not isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]
}


def definition_as_data(tool: Tool) -> dict[str, Any]:
    """Return a tool's definition as plain data, without its defaults."""
    definition = tool.definition
    data = {
        field.name: value
        for field in attrs.fields(ToolDefinition)
        if (value := getattr(definition, field.name)) != _USUAL.get(field.name, ...)
    }
    if tool.fingerprint:
        data["fingerprint"] = tool.fingerprint
    return data


def definition_of(data: Any) -> tuple[ToolDefinition, str]:
    """Return a tool's definition and its fingerprint; empty is none.

    Raises:
      ValueError, TypeError: with the reason, if the data is wrong.
    """
    if not isinstance(data, dict):
        raise ValueError("a tool is an object")
    fields = dict(data)
    fingerprint = str(fields.pop("fingerprint", ""))
    if unknown := set(fields) - set(_FIELDS):
        raise ValueError(f"a tool has no {min(unknown)!r}")
    for name, value in fields.items():
        types = _FIELDS[name]
        if not isinstance(value, types) or (type(value) is bool and bool not in types):
            raise ValueError(f"{name} of a tool cannot be {value!r}")
    if "name" not in fields:
        raise ValueError("a tool has a name")
    if "min_tier" in fields:
        fields["min_tier"] = Tier.parse(fields["min_tier"])
    if fields.get("on_interrupt") is not None:
        fields["on_interrupt"] = OnInterrupt(fields["on_interrupt"])
    if "schedule" in fields:
        fields["schedule"] = Schedule(fields["schedule"])
    if "examples" in fields:
        fields["examples"] = tuple(fields["examples"])
    return ToolDefinition(**fields), fingerprint


_NONE: Final = type(None)
_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,),
    "group": (str,),
    "description": (str,),
    "parameters": (dict,),
    "estimated_duration": (int, float, _NONE),
    "max_duration": (int, float, _NONE),
    "server_timeout": (int, float, _NONE),
    "title": (str,),
    "read_only": (bool,),
    "destructive": (bool,),
    "open_world": (bool,),
    "round_trip": (int, float),
    "probe": (dict, _NONE),
    "idempotent": (bool,),
    "cacheable": (int, float),
    "per_npc": (bool,),
    "min_tier": (str,),
    "examples": (list,),
    "on_interrupt": (str, _NONE),
    "schedule": (str,),
    "speech_field": (str, _NONE),
    "speech_template": (str, _NONE),
    "slow_response_threshold": (int, float, _NONE),
    "slow_response_message": (str, _NONE),
    "environment": (str, _NONE),
    "origin": (str,),
    "external": (bool,),
    "expose_as": (str, _NONE),
    "category": (str,),
}
