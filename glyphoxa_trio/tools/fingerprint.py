"""What an approval was given to, as a short text that changes when it does. Pure.

A tool is approved by what a model or a person reads of it and what calling it means:
its name, title, description, parameters, what it says that it returns, and whether it
only reads, may destroy, reaches the open world, or may be repeated. How long it says it
takes is not part of it; that is measured.

Behind the fingerprint, in the lines below, stands what it was taken of, so that who is
asked again can be shown what has become different (`difference`).
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from .definition import ToolDefinition
from .schema import BadSchema

# Whoever changes what is hashed changes this, too, so that a change of ours can be
# told from one of a server's.
_KIND: Final = "3"

# Lists of a JSON schema that are sets: some servers shuffle them at every start.
_SETS: Final = ("required", "enum", "type")

LONGEST: Final = 16_384  # characters of what it was taken of that are kept
_HINTS: Final = (
    *("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"),
)
_AS_TEXT: Final = json.JSONEncoder()  # one for all: to make one takes a while
_MOST_LINES: Final = 200  # of a difference that is shown


def fingerprint(
    definition: ToolDefinition, stated: Mapping[str, Any] | None = None
) -> str:
    """The fingerprint of a definition: the same for the same meaning, always.

    For a server's tool this should be the definition as the server gave it: what
    the operator overrides is the operator's own and needs no approval.

    Args:
      stated: the tool as its server lists it, for what a definition has no field for.

    Raises:
      BadSchema: if the parameters are nested too deep to be written down.
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
        # As ASCII: a name may hold half of a surrogate pair, which UTF-8 cannot.
        plain = json.loads(json.dumps(meaning, default=dict), object_hook=_unordered)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError) as error:
        said = f"{definition.key}: its parameters cannot be written down: {error}"
        raise BadSchema(said) from None
    print_ = f"{_KIND}:{hashlib.sha256(text.encode()).hexdigest()}"
    return f"{print_}\n{_short(plain)}"


def _short(meaning: dict[str, Any]) -> str:
    """The text of a meaning, without its largest parts if it would be too long."""
    kept = dict(meaning)
    for part in ("returns", "parameters", "description", "hints", "title", "name"):
        text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
        if len(text) <= LONGEST:
            return text
        kept[part] = "(too long to be kept)"
    return ""


def _beside(definition: ToolDefinition, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The title, the hints as they are written, and what a result looks like."""
    hints = stated.get("annotations")
    said = hints if isinstance(hints, Mapping) else {}
    return {
        "title": stated.get("title", definition.title),
        "hints": {name: said[name] for name in _HINTS if name in said},
        "returns": stated.get("outputSchema"),
    }


def first_line(fingerprint: str) -> str:
    """The fingerprint without what it was taken of: a text to compare and to send."""
    return fingerprint.partition("\n")[0]


def stated_lines(fingerprint: str, *only: str) -> list[str] | None:
    """What a fingerprint was taken of, as lines for people; None if it is not kept.

    Args:
      only: the parts to list; none is all.
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
    """What became different from one fingerprint to another, as lines that begin with
    ``-`` and ``+``; empty if what one of them was taken of is not kept."""
    old, new = stated_lines(before), stated_lines(now)
    if old is None or new is None:
        return []
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"… and {more} more lines"] if more > 0 else [])]


def _unordered(found: dict[str, Any]) -> dict[str, Any]:
    for key in _SETS:
        if isinstance(entries := found.get(key), list):
            found[key] = sorted(entries, key=_as_text)
    return found


def _as_text(entry: Any) -> str:
    return str(entry) if type(entry) is int else _AS_TEXT.encode(entry)
