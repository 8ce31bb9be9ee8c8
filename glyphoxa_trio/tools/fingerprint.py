"""Fingerprints: short texts that change when an approved tool changes. Pure.

A tool is approved because of what a model or a person reads of it and what calling it
means: its name, title, description, parameters, the shape of its result, and whether it
only reads, may destroy, reaches the open world, or may be repeated. Its declared
duration is not part of it; that is measured.

The lines below the fingerprint are the fields that it was computed from, so that a
person who is asked again can be shown what has changed (`difference`).
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from glyphoxa_trio.units import many

from .definition import ToolDefinition
from .schema import BadSchema

# Change this together with what is hashed, so that a change of ours can be told from
# one of a server's.
_KIND: Final = "3"

# Lists of a JSON schema that are sets: some servers reorder them at every start.
_SETS: Final = ("required", "enum", "type")

LONGEST: Final = 16_384  # characters of the fields that are kept
_HINTS: Final = (
    *("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"),
)
_AS_TEXT: Final = json.JSONEncoder()  # one for all, since making one takes a while
_MOST_LINES: Final = 200  # of a difference


def fingerprint(
    definition: ToolDefinition, stated: Mapping[str, Any] | None = None
) -> str:
    """Return the fingerprint of a definition; equal meanings have equal ones.

    For a server's tool this should be the definition as the server gave it: the
    operator's own overrides need no approval.

    Args:
      stated: the tool as its server lists it, for fields that a definition lacks.

    Raises:
      BadSchema: if the parameters are nested too deep to be serialised.
    """
    meaning = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
        "read_only": definition.read_only,
        "destructive": definition.destructive,
        "open_world": definition.open_world,
        "idempotent": definition.idempotent,
        **_beside(definition, stated or {}),
    }
    try:
        # As ASCII: a name may hold half of a surrogate pair, which UTF-8 cannot encode.
        plain = json.loads(json.dumps(meaning, default=dict), object_hook=_unordered)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError) as error:
        said = f"{definition.key}: its parameters cannot be serialised: {error}"
        raise BadSchema(said) from None
    print_ = f"{_KIND}:{hashlib.sha256(text.encode()).hexdigest()}"
    return f"{print_}\n{_short(plain)}"


def _short(meaning: dict[str, Any]) -> str:
    """Return the fields as text, without the largest ones if it is too long."""
    kept = dict(meaning)
    for part in ("returns", "parameters", "description", "hints", "title", "name"):
        text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
        if len(text) <= LONGEST:
            return text
        kept[part] = "(too long to be kept)"
    return ""


def _beside(definition: ToolDefinition, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the title, the hints as stated, and the schema of the result."""
    hints = stated.get("annotations")
    said = hints if isinstance(hints, Mapping) else {}
    return {
        "title": stated.get("title", definition.title),
        "hints": {name: said[name] for name in _HINTS if name in said},
        "returns": stated.get("outputSchema"),
    }


def first_line(fingerprint: str) -> str:
    """Return the fingerprint alone, without its fields, to compare and to send."""
    return fingerprint.partition("\n")[0]


def stated_lines(fingerprint: str, *only: str) -> list[str] | None:
    """Return the fields of a fingerprint, as lines for people; None if not kept.

    Args:
      only: the fields to list; none is all.
    """
    try:
        said = json.loads(fingerprint.partition("\n")[2])
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    lines: list[str] = []
    for name, value in said.items():
        if only and name not in only:
            continue
        if isinstance(value, str) and value:
            lines += [f"{name}:", *(f"  {line}" for line in value.split("\n"))]
        elif value not in (None, "", {}, False):
            shown = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
            lines += f"{name}: {shown}".split("\n")
    return lines


def difference(before: str, now: str) -> list[str]:
    """Return how two fingerprints differ, as lines that begin with ``-`` and ``+``;
    empty if the fields of one of them are not kept."""
    old, new = stated_lines(before), stated_lines(now)
    if old is None or new is None:
        return []
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    more = len(lines) - _MOST_LINES
    return [
        *lines[:_MOST_LINES],
        *([f"… and {many(more, 'more line')}"] if more > 0 else []),
    ]


def _unordered(found: dict[str, Any]) -> dict[str, Any]:
    for key in _SETS:
        if isinstance(entries := found.get(key), list):
            found[key] = sorted(entries, key=_as_text)
    return found


def _as_text(entry: Any) -> str:
    return str(entry) if type(entry) is int else _AS_TEXT.encode(entry)
