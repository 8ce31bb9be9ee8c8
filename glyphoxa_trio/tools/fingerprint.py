"""What an approval was given to, as a short text that changes when it does. Pure.

A tool is approved by what a model reads of it and what calling it means: its
name, description, parameters, and whether it only reads, may destroy, reaches the
open world, or may be repeated. How long it says it takes is not part of it; that is
measured.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from .definition import ToolDefinition
from .schema import BadSchema

# Whoever changes what is hashed changes this, too, so that a change of ours can be
# told from one of a server's.
_KIND: Final = "2"

# Lists of a JSON schema that are sets: some servers shuffle them at every start.
_SETS: Final = ("required", "enum", "type")


def fingerprint(definition: ToolDefinition) -> str:
    """The fingerprint of a definition: the same for the same meaning, always.

    For a server's tool this should be the definition as the server gave it: what
    the operator overrides is the operator's own and needs no approval.

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
    }
    try:
        # As ASCII: a name may hold half of a surrogate pair, which UTF-8 cannot.
        plain = json.loads(json.dumps(meaning, default=dict), object_hook=_unordered)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError) as error:
        said = f"{definition.key}: its parameters cannot be written down: {error}"
        raise BadSchema(said) from None
    return f"{_KIND}:{hashlib.sha256(text.encode()).hexdigest()}"


def _unordered(found: dict[str, Any]) -> dict[str, Any]:
    for key in _SETS:
        if isinstance(entries := found.get(key), list):
            found[key] = sorted(entries, key=lambda entry: json.dumps(entry))
    return found
