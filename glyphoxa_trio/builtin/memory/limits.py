"""The limit of results, as models give it, and the answer that there are none."""

from __future__ import annotations

from typing import Any, Final

from glyphoxa_trio.tools.definition import ToolError

MOST_RESULTS: Final = 20
NOTHING: Final = "I remember nothing of that."


def limited(limit: float) -> int:
    """Return a limit as a slice takes it.

    Raises:
      ToolError: it is not from 1 to 20.
    """
    if not 1 <= limit <= MOST_RESULTS:
        raise ToolError(f"the limit must be from 1 to {MOST_RESULTS}, got {limit}")
    return int(limit)


def limit_of(default: int) -> dict[str, Any]:
    """Return the schema of a limit."""
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_RESULTS,
        "default": default,
    }
