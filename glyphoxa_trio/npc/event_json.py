"""Events of turns as JSON, for programs: what `ask --json` and the service send.

An event is an object: its class as ``event``, and its fields. Durations are whole
milliseconds and end in ``_ms``; fields that are None, or that only name the default
session, are left out.

    {"event": "FanOutDone", "npc": "Bartok", "turn": 3, "elapsed_ms": 120, ...}
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.units import milliseconds

from .events import TurnEvent
from .identity import without_default

# Fields of seconds. Other floats, such as a cost, are no times.
_SECONDS: Final = frozenset(
    {
        "budget",
        "audio_time",
        "elapsed",
        "expires",
        "remaining",
        "model",
        "tools",
        "total",
        "first_text",
        "head_start",
        "wasted",
    }
)


def is_duration(name: str, kind: object) -> bool:
    """Return True if a field of this name and type is a time, written as ``_ms``."""
    return name in _SECONDS and kind in (float, float | None)


# Most fields are of these, and need no conversion.
_AS_THEY_ARE: Final = frozenset({str, int, bool})


def event_json(event: TurnEvent) -> str:
    """Return the event as one line of JSON."""
    return json.dumps(plain_event(event))


def plain_event(event: TurnEvent) -> dict[str, Any]:
    """Return the event as the object that JSON has for it."""
    fields = without_default(_plain(event))
    return {"event": type(event).__name__, **fields}


def _plain(value: Any) -> Any:
    kind = type(value)
    convert = _KNOWN.get(kind)
    if convert is None:
        convert = _KNOWN[kind] = _conversion(kind)
    return convert(value)


def _conversion(kind: type[Any]) -> Callable[[Any], Any]:
    """Return what makes plain data of values of a class.

    It is found once for each class, since a turn has ten events and more.
    """
    if attrs.has(kind):
        return _of_fields(kind)
    if issubclass(kind, IntEnum):
        return str
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, Mapping):
        return lambda value: {str(key): _plain(item) for key, item in value.items()}
    if issubclass(kind, list | tuple | set | frozenset):
        return lambda value: [_plain(item) for item in value]
    if issubclass(kind, bytes):
        return lambda value: b64encode(value).decode()
    return lambda value: value


def _of_fields(kind: type[Any]) -> Callable[[Any], dict[str, Any]]:
    names = tuple((x.name, x.name in _SECONDS) for x in attrs.fields(kind))

    def convert(value: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, may_be_time in names:
            item = getattr(value, name)
            if item is None:
                continue
            if type(item) in _AS_THEY_ARE:
                fields[name] = item
            elif may_be_time and isinstance(item, float):
                fields[f"{name}_ms"] = milliseconds(item)
            else:
                fields[name] = _plain(item)
        return fields

    return convert


_KNOWN: Final[dict[type[Any], Callable[[Any], Any]]] = {}
