"""JSON: what a value is if it is of the right kind, and messages that can be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from glyphoxa_trio.providers.payloads import well_formed


def mapping(value: Any) -> Mapping[str, Any]:
    """``value`` if it is an object; else an empty one."""
    if value is None:  # which is quicker told than asked of an abstract class
        return {}
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def is_number(value: Any) -> bool:
    """Whether it is a number that any wire can carry."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 2**63  # neither infinite nor NaN is


def encoded(message: Mapping[str, Any]) -> str:
    """A message as one text frame, with whole characters only.

    Raises:
      ValueError: if it holds a number that JSON does not have.
    """
    text = json.dumps(
        message,
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        default=dict,  # a read-only mapping
    )
    return well_formed(text)
