"""The JSON Schema of the gateway's messages, and of the events in them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import Enum, IntEnum
from types import UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs
from pydantic import TypeAdapter

from glyphoxa_trio.host import Probed
from glyphoxa_trio.npc import Speech, TurnEvent
from glyphoxa_trio.npc.event_json import is_duration

from . import protocol as p
from .watching import StateChanged

Schema: TypeAlias = "dict[str, Any]"

_PLAIN: Final[Mapping[object, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}


def protocol_schema() -> Schema:
    """Return the schema.

    A frame is a ``HelloRequest`` or a ``Request`` of a client, or a ``Reply``. Every
    message and every kind of event is under its name in ``$defs``.
    """
    kinds: list[tuple[str, Any]] = [
        ("Hello", TypeAdapter(p.HelloRequest)),
        ("Request", p.REQUESTS),
        ("Reply", p.REPLIES),
    ]
    found, schemas = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in kinds],
        ref_template="#/$defs/{model}",
    )
    events = _EventSchemas()
    shown = (*_kinds_of_event(), Probed, StateChanged)
    names = [events.of_event(kind) for kind in shown]
    defs = {
        **schemas["$defs"],
        **{name: found[name, "validation"] for name in ("Request", "Reply")},
        **events.defs,
        "Event": {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in names]},
    }
    defs["EventsReply"]["properties"]["events"]["items"] = {"$ref": "#/$defs/Event"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Messages of the gateway of glyphoxa, version {p.VERSION}",
        "anyOf": [
            {"$ref": f"#/$defs/{name}"} for name in ("HelloRequest", "Request", "Reply")
        ],
        "$defs": dict(sorted(defs.items())),
    }


def _kinds_of_event() -> list[type[TurnEvent]]:
    # By name: the class that attrs has replaced by one with slots may be left as well.
    found = {kind.__name__: kind for kind in TurnEvent.__subclasses__()}
    return [found[name] for name in sorted(found)]


@attrs.define
class _EventSchemas:
    """Makes schemas of the classes of events, as `npc.event_json` writes them."""

    defs: dict[str, Schema] = attrs.field(factory=dict, init=False)

    def of_event(self, kind: type[Any]) -> str:
        """Add the schema of a kind of event; return its name."""
        schema = self._object(kind)
        properties = {
            "id": {"type": "string"},
            "n": {"type": "integer", "minimum": 1},
            "at_ms": {
                "type": "number",
                "description": "Milliseconds since 1970; only of a watch.",
            },
            "number": {
                "type": "integer",
                "description": "That of the turn among all turns; only of a watch.",
            },
            "event": {"const": kind.__name__},
            **schema["properties"],
        }
        # Of the default session and tenant nothing is said.
        absent = {"session", "tenant"}
        required = [x for x in schema["required"] if x not in absent]
        if issubclass(kind, Speech):
            del properties["pcm"]
            required = [x for x in required if x != "pcm"] + ["bytes"]
            properties["bytes"] = {"type": "integer", "minimum": 0}
        name = f"{kind.__name__}Event"
        self.defs[name] = {
            **schema,
            "properties": properties,
            "required": ["id", "n", "event", *required],
        }
        return name

    def _object(self, kind: type[Any]) -> Schema:
        hints = get_type_hints(kind)
        properties: Schema = {}
        required: list[str] = []
        for field in attrs.fields(kind):
            hint = hints[field.name]
            name = field.name
            if is_duration(name, hint):
                name, hint = f"{name}_ms", int
            properties[name] = self._of(hint)
            if hint not in (Any, object) and type(None) not in get_args(hint):
                required.append(name)
        told = inspect.getdoc(kind) or ""
        return {
            "type": "object",
            "description": told.partition("\n\n")[0],
            "properties": properties,
            "required": required,
        }

    def _of(self, hint: Any) -> Schema:
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            # A field that is None is left out.
            kinds = [self._of(x) for x in inner if x is not type(None)]
            return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        if origin is tuple and inner[-1] is not Ellipsis:
            size = len(inner)
            items = [self._of(x) for x in inner]
            return {"type": "array", "prefixItems": items, "minItems": size}
        if origin in (tuple, list, frozenset, set):
            return {"type": "array", "items": self._of(inner[0])}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self._of(inner[1])}
        if isinstance(hint, type) and issubclass(hint, Enum):
            names = [str(x) if issubclass(hint, IntEnum) else x.value for x in hint]
            return {"enum": names}
        if isinstance(hint, type) and attrs.has(hint):
            if hint.__name__ not in self.defs:
                self.defs[hint.__name__] = {}  # for a class that contains itself
                self.defs[hint.__name__] = self._object(hint)
            return {"$ref": f"#/$defs/{hint.__name__}"}
        return {}
