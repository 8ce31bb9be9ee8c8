"""The columns of entities, relationships and facts in a memory file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

KNOWN: Final = (
    "audience",
    "topics",
    "secret",
    "basis",
    "at",
    "evening",
    "player",
    "by",
    "confidence",
    "confirmed",
)
ENTITY: Final = ("campaign", "slug", "kind", "name", "summary", "attributes", *KNOWN)
RELATIONSHIP: Final = ("source", "type", "target", "attributes", *KNOWN)
FACT: Final = ("campaign", "text", "standing", "pinned", "keywords", *KNOWN)


def listed(values: Iterable[object]) -> str:
    """Return values for ``in (select value from json_each(?))``."""
    return json.dumps(list(values))
