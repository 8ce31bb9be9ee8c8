"""A configuration as its file would have it: what a recording keeps of one.

Kept is what decides about turns. Commands, addresses, headers and variables of servers
are not, nor where models are: a replay reaches neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.config import Config, ServerSpec
from glyphoxa_trio.config.fields import Unit
from glyphoxa_trio.config.layout import layout
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.tier import Tier, TierLimits

NOT_KEPT: Final = frozenset({"llm", "builtin", "tools", "telemetry", "state_dir"})
# Of servers: names, and what grants and trust are decided by.
_OF_SERVERS: Final = ("name", "environment", "allow", "tools")
STAND_IN: Final = "recorded"  # what stands where the command of a server would


def config_as_data(config: Config) -> dict[str, Any]:
    """Return plain data from which `glyphoxa_trio.config.parse` makes the same
    configuration, except for keys that are not kept. Defaults are left out.
    """
    data: dict[str, Any] = {
        key: value for key, value in _object(config).items() if key not in NOT_KEPT
    }
    mcp = data.get("mcp", {})
    for key in NOT_KEPT & set(mcp):
        del mcp[key]
    if not mcp:
        data.pop("mcp", None)
    return data


def _object(value: Any) -> dict[str, Any]:
    """The keys of one object whose values are not the usual ones."""
    if isinstance(value, TierLimits):
        return _tiers(value)
    kind: Any = type(value)
    return {
        key: _plain(item, entry.kind)
        for key, entry in layout(kind).items()
        if entry.field is not None
        and (item := getattr(value, entry.field.name)) is not None
        and item != _usual(entry.field)
    }


def _usual(field: attrs.Attribute[Any]) -> Any:
    default: Any = field.default
    made = isinstance(default, attrs.Factory) and not default.takes_self  # type: ignore[arg-type]
    return default.factory() if made else default


def _server(spec: ServerSpec) -> dict[str, Any]:
    kept = {name: getattr(spec, name) for name in _OF_SERVERS}
    return {"command": STAND_IN} | {
        name: _plain(value) for name, value in kept.items() if value
    }


def _tiers(limits: TierLimits) -> dict[str, Any]:
    bands: dict[str, dict[str, Any]] = {}
    for field in attrs.fields(TierLimits):
        tier, _, name = field.name.partition("_")
        bands.setdefault(tier, {})[f"{name}_ms"] = _from_seconds(
            getattr(limits, field.name), 1000.0
        )
    return bands


def _plain(value: Any, kind: Any = None) -> Any:
    match value:
        case None | bool() | int() | float() if not isinstance(value, Enum):
            return _in_unit(value, kind)
        case Secret():
            return str(value)
        case Tier() | IntEnum():
            return str(value)
        case Enum():
            return value.value
        case str() | Path():
            return str(value).replace("${", "$${")
        case ServerSpec():
            return _server(value)
        case Mapping():
            return {str(k): _plain(x) for k, x in value.items()}
        case list() | tuple() | frozenset() | set():
            return [_plain(item) for item in value]
    return _object(value)


def _in_unit(value: Any, kind: Any) -> Any:
    """A duration in the unit of its key, so that it comes back as the same float."""
    for part in (kind, *getattr(kind, "__args__", ())):
        for mark in getattr(part, "__metadata__", ()):
            if isinstance(mark, Unit) and value is not None:
                per_second = 1 / mark.in_seconds(1.0)
                return _from_seconds(value, per_second, mark)
    return value


def _from_seconds(value: float, per_second: float, unit: Unit | None = None) -> float:
    def back(number: float) -> float:
        return number / 1000 if unit is None else unit.in_seconds(number)

    near = value * per_second
    for number in (round(near), round(near, 3), round(near, 9), near):
        if back(number) == value:
            return number
    return near
