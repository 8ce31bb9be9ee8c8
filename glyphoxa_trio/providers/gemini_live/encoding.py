"""Helpers for JSON: values of the expected type, and messages that can be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from glyphoxa_trio.providers.payloads import well_formed


def mapping(value: Any) -> Mapping[str, Any]:
    """Return ``value`` if it is an object; otherwise an empty one."""
    if value is None:  # faster than a check against an abstract class
        return {}
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """Return ``value`` as a list if it is one; otherwise an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a number that any protocol can carry."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 2**63  # this excludes infinity and NaN


def encoded(message: Mapping[str, Any]) -> str:
    """Encode a message as one text frame, without lone surrogates.

    Raises:
      ValueError: if it holds a number that JSON does not have.
    """
    text = json.dumps(
        message,
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        default=dict,  # for a read-only mapping
    )
    return well_formed(text)
