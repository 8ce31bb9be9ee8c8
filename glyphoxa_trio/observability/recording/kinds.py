"""Which lines there are in a recording, and which keys each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs


@attrs.frozen
class FieldRule:
    """The type of a key's value; None is in ``types`` if the key may be missing."""

    types: tuple[type, ...]
    needed: bool = True


_TEXT, _WHOLE, _SWITCH = FieldRule((str,)), FieldRule((int,)), FieldRule((bool,))
NUMBER, _OBJECT, _LIST = FieldRule((int, float)), FieldRule((dict,)), FieldRule((list,))


def _if_given(key: FieldRule) -> FieldRule:
    return FieldRule((*key.types, type(None)), needed=False)


KINDS: Final[Mapping[str, dict[str, FieldRule]]] = {
    "recording": {
        "format": _WHOLE,
        "package": _if_given(_TEXT),
        "clock": _if_given(_TEXT),
        "tolerance": _if_given(NUMBER),
        "run": _if_given(_TEXT),
        "approver": _if_given(_SWITCH),
        "approval_timeout": _if_given(NUMBER),
        "approved": _if_given(_OBJECT),
        "config": _OBJECT,
    },
    "measured": {
        "key": _TEXT,
        "environment": _TEXT,
        "origin": _if_given(_TEXT),
        "sample": _OBJECT,
    },
    "tools": {"tools": _LIST},
    "server": {
        "server": _TEXT,
        "state": _TEXT,
        "tools": _if_given(_LIST),
        "ready_at": _if_given(NUMBER),
    },
    "say": {
        "say": _WHOLE,
        "npc": _TEXT,
        "text": _TEXT,
        "speaker": _if_given(_TEXT),
        "tier": _if_given(_TEXT),
        "script": _if_given(_TEXT),
        "greets": _if_given(_SWITCH),
        "waiting": _if_given(_WHOLE),
    },
    "heard": {"say": _WHOLE, "events": _WHOLE},
    "played": {"say": _WHOLE, "events": _WHOLE, "seconds": NUMBER},
    "cancelled": {"say": _WHOLE, "reason": _TEXT},
    "left": {
        "say": _WHOLE,
        "asked": _if_given(_WHOLE),
        "got": _if_given(_WHOLE),
        "over": _if_given(_SWITCH),
    },
    "hearing": {"npc": _TEXT, "text": _TEXT, "speaker": _if_given(_TEXT)},
    "interrupt": {
        "npc": _TEXT,
        "speaker": _if_given(_TEXT),
        "everybody": _if_given(_SWITCH),
    },
    "overhear": {
        "npc": _TEXT,
        "speaker": _TEXT,
        "text": _TEXT,
        "to": _if_given(_TEXT),
    },
    "situate": {"npc": _TEXT, "context": _LIST},
    "introduce": {"npc": _TEXT, "values": _OBJECT},
    "elevate": {"npc": _TEXT, "tier": _TEXT, "seconds": NUMBER},
    "approve": {"npc": _TEXT, "question": _TEXT, "yes": _SWITCH},
    "approved": {"tool": _TEXT},
    "session": {
        "session": _if_given(_TEXT),
        "tenant": _if_given(_TEXT),
        "variables": _OBJECT,
        "told": _if_given(_LIST),
    },
    "restored": {
        "session": _if_given(_TEXT),
        "tenant": _if_given(_TEXT),
        "kept": _OBJECT,
    },
    "ended": {"session": _if_given(_TEXT), "tenant": _if_given(_TEXT)},
    "context": {
        "npc": _TEXT,
        "turn": _WHOLE,
        "text": _TEXT,
        "lines": _if_given(_LIST),
        "missed": _if_given(_LIST),
        "cancelled": _if_given(_SWITCH),
    },
    "request": {
        "request": _WHOLE,
        "npc": _if_given(_TEXT),
        "turn": _if_given(_WHOLE),
        "round": _if_given(_WHOLE),
        "prompt": _if_given(_TEXT),
    },
    "model": {
        "request": _WHOLE,
        "text": _if_given(_TEXT),
        "call": _if_given(_OBJECT),
        "working": _if_given(_SWITCH),
        "unsaid": _if_given(_SWITCH),
        "switched": _if_given(_OBJECT),
        "waiting": _if_given(_OBJECT),
        "finished": _if_given(_OBJECT),
        "failed": _if_given(_OBJECT),
        "connected": _if_given(_SWITCH),
        "hung_up": _if_given(NUMBER),
    },
    "socket": {
        "socket": _WHOLE,
        "npc": _TEXT,
        "label": _TEXT,
        "capabilities": _OBJECT,
        "setup": _TEXT,
    },
    "speech": {
        "socket": _WHOLE,
        "event": _if_given(_TEXT),
        "data": _if_given(_OBJECT),
        "text": _if_given(_TEXT),
        "response": _if_given(_TEXT),
        "item": _if_given(_TEXT),
        "closed": _if_given(_OBJECT),
        "hung_up": _if_given(NUMBER),
    },
    "told": {"socket": _WHOLE, "command": _TEXT, "refused": _if_given(_TEXT)},
    "call": {
        "call": _WHOLE,
        "tool": _TEXT,
        "arguments": _OBJECT,
        "npc": _if_given(_TEXT),
        "id": _if_given(_TEXT),
        "until": _if_given(NUMBER),
    },
    "sent": {"call": _WHOLE},
    "answer": {
        "call": _WHOLE,
        "result": _if_given(_OBJECT),
        "error": _if_given(_OBJECT),
        "cancelled": _if_given(_SWITCH),
        "in_spite": _if_given(_SWITCH),
    },
    "event": {"event": _TEXT},
    "reload": {"config": _OBJECT, "approved": _if_given(_OBJECT)},
    "leaving": {},
    "inexact": {"why": _TEXT},
    "unrecorded": {"what": _TEXT},
    "end": {"why": _TEXT},
}
# A line that names an NPC may name its session.
for _keys in KINDS.values():
    if "npc" in _keys:
        _keys |= {"session": _if_given(_TEXT), "tenant": _if_given(_TEXT)}
ONE_OF: Final = {
    "model": (
        "text",
        "call",
        "working",
        "unsaid",
        "switched",
        "waiting",
        "finished",
        "failed",
        "connected",
        "hung_up",
    ),
    "speech": ("event", "text", "closed", "hung_up"),
    "answer": ("result", "error", "cancelled"),
    "context": ("lines", "cancelled"),
}
