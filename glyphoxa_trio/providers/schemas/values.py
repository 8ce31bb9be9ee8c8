"""Values of foreign JSON, if they have the expected type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


def mapping(value: Any) -> Mapping[str, Any]:
    """Return ``value`` if it is an object; otherwise an empty one."""
    if value is None:  # faster than a check against an abstract class
        return {}
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """Return ``value`` as a list if it is one; otherwise an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return whether ``value`` is a number that any protocol can carry."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 2**63  # this excludes infinity and NaN
