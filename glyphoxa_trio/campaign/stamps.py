"""The times and ids of new records."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import attrs

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def new_id(prefix: str) -> str:
    """Return the prefix, and a random UUID as 26 characters of base32."""
    return prefix + base64.b32encode(uuid4().bytes)[:26].decode().lower()


def rfc3339(seconds: float) -> str:
    """Return a moment of Unix time in UTC, to the second, as text."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_time(text: str) -> bool:
    """Return whether `rfc3339` could have returned the text."""
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


@attrs.frozen
class Timestamp:
    """The present moment, for one piece of work: as Unix time, and as text."""

    seconds: float
    text: str
    new_id: Callable[[str], str]


@attrs.frozen
class Stamps:
    """The source of times and ids: the wall clock and random ids, except in tests."""

    clock: Callable[[], float] = time.time
    new_id: Callable[[str], str] = new_id

    def moment(self) -> Timestamp:
        seconds = self.clock()
        return Timestamp(seconds, rfc3339(seconds), self.new_id)
